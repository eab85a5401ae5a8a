#include "src/kernel/rules/ce_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::kernel::render
{
namespace
{

using testing::HasSubstr;
using testing::Not;

TEST(CeRules, AMergedPacketIsMarkedWhenOneOfItsPacketsWouldBe)
{
  EXPECT_EQ(ce_millionths(0.05, 1), 50'000u);
  EXPECT_EQ(ce_millionths(0.05, 2), 97'500u);
  EXPECT_EQ(ce_millionths(0.0001, 1), 100u);
  EXPECT_EQ(ce_millionths(0.0001, 40), 3992u);
  EXPECT_EQ(ce_millionths(0, 40), 0u);
  EXPECT_EQ(ce_millionths(1, 1), 1'000'000u);
  EXPECT_EQ(ce_millionths(1, 38.5), 1'000'000u);
}

TEST(CeRules, OneTenThousandthMakesADifference)
{
  EXPECT_NE(ce_nftables({ { "wlan0", 0.0300 } }), ce_nftables({ { "wlan0", 0.0301 } }));
  EXPECT_THAT(ce_nftables({ { "wlan0", 0.0001 } }),
              HasSubstr("length <= 1500 numgen random mod 1000000 < 100 goto set_ce"));
}

TEST(CeRules, NoRateNoTable)
{
  for (const auto& none : { std::vector<CeRule> {}, std::vector<CeRule> { { "wlan0", 0 } } })
  {
    EXPECT_THAT(ce_nftables(none), HasSubstr("delete table inet tandem_steer"));
    EXPECT_THAT(ce_nftables(none), Not(HasSubstr("chain")));
    EXPECT_THAT(ce_nftables(none, true, true), HasSubstr("flush table inet tandem_steer"));
    EXPECT_THAT(ce_nftables(none, true, true), Not(HasSubstr("delete")));
  }
}

TEST(CeRules, OnlyEct0AndOnlyMptcp)
{
  const std::string text = ce_nftables({ { "wlan0", 0.02 }, { "wlan1", 0 }, { "wlan2", 0.01 } });
  EXPECT_THAT(text, HasSubstr("iifname { \"wlan0\", \"wlan2\" } meta l4proto tcp ip ecn ect0 goto candidate"));
  EXPECT_THAT(text, HasSubstr("iifname { \"wlan0\", \"wlan2\" } meta l4proto tcp ip6 ecn ect0 goto candidate"));
  EXPECT_THAT(text, HasSubstr("tcp option mptcp exists iifname vmap { \"wlan0\" : goto by_0, \"wlan2\" : goto by_1 }"));
  EXPECT_THAT(text, Not(HasSubstr("wlan1")));
}

TEST(CeRules, ReplacesRulesAndKeepsTheHook)
{
  // Deleting the chain would let packets pass unmarked in between.
  EXPECT_THAT(ce_nftables({ { "wlan0", 0.02 } }), HasSubstr("flush table inet tandem_steer"));
  EXPECT_THAT(ce_nftables({ { "wlan0", 0.02 } }), Not(HasSubstr("delete")));
  EXPECT_THAT(ce_nftables({ { "wlan0", 0.02 } }, false), Not(HasSubstr("owner")));
}

TEST(CeRules, ACertainMarkIsNotDrawn)
{
  // nft refuses a comparison with the bound of the draw.
  EXPECT_THAT(ce_nftables({ { "wlan0", 1 } }), Not(HasSubstr("numgen")));
  EXPECT_THAT(ce_nftables({ { "wlan0", 0.5 } }), Not(HasSubstr("< 1000000")));
}

} // namespace
} // namespace tandem::kernel::render
