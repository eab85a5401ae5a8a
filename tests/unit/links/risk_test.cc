#include "src/links/risk.h"

#include <gtest/gtest.h>

#include <cmath>

namespace tandem::links
{
namespace
{

using namespace tandem::literals;

class Risk : public testing::Test
{
protected:
  RiskPredictor predictor {};
  Tick now { 10s };
  double signal = -50;
  int heard = 0;

  // Frames every 5 ms while the signal moves by `slope` dB/s; stops when a blackout is predicted, if asked to.
  bool run(Duration span, double slope, bool until_warning = false, double noise = 0)
  {
    for (const Tick end = now + span; now < end; now += 5ms)
    {
      signal += slope * 0.005;
      predictor.sample(signal + noise * std::sin(0.7 * ++heard), now);
      if (predictor.at_risk(now) && until_warning) return true;
    }
    return predictor.at_risk(now);
  }
};

TEST_F(Risk, a_steady_signal_is_no_risk)
{
  EXPECT_FALSE(run(5s, 0, true, 4));
  EXPECT_NEAR(predictor.level(), -50, 2);
  EXPECT_NEAR(predictor.slope(), 0, 3);
}

TEST_F(Risk, a_falling_signal_is_foreseen_within_the_horizon)
{
  run(1s, 0);
  ASSERT_TRUE(run(3s, -20, true));
  // -85 at the end of 300 ms of -20 dB/s: -79, give or take the noise of the fit.
  EXPECT_NEAR(signal, -79, 2);
  EXPECT_NEAR(predictor.slope(), -20, 3);
}

TEST_F(Risk, wild_readings_do_not_matter)
{
  for (int i = 0; i < 200; ++i, now += 10ms)
    predictor.sample(i / 5 % 8 == 0 ? -95 : -60, now);
  EXPECT_FALSE(predictor.at_risk(now));
  EXPECT_NEAR(predictor.level(), -60, 2);
}

TEST_F(Risk, a_blackout_after_the_warning_is_a_hit)
{
  run(1s, 0);
  ASSERT_TRUE(run(3s, -20, true));
  predictor.blackout(now + 400ms);
  EXPECT_EQ(predictor.hits(), 1u);
  EXPECT_EQ(predictor.misses(), 0u);
}

TEST_F(Risk, a_blackout_without_warning_is_neither)
{
  run(1s, 0);
  predictor.blackout(now);
  EXPECT_EQ(predictor.hits(), 0u);
  EXPECT_EQ(predictor.misses(), 0u);
}

TEST_F(Risk, a_warning_that_nothing_comes_of_is_a_miss_and_is_followed_by_back_off)
{
  run(1s, 0);
  ASSERT_TRUE(run(3s, -20, true));
  const Duration horizon = predictor.horizon();
  EXPECT_FALSE(run(700ms, 0)) << "two horizons are over";
  EXPECT_EQ(predictor.misses(), 1u);
  EXPECT_LT(predictor.horizon(), horizon);
  signal = -88;
  EXPECT_FALSE(run(1s, -5, true)) << "it backs off";
  // A blackout later than that is no hit any more.
  predictor.blackout(now);
  EXPECT_EQ(predictor.hits(), 0u);
}

TEST_F(Risk, a_link_that_lives_at_the_edge_is_warned_of_ever_more_rarely)
{
  signal = -88;
  int warnings = 0;
  bool before = false;
  for (int i = 0; i < 12000; ++i, now += 5ms) // a minute
  {
    predictor.sample(signal, now);
    const bool risk = predictor.at_risk(now);
    warnings += risk && !before ? 1 : 0;
    before = risk;
  }
  EXPECT_GE(warnings, 2);
  EXPECT_LE(warnings, 6);
  EXPECT_EQ(predictor.misses(), static_cast<std::uint64_t>(warnings) - (before ? 1 : 0));
}

TEST_F(Risk, a_hit_brings_the_horizon_back)
{
  run(1s, 0);
  run(3s, -20, true);
  run(700ms, 0);
  const Duration careful = predictor.horizon();
  signal = -60;
  run(4s, 0);
  ASSERT_TRUE(run(3s, -20, true));
  predictor.blackout(now + 50ms);
  EXPECT_GT(predictor.horizon(), careful);
}

TEST_F(Risk, the_warning_ends_only_well_above_the_limit)
{
  predictor = RiskPredictor { { .horizon = 1s } };
  run(1s, 0);
  ASSERT_TRUE(run(3s, -20, true));
  signal = -84; // above -85, but by less than the hysteresis
  EXPECT_TRUE(run(1100ms, 0));
  signal = -80;
  EXPECT_FALSE(run(800ms, 0));
  EXPECT_EQ(predictor.misses(), 0u) << "not judged yet";
}

TEST_F(Risk, a_blackout_long_after_the_warning_is_no_hit)
{
  run(1s, 0);
  ASSERT_TRUE(run(3s, -20, true));
  predictor.blackout(now + 2s);
  EXPECT_EQ(predictor.hits(), 0u);
  predictor.at_risk(now + 2s);
  EXPECT_EQ(predictor.misses(), 1u);
}

TEST_F(Risk, old_samples_say_nothing)
{
  run(1s, 0);
  ASSERT_TRUE(run(3s, -20, true));
  now += 3s;
  EXPECT_FALSE(predictor.at_risk(now));
  EXPECT_FALSE(predictor.known(now));
}

} // namespace
} // namespace tandem::links
