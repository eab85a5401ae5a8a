#include "src/kernel/rules/rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <stdexcept>
#include <string>

namespace tandem::kernel
{
namespace
{

using testing::HasSubstr;
using testing::Not;

RulePlan acks()
{
  RulePlan plan;
  plan.traffic = traffic::egress_pure_ack;
  plan.wifi = "wlan0";
  return plan;
}

TEST(Rules, NoTrafficNoRules)
{
  RulePlan plan = acks();
  plan.traffic = 0;
  plan.release_by_connmark = true;
  EXPECT_EQ(render::iptables(plan, false), "*mangle\nCOMMIT\n");
  EXPECT_THAT(render::nftables(plan), Not(HasSubstr("chain")));
  EXPECT_THAT(render::nftables(plan), HasSubstr("flush table inet tandem"));
}

TEST(Rules, OneDirectionOnly)
{
  EXPECT_THAT(render::nftables(acks()), Not(HasSubstr("prerouting")));
  EXPECT_THAT(render::iptables(acks(), true), Not(HasSubstr("PREROUTING")));
  RulePlan plan = acks();
  plan.traffic = traffic::ingress_data;
  EXPECT_THAT(render::nftables(plan), Not(HasSubstr("hook output")));
  EXPECT_THAT(render::iptables(plan, false), Not(HasSubstr("OUTPUT")));
}

TEST(Rules, ReplacesWhatIsThere)
{
  const std::string saved = ":OUTPUT ACCEPT [0:0]\n:TANDEM-IN - [0:0]\n:TANDEM-OUT - [0:0]\n"
                            "-A OUTPUT -p udp -j MARK --set-xmark 0x7/0xffffffff\n"
                            "-A OUTPUT -p tcp -j TANDEM-OUT\n-A PREROUTING -p tcp -j TANDEM-IN\n"
                            "-A TANDEM-OUT -o wlan0 -g TANDEM-EGRESS\n";
  const render::Present before = render::present(saved);
  EXPECT_THAT(before.chains, testing::ElementsAre("TANDEM-IN", "TANDEM-OUT"));
  EXPECT_THAT(before.jumps, testing::ElementsAre("OUTPUT -p tcp -j TANDEM-OUT", "PREROUTING -p tcp -j TANDEM-IN"));
  const std::string text = render::iptables(acks(), false, before);
  EXPECT_THAT(text, HasSubstr("-D OUTPUT -p tcp -j TANDEM-OUT\n"));
  EXPECT_THAT(text, HasSubstr("-D PREROUTING -p tcp -j TANDEM-IN\n-F TANDEM-IN\n-X TANDEM-IN\n"));
  EXPECT_THAT(text, HasSubstr("-A OUTPUT -p tcp -j TANDEM-OUT\n"));
  EXPECT_THAT(text, Not(HasSubstr("0x7")));
}

TEST(Rules, SeesWhatSomebodyFlushed)
{
  const RulePlan plan = acks();
  const std::string saved = "*mangle\n:OUTPUT ACCEPT [0:0]\n" + render::iptables(plan, false);
  EXPECT_TRUE(render::holds(saved, plan, false));
  const std::size_t last = saved.find("-A OUTPUT");
  EXPECT_FALSE(render::holds(saved.substr(0, last), plan, false)) << "nothing leads to the chains";
  EXPECT_FALSE(
      render::holds(":TANDEM-OUT - [0:0]\n:TANDEM-EGRESS - [0:0]\n-A OUTPUT -p tcp -j TANDEM-OUT\n", plan, false))
      << "the chains are empty";
  EXPECT_FALSE(render::holds("", plan, true));
  EXPECT_TRUE(render::holds("", {}, true));
}

TEST(Rules, AddressesOfEachVersionGoToTheirOwn)
{
  RulePlan plan = acks();
  plan.wifi_addresses = { "192.0.2.1", "2001:db8::1" };
  plan.exempt_remote = { "198.51.100.0/24", "2001:db8:1::/48" };
  EXPECT_THAT(render::iptables(plan, false), HasSubstr("-s 192.0.2.1 -g TANDEM-EGRESS"));
  EXPECT_THAT(render::iptables(plan, false), Not(HasSubstr("2001:")));
  EXPECT_THAT(render::iptables(plan, true), HasSubstr("-d 2001:db8:1::/48 -j RETURN"));
  EXPECT_THAT(render::iptables(plan, true), Not(HasSubstr("192.0.2.1")));
  EXPECT_THAT(render::nftables(plan), HasSubstr("ip6 daddr { 2001:db8:1::/48 } return"));
}

// Arriving packets have no socket yet where rules see them.
TEST(Rules, UsersAreExemptOnTheWayOut)
{
  RulePlan plan = acks();
  plan.traffic |= traffic::ingress_data;
  plan.exempt_users = { 34, 1001 };
  const std::string nft = render::nftables(plan), iptables = render::iptables(plan, true);
  EXPECT_THAT(nft, HasSubstr("meta skuid { 34, 1001 } return"));
  EXPECT_EQ(nft.find("skuid"), nft.rfind("skuid")) << "once: in one direction";
  EXPECT_LT(nft.find("skuid"), nft.find("chain ingress"));
  EXPECT_THAT(iptables, HasSubstr("-A TANDEM-EGRESS -m owner --uid-owner 34 -j RETURN\n"
                                  "-A TANDEM-EGRESS -m owner --uid-owner 1001 -j RETURN\n"));
  EXPECT_THAT(iptables, Not(HasSubstr("-A TANDEM-INGRESS -m owner")));
}

// What goes into a tunnel keeps its source address.
TEST(Rules, EgressIsThatOfTheTwoLinksAndOfNoOtherInterface)
{
  RulePlan plan = acks();
  plan.wifi_addresses = { "192.0.2.1", "2001:db8::1" };
  EXPECT_THAT(render::nftables(plan), HasSubstr("oifname { \"wlan0\" } meta l4proto tcp ip saddr { 192.0.2.1 }"));
  plan.cell = "wwan0";
  for (const std::string version : { "ip saddr { 192.0.2.1 }", "ip6 saddr { 2001:db8::1 }" })
    EXPECT_THAT(render::nftables(plan),
                HasSubstr("oifname { \"wlan0\", \"wwan0\" } meta l4proto tcp " + version + " goto egress"));
  EXPECT_THAT(render::nftables(plan), Not(HasSubstr("oifname !=")));
  EXPECT_THAT(render::iptables(plan, false), HasSubstr("-A TANDEM-OUT -o wlan0 -s 192.0.2.1 -g TANDEM-EGRESS\n"
                                                       "-A TANDEM-OUT -o wwan0 -s 192.0.2.1 -g TANDEM-EGRESS\n"));
  EXPECT_THAT(render::iptables(plan, true), Not(HasSubstr("! -o")));
}

TEST(Rules, OnlyOwnBitsAreCompared)
{
  EXPECT_THAT(render::nftables(acks()), HasSubstr("meta mark & 0x20000000 == 0x20000000 return"));
  EXPECT_THAT(render::iptables(acks(), false), HasSubstr("--mark 0x20000000/0x20000000 -j RETURN"));
}

TEST(Rules, ConnectionsPlacedOnOtherLinksAreNotQueued)
{
  RulePlan plan = acks();
  EXPECT_THAT(render::nftables(plan), Not(HasSubstr("0xf000000")));
  plan.placed_mask = 0x0f00'0000;
  const std::string nft = render::nftables(plan), iptables = render::iptables(plan, false);
  EXPECT_THAT(nft, HasSubstr("meta mark & 0xf000000 != 0 return"));
  EXPECT_EQ(nft.find("0xf000000"), nft.rfind("0xf000000")) << "on the way out";
  EXPECT_THAT(iptables, HasSubstr("-A TANDEM-EGRESS -m mark ! --mark 0x0/0xf000000 -j RETURN\n"));
}

TEST(Rules, RefusesWhatCouldSmuggleInARule)
{
  auto refused = [](auto change)
  {
    RulePlan plan = acks();
    change(plan);
    EXPECT_THROW(validate(plan), std::invalid_argument);
  };
  EXPECT_NO_THROW(validate(acks()));
  refused([](RulePlan& p) { p.wifi = ""; });
  refused([](RulePlan& p) { p.wifi = "wlan0\" accept; #"; });
  refused([](RulePlan& p) { p.wifi = "sixteen-letters-"; });
  refused([](RulePlan& p) { p.cell = "a b"; });
  refused([](RulePlan& p) { p.wifi_addresses = { "192.0.2.1/24" }; });
  refused([](RulePlan& p) { p.exempt_remote = { "192.0.2.0/33" }; });
  refused([](RulePlan& p) { p.exempt_remote = { "192.0.2.0/-1" }; });
  refused([](RulePlan& p) { p.exempt_local = { "::1 -j ACCEPT" }; });
  refused([](RulePlan& p) { p.marks.injected = { 0, 0 }; });
  refused([](RulePlan& p) { p.marks.injected = p.marks.by_cell; });
}

TEST(Rules, SurviveTheWayToTheKeeper)
{
  RulePlan plan = acks();
  plan.queue = 7;
  plan.placed_mask = 0xf0;
  plan.cell = "wwan0";
  plan.wifi_addresses = { "192.0.2.1" };
  plan.exempt_local = { "192.0.2.0/24" };
  plan.exempt_remote = { "::/0" };
  plan.exempt_ports = { 22, 443 };
  plan.exempt_users = { 0, 4294967294 };
  plan.release_by_connmark = true;
  plan.marks.by_cell = { 2, 6 };
  EXPECT_EQ(nlohmann::json::parse(nlohmann::json(plan).dump()).get<RulePlan>(), plan);
}

} // namespace
} // namespace tandem::kernel
