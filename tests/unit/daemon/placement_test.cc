#include "src/daemon/network_text.h"
#include "src/daemon/placement.h"
#include "src/daemon/placement_driver.h"
#include "src/kernel/keeper/keeper_state.h"
#include "src/links/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

using testing::Contains;
using testing::Each;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::SizeIs;
using namespace std::chrono_literals;

constexpr Link wifi2 = wifi_link(1), wifi3 = wifi_link(2);

// A laptop with wlan0, wlan1, wlan2 and wwan0; all are up and lead to the Internet.
class Place : public testing::Test
{
protected:
  Place()
  {
    table.begin_dump();
    int index = 0;
    for (const char* device : { "wlan0", "wlan1", "wlan2", "wwan0" })
    {
      const int ifindex = ++index;
      table.apply(
          kernel::InterfaceNotification { .ifindex = ifindex, .name = device, .admin_up = true, .running = true },
          Tick {});
      const Address address = as_network("192.0." + std::to_string(ifindex) + ".2").value().address;
      table.apply(links::AddressNotification { .ifindex = ifindex,
                                               .address = address,
                                               .on_link = links::network_of(address, 24) },
                  Tick {});
      table.apply(links::DefaultRouteNotification { .ifindex = ifindex, .metric = static_cast<std::uint32_t>(ifindex) },
                  Tick {});
    }
    table.finish_dump(Tick {});
    for (LinkOutlook& one : outlook)
      one.up = true;
    config.placement.enabled = true;
  }

  PlacementDecision decide(const PlacementDecision& before = {}) const
  {
    return place({ .config = config,
                   .links = table,
                   .exclusions = exclusions,
                   .outlook = outlook,
                   .hands_off = hands_off,
                   .tunnel = tunnel },
                 before);
  }
  long turns(const PlacementDecision& decision, Link link) const
  {
    const auto& order = decision.plan.turns_v4;
    return std::count(order.begin(), order.end(), placement_value(link));
  }

  Config config {};
  links::LinkTable table { "wlan0", "wwan0", { "wlan1", "wlan2" } };
  Exclusions exclusions {};
  std::array<LinkOutlook, link_count> outlook {};
  std::string hands_off {};
  bool tunnel = false;
};

TEST_F(Place, gives_equal_parts_while_nothing_is_measured_and_none_to_the_cellular_link)
{
  const PlacementDecision decision = decide();
  EXPECT_TRUE(decision.plan.choose);
  EXPECT_EQ(decision.why, "");
  EXPECT_EQ(decision.plan.home, "wlan0");
  EXPECT_THAT(decision.plan.home_addresses, ElementsAre("192.0.1.2"));
  EXPECT_NEAR(decision.parts[at(Link::wifi)]->share, 1.0 / 3, 0.05);
  EXPECT_NEAR(decision.parts[at(wifi3)]->share, 1.0 / 3, 0.05);
  EXPECT_FALSE(decision.parts[at(Link::cell)]);
  EXPECT_THAT(decision.plan.links, SizeIs(2));
  EXPECT_THAT(decision.plan.turns_v6, IsEmpty()) << "no link has a default route for it";
  EXPECT_NO_THROW(kernel::validate(decision.plan));
}

TEST_F(Place, goes_by_what_the_links_carry)
{
  outlook[at(Link::wifi)].capacity = 3e6;
  outlook[at(wifi2)].capacity = 1e6;
  outlook[at(wifi3)].barred = "a reason";
  const PlacementDecision decision = decide();
  EXPECT_EQ(decision.plan.turns_v4.size(), 4u) << "divided by what is common";
  EXPECT_EQ(turns(decision, Link::wifi), 3);
  EXPECT_EQ(turns(decision, wifi2), 1);
  EXPECT_EQ(turns(decision, wifi3), 0);
  EXPECT_EQ(decision.parts[at(wifi3)]->why, "a reason");
  EXPECT_THAT(decision.plan.links, SizeIs(2)) << "what was placed there before goes on";
}

TEST_F(Place, who_is_not_measured_counts_as_the_mean_and_the_weakest_still_gets_a_turn)
{
  outlook[at(Link::wifi)].capacity = 9e6;
  outlook[at(wifi2)].capacity = 1;
  const PlacementDecision decision = decide();
  EXPECT_GE(turns(decision, wifi2), 1);
  EXPECT_GT(turns(decision, wifi3), turns(decision, wifi2));
}

TEST_F(Place, takes_the_shares_that_are_given)
{
  config.placement.shares = { { Link::wifi, 0.25 }, { wifi2, 0.75 }, { wifi3, 0 } };
  outlook[at(Link::wifi)].capacity = 9e6;
  const PlacementDecision decision = decide();
  EXPECT_EQ(turns(decision, wifi2), 3 * turns(decision, Link::wifi));
  EXPECT_EQ(turns(decision, wifi3), 0);
}

TEST_F(Place, shares_of_links_that_are_away_fall_to_the_others)
{
  config.placement.shares = { { Link::wifi, 0.2 }, { wifi2, 0.6 }, { wifi3, 0.2 } };
  outlook[at(wifi3)].up = false;
  const PlacementDecision decision = decide();
  EXPECT_EQ(turns(decision, wifi2), 3 * turns(decision, Link::wifi));
  EXPECT_EQ(decision.parts[at(wifi3)]->why, "down");
}

TEST_F(Place, while_home_is_down_the_others_get_all)
{
  outlook[at(Link::wifi)].up = false;
  EXPECT_EQ(turns(decide(), Link::wifi), 0);
  EXPECT_TRUE(decide().plan.choose);
}

TEST_F(Place, a_link_with_an_address_of_home_gets_nothing)
{
  const Address home = as_network("192.0.1.2").value().address;
  table.apply(links::AddressNotification { .ifindex = 2, .address = home, .on_link = links::network_of(home, 24) },
              Tick {});
  const PlacementDecision decision = decide();
  EXPECT_EQ(turns(decision, wifi2), 0) << "nothing would be translated";
  EXPECT_GT(turns(decision, wifi3), 0);
  EXPECT_THAT(decision.parts[at(wifi2)]->why, HasSubstr("same address as the default link (192.0.1.2)"));
  EXPECT_EQ(decision.parts[at(Link::wifi)]->why, "");
}

TEST_F(Place, a_link_that_the_card_is_mostly_away_from_gets_nothing_while_another_takes_some)
{
  outlook[at(wifi2)].away = true;
  const PlacementDecision two = decide();
  EXPECT_EQ(turns(two, wifi2), 0);
  EXPECT_GT(turns(two, wifi3), 0);
  EXPECT_EQ(two.parts[at(wifi2)]->why, "the card is mostly on another channel");
  EXPECT_THAT(two.plan.links, SizeIs(2)) << "what was placed there before goes on";
  outlook[at(Link::wifi)].away = true;
  EXPECT_EQ(turns(decide(), Link::wifi), 0) << "the card's own channel is no better";
  EXPECT_EQ(turns(decide(), wifi3), 1);
  outlook[at(wifi3)].up = false;
  EXPECT_GT(turns(decide(), wifi2), 0) << "there is no other";
  EXPECT_EQ(decide().parts[at(wifi2)]->why, "");
  outlook[at(Link::wifi)].away = false;
  EXPECT_FALSE(decide().plan.choose) << "home takes all by itself";
}

TEST_F(Place, shares_that_are_given_hold_where_the_card_is)
{
  config.placement.shares = { { Link::wifi, 0.25 }, { wifi2, 0.75 } };
  outlook[at(Link::wifi)].away = true;
  EXPECT_EQ(turns(decide(), Link::wifi), 0);
  EXPECT_GT(turns(decide(), wifi2), 0);
}

TEST_F(Place, without_another_link_nothing_is_placed)
{
  outlook[at(wifi2)].up = outlook[at(wifi3)].up = false;
  EXPECT_FALSE(decide().plan.choose);
  EXPECT_THAT(decide().why, HasSubstr("no other link"));
  EXPECT_FALSE(decide().plan.let_go) << "what lives stays where it is";
}

TEST_F(Place, the_cellular_link_only_when_named_and_allowed)
{
  config.placement.links = { { Link::wifi, Link::cell } };
  EXPECT_GT(turns(decide(), Link::cell), 0);
  EXPECT_EQ(turns(decide(), wifi2), 0);
  outlook[at(Link::cell)].barred = "roaming";
  EXPECT_FALSE(decide().plan.choose);
  EXPECT_EQ(decide().parts[at(Link::cell)]->why, "roaming");
}

TEST_F(Place, hands_off)
{
  hands_off = "the default route leads into wg0";
  EXPECT_FALSE(decide().plan.choose);
  EXPECT_FALSE(decide().plan.let_go);
  EXPECT_EQ(decide().why, hands_off);
  tunnel = true;
  EXPECT_TRUE(decide().plan.let_go) << "nothing goes on around a tunnel";
}

TEST_F(Place, excluded_services_cannot_be_told_by_a_rule)
{
  exclusions = Exclusions { { { Exclusion::Kind::service, "backup.service" } } };
  EXPECT_FALSE(decide().plan.choose);
  EXPECT_THAT(decide().why, HasSubstr("services are excluded"));
}

TEST_F(Place, never_to_local_and_excluded_peers)
{
  config.placement.exclude_to = { as_network("203.0.113.0/24").value() };
  config.placement.exclude_ports = { 22 };
  config.daemon.exempt_ports = { 5060 };
  exclusions = Exclusions { { { Exclusion::Kind::to, "198.51.100.0/24" }, { Exclusion::Kind::user, "1001" } } };
  const kernel::PlacementPlan plan = decide().plan;
  for (const char* network : { "203.0.113.0/24", "198.51.100.0/24", "10.0.0.0/8", "192.0.2.0/24", "127.0.0.0/8" })
    EXPECT_THAT(plan.never_to, Contains(network));
  EXPECT_THAT(plan.never_ports, ElementsAre(22, 5060));
  EXPECT_THAT(plan.never_users, ElementsAre(1001u));
  config.links.private_peers = PrivatePeers::as_others;
  EXPECT_THAT(decide().plan.never_to, Not(Contains("10.0.0.0/8")));
  EXPECT_THAT(decide().plan.never_to, Contains("192.0.2.0/24")) << "a network that a link is on";
}

TEST_F(Place, nothing_while_more_is_excluded_than_rules_can_name)
{
  const auto exclude = [this](std::size_t networks)
  {
    std::vector<Exclusion> all {};
    for (std::size_t i = 0; i < networks; ++i)
      all.push_back({ Exclusion::Kind::to, "2001:db8:" + std::to_string(1000 + i) + ":1111:2222:3333:4444:5555" });
    for (std::uint32_t user = 0; user < 2 * most_exclusions; ++user)
      all.push_back({ Exclusion::Kind::user, std::to_string(4'000'000'000 + user) });
    exclusions = Exclusions { all };
  };
  config.placement.short_ports.assign(256, 65535);
  config.placement.exclude_ports.assign(256, 65535);
  config.daemon.exempt_ports.assign(256, 65535);
  exclude(most_networks_in_rules);
  const PlacementDecision most = decide();
  EXPECT_TRUE(most.plan.choose);
  const std::size_t envelope = 1024; // what the message has besides the plan, and longer addresses and networks
  EXPECT_LT(nlohmann::json(most.plan).dump().size() + envelope, kernel::keeper_message_limit);
  exclude(most_networks_in_rules + 1);
  EXPECT_FALSE(decide().plan.choose);
  EXPECT_THAT(decide().why, HasSubstr("are excluded than rules can name (1000)"));
  EXPECT_THAT(decide().plan.never_to, IsEmpty());
}

TEST_F(Place, short_connections_go_where_the_round_trip_is_shortest)
{
  EXPECT_EQ(decide().plan.short_v4, 0u) << "nobody has been measured";
  outlook[at(Link::wifi)].rtt = 30ms;
  outlook[at(wifi2)].rtt = 10ms;
  EXPECT_EQ(decide().plan.short_v4, placement_value(wifi2));
  const PlacementDecision before = decide();
  outlook[at(Link::wifi)].rtt = 8ms;
  EXPECT_EQ(decide(before).plan.short_v4, placement_value(wifi2)) << "round trips waver";
  outlook[at(Link::wifi)].rtt = 6ms;
  EXPECT_EQ(decide(before).plan.short_v4, placement_value(Link::wifi));
  outlook[at(Link::wifi)].rtt = 30ms;
  outlook[at(wifi2)].barred = "a reason";
  EXPECT_EQ(decide().plan.short_v4, placement_value(Link::wifi));
}

TEST_F(Place, what_was_measured_may_waver)
{
  outlook[at(Link::wifi)].capacity = 2e6;
  outlook[at(wifi2)].capacity = outlook[at(wifi3)].capacity = 1e6;
  const PlacementDecision first = decide();
  outlook[at(Link::wifi)].capacity = 2.2e6;
  EXPECT_EQ(decide(first).plan, first.plan);
  outlook[at(Link::wifi)].capacity = 6e6;
  EXPECT_NE(decide(first).plan, first.plan);
  outlook[at(Link::wifi)].capacity = 2e6;
  outlook[at(wifi3)].barred = "a reason";
  EXPECT_NE(decide(first).plan, first.plan) << "whoever may have none gets none at once";
}

class Drive : public Place
{
protected:
  bool due(Tick now)
  {
    return driver
        .due({ .config = config,
               .links = table,
               .exclusions = exclusions,
               .outlook = outlook,
               .hands_off = hands_off,
               .tunnel = tunnel },
             state, now)
        .has_value();
  }

  PlacementDriver driver {};
  kernel::PlacementState state {};
};

TEST_F(Drive, while_it_is_off_a_tunnel_is_no_news_but_for_what_is_kept)
{
  config.placement.enabled = false;
  EXPECT_FALSE(due(Tick {}));
  tunnel = true;
  EXPECT_FALSE(due(Tick {}));
  state.kept = true; // of an earlier run
  EXPECT_TRUE(due(Tick {}));
  EXPECT_FALSE(due(Tick {}));
  tunnel = false;
  state.kept = false;
  EXPECT_FALSE(due(Tick {}));
}

TEST_F(Drive, while_channels_are_compared_the_card_counts_as_away)
{
  EXPECT_FALSE(driver.outlook(wifi2, true, "", false, Tick { 1s }).away);
  EXPECT_TRUE(driver.outlook(wifi2, true, "", true, Tick { 2s }).away);
  EXPECT_FALSE(driver.outlook(wifi3, true, "", false, Tick { 2s }).away);
  EXPECT_TRUE(driver.outlook(wifi2, true, "", false, Tick { 3s }).away);
  EXPECT_TRUE(driver.outlook(wifi2, true, "", true, Tick { 4s }).away);
  EXPECT_FALSE(driver.outlook(wifi2, true, "", false, Tick { 7s }).away);
}

TEST_F(Drive, what_did_not_reach_the_keeper_is_told_again)
{
  EXPECT_TRUE(due(Tick { 1s }));
  EXPECT_FALSE(due(Tick { 2s }));
  driver.not_sent();
  EXPECT_TRUE(driver.look_due(false, Tick { 3s }));
  EXPECT_TRUE(due(Tick { 3s }));
  EXPECT_FALSE(due(Tick { 4s }));
  config.placement.enabled = false;
  EXPECT_TRUE(due(Tick { 5s }));
  driver.not_sent();
  EXPECT_TRUE(due(Tick { 6s }));
  EXPECT_FALSE(driver.look_due(false, Tick { 9s })) << "off, and told";
}

TEST_F(Drive, a_plan_that_the_keeper_could_not_carry_out_is_told_again_after_a_while)
{
  EXPECT_TRUE(due(Tick { 100s }));
  state.why = "nftables refused the rules";
  EXPECT_FALSE(due(Tick { 159s }));
  EXPECT_TRUE(due(Tick { 160s }));
  EXPECT_FALSE(due(Tick { 161s }));
  state.why.clear();
  EXPECT_FALSE(due(Tick { 300s }));
}

TEST(Turns, are_as_near_to_the_shares_as_may_be)
{
  EXPECT_THAT(turns_of({ 0.67, 0.33 }), ElementsAre(13, 7));
  EXPECT_THAT(turns_of({ 1, 1, 1 }), ElementsAre(7, 7, 6));
  EXPECT_THAT(turns_of({ 0.999, 0.001 }), ElementsAre(19, 1));
  EXPECT_THAT(turns_of({ 1, 0 }), ElementsAre(20, 0));
  EXPECT_THAT(turns_of({ 0, 0 }), ElementsAre(0, 0));
  EXPECT_THAT(turns_of(std::vector<double>(9, 1e-9)), Each(testing::Ge(2u)));
}

TEST(Turns, are_taken_evenly)
{
  EXPECT_THAT(in_order({ { 1, 13 }, { 2, 13 } }), ElementsAre(1, 2));
  EXPECT_THAT(in_order({ { 1, 3 }, { 2, 1 } }), ElementsAre(1, 1, 2, 1));
  EXPECT_THAT(in_order({ { 1, 4 }, { 2, 2 } }), ElementsAre(1, 2, 1));
  EXPECT_THAT(in_order({}), IsEmpty());
}

TEST(LocalNetworks, are_those_that_are_private)
{
  for (const std::string& one : local_networks({}, true))
  {
    const std::string address = one.substr(0, one.find('/'));
    if (address == "127.0.0.0" || address == "::1") continue;
    links::Network network = as_network(one).value();
    EXPECT_TRUE(links::is_private(network.address)) << one;
    for (unsigned bit = network.prefix; bit < (network.address.v6 ? 128u : 32u); ++bit)
      network.address.bytes[bit / 8] |= static_cast<std::uint8_t>(0x80u >> bit % 8);
    EXPECT_TRUE(links::is_private(network.address)) << "the last one of " << one;
  }
  EXPECT_THAT(local_networks({}, true), testing::IsSupersetOf({ "64:ff9b::/96", "64:ff9b:1::/48" }))
      << "by another link that translator is not there";
  EXPECT_THAT(local_networks({}, false), SizeIs(2));
}

TEST(LinkCapacity, is_the_most_that_arrived_in_a_second_and_fades)
{
  LinkCapacity capacity;
  Tick now {};
  std::uint64_t bytes = 1000;
  capacity.look(now, bytes);
  EXPECT_EQ(capacity.bytes_per_second(), 0);
  capacity.look(now += 1s, bytes += 2'000'000);
  EXPECT_EQ(capacity.bytes_per_second(), 2e6);
  capacity.look(now += 100ms, bytes += 1'000'000);
  EXPECT_EQ(capacity.bytes_per_second(), 2e6) << "looks that are near are one";
  capacity.look(now += 1s, bytes);
  EXPECT_NEAR(capacity.bytes_per_second(), 2e6, 0.02e6);
  capacity.look(now += 1s, bytes);
  const double quiet = capacity.bytes_per_second();
  for (int i = 0; i < 1000; ++i)
    capacity.look(now += 1s, bytes += 100);
  EXPECT_EQ(capacity.bytes_per_second(), quiet) << "a link that nobody uses shows nothing";
  for (int i = 0; i < 300; ++i)
    capacity.look(now += 1s, bytes += 500'000);
  EXPECT_NEAR(capacity.bytes_per_second(), 5e5, 2e5);
  capacity.look(now += 60s, bytes += 500'000'000);
  EXPECT_LT(capacity.bytes_per_second(), 1e6) << "nobody has looked in between";
  capacity.look(now += 1s, 0);
  EXPECT_LT(capacity.bytes_per_second(), 1e6) << "the interface was made anew";
}

TEST(LinkCapacity, is_not_known_by_what_arrives_where_nothing_is_loaded)
{
  LinkCapacity capacity;
  Tick now {};
  std::uint64_t bytes = 0;
  for (int i = 0; i < 100; ++i)
    capacity.look(now += 1s, bytes += 100);
  EXPECT_EQ(capacity.bytes_per_second(), 0);
  capacity.look(now += 1s, bytes += 100'000);
  EXPECT_EQ(capacity.bytes_per_second(), 1e5);
}

TEST(LinkTrial, a_link_by_which_nothing_is_answered_is_barred_for_a_while)
{
  LinkTrial trial;
  Tick now { 100s };
  trial.look(now, 2, 0);
  trial.look(now += 10s, 2, 0);
  EXPECT_FALSE(trial.barred(now)) << "two servers may be away";
  trial.look(now += 1s, 3, 0);
  EXPECT_TRUE(trial.barred(now));
  EXPECT_TRUE(trial.barred(now + 29s));
  EXPECT_FALSE(trial.barred(now + 30s));
  now += 30s;
  trial.look(now, 3, 0);
  trial.look(now += 1s, 6, 0);
  EXPECT_FALSE(trial.barred(now)) << "answers take time";
  trial.look(now += 2s, 6, 0);
  EXPECT_TRUE(trial.barred(now + 59s)) << "twice as long";
  now += 61s;
  trial.look(now, 7, 1);
  trial.look(now += 1s, 20, 1);
  trial.look(now += 2s, 20, 1);
  EXPECT_FALSE(trial.barred(now + 30s)) << "an answer makes good";
}

} // namespace
} // namespace tandem::daemon
