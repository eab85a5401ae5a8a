#include "modules/rate/stages.h"

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;

// A signal that moves to and fro by reading_step changes nothing; nor does one that was better for less than this time.
constexpr Duration dwell = 1s;

// `slack` makes it harder to go back than to come.
Stage found(const ClaParameters& p, const Signals& signals, double slack)
{
  if (signals.at_risk) return Stage::handoff;
  if (!signals.S1) return Stage::stationary;
  const double s1 = *signals.S1 - slack;
  // A prepared handoff costs little, so it is awaited at half of delta2, as in promise.h.
  const bool candidate = signals.S2 ? *signals.S2 > s1 + p.delta2 / 2 : s1 < p.delta0 - p.delta2;
  if (s1 < p.delta0 && candidate) return Stage::handoff;
  const bool within = !signals.S2 || s1 < *signals.S2 + p.delta1;
  return within && s1 < p.delta0 + p.delta2 / 2 ? Stage::pre_handoff : Stage::stationary;
}

} // namespace

Stage Stages::look(const ClaParameters& parameters, const Signals& signals)
{
  const Stage later = found(parameters, signals, 0);
  if (later >= stage_)
  {
    stage_ = later;
    lower_since_ = Tick::max();
    return stage_;
  }
  const Stage back = found(parameters, signals, reading_step);
  // Better by as much as a handoff is worth: this is another access point.
  if (const Stage anew = found(parameters, signals, parameters.delta2); anew < stage_)
  {
    stage_ = anew;
    lower_since_ = Tick::max();
  }
  else if (back >= stage_)
    lower_since_ = Tick::max();
  else if (lower_since_ == Tick::max())
    lower_since_ = signals.now;
  else if (signals.now - lower_since_ >= dwell)
  {
    stage_ = back;
    lower_since_ = Tick::max();
  }
  return stage_;
}

} // namespace tandem::rate
