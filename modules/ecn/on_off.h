// One access point at a time, in turn, by MP_PRIO (Croitoru et al., sections 5 and 7). For comparison.
#pragma once

#include "modules/ecn/strategy.h"

namespace tandem::ecn
{

class OnOff final : public Strategy
{
public:
  Tick treat(const View& view, Treatments& wanted) override;
  std::string_view why(const View&) const override { return "ecn: one access point at a time"; }
};

} // namespace tandem::ecn
