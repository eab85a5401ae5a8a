#include "tests/unit/trace/samples.h"
#include "tools/trace/command.h"
#include "tools/trace/event.h"
#include "tools/trace/live_report.h"
#include "tools/trace/replay_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tandem::trace_tool
{
namespace
{

using namespace trace::test;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Result
{
  int exit_code = 0;
  std::string out {};
  std::string err {};
};

Result run(std::vector<std::string> arguments)
{
  std::ostringstream out;
  std::ostringstream err;
  const int exit_code = trace_main(std::move(arguments), out, err);
  return { exit_code, out.str(), err.str() };
}

class TraceCommand : public ::testing::Test
{
protected:
  Result print(std::vector<std::string> options)
  {
    options.insert(options.begin(), { "print", file.path().string() });
    return run(std::move(options));
  }

  TemporaryFile file { Sample {}.file() };
};

TEST_F(TraceCommand, AStallIsNotAsLongAsNoNumber)
{
  for (const char* wrong : { "nan", "-nan", "inf", "0", "1e300", "x" })
    EXPECT_EQ(run({ "explain", file.path().string(), "--stalls", "--stall-ms", wrong }).exit_code, 2) << wrong;
  EXPECT_EQ(run({ "explain", file.path().string(), "--stalls", "--stall-ms", "500" }).exit_code, 0);
}

TEST_F(TraceCommand, NumbersThatAreNoneOfAnythingAreRefused)
{
  for (const auto& [option, wrong] :
       { std::pair { "--limit", "-1" }, { "--limit", "x" }, { "--flow", "-1" }, { "--port", "70000" } })
  {
    const Result result = print({ option, wrong });
    EXPECT_EQ(result.exit_code, 2) << option << wrong;
    EXPECT_EQ(result.out, "") << option << wrong;
  }
  EXPECT_EQ(print({ "--limit", "0" }).out, print({}).out);
}

TEST(NameOfARecording, has_the_commit_where_one_is_known)
{
  trace::Heading heading { .version = "0.1.0", .commit = "0123abc", .kernel = "Linux 6.18.0", .seed = 42 };
  EXPECT_EQ(name_of(heading), "tandem 0.1.0 (0123abc), Linux 6.18.0, seed 42");
  heading.commit.clear();
  EXPECT_EQ(name_of(heading), "tandem 0.1.0, Linux 6.18.0, seed 42");
}

TEST_F(TraceCommand, PrintsALineForEachPacket)
{
  const Result result = print({});
  EXPECT_EQ(result.exit_code, 0);
  EXPECT_EQ(result.err, "");
  EXPECT_EQ(
      result.out,
      "# tandem 0.1.0 (0123abc), Linux 6.18.0, seed 42\n"
      "# tandemd --wifi wlan0 --cell wwan0\n"
      "# offload.threshold=20\n"
      "#       time  link  dir  disposition     segment\n"
      "    0.000000  wifi  out  passed   10.0.0.2:40000 > 192.0.2.1:443 [.] seq 1 ack 1000 win 500 len 0 <ts 10 20>\n"
      "    0.001000  wifi  out  edited   10.0.0.2:40000 > 192.0.2.1:443 [.] seq 1 ack 2000 win 500 len 0 <ts 10 20>"
      " => ts 10 20 -> 11 20, by cell | offload: tagged\n"
      "    0.002000  wifi  out  dropped  10.0.0.2:40000 > 192.0.2.1:443 [.] seq 1 ack 3000 win 500 len 0 <ts 10 20>"
      " | offload: thinned\n"
      "    0.003000  cell  out  injected  10.0.0.2:40000 > 192.0.2.1:443 [.] seq 1 ack 4000 win 500 len 0 <ts 10 20>"
      " | freeze: resume ACK\n"
      "    0.004000  wifi  in   fault    truncated_ip: 45000014 00000000 | truncated_ip\n");
}

// Recordings of earlier releases tell an edited packet as two. In a file that somebody has filtered, parts of two
// packets may follow each other: they are no pair.
TEST(TraceEvents, HalvesOfDifferentPacketsAreNotPaired)
{
  const Packet first = ack(1000);
  const Packet second = ack(2000);
  trace::Recorder recorder { {} };
  for (const Packet* packet : { &first, &second })
    recorder.add({ .disposition = trace::Disposition::injected, .after = *packet, .why = "0123456789" });
  std::ostringstream out;
  trace::write_pcapng(out, recorder, heading(), {});
  std::string content = out.str();
  const std::string any = "injected: 0123456789";
  for (const std::string part : { "edited, before: test", "edited, after: test2" })
  {
    ASSERT_NE(content.find(any), std::string::npos);
    content.replace(content.find(any), any.size(), part);
  }
  const TemporaryFile file { content };
  const Result result = run({ "print", file.path().string() });
  EXPECT_THAT(result.out, HasSubstr("ack 1000"));
  EXPECT_THAT(result.out, HasSubstr("ack 2000"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("=>")));
}

TEST_F(TraceCommand, FiltersChooseLines)
{
  auto lines = [&](std::vector<std::string> options)
  {
    const std::string out = print(std::move(options)).out;
    return std::count(out.begin(), out.end(), '\n') - 4;
  };
  EXPECT_EQ(lines({}), 5);
  EXPECT_EQ(lines({ "--disposition", "edited" }), 1);
  EXPECT_EQ(lines({ "--link", "cell" }), 2);
  EXPECT_EQ(lines({ "--why", "offload" }), 2);
  EXPECT_EQ(lines({ "--port", "443" }), 4);
  EXPECT_EQ(lines({ "--port", "444" }), 0);
  EXPECT_EQ(lines({ "--limit", "2" }), 2);
}

TEST_F(TraceCommand, JsonLines)
{
  std::istringstream out { print({ "--json", "--disposition", "edited" }).out };
  std::string line;
  std::getline(out, line);
  const auto packet = nlohmann::json::parse(line);
  EXPECT_EQ(packet["why"], "offload: tagged");
  EXPECT_EQ(packet["after_link"], "cell");
  EXPECT_EQ(packet["change"], "ts 10 20 -> 11 20, by cell");
  EXPECT_FALSE(std::getline(out, line));
}

TEST_F(TraceCommand, ExplainsByReason)
{
  const Result table = run({ "explain", file.path().string() });
  EXPECT_EQ(table.exit_code, 0);
  EXPECT_THAT(table.out, HasSubstr("5 packets in 0.004 s from 2023-11-14 22:13:20 UTC\n"));
  EXPECT_THAT(table.out, HasSubstr("\ndropped           1            52  offload: thinned\n"));
  EXPECT_THAT(table.out, HasSubstr("\ncell  out           2           104          2\n"));
  EXPECT_THAT(table.out, HasSubstr("\ntruncated_ip                1\n"));
  const auto json = nlohmann::json::parse(run({ "explain", "--json", file.path().string() }).out);
  EXPECT_EQ(json["reasons"].size(), 5u);
  EXPECT_EQ(json["heading"]["seed"], 42);
}

// Whoever is sent a recording looks at it in a terminal.
TEST(TraceText, WhatAFileHoldsStaysOnItsLine)
{
  trace::Recorder recorder { {} };
  const Packet packet = ack(1000);
  recorder.add({ .at = Tick { 1ms }, .before = packet, .why = "a\nb\x1b]0;c\x07" });
  std::ostringstream out;
  trace::Heading hostile = heading();
  hostile.command = "d\x1b[2J";
  trace::write_pcapng(out, recorder, hostile, Duration {});
  const TemporaryFile file { out.str() };
  const std::string path = file.path().string();
  for (const Result& result :
       { run({ "print", path }), run({ "explain", path }), run({ "explain", "--stalls", path }) })
  {
    EXPECT_THAT(result.out, HasSubstr("a?b?]0;c?\n"));
    EXPECT_EQ(result.out.find('\x1b'), std::string::npos);
  }
}

TEST_F(TraceCommand, BadInputIsExitCode2)
{
  const Result missing = run({ "print", "/nonexistent.pcapng" });
  EXPECT_EQ(missing.exit_code, 2);
  EXPECT_EQ(missing.err,
            "tandem trace: /nonexistent.pcapng: cannot be opened for reading: No such file or directory\n");

  const Result longer = run({ "explain", std::string(300, 'a') });
  EXPECT_EQ(longer.exit_code, 2);
  EXPECT_THAT(longer.err, HasSubstr("cannot be opened for reading"));

  const TemporaryFile cut { Sample {}.file().substr(0, 700) };
  for (const std::string action : { "print", "explain" })
  {
    const Result half = run({ action, cut.path().string() });
    EXPECT_EQ(half.exit_code, 2) << action;
    EXPECT_THAT(half.out, HasSubstr("passed")) << action;
    EXPECT_THAT(half.err, HasSubstr("offset ")) << action;
  }
  EXPECT_THAT(run({ "explain", "--json", cut.path().string() }).out, HasSubstr("\"fault\""));

  EXPECT_EQ(print({ "--disposition", "eaten" }).exit_code, 2);
  EXPECT_THAT(print({ "--disposition", "eaten" }).err,
              HasSubstr("eaten not in {dropped,edited,fault,injected,observed,passed}"));
  EXPECT_EQ(print({ "--port", "70000" }).exit_code, 2);
  EXPECT_EQ(run({}).exit_code, 2);
  EXPECT_EQ(run({ "--help" }).exit_code, 0);
}

TEST_F(TraceCommand, AnUnwritableOutputIsExitCode1)
{
  std::ofstream full { "/dev/full" };
  std::ostringstream err;
  EXPECT_EQ(trace_main({ "print", file.path().string() }, full, err), 1);
}

// As tcpdump writes it: microseconds, each frame cut to `kept` bytes.
std::string classic(std::uint32_t link_type, const std::string& before, const Packet& packet, std::size_t kept)
{
  std::string file;
  const auto put = [&file](std::uint32_t value) { file.append(reinterpret_cast<const char*>(&value), 4); };
  for (const std::uint32_t value : { 0xa1b2c3d4u, 0x00040002u, 0u, 0u, 65535u, link_type })
    put(value);
  const std::string frame = before + std::string { reinterpret_cast<const char*>(packet.data()), packet.size() };
  const std::string part = frame.substr(0, kept);
  for (const std::size_t value : { std::size_t { 1 }, std::size_t { 0 }, part.size(), frame.size() })
    put(static_cast<std::uint32_t>(value));
  return file + part;
}

TEST(TraceCommands, WhatCannotBeReadSaysWhyAndWhatToDo)
{
  const std::string ethernet = std::string(12, '\0') + std::string { 8, 0 };
  const auto said = [](const std::string& content)
  {
    const TemporaryFile file { content, ".pcap" };
    const std::string text = run({ "explain", file.path().string() }).out;
    const std::string stalls = run({ "explain", "--stalls", file.path().string() }).out;
    const auto told = nlohmann::json::parse(run({ "explain", "--stalls", "--json", file.path().string() }).out);
    const std::string json = told.contains("unread") ? told["unread"][0].get<std::string>() + '\n' : "";
    EXPECT_EQ(json.empty(), text.find(json.empty() ? "tcpdump" : json) == std::string::npos) << text;
    EXPECT_THAT(stalls, HasSubstr(json));
    return json;
  };
  EXPECT_EQ(said(classic(1, ethernet, ack(1000), 14 + 40)),
            "1 packet was captured too short for the headers, and left out: capture 200 bytes of each or more (tcpdump "
            "-s 200)\n");
  EXPECT_EQ(said(classic(9, "\xff\x03" + std::string { 0, 0x21 }, ack(1000), 200)),
            "1 frame has link type 9, in which no packets are found: Ethernet, raw IP, Linux cooked, BSD loopback and "
            "802.11 are read\n");
  EXPECT_EQ(said(classic(1, ethernet, ack(1000), 200)), "");
  Packet fragment = ack(1000);
  fragment[6] = std::byte { 0x20 }; // more fragments
  EXPECT_EQ(
      said(classic(1, ethernet, fragment, 200)),
      "1 IP fragment of TCP is left out, and what it carried may read as lost: capture where packets are whole\n");
  fragment[9] = std::byte { 17 };
  EXPECT_EQ(said(classic(1, ethernet, fragment, 200)), "") << "UDP";
  EXPECT_EQ(said(classic(1, std::string(12, '\0') + std::string { 8, 6 }, ack(1000), 200)), "") << "ARP is no TCP";
}

TEST(TraceCommands, NothingOfAFileReachesTheTerminalAsItIs)
{
  trace::Recorder recorder { {} };
  for (std::uint32_t number = 0; number < 4; ++number)
    recorder.add({ .at = tick(1ms * number),
                   .disposition = trace::Disposition::dropped,
                   .before = ack(1000 * number),
                   .why = "narrow: \x1b]0;title\x07" });
  std::ostringstream content;
  write_pcapng(content, recorder, heading(), realtime_offset);
  const TemporaryFile file { content.str() };
  for (const std::vector<std::string>& words :
       { std::vector<std::string> { "print" }, { "explain" }, { "explain", "--stalls" } })
  {
    std::vector<std::string> all = words;
    all.push_back(file.path().string());
    EXPECT_THAT(run(all).out, AllOf(HasSubstr("narrow: ?]0;title?"), Not(HasSubstr("\x1b")))) << words[0];
  }

  const Difference difference { .before = "dropped | narrow: \x1b]0;title\x07", .after = "passed | \x1b[2J" };
  std::ostringstream replayed;
  write_text({ .file = file.path() },
             { .segments = 1, .flows = { { .decisions = { { "\x1b[5m", 1 } }, .first = difference } } }, replayed);
  write_text(file.path(), LiveReplay { .flows = { { .decisions = { { "\x1b[5m", 1 } }, .first = difference } } },
             replayed);
  EXPECT_THAT(replayed.str(), AllOf(HasSubstr("recorded: dropped | narrow: ?]0;title?\n"), Not(HasSubstr("\x1b"))));
}

} // namespace
} // namespace tandem::trace_tool
