#include "src/kernel/socket_address.h"

#include <netinet/in.h>

#include <cstring>

namespace tandem::kernel
{

namespace
{

// Copied: storage of one type must not be read as another.
template <class As>
As read(const sockaddr* from)
{
  As out;
  std::memcpy(&out, from, sizeof out);
  return out;
}

} // namespace

SocketAddress socket_address(const Address& address, std::uint16_t port)
{
  SocketAddress to;
  if (address.v6)
  {
    sockaddr_in6 v6 {};
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, address.bytes.data(), 16);
    std::memcpy(&to.storage, &v6, sizeof v6);
    to.size = sizeof v6;
  }
  else
  {
    sockaddr_in v4 {};
    v4.sin_family = AF_INET;
    v4.sin_port = htons(port);
    std::memcpy(&v4.sin_addr, address.bytes.data(), 4);
    std::memcpy(&to.storage, &v4, sizeof v4);
    to.size = sizeof v4;
  }
  return to;
}

std::optional<Address> read_address(const sockaddr* from)
{
  if (from == nullptr || (from->sa_family != AF_INET && from->sa_family != AF_INET6)) return {};
  Address address { .v6 = from->sa_family == AF_INET6 };
  if (address.v6)
  {
    const auto v6 = read<sockaddr_in6>(from);
    std::memcpy(address.bytes.data(), &v6.sin6_addr, 16);
  }
  else
  {
    const auto v4 = read<sockaddr_in>(from);
    std::memcpy(address.bytes.data(), &v4.sin_addr, 4);
  }
  return address;
}

std::uint16_t read_port(const SocketAddress& from)
{
  if (from.storage.ss_family == AF_INET6) return ntohs(read<sockaddr_in6>(from.get()).sin6_port);
  if (from.storage.ss_family == AF_INET) return ntohs(read<sockaddr_in>(from.get()).sin_port);
  return 0;
}

} // namespace tandem::kernel
