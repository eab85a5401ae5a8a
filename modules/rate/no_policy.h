// All slots of a station in one piece, station after station: the paper's "No Policy".
#pragma once

#include "modules/rate/slot_plan.h"

namespace tandem::rate
{

class NoPolicy final : public Allocator
{
public:
  Allocated allocate(const Slots& slots) const override;
  std::string_view name() const override { return "no policy"; }
};

} // namespace tandem::rate
