#include "modules/mirror/delay_meter.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

namespace tandem::mirror
{
namespace
{

using namespace std::chrono_literals;

// A server 20 ms away with a clock of its own, and a queue between.
class Path
{
public:
  explicit Path(double unit = 1e-3, double faster = 0) : tick { unit }, drift { faster } {}

  double tick;      // s
  double drift;     // the server's clock is faster by this
  TsClock begin {}; // TSval at time 0
  DelayMeter meter {};

  // Segments with so much in the queue as `queued` says of the time since the beginning.
  void run(double span, const std::function<double(double)>& queued)
  {
    for (const double end = now_ + span; now_ < end; now_ += gap)
      arrive(now_, queued(now_));
  }
  void run(double span, double queued = 0)
  {
    run(span, [=](double) { return queued; });
  }
  void pause(double span) { now_ += span; }
  // What arrived within `span` is read at its end.
  void stall(double span)
  {
    const double end = now_ + span;
    for (; now_ < end; now_ += gap)
      meter.arrived(value(now_, 0), at(end));
  }
  void arrive(double when, double queued) { meter.arrived(value(when, queued), at(when)); }
  double now() const { return now_; }

private:
  TsClock value(double when, double queued) const
  {
    const double sent = (when - 0.02 - queued) * (1 + drift);
    return begin + static_cast<std::uint32_t>(static_cast<std::int64_t>(std::floor(sent / tick)));
  }
  static Tick at(double when) { return Tick { from_seconds(1000 + when) }; }
  static constexpr double gap = 1e-3; // s between segments
  double now_ = 1;
};

struct Ticks : ::testing::TestWithParam<double>
{
};

TEST_P(Ticks, AreFoundAndTheQueueIsMeasured)
{
  Path path { GetParam() };
  path.run(0.09);
  EXPECT_FALSE(path.meter.known()) << "too early";
  EXPECT_EQ(path.meter.queued(), 0);
  EXPECT_EQ(path.meter.peak(), 0);
  EXPECT_EQ(path.meter.top(), 0);
  EXPECT_EQ(path.meter.recent(), 0);
  path.run(0.2);
  ASSERT_TRUE(path.meter.known());
  EXPECT_NEAR(path.meter.tick(), GetParam(), GetParam() / 100);
  const double unit = GetParam() + 1e-5;
  path.run(3);
  EXPECT_NEAR(path.meter.queued(), 0, unit);
  path.run(0.5, 0.03);
  EXPECT_NEAR(path.meter.queued(), 0.03, unit);
  EXPECT_NEAR(path.meter.peak(), 0.03, unit);
  EXPECT_NEAR(path.meter.top(), 0.03, unit);
  path.run(1);
  EXPECT_NEAR(path.meter.queued(), 0, unit);
  EXPECT_NEAR(path.meter.peak(), 0, unit);
  EXPECT_NEAR(path.meter.top(), 0.03, unit) << "remembered";
  EXPECT_NEAR(path.meter.recent(), 0.03, unit);
}
INSTANTIATE_TEST_SUITE_P(All, Ticks, ::testing::Values(1e-6, 1e-3, 4e-3, 10e-3));

TEST(DelayMeter, AClockNobodyHasIsRefused)
{
  for (const double tick : { 0.1, 0.03, 2e-5, 1e-7 })
  {
    Path path { tick };
    path.run(30);
    EXPECT_FALSE(path.meter.known()) << tick;
  }
}

TEST(DelayMeter, AQueueThatGrowsFromTheBeginningDoesNotSpoilTheTick)
{
  Path path {};
  path.run(0.4, [](double now) { return 0.3 * (now - 1); }); // slow start
  path.run(1, 0.12);
  path.run(2);
  ASSERT_TRUE(path.meter.known());
  EXPECT_NEAR(path.meter.tick(), 1e-3, 1e-5);
  EXPECT_NEAR(path.meter.queued(), 0, 1.1e-3);
}

// Slow start fills it before the tick is known. A queue that grows by more in that time is taken for another clock at
// first.
TEST(DelayMeter, AQueueThatStandsFromTheBeginningIsNoFloor)
{
  for (const double tick : { 1e-6, 1e-3, 4e-3 })
    for (const double full : { 0.01, 0.02 })
    {
      Path path { tick };
      path.run(0.02);
      path.run(0.06, [&](double now) { return full * std::min(1.0, (now - 1.02) / 0.06); });
      path.run(2, full);
      ASSERT_TRUE(path.meter.known()) << tick << " " << full;
      EXPECT_NEAR(path.meter.tick(), tick, tick / 100);
      EXPECT_NEAR(path.meter.queued(), full, tick + 1e-4) << tick << " " << full;
      EXPECT_NEAR(path.meter.top(), full, tick + 1e-4) << tick << " " << full;
    }
}

// A slow path carries the first flight in the time in which the tick is looked for, and what was sent a round trip
// after it comes behind it; or the air stands still for a moment. That looks like a slower clock.
TEST(DelayMeter, AQueueThatIsTakenForASlowClockIsFoundOut)
{
  for (const double sent : { 0.012, 0.025 }) // the second flight, after the first one
  {
    Path path {};
    for (int i = 0; i < 10; ++i)
      path.arrive(path.now() + i * 0.0116, i * 0.0116);
    path.pause(0.116);
    path.arrive(path.now(), 0.116 - sent);
    ASSERT_GT(path.meter.tick(), 2e-3) << sent << ": a slower clock, as it seems";
    path.run(1);
    path.run(1, 0.03);
    ASSERT_TRUE(path.meter.known()) << sent;
    EXPECT_NEAR(path.meter.tick(), 1e-3, 1e-5) << sent;
    EXPECT_NEAR(path.meter.queued(), 0.03, 1.1e-3) << sent;
    EXPECT_NEAR(path.meter.top(), 0.03, 1.1e-3) << sent;
  }
}

TEST(DelayMeter, AServerWhoseClockWasSetIsMeasuredAnew)
{
  Path path {};
  path.run(2);
  path.begin = path.begin + 5000; // 5 s ahead
  path.run(2);
  path.run(1, 0.03);
  EXPECT_NEAR(path.meter.queued(), 0.03, 1.1e-3);
  EXPECT_NEAR(path.meter.top(), 0.03, 1.1e-3);
}

// Nobody has verified the checksum of a copy.
TEST(DelayMeter, OneDamagedTimestampChangesNothing)
{
  Path path {};
  path.run(2);
  path.run(1, 0.03);
  path.arrive(path.now(), -20e3);
  ASSERT_TRUE(path.meter.known());
  EXPECT_NEAR(path.meter.queued(), 0.03, 1.1e-3);
  EXPECT_NEAR(path.meter.top(), 0.03, 1.1e-3);
  path.run(0.01, 0.02);
  EXPECT_NEAR(path.meter.queued(), 0.02, 1.1e-3);
  // Nor when it is the first of all.
  Path other {};
  other.arrive(other.now(), -20e3);
  other.run(0.5);
  EXPECT_TRUE(other.meter.known());
}

// Near one of the usual ones, as 1024 and 300 ticks a second are: the queue, whatever stands in it, would seem to
// drain.
TEST(DelayMeter, AClockThatGoesFasterThanItSeemedIsFoundOutAndRefused)
{
  for (const double rate : { 1024.0, 1100.0, 300.0, 120.0 })
  {
    Path path { 1 / rate };
    path.run(15);
    for (int i = 0; i < 12; ++i)
    {
      path.run(3, 0.05);
      EXPECT_TRUE(!path.meter.known() || path.meter.queued() > 0.04) << rate << " at " << path.now();
      path.run(1);
    }
    EXPECT_FALSE(path.meter.known()) << rate;
  }
}

TEST(DelayMeter, AQueueThatDrainsIsNotTakenForAFastClockForLong)
{
  Path path {};
  path.run(0.2, 0.5);
  path.run(12, [](double now) { return std::max(0.0, 0.5 - 0.03 * (now - 1)); }); // others' queue
  path.run(13);
  path.run(1, 0.03);
  ASSERT_TRUE(path.meter.known());
  EXPECT_NEAR(path.meter.tick(), 1e-3, 1e-5);
  EXPECT_NEAR(path.meter.queued(), 0.03, 1.1e-3);
}

// The download's own queue, which fills and empties every few seconds, is never the same when a look of 5 s begins and
// ends: the clock was refused for the rest of the download.
TEST(DelayMeter, AClockThatWasDoubtedWronglyIsFoundThoughTheQueueComesAndGoes)
{
  for (const double period : { 3.0, 7.0, 11.0 })
  {
    Path path {};
    path.run(0.2, 0.5);
    path.run(12, [](double now) { return std::max(0.0, 0.5 - 0.03 * (now - 1)); });
    ASSERT_FALSE(path.meter.known());
    path.run(80, [=](double now) { return 0.3 * std::fmod(now, period) / period; });
    ASSERT_TRUE(path.meter.known()) << period;
    EXPECT_NEAR(path.meter.tick(), 1e-3, 1e-5);
  }
}

struct Wraps : ::testing::TestWithParam<double>
{
};

TEST_P(Wraps, ChangeNothing)
{
  // The clock is at zero after 10 s, with 30 ms in the queue.
  Path path { GetParam() };
  path.begin = TsClock { 0u - static_cast<std::uint32_t>(10 / GetParam()) };
  path.run(8);
  path.run(4, 0.03);
  EXPECT_NEAR(path.meter.queued(), 0.03, GetParam() + 1e-5);
  EXPECT_NEAR(path.meter.top(), 0.03, GetParam() + 1e-5);
  path.run(4);
  EXPECT_NEAR(path.meter.queued(), 0, GetParam() + 1e-5);
  // And of its sign.
  Path half { GetParam() };
  half.begin = TsClock { 0x80000000u - static_cast<std::uint32_t>(10 / GetParam()) };
  half.run(8);
  half.run(4, 0.03);
  EXPECT_NEAR(half.meter.queued(), 0.03, GetParam() + 1e-5);
}
INSTANTIATE_TEST_SUITE_P(All, Wraps, ::testing::Values(1e-6, 1e-3, 10e-3));

TEST(DelayMeter, ClocksThatDriftForAMinuteAreNoQueue)
{
  for (const double drift : { 50e-6, -50e-6 })
  {
    Path path { 1e-6, drift };
    for (int i = 0; i < 240; ++i)
    {
      path.run(0.25);
      if (!path.meter.known()) continue;
      ASSERT_LT(path.meter.queued(), 2e-3) << drift << " at " << path.now();
      ASSERT_LT(path.meter.top(), 2.5e-3) << drift << " at " << path.now();
    }
    path.run(1, 0.03);
    EXPECT_NEAR(path.meter.queued(), 0.03, 2e-3) << drift;
    EXPECT_NEAR(path.meter.top(), 0.03, 2.5e-3) << drift;
  }
}

TEST(DelayMeter, TheFloorIsThatOfTheLastSeconds)
{
  Path path {};
  path.run(2);
  path.run(14, 0.03);
  EXPECT_NEAR(path.meter.queued(), 0.03, 1.1e-3) << "the queue was empty a quarter of a minute ago";
  path.run(32, 0.03);
  EXPECT_NEAR(path.meter.queued(), 0, 1.1e-3) << "a longer path, not a queue";
  path.run(0.1, 0.02);
  EXPECT_NEAR(path.meter.queued(), 0, 1.1e-3) << "a shorter path counts at once";
}

TEST(DelayMeter, TheTopIsThatOfTheLastQuarterOfAMinute)
{
  Path path {};
  path.run(2);
  path.run(0.5, 0.05);
  path.run(10, 0.01);
  EXPECT_NEAR(path.meter.top(), 0.05, 1.1e-3);
  EXPECT_NEAR(path.meter.recent(), 0.01, 1.1e-3) << "of the last seconds";
  for (int i = 0; i < 9; ++i)
  {
    path.run(0.1);
    path.run(2, 0.01);
  }
  EXPECT_NEAR(path.meter.top(), 0.01, 1.1e-3);
}

TEST(DelayMeter, AStalledHostIsNoTop)
{
  Path path {};
  path.run(2);
  path.run(1, 0.005);
  for (int i = 0; i < 20; ++i)
  {
    path.stall(0.02);
    path.run(0.1, 0.005);
  }
  EXPECT_LT(path.meter.top(), 0.0075);
  path.run(0.02, 0.02); // as long, but of the network
  EXPECT_NEAR(path.meter.top(), 0.02, 1.1e-3);
}

TEST(DelayMeter, ThePeakCoversWhatCameJustBefore)
{
  Path path {};
  path.run(2);
  path.run(0.02, 0.03);
  path.run(0.003, 0.01); // drained a little when the hole shows
  EXPECT_NEAR(path.meter.peak(), 0.03, 1.1e-3);
  path.run(0.02, 0.01);
  EXPECT_NEAR(path.meter.peak(), 0.01, 1.1e-3);
}

TEST(DelayMeter, LateCopiesAndReorderedSegmentsAreWelcome)
{
  Path path {};
  path.run(2);
  for (int i = 0; i < 200; ++i)
  {
    path.run(0.01);
    path.arrive(path.now() + 1e-4, 0.004); // overtaken
  }
  EXPECT_LT(path.meter.queued(), 0.0055);
  EXPECT_LT(path.meter.top(), 0.0055);
}

struct Pauses : ::testing::TestWithParam<double>
{
};

TEST_P(Pauses, LeaveNothingButWhatIsTrue)
{
  for (const double drift : { 50e-6, -50e-6 })
    for (const double tick : { 1e-6, 1e-3 })
    {
      Path path { tick, drift };
      path.run(0.05);
      path.pause(GetParam()); // before the tick is known
      path.run(3);
      path.run(1, 0.03);
      ASSERT_TRUE(path.meter.known());
      path.pause(GetParam());
      path.run(0.5);
      EXPECT_LT(path.meter.queued(), 2e-3) << drift << " " << tick;
      EXPECT_LT(path.meter.top(), 0.033) << drift << " " << tick << ": a drift of clocks is no queue";
      path.run(2, 0.02);
      EXPECT_NEAR(path.meter.queued(), 0.02, 3e-3) << drift << " " << tick;
      EXPECT_GT(path.meter.top(), 0.018) << drift << " " << tick;
      path.run(20);
      EXPECT_LT(path.meter.top(), 3e-3) << drift << " " << tick;
      EXPECT_LT(path.meter.queued(), 3e-3) << drift << " " << tick;
    }
}
INSTANTIATE_TEST_SUITE_P(Seconds, Pauses, ::testing::Values(1.0, 14.0, 29.0, 31.0, 600.0, 1500.0));

} // namespace
} // namespace tandem::mirror
