#include "src/links/link_up_limiter.h"

#include <algorithm>

namespace tandem::links
{

void LinkUpLimiter::take(bool up, const std::optional<feeder::Mac>& ap, Tick now)
{
  const bool held_back = next_ != Tick::max();
  next_ = Tick::max();
  if (up == up_) return;
  if (up)
    if (Place& here = place(ap, now); !here.gate.take(now))
    {
      next_ = here.gate.next();
      if (!held_back) ++held_;
      return;
    }
  up_ = up;
  since_ = now;
}

// The carrier may be back before the driver says where: until then it is the access point before.
LinkUpLimiter::Place& LinkUpLimiter::place(const std::optional<feeder::Mac>& ap, Tick now)
{
  if (ap && places_[current_].ap != ap)
  {
    auto found = std::find_if(places_.begin(), places_.end(), [&](const Place& one) { return one.ap == ap; });
    if (found == places_.end())
      found = std::min_element(places_.begin(), places_.end(),
                               [](const Place& a, const Place& b) { return a.used < b.used; });
    found->ap = ap;
    current_ = static_cast<std::size_t>(found - places_.begin());
  }
  places_[current_].used = now;
  return places_[current_];
}

} // namespace tandem::links
