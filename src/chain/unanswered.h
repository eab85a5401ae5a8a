// What the kernel says of one of this host's sockets whose segments nobody answers.
#pragma once

#include <tandem/segment.h>

#include <cstdint>

namespace tandem::chain
{

struct Unanswered
{
  FlowKey flow {};
  bool opening = false;      // it has sent a SYN and nothing else
  std::uint8_t doubled = 0;  // times that its retransmission timer has doubled: 0, nothing was sent twice
  std::uint32_t acked = 0;   // bytes of this host that were acknowledged so far, its SYN with them; modulo 2^32
  std::uint32_t unacked = 0; // bytes that were sent and are not acknowledged; 0: not told (Linux before 4.6)
};

} // namespace tandem::chain
