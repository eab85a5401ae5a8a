// What mirror does to senders of each kind.
#include "modules/mirror/undo.h"

#include <gtest/gtest.h>

namespace tandem::mirror
{
namespace
{

using namespace std::chrono_literals;

// A download of which one segment is lost and repaired.
struct Lossy
{
  explicit Lossy(SenderKind kind)
  {
    flow.sender.kind = kind;
    flow.sack_ok = flow.timestamps_ok = flow.sent_any = true;
    flow.mss = 1448;
    flow.rtt_min = flow.rtt_smoothed = 20ms;
    flow.bytes_delivered = 1'000'000;
    for (LinkState& link : links)
      link = { .present = true, .up = true, .route = true };
  }

  Plan ack(std::uint32_t number, std::uint32_t echo, std::uint32_t left = 0, std::uint32_t right = 0)
  {
    Segment segment { .flags = tcp_flag::ack, .window = 500 };
    segment.ack = { number };
    segment.timestamps = Timestamps { { 1 }, { echo } };
    if (right > 0) segment.sack_blocks[segment.sack_count++] = { { left }, { right } };
    const Event event { .now = now, .segment = &segment, .queued = true, .links = &links };
    Plan plan = undo.decide(event, flow, state);
    flow.sent_ack = segment.ack;
    flow.sent_window = flow.told_window = segment.window;
    flow.rcv_nxt = segment.ack;
    now += 20ms;
    return plan;
  }
  // The last ACK of the episode.
  Plan episode()
  {
    ack(10'000, 100);
    ack(10'000, 100, 11'448, 12'896);
    return ack(12'896, 140);
  }

  Undo undo {};
  Undo::State state {};
  FlowView flow {};
  LinkStates links {};
  Tick now { 1s };
};

TEST(MirrorSenders, ALossIsHiddenFromThoseWhoMayTakeTheirReactionBack)
{
  for (const SenderKind kind : { SenderKind::loss_based, SenderKind::unknown })
  {
    Lossy lossy { kind };
    EXPECT_EQ(lossy.episode().edit.ts_echo, TsClock { 139 }) << name(kind);
    EXPECT_EQ(lossy.state.hidden, 1);
  }
}

TEST(MirrorSenders, WhoTakesNothingBackIsLeftAlone)
{
  for (const SenderKind kind : { SenderKind::rate_based, SenderKind::unresponsive })
  {
    Lossy lossy { kind };
    const Plan plan = lossy.episode();
    EXPECT_TRUE(plan.edit.empty()) << name(kind);
    EXPECT_EQ(plan.verdict, Verdict::pass);
    EXPECT_EQ(lossy.state.hidden, 0);
  }
}

TEST(MirrorSenders, WhenTheKindIsKnownTheCapEnds)
{
  Lossy unknown { SenderKind::unknown };
  unknown.episode();
  EXPECT_FALSE(unknown.state.steering.lossy()) << "and does not begin before";
  Lossy lossy { SenderKind::loss_based };
  lossy.episode();
  EXPECT_TRUE(lossy.state.steering.lossy());
  lossy.flow.sender.kind = SenderKind::rate_based;
  EXPECT_TRUE(lossy.ack(20'000, 160).edit.empty());
  EXPECT_FALSE(lossy.state.steering.lossy());
  lossy.flow.sender.kind = SenderKind::loss_based; // it was a mistake
  lossy.ack(30'000, 180);
  lossy.ack(30'000, 180, 31'448, 32'896);
  EXPECT_EQ(lossy.ack(32'896, 220).edit.ts_echo, TsClock { 219 });
}

} // namespace
} // namespace tandem::mirror
