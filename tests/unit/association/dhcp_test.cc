#include "src/association/dhcp.h"

#include <gtest/gtest.h>

namespace tandem::association
{
namespace
{

using namespace std::chrono_literals;

TEST(Lease, as_the_script_says_it)
{
  const auto one = parse_lease("noise\nlease ip=192.0.2.7 mask=24 router=192.0.2.1 lease=3600\n");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->address, "192.0.2.7");
  EXPECT_EQ(one->prefix, 24u);
  EXPECT_EQ(one->gateway, "192.0.2.1");
  EXPECT_EQ(one->lifetime, Duration { 3600s });
}

TEST(Lease, without_a_router_or_an_end)
{
  const auto one = parse_lease("lease ip=192.0.2.7 mask=24 router= lease=4294967295\n");
  ASSERT_TRUE(one);
  EXPECT_EQ(one->gateway, "");
  EXPECT_EQ(one->lifetime, Duration {});
}

TEST(Lease, what_cannot_be_is_none)
{
  EXPECT_FALSE(parse_lease(""));
  EXPECT_FALSE(parse_lease("lease ip= mask=24 router= lease=60"));
  EXPECT_FALSE(parse_lease("lease ip=192.0.2.7 mask=33 router= lease=60"));
  EXPECT_FALSE(parse_lease("lease ip=192.0.2.7 mask= router= lease=60"));
  EXPECT_FALSE(parse_lease("lease ip=192.0.2.7;reboot mask=24 router= lease=60"));
  EXPECT_FALSE(parse_lease("lease ip=192.0.2.7 mask=24 router=nowhere lease=60"));
}

// Whoever answers by DHCP is whoever runs an access point.
TEST(Lease, of_no_hosts_address_of_half_the_internet_or_of_no_time_is_none)
{
  for (const char* address :
       { "0.0.0.0", "0.1.2.3", "127.0.0.1", "127.9.9.9", "224.0.0.1", "240.0.0.1", "255.255.255.255" })
    EXPECT_FALSE(parse_lease(std::string { "lease ip=" } + address + " mask=24 router= lease=60")) << address;
  EXPECT_FALSE(parse_lease("lease ip=192.0.2.7 mask=1 router=192.0.2.1 lease=60"));
  EXPECT_FALSE(parse_lease("lease ip=192.0.2.7 mask=7 router=192.0.2.1 lease=60"));
  EXPECT_TRUE(parse_lease("lease ip=10.0.2.7 mask=8 router=10.0.0.1 lease=60"));
  EXPECT_FALSE(parse_lease("lease ip=192.0.2.7 mask=24 router= lease=0")) << "was one without an end";
}

kernel::InterfaceAddress leased(const std::string& address, unsigned prefix)
{
  return { .address = address, .prefix = prefix };
}

const std::vector<Neighbour> laptop { { "lo", "127.0.0.1", 8 },
                                      { "wlan0", "192.168.1.20", 24 },
                                      { "tun0", "10.0.0.5", 8 } };

TEST(Lease, a_second_access_point_of_our_network_is_as_good_as_another_network)
{
  EXPECT_EQ(objection(leased("192.168.1.21", 24), laptop), "");
  EXPECT_EQ(objection(leased("192.0.2.7", 24), laptop), "");
  EXPECT_EQ(objection(leased("192.168.1.21", 16), laptop), "") << "the route of wlan0 is the more specific one";
}

// A network of the user's that anybody can take the name of: a smaller one in the midst of the own one, with its
// router.
TEST(Lease, no_part_of_the_network_that_another_interface_is_in_is_taken_from_it)
{
  EXPECT_EQ(objection(leased("192.168.1.5", 28), laptop),
            "its network (/28) is a part of that of wlan0 (/24), which would be cut off");
  EXPECT_NE(objection(leased("192.168.1.1", 32), laptop), "");
  EXPECT_NE(objection(leased("10.1.2.3", 24), laptop), "");
  EXPECT_NE(objection(leased("192.168.1.20", 24), laptop), "") << "our own address";
  std::vector<Neighbour> home = laptop;
  home.push_back({ "wlan1", "10.1.2.9", 24 });
  EXPECT_EQ(objection(leased("10.1.2.3", 24), home), "") << "it takes nothing that wlan1 has not taken";
}

TEST(Lease, other_interfaces_are_those_of_this_machine)
{
  for (const Neighbour& one : neighbours("none"))
    if (one.interface == "lo" && one.address == "127.0.0.1")
    {
      EXPECT_EQ(one.prefix, 8u);
      for (const Neighbour& other : neighbours("lo"))
        EXPECT_NE(other.interface, "lo");
      return;
    }
  GTEST_SKIP() << "the loopback interface is down here";
}

} // namespace
} // namespace tandem::association
