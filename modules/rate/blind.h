// "Blind Resource Allocation" as published (Giustiniano et al., section VI-B, equation 2): of all allocations the one
// with the largest sum of 1 / max_l c_{i,l}. Blind: it asks for neither delays nor losses. For comparison.
#pragma once

#include "modules/rate/slot_plan.h"

namespace tandem::rate
{

class Blind final : public Allocator
{
public:
  // Throws BadInput above most_arrangements.
  Allocated allocate(const Slots& slots) const override;
  std::string_view name() const override { return "blind"; }
};

// The sum of equation 2, 1/s. Infinite with one access point, which is never disconnected.
double blind_value(const Slots& slots, const Allocation& allocation);

} // namespace tandem::rate
