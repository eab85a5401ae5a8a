#include "src/feeder/recording/escape.h"
#include "src/feeder/recording/record.h"
#include "tests/unit/feeder/made_up_reports.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace tandem::feeder
{
namespace
{

using testing::HasSubstr;

// A field that is added to a report must be added to record.cc and to MadeUp, too: then change the number here.
[[maybe_unused]] void all_fields_are_known(Frame& f, StationStats& s, Survey& v, WifiChange& w, Candidate& c,
                                           ModemStats& m, InterfaceChange& i)
{
  [[maybe_unused]] auto& [f1, f2, f3, f4, f5, f6, f7, f8, f9, f10, f11, f12, f13, f14, f15, f16, f17, f18, f19, f20] =
      f;
  [[maybe_unused]] auto& [s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16, s17, s18, s19] = s;
  [[maybe_unused]] auto& [v1, v2, v3, v4, v5, v6, v7] = v;
  [[maybe_unused]] auto& [w1, w2, w3, w4, w5, w6] = w;
  [[maybe_unused]] auto& [c1, c2, c3, c4, c5, c6] = c;
  [[maybe_unused]] auto& [m1, m2, m3, m4, m5, m6, m7, m8, m9] = m;
  [[maybe_unused]] auto& [i1, i2, i3, i4, i5] = i;
}

std::string fault(std::string_view line)
{
  const ReadRecord read = from_json(line);
  EXPECT_NE(read.record.has_value(), !read.fault.empty()) << line;
  return read.fault;
}

std::string with(const std::string& fields)
{
  return R"({"at_ns":1,"source":"s",)" + fields + "}";
}

TEST(Record, every_report_comes_back_as_it_was)
{
  MadeUp made_up { 5 };
  for (int i = 0; i < 20'000; ++i)
  {
    const Report report = made_up.report();
    const std::string source = made_up.text();
    const std::string line = to_line(to_json(source, report));
    ASSERT_EQ(line.find('\n'), line.npos);
    const ReadRecord read = from_json(line);
    ASSERT_EQ(read.fault, "") << line;
    const auto* back = std::get_if<RecordedReport>(&*read.record);
    ASSERT_TRUE(back) << line;
    ASSERT_EQ(back->source, source) << line;
    ASSERT_EQ(back->report.at, report.at) << line;
    ASSERT_TRUE(back->report.what == report.what) << line;
    ASSERT_EQ(to_line(to_json(back->source, back->report)), line); // also what == does not see: the sign of zero
  }
}

TEST(Record, reads_as_people_write)
{
  Frame frame {};
  frame.kind = Frame::Kind::data;
  frame.receiver = { 2, 0, 0, 0, 0, 1 };
  frame.signal = -61.3F;
  frame.retry = true;
  EXPECT_EQ(to_line(to_json("monitor:mon0", { Tick { Duration { 1500 } }, frame })),
            R"({"at_ns":1500,"source":"monitor:mon0","kind":"frame","type":"data","receiver":"02:00:00:00:00:01",)"
            R"("retry":true,"signal":-61.3})");
  Candidate candidate {};
  candidate.ssid = std::string { "caf\xc3\xa9 \\ \xff\0", 10 };
  EXPECT_EQ(to_json("s", { {}, candidate })["ssid"], std::string("caf\xc3\xa9 \\\\ \\xff\0", 14));
}

TEST(Record, a_number_that_is_none_is_absent)
{
  StationStats stats {};
  stats.signal = NAN;
  stats.rx_mbps = INFINITY;
  const auto json = to_json("s", { {}, stats });
  EXPECT_EQ(json.size(), 3u) << json;
}

TEST(Record, header_and_note_come_back)
{
  const RecordHeader header { Tick { Duration { 77 } }, "2026-11-20T15:46:00.000Z" };
  const RecordNote note { Tick { Duration { -5 } }, "\xff ends" };
  EXPECT_EQ(std::get<RecordHeader>(*from_json(to_line(to_json(header))).record), header);
  EXPECT_EQ(std::get<RecordNote>(*from_json(to_line(to_json(note))).record), note);
}

TEST(Record, says_what_is_wrong_with_a_line)
{
  EXPECT_THAT(fault(""), HasSubstr("no JSON"));
  EXPECT_THAT(fault("{\"at_ns\":1"), HasSubstr("no JSON"));
  EXPECT_THAT(fault("[1]"), HasSubstr("an object is expected, not [1]"));
  EXPECT_EQ(fault("{}"), "at_ns is missing");
  EXPECT_EQ(fault(R"({"at_ns":1})"), "source is missing");
  EXPECT_EQ(fault(R"({"at_ns":"now","source":"s","kind":"frame"})"),
            "at_ns: a whole number from -9223372036854775808 to 9223372036854775807 is expected, not \"now\"");
  EXPECT_THAT(fault(R"({"at_ns":1.5,"source":"s","kind":"frame"})"), HasSubstr("at_ns: a whole number"));
  EXPECT_THAT(fault(with(R"("kind":"weather")")), HasSubstr("kind: one of frame, station, "));
  EXPECT_EQ(fault(with(R"("kind":"station","signal":"strong")")), "signal: a number is expected, not \"strong\"");
  EXPECT_EQ(fault(with(R"("kind":"station","signal":1e99)")), "signal: a smaller number is expected, not 1e+99");
  EXPECT_EQ(fault(with(R"("kind":"station","rx_mcs":256)")),
            "rx_mcs: a whole number from 0 to 255 is expected, not 256");
  EXPECT_THAT(fault(with(R"("kind":"station","rx_bytes":-1)")), HasSubstr("rx_bytes: a whole number from 0"));
  EXPECT_EQ(fault(with(R"("kind":"station","ap":"02:00:00:00:01")")),
            "ap: an address like 02:00:00:00:01:00 is expected, not \"02:00:00:00:01\"");
  EXPECT_EQ(fault(with(R"("kind":"frame","type":"letter")")),
            "type: one of data, acknowledgement, beacon, goodbye, other is expected, not \"letter\"");
  EXPECT_EQ(fault(with(R"("kind":"frame","retry":1)")), "retry: true or false is expected, not 1");
  EXPECT_EQ(fault(with(R"("kind":"frame","sigmal":-60)")), "unknown field \"sigmal\"");
  EXPECT_THAT(fault(with(R"("kind":"candidate","ssid":"\\q")")), HasSubstr("ssid: text with"));
  EXPECT_THAT(fault(R"({"format":"pcap","version":1,"start_ns":0})"), HasSubstr("its format is \"pcap\""));
  EXPECT_EQ(fault(R"({"format":"tandem-reports","version":2,"start_ns":0})"),
            "it has version 2, this program reads version 1");
  EXPECT_THAT(fault(std::string(longest_record + 1, ' ')), HasSubstr("longer than"));
  EXPECT_THAT(fault(std::string(30'000, '[') + std::string(30'000, ']')), HasSubstr("a value is an object or a list"));
  EXPECT_THAT(fault(with(R"("kind":"frame","signal":{})")), HasSubstr("a value is an object or a list"));
}

TEST(Record, any_bytes_survive_as_text)
{
  std::string all {};
  for (int i = 0; i < 256; ++i)
    all += static_cast<char>(i);
  EXPECT_EQ(unescaped(escaped(all)), all);
  EXPECT_EQ(escaped("\xc0\x80\xed\xa0\x80"), "\\xc0\\x80\\xed\\xa0\\x80"); // RFC 3629: no overlong, no surrogates
  EXPECT_EQ(unescaped("a\\"), std::nullopt);
  EXPECT_EQ(unescaped("\\x4"), std::nullopt);
  EXPECT_EQ(unescaped("\\xg0"), std::nullopt);
}

} // namespace
} // namespace tandem::feeder
