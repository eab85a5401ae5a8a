#include "src/kernel/marks.h"

#include <gtest/gtest.h>

namespace tandem::kernel
{

TEST(Marks, KeepTheBitsOfOthers)
{
  constexpr MarkBits bits { 0x1000'0000, 0x3000'0000 };
  EXPECT_EQ(bits.on(0x2000'ca6c), 0x1000'ca6cu);
  EXPECT_EQ(bits.off(0x3000'ca6c), 0x0000'ca6cu);
  EXPECT_TRUE(bits.in(0x1000'ca6c));
  EXPECT_FALSE(bits.in(0x3000'0000));
}

TEST(Marks, OwnBitsDoNotOverlap)
{
  constexpr Marks marks;
  EXPECT_EQ(marks.by_cell.mask & marks.injected.mask, 0u);
  EXPECT_EQ(marks.by_cell.mask & marks.release.mask, 0u);
  EXPECT_EQ(marks.injected.mask & marks.release.mask, 0u);
}

} // namespace tandem::kernel
