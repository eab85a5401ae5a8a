// A virtual-time bench for the air: drives it, feeds it, and counts what comes out.
#pragma once

#include "tools/lab/medium/air.h"

#include <cstdint>

namespace tandem::medium::test
{

using namespace tandem::literals;

constexpr Tick at(Duration since_start)
{
  return Tick {} + since_start;
}

// The profile's air without beacons, so that closed forms need not account for them.
inline AirConfig quiet(Standard standard, double mbps)
{
  AirConfig config;
  config.phy = Phy::of(standard);
  config.rate = config.phy.find_rate(mbps);
  return config;
}

inline double mbps(std::uint64_t bytes, Duration time)
{
  return static_cast<double>(bytes) * 8e-6 / seconds(time);
}

// How long `data` (network-layer bytes) takes alone on the air, from the end of one exchange to the end of the next,
// without backoff.
inline Duration exchange_time(const AirConfig& config, std::uint32_t packet_bytes)
{
  const Phy& phy = config.phy;
  const PhyRate& rate = phy.rates[*config.rate];
  return phy.difs() + phy.airtime(rate, phy.mpdu(packet_bytes)) + phy.sifs
         + phy.airtime(phy.response_rate(rate), mac_bytes::ack);
}

// A packet of its own handle, never reused: every one must end as one delivery or one drop.
struct Feeder
{
  Handle next = 0;
  Packet make(std::uint32_t bytes) { return { .handle = next++, .bytes = bytes }; }
};

} // namespace tandem::medium::test
