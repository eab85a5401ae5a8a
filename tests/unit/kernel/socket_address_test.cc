#include "src/kernel/socket_address.h"

#include <gtest/gtest.h>
#include <netinet/in.h>

namespace tandem::kernel
{
namespace
{

const Address v4 { .bytes = { 192, 0, 2, 7 } };
const Address v6 { .bytes = { 0x20, 0x01, 0x0d, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7 }, .v6 = true };

TEST(SocketAddress, what_is_written_is_read)
{
  for (const Address& address : { v4, v6 })
  {
    const SocketAddress to = socket_address(address, 443);
    EXPECT_EQ(to.size, address.v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in));
    EXPECT_EQ(read_address(to.get()), address);
    EXPECT_EQ(read_port(to), 443);
  }
}

// getifaddrs() tells of interfaces without an address, and of link layers.
TEST(SocketAddress, what_is_of_neither_version_is_no_address)
{
  EXPECT_FALSE(read_address(nullptr));
  SocketAddress other {};
  other.storage.ss_family = AF_PACKET;
  EXPECT_FALSE(read_address(other.get()));
  EXPECT_EQ(read_port(other), 0);
}

} // namespace
} // namespace tandem::kernel
