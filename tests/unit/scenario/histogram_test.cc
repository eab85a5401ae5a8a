#include "tools/lab/emulator/histogram.h"

#include <gtest/gtest.h>

namespace tandem::lab::test
{

namespace
{

TEST(Histogram, PercentilesAreAtMostThreePercentHigh)
{
  Histogram h;
  for (int i = 1; i <= 100000; ++i)
    h.add(Duration { i * 10 });
  EXPECT_EQ(h.count(), 100000u);
  EXPECT_EQ(h.max(), Duration { 1000000 });
  for (double p : { 0.01, 0.5, 0.9, 0.99 })
  {
    const double exact = p * 1e6;
    EXPECT_GE(static_cast<double>(h.percentile(p).count()), exact);
    EXPECT_LE(static_cast<double>(h.percentile(p).count()), exact * 1.032 + 10);
  }
  h.reset();
  EXPECT_EQ(h.count(), 0u);
  h.add(Duration { -5 });
  EXPECT_EQ(h.percentile(0.99), Duration {});
}

} // namespace

} // namespace tandem::lab::test
