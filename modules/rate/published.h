// The published rates of the subflows (algorithms 1 and 2) as far as a client can carry them out: cellular is used for
// the share R2 / C2 of each period. For comparison.
#pragma once

#include "modules/rate/cla.h"

#include <tandem/units.h>

namespace tandem::rate
{

class PublishedShare
{
public:
  // `state` as measured and heard now; its R2p is kept here. Whether cellular is to be used.
  bool look(Tick now, const ClaParameters& parameters, ClaState state);

private:
  Tick period_ {};    // began
  double share_ = 0;  // of this one
  double R2p_ = 0;    // R2 when the pre-handoff began
  bool near_ = false; // it has
};

} // namespace tandem::rate
