#include "modules/ecn/on_off.h"

#include <algorithm>
#include <cmath>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr double whole_cycle = 0.2;    // s, all slots together (section 7: at most the least retransmission time-out)
constexpr double alpha = 2;            // slots go with this power of the link's rate (equation 6)
constexpr double shortest_slot = 0.01; // s (section 7)

using Slots = std::array<double, most_wifi>;

// Of the whole cycle in proportion to `shares`. What the shortest slots need more comes out of the others, so that the
// cycle is no longer.
Slots divided(const Slots& shares, std::size_t count)
{
  Slots slots {};
  std::array<bool, most_wifi> shortest {};
  for (bool again = true; again;)
  {
    double rest = whole_cycle, sum = 0;
    for (std::size_t i = 0; i < count; ++i)
      if (shortest[i])
        rest -= shortest_slot;
      else
        sum += shares[i];
    again = false;
    for (std::size_t i = 0; i < count; ++i)
    {
      slots[i] = shortest[i] ? shortest_slot : shares[i] / sum * rest;
      if (slots[i] < shortest_slot) shortest[i] = again = true;
    }
  }
  return slots;
}
static_assert(most_wifi * shortest_slot <= whole_cycle);

} // namespace

// Slots by equation 6, the rate being what the packet times allow.
Tick OnOff::treat(const View& view, Treatments& wanted)
{
  const auto order = view.ranking.order();
  // The last one with a packet time went while others are only being looked at.
  if (order.empty()) return view.now + look_every;
  Slots shares {};
  for (std::size_t i = 0; i < order.size(); ++i)
    shares[i] = std::pow(seconds(*view.times[order[i]]), -alpha);
  const Slots slots = divided(shares, order.size());
  double left = seconds(view.now.time_since_epoch() % from_seconds(whole_cycle));
  Tick next = view.now + look_every;
  bool found = false;
  for (std::size_t i = 0; i < order.size(); ++i)
  {
    const bool now_on = !found && (left < slots[i] || i + 1 == order.size());
    wanted[at(wifi_link(order[i]))].backup = !now_on;
    if (now_on) next = std::min(next, view.now + std::max<Duration>(1ms, from_seconds(slots[i] - left)));
    found = found || now_on;
    left -= slots[i];
  }
  return next;
}

} // namespace tandem::ecn
