// TCP sockets of this host whose segments nobody answers (sock_diag).
#pragma once

#include <tandem/segment.h>

#include <cstdint>
#include <functional>

namespace tandem::kernel
{

struct UnansweredSocket
{
  FlowKey key {};
  bool opening = false;      // SYN-SENT
  std::uint8_t doubled = 0;  // times that its retransmission timer has doubled
  std::uint64_t acked = 0;   // bytes that were acknowledged, with the SYN of a connection that this host began
  std::uint32_t unacked = 0; // bytes that were sent and are not acknowledged; 0: not told (Linux before 4.6)
};

// Those that are opening, and those that have sent something again without an answer, but not those whose program wants
// to be told of ICMP messages (IP_RECVERR): it would take one for the end of its connection. Throws std::runtime_error
// with the kernel's words.
void each_unanswered_socket(const std::function<void(const UnansweredSocket&)>& each);

} // namespace tandem::kernel
