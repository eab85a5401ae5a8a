#include "tests/unit/trace/samples.h"
#include "tools/trace/command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace tandem::trace_tool
{
namespace
{

using namespace trace::test;
using ::testing::HasSubstr;

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
  EXPECT_EQ(missing.err, "tandem trace: /nonexistent.pcapng: cannot be opened for reading\n");

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

} // namespace
} // namespace tandem::trace_tool
