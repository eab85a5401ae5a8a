#include "src/links/risk.h"

#include <gtest/gtest.h>

#include <cmath>
#include <vector>

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

  // When warnings began while `hears` tells, every 5 ms, what is heard: what a download pauses for.
  template <class Hears>
  std::vector<Tick> pauses(Duration span, Hears hears, Duration* at_risk = nullptr)
  {
    std::vector<Tick> begins {};
    bool before = false;
    for (const Tick end = now + span; now < end; now += 5ms)
    {
      hears(now);
      const bool risk = predictor.at_risk(now);
      if (risk && !before) begins.push_back(now);
      if (risk && at_risk != nullptr) *at_risk += 5ms;
      before = risk;
    }
    return begins;
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
  const auto warnings = pauses(31min, [&](Tick at) { predictor.sample(signal, at); });
  // 0, 1, 3, 7 and 15 minutes, and what the warnings themselves took.
  ASSERT_EQ(warnings.size(), 5u);
  EXPECT_EQ(predictor.misses(), 5u);
  for (std::size_t i = 1; i < warnings.size(); ++i)
    EXPECT_GE(warnings[i] - warnings[i - 1], (1 << (i - 1)) * 60s);
}

// ---- forged frames: beacons in the access point's name, too weak to be its own

TEST_F(Risk, a_minority_of_forged_beacons_moves_nothing)
{
  for (const int forged : { 1, 5, 9 }) // beside ten real frames in each bin
  {
    predictor = RiskPredictor {};
    const auto warnings = pauses(20s,
                                 [&](Tick at)
                                 {
                                   predictor.sample(-55, at);
                                   if (at > Tick { 12s } && at.time_since_epoch() / 5ms % 10 < forged)
                                     predictor.sample(-110, at);
                                 });
    EXPECT_TRUE(warnings.empty()) << forged;
    EXPECT_NEAR(predictor.level(), -55, 1) << forged;
    EXPECT_NEAR(predictor.slope(), 0, 1) << forged;
  }
}

TEST_F(Risk, a_minority_that_falls_like_a_fading_signal_moves_nothing)
{
  double pretended = -55;
  const auto warnings = pauses(60s,
                               [&](Tick at)
                               {
                                 predictor.sample(-55, at);
                                 pretended = pretended < -95 ? -55 : pretended - 0.1; // -20 dB/s
                                 if (at.time_since_epoch() / 5ms % 5 < 2) predictor.sample(pretended, at);
                               });
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Risk, forged_beacons_of_an_idle_link_that_are_no_more_than_the_real_ones_move_nothing)
{
  const auto warnings = pauses(60s,
                               [&](Tick at)
                               {
                                 if (at.time_since_epoch() / 5ms % 20 == 0) predictor.sample(-55, at); // 100 ms
                                 if (at.time_since_epoch() / 5ms % 40 == 13) predictor.sample(-110, at);
                               });
  EXPECT_TRUE(warnings.empty());
}

TEST_F(Risk, a_majority_of_forged_beacons_costs_at_most_one_short_pause_in_any_minute_and_in_the_end_in_16)
{
  Duration at_risk {};
  const auto warnings = pauses(
      65min,
      [&](Tick at)
      {
        if (at.time_since_epoch() / 5ms % 4 == 0) predictor.sample(-55, at);
        predictor.sample(-110, at);
      },
      &at_risk);
  for (std::size_t i = 1; i < warnings.size(); ++i)
    EXPECT_GE(warnings[i] - warnings[i - 1], i < 5 ? (1 << (i - 1)) * 60s : 16 * 60s);
  EXPECT_LE(warnings.size(), 5u + 3);
  EXPECT_LE(at_risk, 4s) << "two horizons each, which grow shorter";
}

TEST_F(Risk, a_forged_roam_does_not_spare_the_forger_the_back_off)
{
  Duration at_risk {};
  pauses(
      15min,
      [&](Tick at)
      {
        predictor.sample(-110, at);
        if (at.time_since_epoch() / 5ms % 60 == 0) predictor.forget();
      },
      &at_risk);
  EXPECT_EQ(predictor.misses(), 4u) << "0, 1, 3 and 7 minutes";
  EXPECT_LE(at_risk, 2s);
}

TEST_F(Risk, a_hit_brings_the_horizon_back)
{
  run(1s, 0);
  run(3s, -20, true);
  run(700ms, 0);
  const Duration careful = predictor.horizon();
  signal = -60;
  run(61s, 0);
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
