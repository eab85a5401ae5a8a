#include "src/kernel/mptcp/mptcp_pm.h"

#include <gtest/gtest.h>
#include <linux/mptcp.h>
#include <netlink/attr.h>
#include <netlink/msg.h>
#include <sys/socket.h>

#include <array>
#include <functional>
#include <memory>

namespace tandem::kernel
{
namespace
{

// What read_endpoint() makes of an attribute that `fill` has filled.
bool read(const std::function<void(nl_msg*)>& fill, MptcpEndpoint& endpoint)
{
  const std::unique_ptr<nl_msg, void (*)(nl_msg*)> message { nlmsg_alloc(), nlmsg_free };
  nlmsg_put(message.get(), 0, 0, 0, 0, 0);
  nlattr* nested = nla_nest_start(message.get(), MPTCP_PM_ATTR_ADDR);
  fill(message.get());
  nla_nest_end(message.get(), nested);
  return read_endpoint(nlmsg_attrdata(nlmsg_hdr(message.get()), 0), endpoint);
}

void good(nl_msg* m)
{
  const std::array<unsigned char, 4> address { 192, 0, 2, 1 };
  nla_put_u16(m, MPTCP_PM_ADDR_ATTR_FAMILY, AF_INET);
  nla_put_u8(m, MPTCP_PM_ADDR_ATTR_ID, 9);
  nla_put(m, MPTCP_PM_ADDR_ATTR_ADDR4, address.size(), address.data());
}

TEST(MptcpEndpoint, ReadsWhatTheKernelSays)
{
  MptcpEndpoint endpoint {};
  ASSERT_TRUE(read(
      [](nl_msg* m)
      {
        good(m);
        nla_put_u16(m, MPTCP_PM_ADDR_ATTR_PORT, 443);
        nla_put_u32(m, MPTCP_PM_ADDR_ATTR_FLAGS, MPTCP_PM_ADDR_FLAG_SUBFLOW | MPTCP_PM_ADDR_FLAG_BACKUP);
        nla_put_s32(m, MPTCP_PM_ADDR_ATTR_IF_IDX, 1);
      },
      endpoint));
  EXPECT_EQ(endpoint.address, "192.0.2.1");
  EXPECT_EQ(endpoint.id, 9);
  EXPECT_EQ(endpoint.port, 443);
  EXPECT_TRUE(endpoint.subflow() && endpoint.backup() && !endpoint.implicit() && !endpoint.own);
  EXPECT_EQ(endpoint.ifindex, 1);
  ASSERT_TRUE(read(
      [](nl_msg* m)
      {
        std::array<unsigned char, 16> address {};
        address[15] = 1;
        nla_put_u16(m, MPTCP_PM_ADDR_ATTR_FAMILY, AF_INET6);
        nla_put_u8(m, MPTCP_PM_ADDR_ATTR_ID, 2);
        nla_put(m, MPTCP_PM_ADDR_ATTR_ADDR6, address.size(), address.data());
      },
      endpoint));
  EXPECT_EQ(endpoint.address, "::1");
  EXPECT_EQ(endpoint.flags, 0u);
}

TEST(MptcpEndpoint, AMissingOrShortFieldMakesNone)
{
  MptcpEndpoint endpoint {};
  EXPECT_FALSE(read_endpoint(nullptr, endpoint));
  EXPECT_FALSE(read([](nl_msg*) {}, endpoint));
  EXPECT_FALSE(read([](nl_msg* m) { nla_put_u16(m, MPTCP_PM_ADDR_ATTR_FAMILY, AF_INET); }, endpoint));
  auto odd = [&](int family, int type, int length)
  {
    const std::array<unsigned char, 16> bytes {};
    return read(
        [&](nl_msg* m)
        {
          nla_put_u16(m, MPTCP_PM_ADDR_ATTR_FAMILY, static_cast<std::uint16_t>(family));
          nla_put_u8(m, MPTCP_PM_ADDR_ATTR_ID, 1);
          nla_put(m, type, length, bytes.data());
        },
        endpoint);
  };
  EXPECT_TRUE(odd(AF_INET, MPTCP_PM_ADDR_ATTR_ADDR4, 4));
  EXPECT_FALSE(odd(AF_INET, MPTCP_PM_ADDR_ATTR_ADDR4, 3));
  EXPECT_FALSE(odd(AF_INET, MPTCP_PM_ADDR_ATTR_ADDR6, 16)); // of the other version
  EXPECT_FALSE(odd(AF_INET6, MPTCP_PM_ADDR_ATTR_ADDR6, 4));
  EXPECT_FALSE(odd(AF_UNIX, MPTCP_PM_ADDR_ATTR_ADDR4, 4));
  EXPECT_TRUE(read(
      [](nl_msg* m)
      {
        good(m);
        nla_put_u16(m, MPTCP_PM_ADDR_ATTR_FLAGS, 0xffff); // too short: as if it were not there
      },
      endpoint));
  EXPECT_EQ(endpoint.flags, 0u);
}

} // namespace
} // namespace tandem::kernel
