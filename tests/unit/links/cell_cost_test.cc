// The numbers; the services themselves are played in tests/lab/test_money.py.
#include "src/links/cell_cost.h"

#include <gtest/gtest.h>

#include <optional>
#include <string>

namespace tandem::links
{
namespace
{

TEST(CellCosts, AGuessCountsAsMuchAsKnowledge)
{
  EXPECT_EQ(metered(0), std::nullopt);
  EXPECT_EQ(metered(1), true);
  EXPECT_EQ(metered(2), false);
  EXPECT_EQ(metered(3), true);
  EXPECT_EQ(metered(4), false);
  EXPECT_EQ(metered(99), std::nullopt);
}

using namespace std::chrono_literals;

class CostsThatCount : public testing::Test
{
protected:
  CellCost said(std::optional<bool> roaming, const std::string& interface = "wwan0")
  {
    return { .known = true, .roaming = roaming, .interface = interface };
  }
  CellCost take(const CellCost& one, const std::string& interface = "wwan0")
  {
    return counts.take(one, interface, now);
  }
  CostThatCounts counts {};
  Tick now { 100s };
};

TEST_F(CostsThatCount, ByTheirWordOnTheInterface)
{
  EXPECT_EQ(take(said(true)).roaming, true);
  EXPECT_EQ(take(said(false)).roaming, false);
  EXPECT_EQ(take(said({})).roaming, std::nullopt);
  EXPECT_TRUE(take(said({})).known);
}

TEST_F(CostsThatCount, WhileAServiceIsStartedAnew)
{
  ASSERT_EQ(take(said(true)).roaming, true);
  now += 1h; // nobody looks while the loop rests
  EXPECT_EQ(take(said({})).roaming, true);
  now += 14s;
  EXPECT_EQ(take(CellCost { .known = true }).roaming, true) << "the whole bus";
  EXPECT_EQ(take(said(false)).roaming, false);
  EXPECT_EQ(take(said({})).roaming, std::nullopt) << "it was said that it does not";
  ASSERT_EQ(take(said(true)).roaming, true);
  EXPECT_EQ(take(said({})).roaming, true);
  now += 15s;
  EXPECT_EQ(take(said({})).roaming, std::nullopt) << "the service is not there";
  EXPECT_EQ(take(said({})).roaming, std::nullopt);
}

TEST_F(CostsThatCount, OfNoOtherInterface)
{
  ASSERT_TRUE(take(said(false)).known);
  EXPECT_FALSE(take(said(false), "wwan1").known) << "it has not been asked about";
  EXPECT_TRUE(take(said(false, "wwan1"), "wwan1").known);
  ASSERT_EQ(take(said(true, "wwan1"), "wwan1").roaming, true);
  EXPECT_EQ(take(said({}), "wwan0").roaming, std::nullopt) << "it was the other one that roamed";
  EXPECT_TRUE(take(CellCost { .known = true }, "wwan1").known) << "without a bus nobody can know";
}

} // namespace
} // namespace tandem::links
