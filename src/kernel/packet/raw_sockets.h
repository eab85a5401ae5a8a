// Raw sockets of both IP versions on which whole packets leave with a mark.
#pragma once

#include "src/kernel/fd.h"

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace tandem::kernel
{

class RawSockets
{
public:
  // Closed: send() says ENODEV.
  RawSockets() = default;
  // Packets go where the routes of this host lead them. Throws std::system_error without CAP_NET_RAW and CAP_NET_ADMIN.
  // Without IPv6 in the kernel there are IPv4's alone.
  explicit RawSockets(std::uint32_t mark);

  // From now on they leave by the interface; false when it is not there. Throws std::system_error.
  bool bind(const std::string& interface);

  // A whole IPv4 or IPv6 packet with valid checksums. Never blocks. 0 or an errno (EAGAIN: device queue full, ENODEV,
  // ENETDOWN, EMSGSIZE, EAFNOSUPPORT, EINVAL for what is no IP packet).
  int send(std::span<const std::byte> packet) noexcept;

private:
  Fd v4_ {};
  Fd v6_ {};
};

} // namespace tandem::kernel
