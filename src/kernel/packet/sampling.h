// Which packets an observer copies: what the filter in the kernel and its user have to agree on.
#pragma once

#include <tandem/classify.h>

#include <cstdint>

namespace tandem::kernel
{

// By the table in tandem/classify.h. SYN, FIN and RST always are, unless they are queued.
struct Sampling
{
  std::uint32_t kinds = traffic::ingress_data;
  std::uint32_t one_in = 64; // of `kinds`, drawn at random in the kernel; 1 = all
  std::uint32_t queued = 0;  // kinds that wait for a verdict (Wanted::queued_of): never copied as well
  // False: the kernel does not even look at what leaves, not at the handshake either (cheapest).
  bool egress = true;

  bool operator==(const Sampling&) const = default;
};

} // namespace tandem::kernel
