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

} // namespace

// Slots by equation 6, the rate being what the packet times allow.
Tick OnOff::treat(const View& view, Treatments& wanted)
{
  const auto order = view.ranking.order();
  // The last one with a packet time went while others are only being looked at.
  if (order.empty()) return view.now + look_every;
  std::array<double, most_wifi> slots {};
  double sum = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    sum += slots[i] = std::pow(seconds(*view.times[order[i]]), -alpha);
  double cycle = 0;
  for (std::size_t i = 0; i < order.size(); ++i)
    cycle += slots[i] = std::max(shortest_slot, slots[i] / sum * whole_cycle);
  double left = seconds(view.now.time_since_epoch() % from_seconds(cycle));
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
