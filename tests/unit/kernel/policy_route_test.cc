// What the kernel does not tell: lists of routes that fail, in a network namespace of its own. A binary of its own,
// because it replaces libnl's list of routes.
#include "src/kernel/rules/policy_route.h"
#include "tests/unit/kernel/own_namespace.h"

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <net/if.h>
#include <netlink/errno.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <stdexcept>
#include <string>

namespace
{

int failures = 0;          // of the next lists
int rule_failures = 0;     // likewise, of ip rules
bool without_ipv6 = false; // as with ipv6.disable=1: who asks for its routes is told all there are

} // namespace

extern "C" int rtnl_route_alloc_cache(nl_sock* socket, int family, int flags, nl_cache** result)
{
  static const auto real =
      reinterpret_cast<decltype(&rtnl_route_alloc_cache)>(dlsym(RTLD_NEXT, "rtnl_route_alloc_cache"));
  if (failures > 0) return --failures, -NLE_NOMEM;
  return real(socket, without_ipv6 && family == AF_INET6 ? AF_INET : family, flags, result);
}

extern "C" int rtnl_rule_alloc_cache(nl_sock* socket, int family, nl_cache** result)
{
  static const auto real =
      reinterpret_cast<decltype(&rtnl_rule_alloc_cache)>(dlsym(RTLD_NEXT, "rtnl_rule_alloc_cache"));
  if (rule_failures > 0) return --rule_failures, -NLE_NOMEM;
  return real(socket, family, result);
}

namespace tandem::kernel
{
namespace
{

class PolicyRouteTest : public testing::Test
{
protected:
  void SetUp() override
  {
    static const bool apart = test::in_namespace_of_ones_own();
    if (!apart
        || std::system("(ip link add cell9 type veth peer name peer9 && ip addr add 192.0.2.2/24 dev cell9 && "
                       "ip link set peer9 up && ip link set cell9 up && "
                       "ip route add default via 192.0.2.1 dev cell9) 2>/dev/null")
               != 0)
      GTEST_SKIP() << "no interfaces of one's own here";
  }
  void TearDown() override { static_cast<void>(std::system("ip link del cell9 2>/dev/null")); }

  static bool in_kernel() { return std::system("ip route show table 8484 | grep -q 192.0.2.1") == 0; }
};

TEST_F(PolicyRouteTest, ARouteThatCannotBeReadIsNotGone)
{
  PolicyRoute route { { .cell = "cell9", .announce = false } };
  ASSERT_TRUE(route.state().v4);
  failures = 4;
  EXPECT_THROW(route.refresh(), std::runtime_error);
  failures = 0;
  EXPECT_TRUE(route.state().v4);
  EXPECT_TRUE(in_kernel());
  EXPECT_FALSE(route.refresh());
  EXPECT_TRUE(route.state().v4);
}

// Taken for there, a rule that somebody has removed would never come back.
TEST_F(PolicyRouteTest, ARuleThatCannotBeReadIsNotThere)
{
  PolicyRoute route { { .cell = "cell9", .announce = false } };
  EXPECT_FALSE(route.put_rules_back()) << "all are there";
  ASSERT_EQ(std::system("ip rule del priority 8484"), 0);
  rule_failures = 2;
  EXPECT_FALSE(route.has_rules());
  rule_failures = 2;
  EXPECT_THROW(route.put_rules_back(), std::runtime_error);
  rule_failures = 1;
  EXPECT_TRUE(route.put_rules_back()) << "one failure is none";
  EXPECT_TRUE(route.has_rules());
  EXPECT_EQ(std::system("ip rule show priority 8484 | grep -q 8484"), 0);
}

TEST_F(PolicyRouteTest, AGatewayOfIpv6IsOneForIpv4Too)
{
  if (std::system("(ip route del default dev cell9 && ip -4 route add default via inet6 fe80::1 dev cell9) 2>/dev/null")
      != 0)
    GTEST_SKIP() << "no IPv6 here, or a kernel before 5.2";
  PolicyRoute route { { .cell = "cell9", .announce = false } };
  EXPECT_TRUE(route.state().v4);
  EXPECT_EQ(route.state().gateway_v4, "fe80::1");
  EXPECT_EQ(std::system("ip -4 route show table 8484 | grep -q 'default via inet6 fe80::1 dev cell9'"), 0);
  EXPECT_FALSE(route.refresh()) << "it is known again";
  ASSERT_EQ(
      std::system("ip route add default via 192.0.2.1 dev cell9 metric 1 && ip -4 route del default via inet6 fe80::1"),
      0);
  EXPECT_TRUE(route.refresh());
  EXPECT_TRUE(in_kernel());
}

TEST_F(PolicyRouteTest, OneFailureIsNone)
{
  PolicyRoute route { { .cell = "cell9", .announce = false } };
  failures = 1;
  EXPECT_FALSE(route.refresh());
  EXPECT_TRUE(route.state().v4);
}

TEST_F(PolicyRouteTest, RoutesOfIpv4AreNoneOfIpv6)
{
  without_ipv6 = true;
  PolicyRoute route { { .cell = "cell9", .announce = false } };
  EXPECT_TRUE(route.state().v4);
  EXPECT_FALSE(route.state().v6);
  EXPECT_EQ(route.state().gateway_v6, "");
  static_cast<void>(std::system("ip route del default dev cell9"));
  EXPECT_TRUE(route.refresh());
  EXPECT_FALSE(route.state().v4);
  EXPECT_FALSE(route.state().v6);
  without_ipv6 = false;
}

// Those of placed connections are at one priority after the other.
TEST_F(PolicyRouteTest, NeighboursAreLeftAlone)
{
  PolicyRoute below { { .cell = "cell9",
                        .mark = { 0x02000000, 0x0f000000 },
                        .table = RoutePlan::lower_table,
                        .priority = 86,
                        .announce = false } };
  {
    PolicyRoute route {
      { .cell = "cell9", .mark = { 0x03000000, 0x0f000000 }, .table = 8487, .priority = 87, .announce = false }
    };
    EXPECT_TRUE(below.has_rules());
  }
  EXPECT_TRUE(below.has_rules());
  EXPECT_FALSE(below.refresh()) << "its route is there";
}

// Of a tunnel to a relay: what Tandem puts into it, and what the tunnel makes of that, leave by two ways.
TEST_F(PolicyRouteTest, ATunnelAndWhatItsPacketsLeaveBy)
{
  if (std::system("(ip link add tun9 type veth peer name tunp9 && ip link set tunp9 up && ip addr add 192.0.2.9/32 dev "
                  "tun9 && ip link set tun9 up && "
                  "ip route add default dev tun9 metric 900) 2>/dev/null")
      != 0)
    GTEST_SKIP() << "no interfaces of one's own here";
  const auto finds = [](const char* mark, const char* by)
  {
    return std::system(
               (std::string { "ip route get 198.51.100.1 mark " } + mark + " | grep -q 'dev " + by + "'").c_str())
           == 0;
  };
  {
    PolicyRoute route { { .cell = "tun9", .announce = false, .lower = "cell9", .lower_mark = { 0x54, 0xffffffff } } };
    EXPECT_TRUE(route.state().v4);
    EXPECT_TRUE(route.state().lower);
    EXPECT_TRUE(route.has_rules());
    EXPECT_TRUE(finds("0x10000000", "tun9"));
    EXPECT_TRUE(finds("0x54", "cell9"));
    EXPECT_FALSE(finds("0x154", "tun9")) << "another mark";
    // A service that removes what it has not made takes one of them.
    ASSERT_EQ(std::system("ip rule del fwmark 0x54"), 0);
    EXPECT_FALSE(route.has_rules());
    route.put_rules_back();
    EXPECT_TRUE(route.has_rules());
    ASSERT_EQ(std::system("ip link set cell9 down"), 0);
    EXPECT_TRUE(route.refresh()) << "the kernel has taken that route away itself; the tunnel's goes with it";
    EXPECT_FALSE(route.state().lower);
    EXPECT_FALSE(route.state().v4) << "its own packets would leave by Wi-Fi";
    EXPECT_FALSE(finds("0x10000000", "tun9 table 8484"));
    ASSERT_EQ(std::system("ip link set cell9 up && ip route add default via 192.0.2.1 dev cell9"), 0);
    EXPECT_TRUE(route.refresh());
    EXPECT_TRUE(finds("0x54", "cell9"));
    EXPECT_TRUE(route.state().v4);
    EXPECT_TRUE(finds("0x10000000", "tun9 table 8484"));
    route.leave(); // as a killed run does
  }
  EXPECT_TRUE(finds("0x54", "cell9"));
  PolicyRoute::clear_with_lower({});
  EXPECT_NE(std::system("ip rule | grep -q -E '848[34]'"), 0);
  EXPECT_NE(std::system("ip route show table 8483 2>/dev/null | grep -q default"), 0);
  static_cast<void>(std::system("ip link del tun9"));
}

} // namespace
} // namespace tandem::kernel
