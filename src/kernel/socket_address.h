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

} // namespace tandem::kernel
