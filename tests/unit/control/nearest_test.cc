#include "src/control/nearest.h"

#include <gtest/gtest.h>

#include <array>
#include <string>

namespace tandem
{
namespace
{

constexpr std::array<std::string_view, 3> words { "loss", "delay", "rate" };

TEST(Nearest, OnlyWhenCloseEnough)
{
  EXPECT_EQ(closest("los", words), "loss");
  EXPECT_EQ(closest("dealy", words), "delay");
  EXPECT_EQ(closest("late", words), "rate") << "one substitution; delay is three steps away";
  EXPECT_EQ(closest("completely_else", words), "");
  EXPECT_EQ(closest("", words), "");
  EXPECT_EQ(closest("loss", {}), "");
}

TEST(Nearest, ANameAsLongAsANovelIsNearToNothing)
{
  const std::string novel(100'000, 'x');
  const std::string_view same = novel;
  EXPECT_EQ(closest(novel, { &same, 1 }), "");
}

} // namespace
} // namespace tandem
