// What offload does to senders of each kind.
#include "modules/offload/ack_thinning.h"
#include "modules/offload/added_delay.h"
#include "tests/unit/offload/session.h"

#include <gtest/gtest.h>

namespace tandem::offload
{
namespace
{

TEST(OffloadSenders, OfAStackThatIsNotLinuxNoAckIsLeftOut)
{
  for (const SenderKind kind :
       { SenderKind::unknown, SenderKind::loss_based, SenderKind::rate_based, SenderKind::unresponsive })
  {
    FlowView flow {};
    flow.sender.kind = kind;
    flow.sack_ok = flow.sent_any = true;
    flow.mss = 1448;
    flow.window_estimate = 400 * 1448;
    flow.rtt_smoothed = std::chrono::milliseconds { 40 };
    flow.sent_window = flow.told_window = 500;
    Segment ack { .flags = tcp_flag::ack, .window = 500 };
    ack.ack = { 2896 };
    AckThinning thinning {};
    thinning.mss_per_ack = 2;
    const bool all = kind == SenderKind::unresponsive;
    EXPECT_EQ(thinning.wifi_ratio(ack, flow, 4), all ? 1u : 4u) << name(kind);
    thinning.released(Tick { std::chrono::seconds { 1 } });
    Plan plan {};
    const Event event { .now = Tick { std::chrono::milliseconds { 1001 } }, .segment = &ack, .queued = true };
    EXPECT_EQ(thinning.withhold(event, flow, 4, plan), !all) << name(kind) << ": nor on a thin cellular uplink";
  }
}

TEST(OffloadSenders, ARateBasedOneMayTakeTwiceTheShortestRoundTrip)
{
  FlowView flow {};
  flow.rtt_min = std::chrono::milliseconds { 100 };
  for (const SenderKind kind : { SenderKind::unknown, SenderKind::loss_based, SenderKind::rate_based })
  {
    flow.sender.kind = kind;
    const double alone = kind == SenderKind::rate_based ? 0.1 : 0.004;
    EXPECT_DOUBLE_EQ(unqueued_delay(flow, 0.004), alone) << name(kind);
    EXPECT_DOUBLE_EQ(longest_delay(flow, 0.004, 0), alone) << name(kind);
    EXPECT_DOUBLE_EQ(longest_delay(flow, 0.004, 0.16), 0.16) << name(kind);
    EXPECT_DOUBLE_EQ(longest_delay(flow, 0.004, 1), 0.25) << name(kind) << ": a limit for every queue";
    EXPECT_DOUBLE_EQ(longest_delay(flow, 0.15, 0), 0.15) << name(kind) << ": what the knob allows is allowed";
  }
  flow.rtt_min = std::chrono::seconds { 2 };
  EXPECT_DOUBLE_EQ(unqueued_delay(flow, 0.004), 0.25) << "a limit for every round trip";
}

TEST(OffloadSenders, ARateBasedOneChangesItsPathOnce)
{
  for (const SenderKind kind : { SenderKind::loss_based, SenderKind::rate_based })
  {
    test::Session s {};
    s.peers.downlink = test::ms(40); // a round trip of 50 ms
    s.cell().delay = test::ms(20);   // 10 ms more than Wi-Fi, on a flow without a queue
    s.fixture.flow(s.peers).view.sender.kind = kind;
    s.steps(4000);
    const bool away = kind == SenderKind::rate_based;
    EXPECT_EQ(s.phase(), away ? Phase::by_cell : Phase::by_wifi) << name(kind);
    EXPECT_EQ(s.fixture.count("offload: added delay costs more than it saves") == 0, away) << name(kind);
  }
}

TEST(OffloadSenders, ARateBasedOneThatStillStartsIsNotMoved)
{
  for (const SenderKind kind : { SenderKind::loss_based, SenderKind::rate_based })
  {
    test::Session s {};
    const FlowView& view = s.fixture.flow(s.peers).view;
    s.fixture.flow(s.peers).view.sender.kind = kind;
    s.module.set("window_mss", 1);
    s.steps(3000);
    EXPECT_FALSE(view.slow_start);
    EXPECT_EQ(s.fixture.count("offload: sender still starts") > 0, kind == SenderKind::rate_based) << name(kind);
    EXPECT_GT(s.fixture.count("offload: probe begins"), 0u) << name(kind);
  }
}

} // namespace
} // namespace tandem::offload
