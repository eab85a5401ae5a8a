// A download of many gigabytes.
#include "modules/freeze/resume_acks.h"
#include "tests/unit/freeze/download.h"

#include <gtest/gtest.h>

namespace tandem::freeze
{
namespace
{

using namespace std::chrono_literals;

// The queue is taken out of the way of what is faster than any Wi-Fi, and of everything that nobody looks at. When it
// is back the numbers may have no order to those before.
TEST(FreezeLongDownload, GoesOnAfterMoreThanHalfTheSequenceSpaceWentByUnseen)
{
  ResumeAcks strategy {};
  BlackoutState state {};
  FlowView flow = a_download(4);
  LinkStates links {};
  Tick now { 10s };
  Seq number { 20'000 };
  const auto acks = [&](int count)
  {
    int withheld = 0;
    for (int i = 0; i < count; ++i)
    {
      number = number + 2 * 1448;
      Segment segment { .flags = tcp_flag::ack, .window = 60'000 };
      segment.ack = flow.rcv_nxt = number;
      now += 1ms;
      const Plan plan =
          strategy.decide({ .now = now, .segment = &segment, .queued = true, .links = &links }, flow, state);
      if (plan.verdict == Verdict::pass) flow.sent_ack = plan.edit.ack.value_or(number);
      withheld += plan.edit.ack || plan.verdict == Verdict::drop ? 1 : 0;
    }
    return withheld;
  };
  ASSERT_GT(acks(100), 50);
  number = flow.sent_ack = number + 3'000'000'000u;
  now += 5s;
  flow.resumed = now + 1ms;
  EXPECT_GT(acks(100), 50);
  EXPECT_EQ(state.progress_at, now) << "else the flow does not count as lively when a blackout comes";
}

} // namespace
} // namespace tandem::freeze
