// The numbers; the services themselves are played in tests/lab/test_money.py.
#include "src/links/cell_cost.h"

#include <gtest/gtest.h>

#include <optional>

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

TEST(CellCosts, RoamingIsEveryKindOfRoaming)
{
  for (const unsigned away : { 5u, 7u, 10u })
    EXPECT_EQ(roaming(away), true) << away;
  for (const unsigned home : { 1u, 6u, 9u })
    EXPECT_EQ(roaming(home), false) << home;
  for (const unsigned nowhere : { 0u, 2u, 3u, 4u, 8u, 99u })
    EXPECT_EQ(roaming(nowhere), std::nullopt) << nowhere;
}

} // namespace
} // namespace tandem::links
