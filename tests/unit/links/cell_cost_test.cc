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

} // namespace
} // namespace tandem::links
