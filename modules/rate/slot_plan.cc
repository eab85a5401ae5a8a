#include "modules/rate/slot_plan.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numeric>
#include <string>

namespace tandem::rate
{
namespace
{

std::string text(double value)
{
  char out[32];
  std::snprintf(out, sizeof out, "%g", value);
  return out;
}

std::string text(Duration time)
{
  return text(milliseconds(time)) + " ms";
}

double checked_sum(std::span<const double> duty_cycles)
{
  if (duty_cycles.empty() || duty_cycles.size() > most_stations)
    throw BadInput(std::to_string(duty_cycles.size()) + " duty cycles; allowed: 1 to " + std::to_string(most_stations));
  double sum = 0;
  for (std::size_t i = 0; i < duty_cycles.size(); ++i)
  {
    if (!(duty_cycles[i] > 0) || !std::isfinite(duty_cycles[i]))
      throw BadInput("duty cycle " + std::to_string(i + 1) + " is " + text(duty_cycles[i])
                     + "; each must be above 0: leave out access points that get no time");
    sum += duty_cycles[i];
  }
  return sum;
}

} // namespace

std::uint32_t Slots::total() const
{
  return std::accumulate(count.begin(), count.end(), std::uint32_t { 0 });
}

Slots divide(std::span<const double> duty_cycles, Duration slot_time, Duration longest_period)
{
  const double sum = checked_sum(duty_cycles);
  if (std::abs(sum - 1) > 1e-6) throw BadInput("the duty cycles add up to " + text(sum) + "; they must add up to 1");
  if (slot_time <= Duration {}) throw BadInput("a slot time of " + text(slot_time) + "; it must be above 0");
  if (longest_period > Duration {} && slot_time > longest_period)
    throw BadInput("a slot time of " + text(slot_time) + " is above the longest period, " + text(longest_period));

  const double least = *std::min_element(duty_cycles.begin(), duty_cycles.end());
  const double period = seconds(slot_time) / least;
  // Half a nanosecond of rounding is no longer period.
  if (longest_period > Duration {} && period > seconds(longest_period) + 1e-9)
    throw BadInput("a duty cycle of " + text(least) + " and slots of " + text(slot_time) + " need a period of "
                   + text(period * 1e3) + " ms; at most " + text(longest_period)
                   + " is allowed: take shorter slots, or leave that access point out");
  if (period > 3600) throw BadInput("a duty cycle of " + text(least) + " needs a period above an hour: leave it out");

  Slots slots;
  double total = 0;
  for (const double share : duty_cycles)
  {
    // 0.375 / 0.125 must be 3 also where the quotient of the nearest doubles lies just below.
    const double count = std::max(1.0, std::floor(share / least * (1 + 1e-9)));
    total += count;
    if (total > most_slots)
      throw BadInput("a duty cycle of " + text(least) + " beside the others makes more than "
                     + std::to_string(most_slots) + " slots: leave that access point out");
    slots.count.push_back(static_cast<std::uint32_t>(count));
    slots.length.push_back(Duration { std::llround(share * period / count * 1e9) });
  }
  // Of the rounded slots: positions in the period and the period itself must agree.
  for (std::size_t i = 0; i < slots.stations(); ++i)
    slots.period += slots.length[i] * slots.count[i];
  return slots;
}

std::vector<std::uint32_t> positions(const Allocation& slots, Station station)
{
  std::vector<std::uint32_t> found;
  for (std::uint32_t at = 0; at < slots.size(); ++at)
    if (slots[at] == station) found.push_back(at);
  return found;
}

std::vector<Duration> disconnection_costs(const Slots& slots, const Allocation& allocation, Station station)
{
  const std::vector<std::uint32_t> own = positions(allocation, station);
  std::vector<Duration> costs;
  for (std::size_t l = 0; l < own.size(); ++l)
  {
    Duration cost {};
    for (std::size_t at = (own[l] + 1) % allocation.size(); allocation[at] != station;
         at = (at + 1) % allocation.size())
      cost += slots.length[allocation[at]]; // C_j is the slot size of the station that uses slot j
    costs.push_back(cost);
  }
  return costs;
}

Duration longest_disconnection(const Slots& slots, const Allocation& allocation, Station station)
{
  const std::vector<Duration> costs = disconnection_costs(slots, allocation, station);
  return costs.empty() ? slots.period : *std::max_element(costs.begin(), costs.end());
}

void check(const Slots& slots, const Allocation& allocation)
{
  std::vector<std::uint32_t> found(slots.stations());
  for (const Station station : allocation)
  {
    if (station >= slots.stations())
      throw BadInput("a slot belongs to access point " + std::to_string(station + 1) + " of "
                     + std::to_string(slots.stations()));
    ++found[station];
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    if (found[i] != slots.count[i])
      throw BadInput("access point " + std::to_string(i + 1) + " has " + std::to_string(found[i]) + " slots of "
                     + std::to_string(slots.count[i]));
}

} // namespace tandem::rate
