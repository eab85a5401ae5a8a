// Which connections bear a mark, as the kernel's connection tracking knows them, and how long their round trips are.
#pragma once

#include <tandem/segment.h>
#include <tandem/units.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace tandem::kernel
{

struct PlacedFlow
{
  std::uint32_t mark = 0; // the bits under the mask
  Address remote {};
  std::uint16_t local_port = 0, remote_port = 0;
  std::optional<Duration> rtt {}; // smoothed; nothing: it has received nothing lately, or has no socket here
};

// Living TCP connections whose mark has bits under `mask`. What only waits for late segments (TIME-WAIT) does not live.
// Throws std::runtime_error with a sentence when the kernel does not tell.
std::vector<PlacedFlow> placed_flows(std::uint32_t mask);

// Asks this host's sockets for their round trips. What cannot be asked stays without.
void measure(std::vector<PlacedFlow>& flows);

} // namespace tandem::kernel
