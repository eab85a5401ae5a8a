#include "src/kernel/rules/placement_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdexcept>

namespace tandem::kernel
{
namespace
{

using testing::HasSubstr;
using testing::Not;

PlacementPlan sample()
{
  return { .choose = true,
           .home = "wlan0",
           .home_addresses = { "192.0.2.2", "2001:db8::2" },
           .links = { { .value = 2, .interface = "wlan1" }, { .value = 9, .interface = "wwan0", .mtu = 1400 } },
           .turns_v4 = { 1, 2, 1 },
           .turns_v6 = { 1, 9 },
           .short_v4 = 2,
           .short_ports = { 53 },
           .spread_to = { "198.51.100.0/24" },
           .spread_ports = { 80 },
           .never_to = { "10.0.0.0/8", "fc00::/7" },
           .never_ports = { 22 },
           .never_users = { 1001 } };
}

TEST(PlacementRules, a_connection_is_chosen_for_once_by_its_first_syn_from_home)
{
  const std::string text = render::place_nftables(sample());
  EXPECT_THAT(text, HasSubstr("oifname \"wlan0\" meta mark 0 tcp flags & (fin | syn | rst | ack) == syn ct mark & "
                              "0x0f000000 == 0 ip saddr { 192.0.2.2 } goto candidate"));
  EXPECT_THAT(text, HasSubstr("ip6 saddr { 2001:db8::2 } goto candidate"));
  EXPECT_THAT(text, HasSubstr("numgen inc mod 3 vmap { 0 : goto take_1, 1 : goto take_2, 2 : goto take_1 }"));
  EXPECT_THAT(text, HasSubstr("ct mark set ct mark & 0xf0ffffff | 0x02000000"));
  EXPECT_THAT(text, HasSubstr("flags owner"));
  EXPECT_THAT(render::place_nftables(sample(), false), Not(HasSubstr("owner")));
}

TEST(PlacementRules, what_is_left_alone_stays_at_home_for_good)
{
  const std::string text = render::place_nftables(sample());
  EXPECT_THAT(text, HasSubstr("chain stay {\n    ct mark set ct mark & 0xf0ffffff | 0x01000000"));
  for (const char* rule : { "chain candidate {\n    rt ipsec exists goto stay", "tcp option mptcp exists goto stay",
                            "ip daddr { 10.0.0.0/8 } goto stay", "ip6 daddr { fc00::/7 } goto stay",
                            "tcp dport { 22 } goto stay", "meta skuid { 1001 } goto stay" })
    EXPECT_THAT(text, HasSubstr(rule));
}

TEST(PlacementRules, sites_are_remembered_but_for_what_is_spread)
{
  std::string text = render::place_nftables(sample());
  EXPECT_THAT(text, HasSubstr("map sites4 {"));
  EXPECT_THAT(text, HasSubstr("tcp dport { 80 } goto spread4\n    goto by_site4"));
  EXPECT_THAT(text, HasSubstr("ip daddr { 198.51.100.0/24 } goto spread4"));
  EXPECT_THAT(text, HasSubstr("tcp dport { 53 } goto take_2"));
  PlacementPlan spread = sample();
  spread.by_site = false;
  text = render::place_nftables(spread);
  EXPECT_THAT(text, Not(HasSubstr("sites")));
}

TEST(PlacementRules, a_version_without_turns_is_not_placed)
{
  PlacementPlan plan = sample();
  plan.turns_v6.clear();
  const std::string text = render::place_nftables(plan);
  EXPECT_THAT(text, Not(HasSubstr("choose6")));
  EXPECT_THAT(text, HasSubstr("meta nfproto vmap { ipv4 : goto choose4 }"));
}

TEST(PlacementRules, the_way_is_kept_by_marks_and_addresses_by_nat)
{
  const std::string text = render::placed_nftables(sample());
  EXPECT_THAT(text, HasSubstr("ct mark & 0x0f000000 vmap { 0x02000000 : goto by_2, 0x09000000 : goto by_9 }"));
  EXPECT_THAT(text, HasSubstr("ct status & (confirmed | snat) == confirmed return"));
  EXPECT_THAT(text, HasSubstr("meta mark & 0x0f000000 == 0x02000000 oifname \"wlan1\" masquerade"));
  EXPECT_THAT(text, HasSubstr("oifname \"wwan0\" tcp flags & (syn | rst) == syn tcp option maxseg size set 1360"));
  EXPECT_THAT(text, HasSubstr("tcp option maxseg size set 1340"));
  EXPECT_THAT(text, HasSubstr("tcp flags & (syn | ack) == (syn | ack) counter name \"answered_9\""));
  EXPECT_THAT(text, HasSubstr("tcp flags & (rst | ack) == (rst | ack) tcp sequence 0 counter name \"answered_9\""))
      << "who refuses answers";
  EXPECT_THAT(text, Not(HasSubstr("owner"))) << "it outlives the keeper";
}

TEST(PlacementRules, nothing_smuggles_in_a_rule)
{
  const auto refused = [](auto change)
  {
    PlacementPlan plan = sample();
    change(plan);
    EXPECT_THROW(validate(plan), std::invalid_argument);
  };
  EXPECT_NO_THROW(validate(sample()));
  refused([](PlacementPlan& p) { p.home = "wlan0\" drop"; });
  refused([](PlacementPlan& p) { p.home.clear(); });
  refused([](PlacementPlan& p) { p.links[0].interface = "a b"; });
  refused([](PlacementPlan& p) { p.links[0].value = 1; });
  refused([](PlacementPlan& p) { p.links[0].value = 16; });
  refused([](PlacementPlan& p) { p.links[1].value = 2; });
  refused([](PlacementPlan& p) { p.links[1].mtu = 100; });
  refused([](PlacementPlan& p) { p.turns_v4 = { 3 }; });
  refused([](PlacementPlan& p) { p.turns_v6 = std::vector<std::uint32_t>(most_placement_turns + 1, 1); });
  refused([](PlacementPlan& p) { p.short_v6 = 3; });
  refused([](PlacementPlan& p) { p.mark.mask = 0x0500'0000; });
  refused([](PlacementPlan& p) { p.mark.mask = 0; });
  refused([](PlacementPlan& p) { p.never_to = { "10.0.0.0/8 } accept" }; });
  refused([](PlacementPlan& p) { p.spread_to = { "example.org" }; });
  refused([](PlacementPlan& p) { p.home_addresses = { "192.0.2.2/24" }; });
}

TEST(PlacementRules, plan_and_state_are_told_whole)
{
  EXPECT_EQ(nlohmann::json(sample()).get<PlacementPlan>(), sample());
  const PlacementState state {
    .in_force = true, .why = "a", .kept = true, .count = { { 2, { 1, 2, 3, 4, 5, 6 } } }, .last_error = "b"
  };
  EXPECT_EQ(nlohmann::json(state).get<PlacementState>(), state);
}

TEST(PlacementRules, counters_are_read)
{
  const auto all =
      render::nft_counters("table inet tandem_placed {\n\tcounter out_2 {\n\t\tpackets 12 bytes 345\n\t}\n\n"
                           "\tcounter in_2 {\n\t\tpackets 7 bytes 99999999999\n\t}\n}\n");
  ASSERT_EQ(all.size(), 2u);
  EXPECT_EQ(all.at("out_2").packets, 12u);
  EXPECT_EQ(all.at("in_2").bytes, 99999999999u);
  EXPECT_TRUE(render::nft_counters("").empty());
}

} // namespace
} // namespace tandem::kernel
