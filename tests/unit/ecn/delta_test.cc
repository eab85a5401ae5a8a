#include "modules/ecn/delta.h"

#include <gtest/gtest.h>

namespace tandem::ecn
{
namespace
{

using namespace std::chrono_literals;

// Equation 5 with its own numbers: 1/2 (50 T^2 / (RTT (RTT - 50 T)))^2.
double printed(double t, double r)
{
  const double x = 50 * t * t / (r * (r - 50 * t));
  return x * x / 2;
}

TEST(delta, is_equation_5_above_the_pole)
{
  EXPECT_NEAR(delta(1ms, 100ms), printed(0.001, 0.1), 1e-12);
  EXPECT_NEAR(delta(3ms, 400ms), printed(0.003, 0.4), 1e-12);
  EXPECT_NEAR(delta(500us, 30ms), printed(0.0005, 0.03), 1e-12);
  EXPECT_NEAR(delta(1ms, 100ms), 5e-5, 1e-9);
}

TEST(delta, falls_with_the_round_trip_time_and_is_capped)
{
  double before = 1;
  for (Duration rtt = 151ms; rtt < 2s; rtt += 7ms)
  {
    const double now = delta(3ms, rtt);
    EXPECT_LE(now, before);
    EXPECT_LE(now, 0.05);
    EXPECT_GE(now, 0);
    before = now;
  }
  EXPECT_DOUBLE_EQ(delta(3ms, 151ms), 0.05);
  EXPECT_LT(before, 1e-5);
}

TEST(delta, has_the_cap_at_the_pole_and_below)
{
  for (const Duration rtt : { 150ms, 149ms, 75ms, 10ms, 1ms })
    EXPECT_DOUBLE_EQ(delta(3ms, rtt), 0.05) << milliseconds(rtt);
}

TEST(delta, below_the_pole_may_follow_the_print_or_be_silent)
{
  const DeltaSettings as_printed { .cap = 1, .below_pole = BelowPole::formula };
  EXPECT_NEAR(delta(3ms, 100ms, as_printed), printed(0.003, 0.1), 1e-12);
  EXPECT_DOUBLE_EQ(delta(3ms, 150ms, as_printed), 1) << "the pole itself";
  EXPECT_DOUBLE_EQ(delta(3ms, 150ms, { .below_pole = BelowPole::nothing }), 0);
  EXPECT_NEAR(delta(3ms, 400ms, { .below_pole = BelowPole::nothing }), printed(0.003, 0.4), 1e-12);
}

TEST(delta, follows_the_assumed_buffer)
{
  EXPECT_LT(delta(1ms, 100ms, { .buffer = 100 }), delta(1ms, 100ms, { .buffer = 200 }));
  EXPECT_DOUBLE_EQ(delta(1ms, 100ms, { .buffer = 400, .cap = 0.03 }), 0.03) << "its pole";
}

TEST(delta, is_zero_without_times)
{
  EXPECT_EQ(delta({}, 100ms), 0);
  EXPECT_EQ(delta(1ms, {}), 0);
  EXPECT_EQ(delta(-1ms, 100ms), 0);
  EXPECT_EQ(delta(1ms, -100ms), 0);
}

} // namespace
} // namespace tandem::ecn
