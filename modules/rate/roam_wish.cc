#include "modules/rate/roam_wish.h"

#include <algorithm>

namespace tandem::rate
{

bool RoamWish::look(const ClaParameters& parameters, const Signals& signals, Stage stage)
{
  // What is asked once is asked until the readings say clearly otherwise.
  const double enough = std::max(0.0, parameters.delta2 / 2 - (wished_ ? reading_step : 0));
  wished_ = false;
  if (stage != Stage::handoff)
    why_ = "rate: no handoff is near";
  else if (!signals.S1)
    why_ = "rate: the signal is not known";
  else if (!signals.candidate)
    why_ = "rate: no other access point of this network is heard";
  else if (*signals.candidate <= *signals.S1 + enough)
    why_ = "rate: no other access point is heard so much stronger";
  else
  {
    wished_ = true;
    why_ = "rate: a handoff is near, and another access point is stronger";
  }
  return wished_;
}

} // namespace tandem::rate
