// One capture for each cause of a stall: real kernel TCP in the lab, but for reordering (tests/golden/trace/make.py).
#include "src/wire/bytes.h"
#include "tests/unit/trace/samples.h"
#include "tests/unit/trace_tool/conversation.h"
#include "tools/trace/command.h"
#include "tools/trace/stall_cause.h"
#include "tools/trace/stall_report.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <ctime>

namespace tandem::trace_tool
{
namespace
{

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

StallReport report_of(const std::string& name)
{
  return find_stalls({ .file = std::string { TANDEM_SOURCE "/tests/golden/trace/" } + name });
}

std::vector<Cause> causes(const FlowStory& story)
{
  std::vector<Cause> all;
  for (const Stall& stall : story.stalls)
    all.push_back(stall.cause);
  return all;
}

double lasted_ms(const Stall& stall)
{
  return static_cast<double>(stall.end_ns - stall.begin_ns) * 1e-6;
}

TEST(Stalls, RadioSilent)
{
  const StallReport report = report_of("radio-silent.pcap");
  ASSERT_EQ(report.flows.size(), 1u);
  const FlowStory& flow = report.flows[0];
  EXPECT_TRUE(flow.flow.handshake());
  EXPECT_EQ(flow.bytes_in, 600'000u);
  EXPECT_NEAR(static_cast<double>(flow.rtt_ns) * 1e-6, 41, 2);
  ASSERT_THAT(causes(flow), ElementsAre(Cause::radio_silent));
  EXPECT_NEAR(lasted_ms(flow.stalls[0]), 1440, 40) << "1.2 s of blackout, and the server's timeout";
  EXPECT_THAT(flow.stalls[0].evidence, Contains(HasSubstr("nothing arrived of anything")));
}

TEST(Stalls, QueueAtTheAccessPoint)
{
  const StallReport report = report_of("queue.pcap");
  ASSERT_EQ(report.flows.size(), 2u);
  EXPECT_THAT(causes(report.flows[0]), Contains(Cause::queue));
  EXPECT_THAT(causes(report.flows[0]), ::testing::Each(Cause::queue));
  EXPECT_THAT(report.flows[0].stalls[0].evidence, Contains(HasSubstr("packets of others arrived meanwhile")));
}

TEST(Stalls, ServerIdle)
{
  const FlowStory flow = report_of("server-idle.pcap").flows.at(0);
  ASSERT_THAT(causes(flow), ElementsAre(Cause::server_idle));
  EXPECT_NEAR(lasted_ms(flow.stalls[0]), 947, 10);
  EXPECT_EQ(flow.stalls[0].after_bytes, 150'000u);
}

TEST(Stalls, ReceiveWindow)
{
  const FlowStory flow = report_of("receive-window.pcap").flows.at(0);
  ASSERT_THAT(causes(flow), ElementsAre(Cause::receive_window));
  EXPECT_THAT(flow.stalls[0].evidence, Contains(HasSubstr("its application did not read")));
}

TEST(Stalls, ServersTimeout)
{
  const StallReport report = report_of("server-timeout.pcap");
  EXPECT_THAT(report.flows.at(0).stalls, IsEmpty());
  ASSERT_THAT(causes(report.flows.at(1)), ElementsAre(Cause::server_timeout));
  EXPECT_THAT(report.flows[1].stalls[0].evidence, Contains(HasSubstr("the radio was there")));
}

TEST(Stalls, Reordering)
{
  const FlowStory flow = report_of("reordering.pcap").flows.at(0);
  ASSERT_THAT(causes(flow), ElementsAre(Cause::reordering));
  EXPECT_NEAR(lasted_ms(flow.stalls[0]), 330, 1);
}

// A recording of Tandem's own: without the handshake.
TEST(Stalls, TandemItself)
{
  const FlowStory flow = report_of("tandem.pcapng").flows.at(0);
  ASSERT_THAT(causes(flow), ElementsAre(Cause::tandem));
  EXPECT_THAT(flow.decisions, Contains(::testing::Key(HasSubstr("freeze: window closed"))));
}

// The same captures, without the part of the file that tells.
TEST(Stalls, WhatIsKnownOfACutFile)
{
  std::ifstream in { TANDEM_SOURCE "/tests/golden/trace/server-idle.pcap", std::ios::binary };
  const std::string whole { std::istreambuf_iterator<char> { in }, {} };
  const trace::test::TemporaryFile cut { whole.substr(0, whole.size() / 3), ".pcap" };
  const StallReport report = find_stalls({ .file = cut.path() });
  EXPECT_THAT(report.fault, HasSubstr("offset "));
  EXPECT_GT(report.flows.at(0).bytes_in, 10'000u);

  std::ostringstream out, err;
  EXPECT_EQ(trace_main({ "explain", "--stalls", cut.path().string() }, out, err), 2);
  EXPECT_THAT(out.str(), HasSubstr("flow 1: 10.77.1.2"));
  EXPECT_THAT(err.str(), HasSubstr("explained up to there"));
}

// The same connection once more, with other initial sequence numbers on both sides.
std::vector<test::Timed> again(std::vector<test::Timed> packets, Duration later)
{
  for (auto& [at, packet] : packets)
  {
    at += later;
    const auto add = [&packet](std::size_t place, std::uint32_t more)
    {
      const std::uint32_t value = wire::load32(packet, place) + more;
      for (std::size_t i = 0; i < 4; ++i)
        packet[place + i] = static_cast<std::byte>(value >> (24 - 8 * i));
    };
    const bool leaves = wire::load16(packet, 20) == 40000;
    add(24, leaves ? 1'000'000 : 3'000'000'000);
    if (wire::load32(packet, 28) != 0) add(28, leaves ? 3'000'000'000 : 1'000'000);
  }
  return packets;
}

TEST(Stalls, APortThatIsUsedAgainIsAnotherConnection)
{
  using namespace std::chrono_literals;
  for (const bool whole : { true, false }) // a capture may begin in the middle of the first one
  {
    std::vector<test::Timed> packets = test::download(20, 10ms, whole);
    for (const auto& packet : again(test::download(30), 5s))
      packets.push_back(packet);
    packets.insert(packets.end() - 50, packets[packets.size() - 60]); // the second SYN, repeated
    const trace::test::TemporaryFile file { test::classic(packets), ".pcap" };
    const StallReport report = find_stalls({ .file = file.path() });
    ASSERT_EQ(report.flows.size(), 2u) << whole;
    EXPECT_EQ(report.flows[0].bytes_in, 20u * 1448);
    EXPECT_EQ(report.flows[1].bytes_in, 30u * 1448);
    EXPECT_TRUE(report.flows[1].flow.handshake());
    EXPECT_THAT(causes(report.flows[0]), IsEmpty());
    EXPECT_THAT(causes(report.flows[1]), IsEmpty()) << "nobody waited between them";
  }
}

TEST(Stalls, AClockThatWasSetBackIsTold)
{
  using namespace std::chrono_literals;
  std::vector<test::Timed> packets = test::download(40);
  for (std::size_t i = 0; i < packets.size() / 2 - 1; ++i) // up to a segment whose ACK comes after
    packets[i].at += 3600s;
  const trace::test::TemporaryFile file { test::classic(packets), ".pcap" };
  const StallReport report = find_stalls({ .file = file.path() });
  EXPECT_EQ(report.set_back, 1u);
  EXPECT_EQ(report.set_back_packet, packets.size() / 2);
  EXPECT_NEAR(static_cast<double>(report.set_back_by_ns), 3600e9, 1e9);
  EXPECT_GT(report.flows.at(0).rtt_ns, 0);
  EXPECT_GT(report.flows[0].last_ns, report.flows[0].first_ns);
  EXPECT_THAT(causes(report.flows[0]), IsEmpty());
  std::ostringstream out, err;
  EXPECT_EQ(trace_main({ "explain", "--stalls", file.path().string() }, out, err), 0);
  EXPECT_THAT(out.str(), HasSubstr("time goes back by 3599.991 s at packet 41: the clock was set"));
  EXPECT_EQ(report_of("queue.pcap").set_back, 0u);
}

// A download of 40 segments, half of which came a second late by the server's clock, between two ends that both scale
// their windows: 500 << 7 bytes are offered.
std::vector<test::Timed> paused()
{
  using namespace std::chrono_literals;
  std::vector<test::Timed> packets = test::download(40);
  for (std::size_t i = packets.size() / 2; i < packets.size(); ++i)
    packets[i].at += 1s;
  return packets;
}

TEST(Stalls, ACaptureAtSeveralInterfacesIsTold)
{
  using namespace std::chrono_literals;
  const auto told = [](std::size_t share, Duration later)
  {
    std::vector<test::Timed> packets;
    for (const test::Timed& one : test::download(40))
    {
      packets.push_back(one);
      if (packets.size() % share == 0) packets.push_back({ one.at + later, one.packet });
    }
    const trace::test::TemporaryFile file { test::classic(packets), ".pcap" };
    const auto said = [&](const std::vector<std::string>& words)
    {
      std::ostringstream out, err;
      std::vector<std::string> arguments { "explain", file.path().string() };
      arguments.insert(arguments.end(), words.begin(), words.end());
      EXPECT_EQ(trace_main(arguments, out, err), 0) << err.str();
      return out.str();
    };
    const bool found = said({}).find("nearly every segment is there again") != std::string::npos;
    EXPECT_EQ(said({ "--stalls" }).find("nearly every segment is there again") != std::string::npos, found);
    EXPECT_EQ(nlohmann::json::parse(said({ "--json" })).contains("repeated"), found);
    EXPECT_EQ(nlohmann::json::parse(said({ "--stalls", "--json" })).contains("repeated"), found);
    return found;
  };
  EXPECT_TRUE(told(1, 20us));
  EXPECT_FALSE(told(1, 3ms)) << "as a server might, or a network";
  EXPECT_FALSE(told(4, 20us)) << "some of them";
  EXPECT_FALSE(told(1000, 20us));
}

TEST(Stalls, WithoutOneOfTheSynsAWindowIsNotTakenForFull)
{
  for (const std::ptrdiff_t missing : { 0, 1 })
  {
    std::vector<test::Timed> packets = paused();
    packets.erase(packets.begin() + missing);
    const trace::test::TemporaryFile file { test::classic(packets), ".pcap" };
    EXPECT_THAT(causes(find_stalls({ .file = file.path() }).flows.at(0)), ElementsAre(Cause::radio_silent)) << missing;
  }
}

TEST(Stalls, TheWindowOfALaptopThatWasCalledIsScaled)
{
  std::vector<test::Timed> packets = paused();
  const auto turn_round = [](trace::test::Packet packet)
  {
    std::swap_ranges(packet.begin() + 12, packet.begin() + 16, packet.begin() + 16);
    std::swap_ranges(packet.begin() + 20, packet.begin() + 22, packet.begin() + 22);
    return packet;
  };
  packets[0].packet = turn_round(test::handshake(false, 499, 0));
  packets[1].packet = turn_round(test::handshake(true, 99, 500));
  const trace::test::TemporaryFile file { test::classic(packets), ".pcap" };
  const StallReport report = find_stalls({ .file = file.path(), .locals = { wire::test::v4(10, 0, 0, 2) } });
  ASSERT_TRUE(report.flows.at(0).flow.handshake());
  EXPECT_EQ(report.flows[0].bytes_in, 40u * 1448);
  EXPECT_THAT(causes(report.flows[0]), ElementsAre(Cause::radio_silent));
}

// An hour's download of a few hundred megabytes is explained in moments: its time grows with the packets alone.
TEST(Stalls, ALongDownloadTakesAsLongAsItHasPackets)
{
  StalledFlow flow {};
  flow.story.first_ns = 1'000'000'000;
  std::vector<std::int64_t> arrivals;
  for (std::uint32_t i = 0; i < 300'000; ++i)
  {
    const std::int64_t at = 1'000'000'000 + std::int64_t { i } * 1'000'000;
    const std::uint64_t seq = std::uint64_t { i } * 1448;
    flow.in.push_back({ .at = at, .seq = seq, .length = 1448, .ts = i, .has_ts = true });
    flow.out.push_back({ .at = at, .own_ack = seq, .own_edge = seq + 64'000, .ack = seq, .edge = seq + 64'000 });
    arrivals.push_back(at);
  }
  const std::clock_t begin = std::clock();
  find_stalls(flow, arrivals, 200'000'000);
  EXPECT_LT(static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC, 4.0);
  EXPECT_EQ(flow.story.bytes_in, 300'000u * 1448);
  EXPECT_THAT(flow.story.stalls, IsEmpty());
}

TEST(Stalls, Json)
{
  std::ostringstream out, err;
  const std::string file = TANDEM_SOURCE "/tests/golden/trace/receive-window.pcap";
  ASSERT_EQ(trace_main({ "explain", "--stalls", "--json", file }, out, err), 0);
  const auto all = nlohmann::json::parse(out.str());
  const auto& stall = all["flows"][0]["stalls"][0];
  EXPECT_EQ(stall["cause"], "receive_window");
  EXPECT_NEAR(stall["duration_ms"].get<double>(), 1237, 5);
  EXPECT_FALSE(stall["evidence"].empty());
}

TEST(Stalls, AHigherThresholdLeavesThemOut)
{
  const StallReport report =
      find_stalls({ .file = TANDEM_SOURCE "/tests/golden/trace/receive-window.pcap", .shortest_ns = 2'000'000'000 });
  EXPECT_THAT(report.flows.at(0).stalls, IsEmpty());
}

} // namespace
} // namespace tandem::trace_tool
