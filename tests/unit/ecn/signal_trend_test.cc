#include "modules/ecn/signal_trend.h"

#include <gtest/gtest.h>

namespace tandem::ecn
{
namespace
{

using namespace std::chrono_literals;

TEST(signal_trend, a_still_signal_is_what_it_is)
{
  SignalTrend trend;
  EXPECT_FALSE(trend.now());
  for (Tick now { 1h }; now < Tick { 1h + 10s }; now += 100ms)
  {
    trend.look(-70.F, now);
    ASSERT_FLOAT_EQ(*trend.now(), -70);
  }
}

TEST(signal_trend, is_carried_on_by_the_age_of_the_mean)
{
  SignalTrend trend;
  float dbm = -80;
  for (Tick now { 1h }; now < Tick { 1h + 10s }; now += 500ms, dbm += 1)
    trend.look(dbm, now); // 2 dB a second
  EXPECT_NEAR(*trend.now(), dbm - 1 + 2 * 1.5, 0.01);
}

TEST(signal_trend, a_signal_that_jumps_does_not_go_on_jumping)
{
  SignalTrend trend;
  for (Tick now { 1h }; now < Tick { 1h + 10s }; now += 500ms)
  {
    trend.look(now < Tick { 1h + 5s } ? -80.F : -60.F, now);
    EXPECT_LE(*trend.now(), -57);
  }
  EXPECT_FLOAT_EQ(*trend.now(), -60);
}

TEST(signal_trend, looks_between_two_tellings_change_nothing)
{
  SignalTrend often, seldom;
  float dbm = -80;
  for (Tick now { 1h }; now < Tick { 1h + 10s }; now += 500ms, dbm += 1)
  {
    seldom.look(dbm, now);
    for (int i = 0; i < 5; ++i)
      often.look(dbm, now + i * 100ms);
  }
  EXPECT_FLOAT_EQ(*often.now(), *seldom.now());
}

TEST(signal_trend, what_changed_while_nobody_looked_is_no_trend)
{
  SignalTrend trend;
  for (Tick now { 1h }; now < Tick { 1h + 5s }; now += 100ms)
    trend.look(-80.F, now);
  trend.look(-70.F, Tick { 1h + 60s });
  EXPECT_NEAR(*trend.now(), -70, 0.5);
}

TEST(signal_trend, what_is_not_heard_begins_anew)
{
  SignalTrend trend;
  float dbm = -80;
  for (Tick now { 1h }; now < Tick { 1h + 10s }; now += 500ms, dbm += 1)
    trend.look(dbm, now);
  trend.look({}, Tick { 1h + 10s });
  EXPECT_FALSE(trend.now());
  trend.look(-60.F, Tick { 1h + 11s });
  EXPECT_FLOAT_EQ(*trend.now(), -60);
}

} // namespace
} // namespace tandem::ecn
