// Equation 5 of Croitoru et al.

#include "tools/sim/marking.h"

#include <gtest/gtest.h>

namespace tandem::sim::test
{

namespace
{

using namespace std::chrono_literals;

TEST(PublishedDelta, IsEquation5)
{
  // 50 * 0.002^2 / (0.2 * (0.2 - 0.1)) = 0.01
  EXPECT_NEAR(published_delta(2ms, 200ms), 0.5e-4, 1e-12);
  EXPECT_NEAR(published_delta(1ms, 100ms), 0.5e-4, 1e-12);
  EXPECT_LT(published_delta(2ms, 400ms), published_delta(2ms, 200ms));
}

TEST(PublishedDelta, IsCappedAroundItsPole)
{
  EXPECT_DOUBLE_EQ(published_delta(2ms, 100ms), 0.05);
  EXPECT_DOUBLE_EQ(published_delta(2ms, 101ms), 0.05);
  EXPECT_DOUBLE_EQ(published_delta(2ms, 100ms, 0.2), 0.2);
  // Below the pole it is taken literally: 50 * 4e-6 / (0.05 * -0.05) = -0.08.
  EXPECT_NEAR(published_delta(2ms, 50ms), 0.0032, 1e-9);
}

TEST(PublishedDelta, NothingIsKnown)
{
  EXPECT_EQ(published_delta({}, 100ms), 0);
  EXPECT_EQ(published_delta(2ms, {}), 0);
}

} // namespace

} // namespace tandem::sim::test
