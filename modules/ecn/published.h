// The method as published (Croitoru et al., NSDI 2015, sections 4 and 5): marks by equation 5 on every worse link, and
// nothing else. For comparison.
#pragma once

#include "modules/ecn/marking.h"
#include "modules/ecn/strategy.h"

namespace tandem::ecn
{

class Published final : public Strategy
{
public:
  explicit Published(const Marking& marking) : marking_(marking) {}

  Tick treat(const View& view, Treatments& wanted) override;
  std::string_view why(const View& view) const override;
  double least_confidence() const override { return 0; }

private:
  const Marking& marking_;
};

} // namespace tandem::ecn
