#include <tandem/units.h>

#include <gtest/gtest.h>

namespace tandem
{
namespace
{

using namespace literals;

TEST(Units, TimeForBytesAtARate)
{
  EXPECT_EQ((8_mbps).time_for(1000), 1ms);
  EXPECT_EQ((1_gbps).time_for(125), 1us);
  EXPECT_EQ((64_kbps).time_for(8), 1ms);
  EXPECT_EQ((5.5_mbps).time_for(1375), 2ms);
  EXPECT_EQ((8_mbps).time_for(0), 0ms);
}

TEST(Units, NothingEverLeavesAtRateZero)
{
  EXPECT_EQ(Rate {}.time_for(1), Duration::max());
  EXPECT_EQ(Rate { -1 }.time_for(1), Duration::max());
}

TEST(Units, SecondsThereAndBack)
{
  EXPECT_DOUBLE_EQ(seconds(1500ms), 1.5);
  EXPECT_DOUBLE_EQ(milliseconds(1500us), 1.5);
  EXPECT_EQ(from_seconds(0.25), 250ms);
  EXPECT_EQ(from_seconds(-0.25), -250ms);
}

TEST(Units, RatesAreOrdered)
{
  EXPECT_LT(999_kbps, 1_mbps);
  EXPECT_GT(1_gbps, 999_mbps);
}

} // namespace
} // namespace tandem
