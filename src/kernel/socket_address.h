// Addresses as the calls of sockets have them.
#pragma once

#include <tandem/segment.h>

#include <sys/socket.h>

#include <cstdint>
#include <optional>

namespace tandem::kernel
{

struct SocketAddress
{
  sockaddr_storage storage {};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage); }
};

// For bind() and connect().
SocketAddress socket_address(const Address& address, std::uint16_t port);

// What the kernel or the resolver tells; nothing where it is null or of neither IP version.
std::optional<Address> read_address(const sockaddr* from);
std::uint16_t read_port(const SocketAddress& from); // 0 likewise

// Whether nothing beyond the link can have or reach it (RFC 4291 2.4, RFC 3927).
constexpr bool is_link_local(const Address& address)
{
  const auto& b = address.bytes;
  return address.v6 ? b[0] == 0xfe && (b[1] & 0xc0) == 0x80 : b[0] == 169 && b[1] == 254;
}

} // namespace tandem::kernel
