#include "tests/unit/trace_tool/conversation.h"
#include "tests/unit/trace_tool/narrow.h"
#include "tools/trace/command.h"
#include "tools/trace/replay.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::trace_tool
{
namespace
{

using namespace test;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using trace::test::TemporaryFile;

class Replayed : public ::testing::Test
{
protected:
  Replay run(const std::vector<Timed>& packets, ReplayOptions options = {})
  {
    const TemporaryFile file { classic(packets), ".pcap" };
    options.file = file.path();
    return replay(options, narrow);
  }
};

// What was delivered counts from the first ACK on, and ten segments make a flow worth a look: the module sees the ACKs
// from the eleventh on.
TEST_F(Replayed, FirstDecisionThatTheSenderWouldHaveNoticed)
{
  const Replay result = run(download(40));
  EXPECT_EQ(result.packets, 82u);
  ASSERT_EQ(result.flows.size(), 1u);
  const ReplayedFlow& flow = result.flows[0];
  EXPECT_TRUE(flow.flow.handshake());
  EXPECT_EQ(flow.flow.side, Side::handshake);
  EXPECT_EQ(flow.bytes, 40u * 1448);
  EXPECT_EQ(flow.decisions.size(), 1u);
  EXPECT_EQ(flow.decisions.at("narrow: waits"), 4u);
  ASSERT_TRUE(flow.first);
  EXPECT_EQ(flow.first->before, "passed");
  EXPECT_EQ(flow.first->after, "win 400 | narrow: lower window");
  EXPECT_EQ(flow.first->packet, 32u); // the fifteenth ACK
  EXPECT_EQ(flow.first->time_ns - result.first_ns, 161'000'000);
}

TEST_F(Replayed, WithoutAndWithASetting)
{
  ReplayOptions options { .against = ReplayOptions::Against::settings };
  options.with.knobs = { { "narrow", "from", 8 } };
  const Replay result = run(download(40), options);
  ASSERT_TRUE(result.flows[0].first);
  EXPECT_EQ(result.flows[0].first->before, "win 400 | narrow: lower window");
  EXPECT_EQ(result.flows[0].first->after, "passed | narrow: waits");
  EXPECT_EQ(result.flows[0].first->packet, 32u);

  options.with.knobs = { { "narrow", "from", 4 } };
  EXPECT_FALSE(run(download(40), options).flows[0].first) << "the default itself changes nothing";
}

TEST_F(Replayed, AlarmsFireAtTheirTimeBetweenPackets)
{
  ReplayOptions options {};
  options.with.knobs = { { "narrow", "from", 1000 }, { "narrow", "inject", 1 } };
  const Replay result = run(download(40), options);
  ASSERT_TRUE(result.flows[0].first);
  EXPECT_EQ(result.flows[0].first->before, "nothing injected");
  EXPECT_THAT(result.flows[0].first->after, StartsWith("injected by wifi: 10.0.0.2:40000 > 192.0.2.1:443 [.] seq 100"));
  EXPECT_THAT(result.flows[0].first->after, HasSubstr("| narrow: by itself"));
  EXPECT_EQ(result.flows[0].first->packet, 27u) << "the alarm lies between the twelfth ACK and the next segment";
}

TEST_F(Replayed, FlowWithoutHandshakeIsLeftAlone)
{
  const Replay result = run(download(40, 10ms, false));
  EXPECT_FALSE(result.flows[0].flow.handshake());
  EXPECT_EQ(result.flows[0].flow.side, Side::guessed);
  EXPECT_EQ(result.flows[0].flow.key.local_port, 40000) << "the private address is the laptop's";
  EXPECT_FALSE(result.flows[0].first);
}

TEST_F(Replayed, WhatTheUserSaysIsTheLaptop)
{
  ReplayOptions options { .locals = { wire::test::v4(192, 0, 2, 1) } };
  const Replay result = run(download(3), options);
  EXPECT_EQ(result.flows[0].flow.side, Side::told);
  EXPECT_EQ(result.flows[0].flow.key.local_port, 443);
}

TEST_F(Replayed, TimesThatGoBackwardsAreCountedNotFollowed)
{
  auto packets = download(40);
  packets[20].at -= 50ms;
  const Replay result = run(packets);
  EXPECT_EQ(result.out_of_order, 1u);
  EXPECT_TRUE(result.flows[0].first);
}

TEST_F(Replayed, WhatIsReadableOfACutFileIsReplayed)
{
  const std::string whole = classic(download(40));
  const TemporaryFile file { whole.substr(0, whole.size() - 30), ".pcap" };
  const Replay result = replay({ .file = file.path() }, narrow);
  EXPECT_THAT(result.fault, HasSubstr("offset "));
  EXPECT_EQ(result.packets, 81u);
  EXPECT_TRUE(result.flows[0].first);
}

TEST(ReplayCommand, SaysWhatIsWrong)
{
  const TemporaryFile file { classic(download(3)), ".pcap" };
  std::ostringstream out, err;
  EXPECT_EQ(trace_main({ "replay", file.path().string(), "--module-dir", "/nonexistent" }, out, err), 2);
  EXPECT_THAT(err.str(), HasSubstr("/nonexistent: no module is there; --module-dir names another directory"));
}

} // namespace
} // namespace tandem::trace_tool
