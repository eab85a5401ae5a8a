#include "modules/rate/blind.h"

#include "modules/rate/arrangements.h"

#include <limits>

namespace tandem::rate
{

double blind_value(const Slots& slots, const Allocation& allocation)
{
  double sum = 0;
  for (std::size_t i = 0; i < slots.stations(); ++i)
  {
    const Duration longest = longest_disconnection(slots, allocation, static_cast<Station>(i));
    if (longest <= Duration {}) return std::numeric_limits<double>::infinity();
    sum += 1 / seconds(longest);
  }
  return sum;
}

Allocated Blind::allocate(const Slots& slots) const
{
  Allocated best;
  double most = -1;
  for_each_arrangement(slots,
                       [&](const Allocation& one)
                       {
                         ++best.searches;
                         // Sums of equal terms in another order differ in the last digits: the first of equals wins.
                         if (const double value = blind_value(slots, one);
                             value > most * (1 + 1e-12) || best.slots.empty())
                         {
                           most = value;
                           best.slots = one;
                         }
                       });
  return best;
}

} // namespace tandem::rate
