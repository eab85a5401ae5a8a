#include <tandem/seq.h>

#include <gtest/gtest.h>

#include <random>

namespace tandem
{
namespace
{

TEST(Seq, OrderSurvivesTheWrap)
{
  constexpr Seq before_wrap { 0xffff'fff0u };
  constexpr Seq after_wrap { 0x10u };
  EXPECT_TRUE(after_wrap.after(before_wrap));
  EXPECT_TRUE(before_wrap.before(after_wrap));
  EXPECT_FALSE(before_wrap.after(after_wrap));
  EXPECT_EQ(after_wrap - before_wrap, 0x20);
  EXPECT_EQ(before_wrap - after_wrap, -0x20);
  EXPECT_EQ(before_wrap + 0x20, after_wrap);
  EXPECT_EQ(after_wrap - 0x20u, before_wrap);
  EXPECT_EQ(later(before_wrap, after_wrap), after_wrap);
  EXPECT_EQ(earlier(before_wrap, after_wrap), before_wrap);
}

TEST(Seq, EqualIsNeitherBeforeNorAfter)
{
  constexpr Seq a { 7 };
  EXPECT_FALSE(a.after(a));
  EXPECT_FALSE(a.before(a));
  EXPECT_TRUE(a.at_or_after(a));
  EXPECT_TRUE(a.at_or_before(a));
}

TEST(Seq, HalfTheSpaceIsTheLimitOfOrder)
{
  constexpr Seq a { 100 };
  EXPECT_TRUE((a + 0x7fff'ffffu).after(a));
  EXPECT_FALSE((a + 0x8000'0001u).after(a));
}

// Whatever the starting point: a step of less than 2^31 is after it, and the difference is the step.
TEST(Seq, StepsHoldEverywhere)
{
  std::mt19937 random { 20 };
  for (int i = 0; i < 20'000; ++i)
  {
    const Seq from { static_cast<std::uint32_t>(random()) };
    const std::uint32_t step = static_cast<std::uint32_t>(random()) >> 1;
    ASSERT_EQ((from + step) - from, static_cast<std::int32_t>(step));
    ASSERT_EQ((from + step).after(from), step != 0) << from.raw << " + " << step;
    ASSERT_EQ((from + step).at_or_before(from), step == 0) << from.raw << " + " << step;
  }
}

TEST(TsClock, OrderSurvivesTheWrap)
{
  constexpr TsClock last { 0xffff'ffffu };
  EXPECT_TRUE((last + 1).after(last));
  EXPECT_EQ((last + 1).raw, 0u);
  EXPECT_EQ((last + 1) - last, 1);
  EXPECT_TRUE(TsClock { 0 } - 1 == last);
}

} // namespace
} // namespace tandem
