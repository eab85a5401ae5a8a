#include "src/evidence/cell_name.h"

#include <gtest/gtest.h>

namespace tandem::evidence
{
namespace
{

TEST(CellName, HasTheOperatorWhereItIsKnown)
{
  CellName name {};
  EXPECT_EQ(name.of({}), "");
  EXPECT_EQ(name.of({ "wwan0", "" }), "wwan0");
  EXPECT_EQ(name.of({ "wwan0", "26201" }), "wwan0 26201");
  EXPECT_EQ(name.of({ "wwan0", "310260" }), "wwan0 310260");
  EXPECT_EQ(name.of({ "", "310260" }), "");
}

TEST(CellName, StaysWhileNobodySaysWhoseItIs)
{
  CellName name {};
  EXPECT_EQ(name.of({ "wwan0", "26201" }), "wwan0 26201");
  EXPECT_EQ(name.of({ "wwan0", "" }), "wwan0 26201") << "the modem searches, or ModemManager restarts";
  EXPECT_EQ(name.of({ "wwan0", "26202" }), "wwan0 26202") << "another SIM";
  EXPECT_EQ(name.of({ "usb0", "" }), "usb0") << "of another interface nothing is known";
  EXPECT_EQ(name.of({ "wwan0", "" }), "wwan0") << "it was away: whoever is behind it now";
}

TEST(CellName, IsMeantByItsInterfaceToo)
{
  EXPECT_TRUE(means("wwan0 26201", "wwan0 26201"));
  EXPECT_TRUE(means("wwan0", "wwan0 26201"));
  EXPECT_TRUE(means("wwan0", "wwan0"));
  EXPECT_FALSE(means("wwan0 26201", "wwan0 26202"));
  EXPECT_FALSE(means("wwan0 26201", "wwan0")) << "nobody knows whose that was";
  EXPECT_FALSE(means("wwan", "wwan0 26201"));
  EXPECT_FALSE(means("wwan0 ", "wwan0 26201"));
  EXPECT_FALSE(means("26201", "wwan0 26201"));
  EXPECT_FALSE(means("", ""));
}

} // namespace
} // namespace tandem::evidence
