// Which packets an observer copies: what the filter in the kernel and its user have to agree on.
#pragma once

#include <cstdint>

namespace tandem::kernel
{

// One in N, drawn at random in the kernel; 0 = none, 1 = all. SYN, FIN and RST always are.
struct Sampling
{
  std::uint32_t ingress_data = 64; // with payload
  std::uint32_t ingress_ack = 0;   // without
  std::uint32_t egress_data = 0;
  std::uint32_t egress_ack = 0;
  // False: the kernel does not even look at what leaves, not at the handshake either (cheapest).
  bool egress = true;

  bool operator==(const Sampling&) const = default;
};

} // namespace tandem::kernel
