// Hands segments in a server's name to this host's own TCP, by raw sockets to a local address.
#pragma once

#include "src/kernel/fd.h"
#include "src/kernel/marks.h"
#include "src/kernel/packet/raw_sockets.h"

#include <tandem/segment.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tandem::kernel
{

// The packet arrives by the loopback interface, marked so that no rule queues it. Measured on Linux 6.18: neither the
// reverse path filter nor connection tracking minds (the route is the output route, and the tuple is the flow's), a
// socket bound to the device that has the address takes it, and a firewall that drops foreign sources on lo makes it
// vanish without a trace. Requires that the address is local: else it would be routed away.
class LocalInput
{
public:
  // Throws std::system_error without CAP_NET_RAW and CAP_NET_ADMIN.
  explicit LocalInput(const Marks& marks);

  // A whole IPv4 or IPv6 packet with valid checksums. Never blocks. 0 or an errno.
  int send(std::span<const std::byte> packet) noexcept;

private:
  RawSockets sockets_;
};

// Asks the kernel for one TCP socket.
class SocketQuery
{
public:
  // Throws std::system_error when the kernel has no socket diagnosis.
  SocketQuery();

  // Why a segment of the flow must not be handed to the local TCP: there is no established socket that takes it, bound
  // to no other device than `ifindex`. It would be answered with a reset. Empty when there is one.
  std::string_view refuse(const FlowKey& key, int ifindex) noexcept;

private:
  Fd socket_ {};
  std::uint32_t sequence_ = 0;
};

} // namespace tandem::kernel
