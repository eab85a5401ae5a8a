#include "modules/rate/no_policy.h"

namespace tandem::rate
{

Allocated NoPolicy::allocate(const Slots& slots) const
{
  Allocated made { .slots = {}, .searches = 1 };
  for (std::size_t i = 0; i < slots.stations(); ++i)
    made.slots.insert(made.slots.end(), slots.count[i], static_cast<Station>(i));
  return made;
}

} // namespace tandem::rate
