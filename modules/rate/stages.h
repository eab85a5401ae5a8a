// How near a handoff is, from what the client alone hears: the stages of Sinky et al., section III.
#pragma once

#include "modules/rate/cla.h"

#include <tandem/units.h>

#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem::rate
{

enum class Stage : std::uint8_t
{
  stationary,
  pre_handoff,
  handoff,
};
constexpr std::string_view name(Stage stage)
{
  return stage == Stage::stationary ? "stationary" : stage == Stage::pre_handoff ? "pre-handoff" : "handoff";
}

// As the module sees the radio now.
struct Signals
{
  Tick now {};
  std::optional<double> S1 {}; // of the current access point over the noise, dB; none: not known
  std::optional<double> S2 {}; // of the candidate; none: nothing else is heard
  // Of S2, what this card itself may move to: the best other access point of its network.
  std::optional<double> candidate {};
  bool at_risk = false; // the detector foresees a blackout
};

// What one reading of a signal differs from the next by, dB.
constexpr double reading_step = 3;

// Other than published: the stage does not ask for R_tot < R0, since a queue at the access point that is left costs
// every download; and a candidate within delta1 alone is no reason, since no card leaves an access point far above its
// scan trigger. Where no candidate is heard one is taken to be as good as the trigger.
class Stages
{
public:
  Stage look(const ClaParameters& parameters, const Signals& signals);
  Stage now() const { return stage_; }

private:
  Stage stage_ = Stage::stationary;
  Tick lower_since_ = Tick::max(); // when an earlier stage was first found instead
};

} // namespace tandem::rate
