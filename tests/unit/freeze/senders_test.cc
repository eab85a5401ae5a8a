// What freeze does to senders of each kind.
#include "modules/freeze/resume_acks.h"
#include "tests/unit/freeze/download.h"

#include <gtest/gtest.h>

namespace tandem::freeze
{
namespace
{

using namespace std::chrono_literals;

TEST(FreezeSenders, AnOlderEchoIsForThoseWhoMayUnderstandIt)
{
  for (const SenderKind kind :
       { SenderKind::unknown, SenderKind::loss_based, SenderKind::rate_based, SenderKind::unresponsive })
  {
    ResumeAcks strategy {};
    BlackoutState state {};
    FlowView flow {};
    flow.sender.kind = kind;
    flow.sack_ok = flow.timestamps_ok = flow.sent_any = true;
    flow.mss = 1448;
    LinkStates links {};
    Tick now { 10s };
    state.up_at = now;
    state.rtt = 0.05F;
    state.undo.begin();
    const auto ack = [&](std::uint32_t number, std::uint32_t echo, std::uint32_t left, std::uint32_t right)
    {
      Segment segment { .flags = tcp_flag::ack, .window = 500 };
      segment.ack = { number };
      segment.timestamps = Timestamps { { 1 }, { echo } };
      if (right > 0) segment.sack_blocks[segment.sack_count++] = { { left }, { right } };
      now += 10ms;
      return strategy.decide({ .now = now, .segment = &segment, .queued = true, .links = &links }, flow, state);
    };
    ack(10'000, 100, 0, 0);
    ack(10'000, 100, 11'448, 12'896);
    const Plan plan = ack(12'896, 150, 0, 0);
    EXPECT_EQ(plan.edit.ts_echo.has_value(), kind != SenderKind::unresponsive) << name(kind);
  }
}

TEST(FreezeSenders, NothingIsKeptFromAUserSpaceStack)
{
  for (const bool user_space : { false, true })
  {
    ResumeAcks strategy {};
    BlackoutState state {};
    FlowView flow = a_download(4);
    flow.sender = { .kind = SenderKind::unresponsive, .confidence = 90, .user_space = user_space };
    LinkStates links {};
    Tick now { 10s };
    bool lowered = false;
    for (std::uint32_t number = 20'000; number < 200'000; number += 2 * 1448)
    {
      Segment segment { .flags = tcp_flag::ack, .window = 60'000 };
      segment.ack = { number };
      flow.rcv_nxt = segment.ack;
      now += 1ms;
      const Plan plan =
          strategy.decide({ .now = now, .segment = &segment, .queued = true, .links = &links }, flow, state);
      flow.sent_ack = plan.verdict == Verdict::pass ? plan.edit.ack.value_or(segment.ack) : flow.sent_ack;
      lowered = lowered || plan.edit.ack.has_value() || plan.verdict == Verdict::drop;
    }
    EXPECT_EQ(lowered, !user_space);
  }
}

} // namespace
} // namespace tandem::freeze
