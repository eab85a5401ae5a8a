// Frame records, read back by libpcap's and the standard's rules: offsets spelled out.

#include "src/feeder/sources/lab_source.h"
#include "tools/lab/emulator/radiotap.h"

#include <gtest/gtest.h>

namespace tandem::lab::test
{

namespace
{

FrameContext context(medium::Standard standard)
{
  FrameContext c;
  c.addresses = { Mac { 2, 0, 0, 0, 2, 1 }, Mac { 2, 0, 0, 0, 1, 1 } };
  c.is_ap = { 1, 0 };
  c.bssid_of = { 0, 0 };
  c.ssids = { "ap1", "" };
  c.standard = standard;
  c.realtime_offset = 1'000'000'000'000'000'000;
  return c;
}

template <typename T>
T at(const std::vector<std::byte>& bytes, std::size_t offset)
{
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i)
    value |= std::to_integer<std::uint64_t>(bytes[offset + i]) << (8 * i);
  return static_cast<T>(value);
}

constexpr std::size_t record = 16;

TEST(Radiotap, LegacyDataFrameWithBadFcs)
{
  medium::FrameReport frame;
  frame.start = Tick { Duration { 1'500'000'123 } };
  frame.transmitter = 0;
  frame.receiver = 1;
  frame.channel = 6;
  frame.mbps = 54;
  frame.retry = true;
  frame.bad_fcs = true;
  frame.sequence = 0xabc;
  frame.bytes = 1536;
  frame.signal_valid = 1;
  frame.signal_dbm = -63;
  std::vector<std::byte> out;
  append_record(out, frame, context(medium::Standard::g));
  EXPECT_EQ(at<std::uint32_t>(out, 0), 1'000'000'001u);
  EXPECT_EQ(at<std::uint32_t>(out, 4), 500'000'123u);
  const auto captured = at<std::uint32_t>(out, 8);
  EXPECT_EQ(out.size(), record + captured);
  const auto length = at<std::uint16_t>(out, record + 2);
  EXPECT_EQ(captured, length + 24u);
  EXPECT_EQ(at<std::uint32_t>(out, 12), length + 1532u);
  EXPECT_EQ(at<std::uint32_t>(out, record + 4), 0x2fu);      // TSFT, flags, rate, channel, signal
  EXPECT_EQ(at<std::uint64_t>(out, record + 8), 1'500'000u); // us
  EXPECT_EQ(at<std::uint8_t>(out, record + 16), 0x40u);      // bad FCS
  EXPECT_EQ(at<std::uint8_t>(out, record + 17), 108u);       // 54 Mb/s
  EXPECT_EQ(at<std::uint16_t>(out, record + 18), 2437u);
  EXPECT_EQ(static_cast<std::int8_t>(at<std::uint8_t>(out, record + 22)), -63);
  const std::size_t mac = record + length;
  EXPECT_EQ(at<std::uint16_t>(out, mac), 0x0a08u);   // data, from DS, retry
  EXPECT_EQ(at<std::uint8_t>(out, mac + 4 + 4), 1u); // receiver's address, fifth byte
  EXPECT_EQ(at<std::uint16_t>(out, mac + 22), 0xabc0u);
}

TEST(Radiotap, AggregatedHtFrame)
{
  medium::FrameReport frame;
  frame.transmitter = 1;
  frame.receiver = 0;
  frame.channel = 36;
  frame.ht = true;
  frame.mcs = 7;
  frame.aggregated = true;
  frame.last_of_aggregate = true;
  frame.aggregate = 77;
  frame.bytes = 1538;
  auto c = context(medium::Standard::n);
  c.short_guard = true;
  std::vector<std::byte> out;
  append_record(out, frame, c);
  EXPECT_EQ(at<std::uint32_t>(out, record + 4), 0x0018000bu); // TSFT, flags, channel, MCS, A-MPDU; own frame: no signal
  EXPECT_EQ(at<std::uint16_t>(out, record + 18), 5180u);
  EXPECT_EQ(at<std::uint8_t>(out, record + 22), 0x07u);
  EXPECT_EQ(at<std::uint8_t>(out, record + 23), 0x04u);
  EXPECT_EQ(at<std::uint8_t>(out, record + 24), 7u);
  EXPECT_EQ(at<std::uint32_t>(out, record + 28), 77u);
  EXPECT_EQ(at<std::uint16_t>(out, record + 32), 0x000cu);
  const auto length = at<std::uint16_t>(out, record + 2);
  EXPECT_EQ(length, 36u);
  EXPECT_EQ(at<std::uint16_t>(out, record + length), 0x0188u); // QoS data, to DS
}

TEST(Radiotap, UseOfAChannelInAVendorNamespace)
{
  std::vector<std::byte> out;
  append_record(out, ChannelUse { .frequency = 5180, .active = Duration { 9'000'000 }, .busy = Duration { 7'001'000 } },
                Tick { Duration { 2'000'000'005 } }, context(medium::Standard::a));
  EXPECT_EQ(at<std::uint32_t>(out, 0), 1'000'000'002u);
  EXPECT_EQ(at<std::uint32_t>(out, 4), 5u);
  const auto captured = at<std::uint32_t>(out, 8);
  EXPECT_EQ(at<std::uint32_t>(out, 12), captured);
  ASSERT_EQ(out.size(), record + captured);
  EXPECT_EQ(at<std::uint16_t>(out, record + 2), captured) << "no frame behind it";
  EXPECT_EQ(at<std::uint32_t>(out, record + 4), 0xc0000000u); // vendor namespace, another word
  EXPECT_EQ(at<std::uint16_t>(out, record + 16), captured - 18u) << "what a reader that does not know it skips";
  const auto survey = feeder::lab_survey(std::span { out }.subspan(record));
  ASSERT_TRUE(survey);
  EXPECT_EQ(*survey,
            (feeder::Survey { .frequency = 5180, .active = Duration { 9'000'000 }, .busy = Duration { 7'001'000 } }));
  for (const std::size_t byte : { 4, 12, 14 })
  {
    auto other = out;
    other[record + byte] ^= std::byte { 1 };
    EXPECT_FALSE(feeder::lab_survey(std::span { other }.subspan(record))) << byte;
  }
  EXPECT_FALSE(feeder::lab_survey(std::span { out }.subspan(record, captured - 1)));
}

TEST(Radiotap, ChannelNumbersAreFrequencies)
{
  EXPECT_EQ(channel_frequency(1), 2412);
  EXPECT_EQ(channel_frequency(13), 2472);
  EXPECT_EQ(channel_frequency(14), 2484);
  EXPECT_EQ(channel_frequency(36), 5180);
}

} // namespace

} // namespace tandem::lab::test
