#include "src/links/routing.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace tandem::links
{
namespace
{

using testing::HasSubstr;
using Way = Routing::Way;
using Action = RuleEntry::Action;

constexpr std::uint32_t main_table = 254, default_table = 253;
constexpr int wlan = 2, wg = 7, tun = 8, eth = 9, modem = 10;

constexpr Network net(std::uint8_t a, std::uint8_t b, unsigned prefix)
{
  return network_of({ .bytes = { a, b } }, prefix);
}

constexpr Network net6(std::uint8_t a, unsigned prefix)
{
  return network_of({ .bytes = { a }, .v6 = true }, prefix);
}

class RoutingOf : public testing::Test
{
protected:
  void SetUp() override
  {
    routing.add({ .ifindex = wlan, .name = "wlan0" });
    routing.add({ .ifindex = wg, .name = "wg0", .kind = "wireguard", .hardware = 65534 });
    routing.add({ .ifindex = tun, .name = "tun0", .kind = "tun", .hardware = 65534 });
    routing.add({ .ifindex = eth, .name = "eth0" });
    routing.add({ .ifindex = modem, .name = "ppp0", .kind = "ppp", .hardware = 512 });
    add({ .to = {}, .metric = 600, .ifindex = wlan });
    add({ .to = net(192, 0, 16), .ifindex = wlan });
  }
  void add(RouteEntry route)
  {
    if (route.table == 0) route.table = main_table;
    route.to.address.v6 = route.v6;
    routing.add(route);
  }
  // The three that are always there, and others before them.
  Routing with(std::vector<RuleEntry> more, bool v6) const
  {
    Routing whole = routing;
    whole.add(RuleEntry { .v6 = v6, .priority = 0, .table = 255 });
    for (RuleEntry& one : more)
    {
      one.v6 = v6;
      whole.add(one);
    }
    whole.add(RuleEntry { .v6 = v6, .priority = 32766, .table = main_table });
    whole.add(RuleEntry { .v6 = v6, .priority = 32767, .table = default_table });
    return whole;
  }
  Way way(std::vector<RuleEntry> more = {}, bool v6 = false)
  {
    const Routing whole = with(std::move(more), v6);
    last = hands_off(whole, own, roles);
    return whole.outlook(v6, own, roles).way;
  }
  // Of one peer, as the daemon asks for a flow.
  std::string why(const Address& peer, std::vector<RuleEntry> more = {})
  {
    const Address local = peer.v6 ? Address { .bytes = { 0x20, 1 }, .v6 = true } : own.front();
    return hands_off(with(std::move(more), peer.v6), local, peer, roles);
  }

  Routing routing {};
  std::vector<Address> own { { .bytes = { 192, 0, 2, 7 } } };
  std::vector<std::string> roles { "wlan0", "wwan0" };
  std::string last {};
};

TEST_F(RoutingOf, WithoutATunnelTheWayIsClear)
{
  EXPECT_EQ(way(), Way::clear);
  EXPECT_EQ(last, "");
  EXPECT_EQ(way({}, true), Way::none);
  add({ .to = net(10, 0, 8), .ifindex = wg });
  EXPECT_EQ(way(), Way::clear) << "a tunnel for one network only";
}

TEST_F(RoutingOf, ADefaultRouteThatBeatsTheOthers)
{
  add({ .to = {}, .metric = 700, .ifindex = wg });
  EXPECT_EQ(way(), Way::clear) << "it does not";
  add({ .to = {}, .metric = 50, .ifindex = wg });
  EXPECT_EQ(way(), Way::tunnel);
  EXPECT_EQ(last, "the default route leads into wg0 (wireguard)");
}

constexpr Address at(std::uint8_t a, std::uint8_t b)
{
  return { .bytes = { a, b, 0, 9 } };
}

TEST_F(RoutingOf, APeerIsWhereTheLongestPrefixLeads)
{
  add({ .to = net(10, 0, 8), .ifindex = tun });
  EXPECT_EQ(why(at(10, 1)), "its route leads into tun0 (tun)");
  EXPECT_EQ(why(at(11, 1)), "");
  add({ .to = net(10, 1, 16), .ifindex = wlan });
  EXPECT_EQ(why(at(10, 1)), "") << "an exception";
  EXPECT_NE(why(at(10, 2)), "");
  add({ .v6 = true, .to = net6(0xfd, 8), .ifindex = wg });
  EXPECT_EQ(why({ .bytes = { 0xfd, 1 }, .v6 = true }), "its route leads into wg0 (wireguard)");
  EXPECT_EQ(why({ .bytes = { 0x20, 1 }, .v6 = true }), "");
  EXPECT_EQ(why(at(0xfd, 1)), "") << "the same bytes of the other version";
}

TEST_F(RoutingOf, OfEqualPrefixesTheLowestMetric)
{
  add({ .to = net(10, 0, 8), .metric = 50, .ifindex = wlan });
  add({ .to = net(10, 0, 8), .metric = 100, .ifindex = tun });
  EXPECT_EQ(why(at(10, 1)), "");
  add({ .to = net(10, 0, 8), .metric = 50, .ifindex = tun });
  EXPECT_NE(why(at(10, 1)), "") << "in turns";
}

TEST_F(RoutingOf, APeerIsLookedUpByTheRules)
{
  add({ .table = 9, .to = {}, .ifindex = wg });
  const RuleEntry company { .priority = 9, .table = 9, .to = net(10, 0, 8) };
  EXPECT_NE(why(at(10, 1), { company }), "");
  EXPECT_EQ(why(at(11, 1), { company }), "");
  EXPECT_EQ(way({ company }), Way::clear) << "for some destinations only";
  EXPECT_EQ(why(at(10, 1), { { .priority = 9, .table = 9, .mark = 1, .mask = 1 } }), "");
  EXPECT_EQ(why(at(10, 1), { { .priority = 9, .table = 9, .from = net(10, 8, 16) } }), "");
  EXPECT_NE(why(at(10, 1), { { .priority = 9, .table = 9, .from = net(192, 0, 16) } }), "");
  const RuleEntry abroad { .priority = 9, .table = 9, .invert = true, .to = net(192, 0, 16) };
  EXPECT_EQ(way({ abroad }), Way::tunnel) << "all but a private network";
  EXPECT_NE(why(at(10, 1), { abroad }), "");
  EXPECT_EQ(why(at(192, 0), { abroad }), "");
  EXPECT_EQ(why(at(10, 1), { { .priority = 5, .table = 9, .suppress_below = 0 } }), "");
}

TEST_F(RoutingOf, WhatLeadsAsideIsTold)
{
  add({ .to = net(10, 0, 8), .ifindex = tun });
  add({ .to = net(224, 0, 4), .ifindex = tun });
  add({ .v6 = true, .to = network_of({ .bytes = { 0xfe, 0x80 }, .v6 = true }, 64), .ifindex = tun });
  add({ .to = {}, .metric = 900, .ifindex = tun });
  add({ .table = 52, .to = net(100, 64, 10), .ifindex = wg });
  const Routing::Aside ten { "tun0 (tun)", net(10, 0, 8) };
  EXPECT_THAT(with({}, false).aside(own, roles), testing::ElementsAre(ten)) << "nobody looks in table 52";
  EXPECT_THAT(with({ { .priority = 9, .table = 52 } }, false).aside(own, roles),
              testing::ElementsAre(Routing::Aside { "wg0 (wireguard)", net(100, 64, 10) }, ten))
      << "in the order of the rules";
  roles.emplace_back("tun0");
  EXPECT_THAT(with({}, false).aside(own, roles), testing::IsEmpty());
}

// "ip rule add to 198.51.100.0/24 lookup 51".
TEST_F(RoutingOf, WhatARuleSendsIntoATunnelIsToldAsARouteIs)
{
  add({ .to = {}, .metric = 600, .ifindex = eth });
  add({ .table = 51, .to = {}, .ifindex = wg });
  add({ .table = 52, .to = {}, .metric = 100, .ifindex = eth });
  add({ .table = 52, .to = {}, .metric = 200, .ifindex = wg });
  const RuleEntry rule { .priority = 9, .table = 51, .to = net(198, 51, 16) };
  const Routing::Aside there { "wg0 (wireguard)", rule.to };
  EXPECT_THAT(with({ rule }, false).aside(own, roles), testing::ElementsAre(there));
  const auto but = [&](auto change)
  {
    RuleEntry other = rule;
    change(other);
    return with({ other }, false).aside(own, roles);
  };
  EXPECT_THAT(but([](RuleEntry& other) { other.table = 52; }), testing::IsEmpty()) << "the lower metric is in clear";
  EXPECT_THAT(but([](RuleEntry& other) { other.suppress_below = 0; }), testing::IsEmpty());
  EXPECT_THAT(but([](RuleEntry& other) { other.from = net(203, 0, 8); }), testing::IsEmpty()) << "not our address";
  add({ .table = 53, .to = net(198, 51, 17), .ifindex = tun });
  EXPECT_THAT(but([](RuleEntry& other) { other.table = 53; }),
              testing::ElementsAre(Routing::Aside { "tun0 (tun)", net(198, 51, 17) }));
  EXPECT_THAT(but([](RuleEntry& other) { other.table = 53, other.to = net(198, 51, 24); }),
              testing::ElementsAre(Routing::Aside { "tun0 (tun)", net(198, 51, 24) }))
      << "what both say";
  EXPECT_THAT(but([](RuleEntry& other) { other.table = 53, other.to = net(203, 0, 24); }), testing::IsEmpty());
  EXPECT_THAT(but([](RuleEntry& other) { other.invert = true; }), testing::IsEmpty())
      << "hands off altogether, or none";
}

TEST_F(RoutingOf, EthernetIsNoTunnel)
{
  add({ .to = {}, .metric = 100, .ifindex = eth });
  EXPECT_EQ(way(), Way::clear);
}

TEST_F(RoutingOf, TwoHalvesAreTheWhole)
{
  add({ .to = net(0, 0, 1), .ifindex = tun });
  EXPECT_EQ(way(), Way::tunnel) << "half of it is enough";
  add({ .to = net(128, 0, 1), .ifindex = tun });
  EXPECT_EQ(way(), Way::tunnel);
  EXPECT_THAT(last, HasSubstr("tun0 (tun)"));
  EXPECT_EQ(way({}, true), Way::none) << "IPv6 is another matter";
}

// AllowedIPs that leave private networks out.
TEST_F(RoutingOf, AllButPrivateNetworksIsTheWhole)
{
  for (const Network& one : { net(0, 0, 5), net(8, 0, 7), net(11, 0, 8), net(12, 0, 6), net(16, 0, 4), net(32, 0, 3),
                              net(64, 0, 2), net(128, 0, 3), net(160, 0, 5) })
    add({ .to = one, .ifindex = wg });
  EXPECT_EQ(way(), Way::tunnel);
}

TEST_F(RoutingOf, ThreeBitsOfIPv6AreTheWhole)
{
  add({ .v6 = true, .to = net6(0x20, 3), .ifindex = tun });
  EXPECT_EQ(way({}, true), Way::tunnel);
}

TEST_F(RoutingOf, ThePiecesOfIPv6AreCountedWithinWhatIsGivenOut)
{
  add({ .v6 = true, .to = net6(0xfd, 8), .ifindex = tun });
  add({ .v6 = true, .to = net6(0x80, 1), .ifindex = tun });
  EXPECT_EQ(way({}, true), Way::none);
  add({ .v6 = true, .to = net6(0x00, 1), .ifindex = tun });
  EXPECT_EQ(way({}, true), Way::tunnel);
}

// wg-quick: not fwmark 51820 lookup 51820, and lookup main suppress_prefixlength 0 before it.
TEST_F(RoutingOf, WgQuick)
{
  const std::vector<RuleEntry> rules {
    { .priority = 32764, .table = main_table, .suppress_below = 0 },
    { .priority = 32765, .table = 51820, .invert = true, .mark = 51820, .mask = 0xffffffff },
  };
  EXPECT_EQ(way(rules), Way::clear) << "the table is empty";
  add({ .table = 51820, .to = {}, .ifindex = wg });
  EXPECT_EQ(way(rules), Way::tunnel);
  // Only what is marked goes in: how a program of its own is led into a tunnel.
  EXPECT_EQ(way({ { .priority = 100, .table = 51820, .mark = 1, .mask = 0xffffffff } }), Way::clear);
}

// Tailscale: its own packets by their mark, all others by table 52, which has a default route with an exit node only.
TEST_F(RoutingOf, Tailscale)
{
  const std::vector<RuleEntry> rules {
    { .priority = 5210, .table = main_table, .mark = 0x80000, .mask = 0xff0000 },
    { .priority = 5230, .table = default_table, .mark = 0x80000, .mask = 0xff0000 },
    { .priority = 5250, .action = Action::refuse, .mark = 0x80000, .mask = 0xff0000 },
    { .priority = 5270, .table = 52 },
  };
  add({ .table = 52, .to = net(100, 64, 10), .ifindex = tun });
  EXPECT_EQ(way(rules), Way::clear);
  EXPECT_NE(why(at(100, 100), rules), "");
  EXPECT_EQ(why(at(203, 0), rules), "");
  add({ .table = 52, .to = {}, .ifindex = tun });
  EXPECT_EQ(way(rules), Way::tunnel);
}

TEST_F(RoutingOf, RulesForOthersAreNotOurs)
{
  add({ .table = 9, .to = {}, .ifindex = wg });
  EXPECT_EQ(way({ { .priority = 9, .table = 9, .from = net(10, 8, 16) } }), Way::clear) << "another source";
  EXPECT_EQ(way({ { .priority = 9, .table = 9, .from = net(192, 0, 16) } }), Way::tunnel) << "that of Wi-Fi";
  EXPECT_EQ(way({ { .priority = 9, .table = 9, .elsewhere = true } }), Way::clear);
  EXPECT_EQ(way({ { .priority = 9, .table = 9, .some = true } }), Way::tunnel) << "some users may be all";
}

// "ip rule add not iif eth1 lookup 9", "not oif wg0": the kernel takes them for what this host sends by no interface
// yet.
TEST_F(RoutingOf, WhatIsNotForAnInterfaceIsForAllElse)
{
  add({ .table = 9, .to = {}, .ifindex = wg });
  const RuleEntry all { .priority = 9, .table = 9, .invert = true, .elsewhere = true };
  EXPECT_EQ(way({ all }), Way::tunnel);
  EXPECT_NE(why(at(203, 0), { all }), "");
}

// "fwmark 0x10/0x1": of the mark only what the mask covers is compared.
TEST_F(RoutingOf, AMarkCountsWithinItsMask)
{
  add({ .table = 9, .to = {}, .ifindex = wg });
  EXPECT_EQ(way({ { .priority = 9, .table = 9, .mark = 0x10, .mask = 1 } }), Way::tunnel);
  EXPECT_EQ(way({ { .priority = 9, .table = 9, .mark = 0x11, .mask = 1 } }), Way::clear);
}

TEST_F(RoutingOf, AGotoIsFollowed)
{
  add({ .table = 9, .to = {}, .ifindex = wg });
  EXPECT_EQ(way({ { .priority = 5, .action = Action::go_to, .target = 100 }, { .priority = 9, .table = 9 } }),
            Way::clear);
}

TEST_F(RoutingOf, NothingIsLetOut)
{
  EXPECT_EQ(way({ { .priority = 9, .action = Action::refuse } }), Way::refused);
  EXPECT_THAT(last, HasSubstr("let nothing out"));
  add({ .to = {}, .metric = 1, .refused = true });
  EXPECT_EQ(way(), Way::refused);
}

TEST_F(RoutingOf, OneVersionThatIsRefusedIsNoTunnel)
{
  add({ .v6 = true, .to = {}, .metric = 1024, .refused = true });
  EXPECT_EQ(way({}, true), Way::refused);
  EXPECT_EQ(hands_off(routing, own, roles), "");
}

// "unreachable default dev lo metric 4294967295", without a way to the Internet.
TEST_F(RoutingOf, TheKernelsOwnNullRouteSaysNothing)
{
  add({ .v6 = true, .to = {}, .metric = 0xffffffff, .refused = true });
  EXPECT_EQ(way({}, true), Way::none);
}

TEST_F(RoutingOf, WhoHasARoleIsNoTunnel)
{
  add({ .to = {}, .metric = 50, .ifindex = modem });
  EXPECT_EQ(way(), Way::tunnel);
  roles.emplace_back("ppp0");
  EXPECT_EQ(way(), Way::clear);
}

TEST(Tunnels, AreToldByTheirKindElseByTheirHardware)
{
  for (const char* kind : { "wireguard", "tun", "ppp", "xfrm", "vti", "gre", "ipip", "ovpn", "dummy", "unheard-of" })
    EXPECT_TRUE(is_tunnel({ .kind = kind })) << kind;
  for (const char* kind : { "bridge", "veth", "vlan", "bond", "wwan", "macvlan" })
    EXPECT_FALSE(is_tunnel({ .kind = kind })) << kind;
  EXPECT_TRUE(is_tunnel({ .hardware = 776 })) << "sit";
  EXPECT_FALSE(is_tunnel({ .hardware = 1 }));
  EXPECT_FALSE(is_tunnel({ .hardware = 65534 })) << "a modem that carries bare IP";
}

} // namespace
} // namespace tandem::links
