// Whether the card is asked to move to the candidate: a handoff at the time that the stages say, not when the link has
// gone.
#pragma once

#include "modules/rate/cla.h"
#include "modules/rate/stages.h"

#include <string_view>

namespace tandem::rate
{

class RoamWish
{
public:
  // What holds now. The candidate has to be as much stronger as stages.h awaits it for a handoff; where none is heard
  // nothing is asked, although the stage assumes one.
  bool look(const ClaParameters& parameters, const Signals& signals, Stage stage);
  bool now() const { return wished_; }
  std::string_view why() const { return why_; } // literal

private:
  bool wished_ = false;
  std::string_view why_ = "rate: no handoff is near";
};

} // namespace tandem::rate
