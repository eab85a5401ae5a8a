#include "src/daemon/queue_rules.h"
#include "src/kernel/keeper/keeper_state.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <string>
#include <vector>

namespace tandem::daemon
{
namespace
{

using testing::ElementsAre;
using testing::IsEmpty;
using testing::SizeIs;

class QueueRules : public testing::Test
{
protected:
  kernel::RulePlan plan(bool bypass = false) const
  {
    return rule_plan(wanted_now(modules, config.recorder.everything, wifi, bypass), config,
                     { .wifi = "wlan0", .cell = "wwan0", .more_wifi = {} }, {}, wifi, exclusions);
  }

  Wanted modules { .queued = traffic::egress_pure_ack, .observed = traffic::egress_pure_ack | traffic::ingress_data };
  Config config {};
  Exclusions exclusions {};
  links::LinkInfo wifi { .interface = "wlan0", .ifindex = 1, .addresses = { { .bytes = { 192, 0, 2, 1 } } } };
};

TEST_F(QueueRules, QueueWhatTheModulesDecideOn)
{
  config.daemon.exempt_networks = { { .address = { .bytes = { 10 } }, .prefix = 8 } };
  config.daemon.exempt_ports = { 22 };
  EXPECT_EQ(plan().traffic, traffic::egress_pure_ack);
  EXPECT_THAT(plan().wifi_addresses, ElementsAre("192.0.2.1"));
  EXPECT_THAT(plan().exempt_remote, ElementsAre("10.0.0.0/8"));
  EXPECT_THAT(plan().exempt_ports, ElementsAre(22));
  EXPECT_EQ(plan().cell, "wwan0");
}

TEST_F(QueueRules, LeaveOutWhatIsExcludedWhereRulesCanSaySo)
{
  config.daemon.exempt_networks = { { .address = { .bytes = { 10 } }, .prefix = 8 } };
  exclusions = Exclusions { { { Exclusion::Kind::to, "203.0.113.0/24" },
                              { Exclusion::Kind::to, "updates.example.org" },
                              { Exclusion::Kind::user, "1001" },
                              { Exclusion::Kind::user, "backup" },
                              { Exclusion::Kind::service, "quiet.slice" },
                              { Exclusion::Kind::ssid, "Office" } } };
  EXPECT_THAT(plan().exempt_remote, ElementsAre("10.0.0.0/8", "203.0.113.0/24"));
  EXPECT_THAT(plan().exempt_users, ElementsAre(1001));
  EXPECT_TRUE(exclusions.resolved(
      { .hosts = { { "updates.example.org", { { .bytes = { 198, 51, 100, 7 } } } } }, .users = { { "backup", 34 } } }));
  EXPECT_THAT(plan().exempt_remote, ElementsAre("10.0.0.0/8", "203.0.113.0/24", "198.51.100.7/32"));
  EXPECT_THAT(plan().exempt_users, ElementsAre(34, 1001));
}

TEST_F(QueueRules, FitIntoAMessageHoweverManyNamesAreExcluded)
{
  // IPv6 addresses of the longest text.
  const auto address = [](std::uint8_t network, std::uint8_t host)
  {
    Address one { .v6 = true };
    one.bytes.fill(0xff);
    one.bytes[1] = network;
    one.bytes[3] = host;
    return one;
  };
  constexpr std::uint8_t names = 100;
  std::vector<Exclusion> all {};
  ResolvedNames found {};
  for (std::uint8_t name = 0; name < names; ++name)
  {
    const std::string host = "cdn" + std::to_string(name) + ".example";
    all.push_back({ Exclusion::Kind::to, host });
    for (std::uint8_t i = 0; i < Exclusions::most_addresses; ++i)
      found.hosts[host].push_back(address(name, 100 + i));
  }
  for (std::uint32_t user = 0; user < 2 * most_exclusions; ++user)
    all.push_back({ Exclusion::Kind::user, std::to_string(4'000'000'000 + user) });
  exclusions = Exclusions { all };
  ASSERT_TRUE(exclusions.resolved(found));
  for (std::uint8_t i = 0; i < 255; ++i)
    config.daemon.exempt_networks.push_back({ .address = address(200, i), .prefix = 128 });
  config.daemon.exempt_ports.assign(256, 65535);
  const std::size_t envelope = 1024; // what the message has besides the plan, and some addresses of the link
  EXPECT_LT(nlohmann::json(plan()).dump().size() + envelope, kernel::keeper_message_limit);
  EXPECT_THAT(plan().exempt_remote, SizeIs(most_networks_in_rules));
  EXPECT_EQ(beyond_rules(config, exclusions), 255 + names * Exclusions::most_addresses - most_networks_in_rules);
  EXPECT_NE(exclusions.of_peer(address(names - 1, 100)), nullptr) << "the driver leaves it alone all the same";
  EXPECT_EQ(beyond_rules(config, {}), 0u);
}

TEST_F(QueueRules, SpareNothingFromRulesThatAreNotThere)
{
  config.daemon.exempt_networks = { { .address = { .bytes = { 10 } }, .prefix = 8 } };
  config.daemon.exempt_ports = { 22 };
  exclusions = Exclusions { { { Exclusion::Kind::to, "203.0.113.0/24" }, { Exclusion::Kind::user, "1001" } } };
  EXPECT_THAT(plan(true).exempt_remote, IsEmpty());
  EXPECT_THAT(plan(true).exempt_ports, IsEmpty());
  EXPECT_THAT(plan(true).exempt_users, IsEmpty());
}

TEST_F(QueueRules, QueueNothingWhileBypassedOrWithoutAnAddress)
{
  EXPECT_EQ(plan(true).traffic, 0u);
  wifi.addresses.clear();
  EXPECT_EQ(plan().traffic, 0u);
}

TEST_F(QueueRules, WhatIsNotQueuedNowIsObserved)
{
  EXPECT_EQ(wanted_now(modules, false, wifi, false).observed_of(Link::wifi), traffic::ingress_data);
  EXPECT_EQ(wanted_now(modules, false, wifi, true).observed_of(Link::wifi), modules.observed);
}

TEST_F(QueueRules, TheRecorderMayWantEverything)
{
  config.recorder.everything = true;
  EXPECT_EQ(plan().traffic, traffic::egress | traffic::ingress);
  EXPECT_TRUE(wanted_now({}, true, wifi, false).any);
  EXPECT_FALSE(wanted_now({}, false, wifi, false).any);
}

TEST_F(QueueRules, CopyWholePacketsOnlyWherePayloadMayBeChanged)
{
  Interest interest { .decide = traffic::egress_pure_ack };
  EXPECT_EQ(copy_range(interest, 64), 256u);
  EXPECT_EQ(copy_range(interest, 512), 512u);
  interest.decide |= traffic::ingress_data;
  EXPECT_EQ(copy_range(interest, 64), 0xffffu);
}

TEST(BypassOfTheQueue, BeginsAtTheSecondLookAndEndsAtOnce)
{
  Bypass bypass {};
  EXPECT_FALSE(bypass.look(false));
  EXPECT_FALSE(bypass.look(true));
  EXPECT_FALSE(bypass.look(false));
  EXPECT_FALSE(bypass.on());
  EXPECT_TRUE(bypass.look(false));
  EXPECT_TRUE(bypass.on());
  EXPECT_FALSE(bypass.look(false)) << "nothing new";
  EXPECT_TRUE(bypass.look(true));
  EXPECT_FALSE(bypass.on());
  EXPECT_FALSE(bypass.look(true));
}

} // namespace
} // namespace tandem::daemon
