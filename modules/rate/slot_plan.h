// One card, several access points: how a wireless period is divided into slots, and what a division costs (Giustiniano,
// Goma, Lopez Toledo and Athanasiou, "Optimizing TCP Performance in Multi-AP Residential Broadband Connections via
// Mini-Slot Access", section VI-A).
#pragma once

#include "modules/rate/bad_input.h"

#include <tandem/units.h>

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace tandem::rate
{

using Station = std::uint8_t; // VSTA_i, from 0: a virtual station at one access point

// The slots of a wireless period, before anybody says in which order.
struct Slots
{
  Duration period {};               // T = SlotTime / min f_i
  std::vector<std::uint32_t> count; // g_i = floor(f_i T / SlotTime), at least 1
  std::vector<Duration> length;     // SlotTime_i = f_i T / g_i: slots of different stations can differ

  std::size_t stations() const { return count.size(); }
  std::uint32_t total() const; // G
};

constexpr std::size_t most_stations = 32;
constexpr std::uint32_t most_slots = 4096; // G; a duty cycle far below the others means a period that nobody wants

// Divides a period for the duty cycles f_i (shares of time, above 0, together 1 within 1e-6) into slots of at least
// `slot_time`. `longest_period`: what the period may be at most; zero = no limit. Throws BadInput: no or too many duty
// cycles, one that is not above 0, a sum that is not 1, a slot time that is not above 0, a period above the longest
// one, a slot time above it.
Slots divide(std::span<const double> duty_cycles, Duration slot_time, Duration longest_period = {});

// The station of each slot, in the order of the period.
using Allocation = std::vector<Station>;

// An allocation, and how many candidates were looked at for it: the paper's "runs".
struct Allocated
{
  Allocation slots;
  std::uint64_t searches = 0;
};

// S_i: positions of a station's slots, from 0.
std::vector<std::uint32_t> positions(const Allocation& slots, Station station);

// c_{i,l}, l = 1 .. g_i: how long the station is not connected between its l-th slot and its next one, the last one's
// next being the first one of the following period. Neighbouring slots cost nothing.
std::vector<Duration> disconnection_costs(const Slots& slots, const Allocation& allocation, Station station);

// max_l c_{i,l}
Duration longest_disconnection(const Slots& slots, const Allocation& allocation, Station station);

// Throws BadInput unless every station has its g_i slots.
void check(const Slots& slots, const Allocation& allocation);

// A way to order the slots: ours (delay_aware.h) and the published ones (min_max.h, blind.h), each behind this
// interface.
class Allocator
{
public:
  virtual ~Allocator() = default;
  virtual Allocated allocate(const Slots& slots) const = 0;
  virtual std::string_view name() const = 0;
};

} // namespace tandem::rate
