// "Min-Max Disconnection Time Allocation Algorithm" as published (Giustiniano et al., section VI-B), for comparison.
//
//   1) first the station with max(g_i) gets its slots;
//   2) then the stations with fewer, one by one: each looks only at the slots that are left, and takes the g_i of them
//   for which the
//      largest distance between two consecutive slots, max_l (S_i(l+1) - S_i(l)), is least;
//   3) the last one, with min(g_i), gets what remains.
//
// Distances are counted in slots, S_i(g_i + 1) is S_i(1) of the next period, and between equal choices the first in
// lexicographic order wins: the paper does not say which. Nor does it say how it counts its runs: counted here are, for
// the first station, the choices with the least largest distance that differ by more than a rotation or a reflection;
// for each further one every choice of the slots that are left; for the last one 1. That gives the printed 6 and 7.
#pragma once

#include "modules/rate/slot_plan.h"

namespace tandem::rate
{

class MinMax final : public Allocator
{
public:
  // Throws BadInput where a step has more than most_arrangements choices.
  Allocated allocate(const Slots& slots) const override;
  std::string_view name() const override { return "min-max disconnection time"; }
};

} // namespace tandem::rate
