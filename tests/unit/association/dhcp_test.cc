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

} // namespace
} // namespace tandem::association
