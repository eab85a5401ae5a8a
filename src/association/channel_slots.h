// Channel switching as published (Croitoru, Niculescu and Raiciu, NSDI 2015, section 7): how long a client stays on
// each channel.
#pragma once

#include <tandem/units.h>

#include <chrono>
#include <span>
#include <vector>

namespace tandem::association
{

constexpr Duration longest_cycle =
    std::chrono::milliseconds { 200 };                            // C: below the smallest RTO and delayed-ACK threshold
constexpr Duration least_slot = std::chrono::milliseconds { 10 }; // long enough for a packet in every slot
constexpr Duration switching_cost = std::chrono::milliseconds { 5 }; // "around 5 ms in our measurements"

// Equation 6: c_i = b_i^alpha / sum_j b_j^alpha * C, and no slot shorter than `least`: what such a slot needs more, the
// longer ones give in proportion to what they have above it. `measured`: b_i, what the channel brought while the client
// was there, in any unit; all zero = equal slots. Throws std::invalid_argument: no channel, a b_i below 0 or not
// finite, an alpha below 0, C above 200 ms, slots of the least length that do not fit into C.
std::vector<Duration> channel_slots(std::span<const double> measured, double alpha, Duration cycle = longest_cycle,
                                    Duration least = least_slot);

} // namespace tandem::association
