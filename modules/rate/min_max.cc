#include "modules/rate/min_max.h"

#include "modules/rate/arrangements.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>

namespace tandem::rate
{
namespace
{

using Positions = std::vector<std::uint32_t>;

// S_i(l+1) - S_i(l) for all l, around the end of the period.
Positions distances(const Positions& chosen, std::uint32_t total)
{
  Positions made;
  for (std::size_t l = 0; l < chosen.size(); ++l)
    made.push_back(l + 1 < chosen.size() ? chosen[l + 1] - chosen[l] : chosen.front() + total - chosen[l]);
  return made;
}

std::uint32_t largest(const Positions& chosen, std::uint32_t total)
{
  const Positions between = distances(chosen, total);
  return *std::max_element(between.begin(), between.end());
}

// The same for all choices that are rotations or reflections of each other.
Positions pattern(const Positions& chosen, std::uint32_t total)
{
  Positions around = distances(chosen, total);
  Positions least = around;
  for (int side = 0; side < 2; ++side)
  {
    for (std::size_t turn = 0; turn < around.size(); ++turn)
    {
      std::rotate(around.begin(), around.begin() + 1, around.end());
      least = std::min(least, around);
    }
    std::reverse(around.begin(), around.end());
  }
  return least;
}

} // namespace

Allocated MinMax::allocate(const Slots& slots) const
{
  const std::uint32_t total = slots.total();
  std::vector<Station> order(slots.stations());
  std::iota(order.begin(), order.end(), Station { 0 });
  std::stable_sort(order.begin(), order.end(), [&](Station a, Station b) { return slots.count[a] > slots.count[b]; });

  Allocated made { .slots = Allocation(total), .searches = 0 };
  Positions left(total);
  std::iota(left.begin(), left.end(), 0u);
  for (const Station station : order)
  {
    Positions best = left;
    if (station == order.back())
      ++made.searches;
    else
    {
      std::uint32_t least = std::numeric_limits<std::uint32_t>::max();
      std::uint64_t looked_at = 0;
      std::set<Positions> patterns; // of the first station: those with the least largest distance
      for_each_choice(left, slots.count[station],
                      [&](const Positions& chosen)
                      {
                        ++looked_at;
                        const std::uint32_t distance = largest(chosen, total);
                        if (distance < least)
                        {
                          least = distance;
                          best = chosen;
                          patterns.clear();
                        }
                        if (station == order.front() && distance == least) patterns.insert(pattern(chosen, total));
                      });
      made.searches += station == order.front() ? patterns.size() : looked_at;
    }
    for (const std::uint32_t at : best)
      made.slots[at] = station;
    Positions rest;
    std::set_difference(left.begin(), left.end(), best.begin(), best.end(), std::back_inserter(rest));
    left = rest;
  }
  return made;
}

} // namespace tandem::rate
