// How many marks a sender can be given without misleading it: equation 5 of Croitoru et al. (NSDI 2015).
#pragma once

#include <tandem/units.h>

#include <cstdint>

namespace tandem::ecn
{

// What to do where the equation says nothing: at a round-trip time of BUF/4 packet times it has its pole, and below it
// the queue that it takes for granted would be longer than the whole round trip.
enum class BelowPole : std::uint8_t
{
  cap,     // the largest rate: what the equation tends to as the round-trip time falls to the pole
  formula, // as printed: the square hides the sign
  nothing, // no marks
};

struct DeltaSettings
{
  double buffer = 200; // packets in the access point's queue: BUF (section 5.2)
  double cap = 0.05;   // section 6.2.1
  BelowPole below_pole = BelowPole::cap;
};

// The share of packets to mark, 0 to cap. `packet_time` is T_i, `rtt` that of the subflow to be marked. Zero or
// negative times give 0.
double delta(Duration packet_time, Duration rtt, const DeltaSettings& settings = {});

} // namespace tandem::ecn
