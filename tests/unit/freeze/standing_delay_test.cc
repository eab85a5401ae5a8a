// What stands in queues, and what only comes and goes.
#include "modules/freeze/resume_acks.h"
#include "modules/freeze/standing_delay.h"
#include "tests/unit/freeze/download.h"

#include <gtest/gtest.h>

#include <functional>

namespace tandem::freeze
{
namespace
{

using namespace std::chrono_literals;

class StandingDelayTest : public testing::Test
{
protected:
  void sample(Duration rtt, Duration later = 10ms)
  {
    now_ += later;
    flow_.rtt_at = now_;
    flow_.rtt_latest = rtt;
    meter_.look(flow_, now_);
  }
  double milliseconds() const { return meter_.delay(flow_) * 1e3; }

  Tick now_ { 10s };
  FlowView flow_ = a_download(10); // its least round trip takes 40 ms
  StandingDelay meter_ {};
};

TEST_F(StandingDelayTest, NothingIsKnownAtFirst)
{
  EXPECT_EQ(milliseconds(), 0);
  meter_.look(flow_, now_); // no round trip was measured yet
  EXPECT_EQ(milliseconds(), 0);
}

TEST_F(StandingDelayTest, AQueueThatStandsIsCounted)
{
  for (int i = 0; i < 50; ++i)
    sample(i % 2 ? 70ms : 60ms);
  EXPECT_NEAR(milliseconds(), 20, 1e-6);
}

TEST_F(StandingDelayTest, WaitsThatComeAndGoAreNot)
{
  for (int i = 0; i < 50; ++i)
    sample(i % 5 ? 70ms : 41ms);
  EXPECT_NEAR(milliseconds(), 1, 1e-6);
}

TEST_F(StandingDelayTest, AQueueThatHasDrainedIsGoneWithTheNextSample)
{
  for (int i = 0; i < 50; ++i)
    sample(60ms);
  sample(42ms);
  EXPECT_NEAR(milliseconds(), 2, 1e-6);
}

TEST_F(StandingDelayTest, AndOneThatGrowsIsKnownWithinTwoTenthsOfASecond)
{
  for (int i = 0; i < 50; ++i)
    sample(40ms);
  for (int i = 0; i < 21; ++i)
    sample(60ms);
  EXPECT_NEAR(milliseconds(), 20, 1e-6);
}

TEST_F(StandingDelayTest, WhatWasBeforeAPauseSaysNothing)
{
  for (int i = 0; i < 50; ++i)
    sample(40ms);
  sample(60ms, 5s);
  EXPECT_NEAR(milliseconds(), 20, 1e-6);
}

class ByCellular : public StandingDelayTest
{
protected:
  void leave_by_cellular(bool yes)
  {
    flow_.ts_reserved.what = yes ? TsReservation::What::odd : TsReservation::What::none;
  }
};

TEST_F(ByCellular, WhatTheWayOfTheAcksAddsIsNoQueue)
{
  for (int i = 0; i < 50; ++i)
    sample(45ms);
  leave_by_cellular(true);
  flow_.cell_path_known = 25ms;
  for (int i = 0; i < 50; ++i)
    sample(75ms);
  EXPECT_NEAR(milliseconds(), 10, 1e-6); // 75 for 40 + 25
}

TEST_F(ByCellular, NothingIsSaidWhileNobodyKnowsWhatItAdds)
{
  leave_by_cellular(true);
  for (int i = 0; i < 50; ++i)
    sample(75ms);
  EXPECT_EQ(milliseconds(), 0);
}

TEST_F(ByCellular, WhatWasOnItsWayIsNotCountedAfterTheReturn)
{
  leave_by_cellular(true);
  flow_.cell_path_known = 25ms;
  flow_.rtt_smoothed = 65ms;
  for (int i = 0; i < 50; ++i)
    sample(65ms);
  leave_by_cellular(false);
  for (int i = 0; i < 6; ++i)
    sample(65ms);
  EXPECT_EQ(milliseconds(), 0);
  for (int i = 0; i < 30; ++i)
    sample(48ms);
  EXPECT_NEAR(milliseconds(), 8, 1e-6);
}

// Of 20 ms that stand in queues, as its round trips tell.
class ByTheServersClock : public StandingDelayTest
{
protected:
  // For a second; the data waited for as long as `queued` says, of a server whose clock ticks so often in a
  // millisecond.
  void run(const std::function<int(int)>& queued, double pace = 1)
  {
    for (int i = 0; i < 100; ++i)
    {
      const auto sent = static_cast<double>((now_ - Tick {}) / 1ms + 10 - queued(i));
      flow_.ts_recent = { static_cast<std::uint32_t>(static_cast<std::int64_t>(sent * pace)) - 5'000'000u };
      sample(60ms);
    }
  }
};

TEST_F(ByTheServersClock, AQueueOfTheDataIsOne)
{
  run([](int) { return 0; });
  run([](int) { return 30; });
  EXPECT_NEAR(milliseconds(), 20, 1e-6) << "no more than the round trip has";
  run([](int) { return 7; });
  EXPECT_NEAR(milliseconds(), 7, 1e-6);
  run([](int i) { return i % 5 ? 15 : 2; });
  EXPECT_NEAR(milliseconds(), 2, 1e-6) << "what comes and goes is none";
}

TEST_F(ByTheServersClock, AQueueOfTheAcksIsNone)
{
  run([](int) { return 0; });
  EXPECT_EQ(milliseconds(), 0);
}

TEST_F(ByTheServersClock, OneThatFilledWhileTheClockWasLearntIsOneAllTheSame)
{
  run([](int i) { return std::min(4 * i, 300); });
  EXPECT_NEAR(milliseconds(), 20, 1e-6);
  run([](int) { return 5; });
  EXPECT_NEAR(milliseconds(), 5, 1e-6);
}

TEST_F(ByTheServersClock, OfOtherClocksTheRoundTripIsBelieved)
{
  for (const double pace : { 0.1, 0.25, 0.5, 2.0, 1000.0 })
  {
    meter_ = {};
    run([](int) { return 0; }, pace);
    run([](int) { return 0; }, pace);
    EXPECT_NEAR(milliseconds(), 20, 1e-6) << pace;
  }
}

TEST_F(ByTheServersClock, OneThatNeverDrainsStandsForMinutes)
{
  run([](int) { return 0; });
  for (int i = 0; i < 300; ++i)
    run([](int) { return 100; });
  EXPECT_NEAR(milliseconds(), 20, 1e-6);
}

TEST_F(ByTheServersClock, ClocksThatPartAreNoQueue)
{
  for (const double pace : { 0.9999, 1.0001 })
  {
    meter_ = {};
    for (int i = 0; i < 300; ++i)
      run([](int) { return 0; }, pace);
    EXPECT_LE(milliseconds(), 2) << pace;
  }
}

// Most bytes by which the ACK number was lowered, at an ACK of two segments every 4 ms.
std::uint32_t most_withheld(const std::function<Duration(int)>& rtt, std::uint32_t window = 200'000,
                            BlackoutState state = {})
{
  ResumeAcks strategy {};
  FlowView flow = a_download(10);
  flow.window_estimate = window;
  flow.delivery_rate = 4e6;
  LinkStates links {};
  Tick now { 10s };
  std::uint32_t most = 0;
  for (int i = 0; i < 400; ++i)
  {
    Segment segment { .flags = tcp_flag::ack, .window = 60'000 };
    segment.ack = { 20'000 + 2896u * static_cast<std::uint32_t>(i) };
    now += 4ms;
    flow.rtt_at = now;
    flow.rtt_latest = rtt(i);
    flow.rtt_smoothed = 60ms;
    const Plan plan =
        strategy.decide({ .now = now, .segment = &segment, .queued = true, .links = &links }, flow, state);
    const Seq told = plan.edit.ack.value_or(segment.ack);
    most = std::max(most, static_cast<std::uint32_t>(segment.ack - told));
    flow.sent_ack = told;
  }
  return most;
}

TEST(FreezeWithholds, FromAStandingQueueAndHardlyFromJitter)
{
  // The smoothed round trip is the same.
  EXPECT_GE(most_withheld([](int) { return 60ms; }), 8u * 1448);
  const std::uint32_t jitter = most_withheld([](int i) { return i % 10 ? 62ms : 40ms; });
  EXPECT_GT(jitter, 0u);
  EXPECT_LE(jitter, 2u * 1448);
}

// A segment of fewer than a hundred is a part of the rate that nobody sees come back.
TEST(FreezeWithholds, NothingOfASmallWindowWithoutAQueue)
{
  const auto no_queue = [](int) { return 40ms; };
  EXPECT_EQ(most_withheld(no_queue, 99 * 1448), 0u);
  EXPECT_EQ(most_withheld(no_queue, 101 * 1448), 1448u);
}

TEST(FreezeWithholds, ASegmentOfItRightAfterABlackout)
{
  const auto no_queue = [](int) { return 40ms; };
  BlackoutState state {};
  state.blackouts = 1;
  state.up_at = Tick { 9s };
  EXPECT_EQ(most_withheld(no_queue, 30 * 1448, state), 1448u);
  state.blackouts = 0;
  EXPECT_EQ(most_withheld(no_queue, 30 * 1448, state), 0u);
  state.blackouts = 1;
  state.up_at = Tick { -11s };
  EXPECT_EQ(most_withheld(no_queue, 30 * 1448, state), 0u);
}

} // namespace
} // namespace tandem::freeze
