// Packet times of the weighted air as 802.11 exchanges, and what the daemon's estimator makes of them.

#include "tools/sim/exchanges.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

using namespace std::chrono_literals;

TEST(Exchanges, TakeAsLongAsTheyAreToOnAverage)
{
  for (const Duration mean : { 500us, 1000us, 3000us, 6000us })
  {
    Exchanges exchanges(1, 1);
    Tick now { 1h };
    constexpr int count = 20'000;
    for (int i = 0; i < count; ++i)
      now += exchanges.next(mean, now);
    EXPECT_NEAR(seconds(now - Tick { 1h }) / count / seconds(mean), 1, 0.02) << milliseconds(mean);
    EXPECT_GT(Exchanges::failures(Exchanges::rate(mean), mean), 0) << "nothing to estimate";
  }
}

TEST(Exchanges, AreEstimatedFromWhatTheRadioHears)
{
  for (const Duration mean : { 500us, 3000us })
  {
    Exchanges exchanges(1, 2);
    Tick now { 1h };
    EXPECT_FALSE(exchanges.radio(now).packet_time);
    double sum = 0, worst = 0;
    constexpr int windows = 40;
    for (int i = 0; i < windows; ++i)
    {
      for (const Tick end = now + 500ms; now < end;)
        now += exchanges.next(mean, now);
      const RadioState radio = exchanges.radio(now);
      ASSERT_TRUE(radio.packet_time);
      EXPECT_GT(radio.confidence, 0.9);
      const double error = seconds(*radio.packet_time) / seconds(mean) - 1;
      sum += error;
      worst = std::max(worst, std::abs(error));
    }
    EXPECT_LT(std::abs(sum) / windows, 0.05) << milliseconds(mean);
    EXPECT_LT(worst, 0.4) << milliseconds(mean);
    EXPECT_GT(worst, 0) << "an estimate has errors";
    EXPECT_FALSE(exchanges.radio(now + 2s).packet_time) << "nothing was heard of late";
  }
}

} // namespace

} // namespace tandem::sim::test
