// What offload does to senders of each kind.
#include "modules/offload/ack_thinning.h"

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

} // namespace
} // namespace tandem::offload
