#include "modules/rate/upper_bound.h"

#include "modules/rate/arrangements.h"

#include <string>

namespace tandem::rate
{

void check_delays(const Slots& slots, std::span<const double> delays)
{
  if (delays.size() != slots.stations())
    throw BadInput(std::to_string(delays.size()) + " delays for " + std::to_string(slots.stations())
                   + " access points; one for each is needed");
  for (const double delay : delays)
    if (!(delay >= 0) || delay > 60) throw BadInput("a delay of " + std::to_string(delay) + " s; allowed: 0 to 60");
}

double aggregate(const Slots& slots, const Allocation& allocation, std::span<const double> delays,
                 const RttModel& model)
{
  double sum = 0;
  for (std::size_t i = 0; i < slots.stations(); ++i)
    sum += 1 / model(Schedule(slots, allocation, static_cast<Station>(i)), delays[i]);
  return sum;
}

UpperBound::UpperBound(std::vector<double> delays, RttModel model)
    : delays_(std::move(delays)), model_(std::move(model))
{
}

Allocated UpperBound::allocate(const Slots& slots) const
{
  check_delays(slots, delays_);
  Allocated best;
  double most = -1;
  for_each_arrangement(slots,
                       [&](const Allocation& one)
                       {
                         ++best.searches;
                         if (const double value = aggregate(slots, one, delays_, model_); value > most)
                         {
                           most = value;
                           best.slots = one;
                         }
                       });
  return best;
}

} // namespace tandem::rate
