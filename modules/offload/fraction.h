// The method as published (Tsao and Sivakumar, CoNEXT 2009): a share of the ACKs leaves by the cellular link, packet by
// packet, and nobody looks whether they arrive. For comparison only.
#pragma once

#include "modules/offload/window_knob.h"

#include <tandem/knob_table.h>
#include <tandem/module.h>

#include <array>
#include <string_view>

namespace tandem::offload
{

class Fraction
{
public:
  static constexpr std::string_view name = "fraction";
  static constexpr std::string_view help = "as published, packet by packet, unvalidated, for comparison";
  struct Knobs
  {
    double fraction = 0.5;
    double window_mss = window_mss_default;
  };
  static constexpr std::array<KnobRow<Knobs>, 2> rows { {
      { { .name = "fraction",
          .minimum = 0,
          .maximum = 1,
          .help = "strategy fraction only: share of the ACKs that leave by the cellular link" },
        &Knobs::fraction },
      { window_knob, &Knobs::window_mss },
  } };
  struct State
  {
  };

  Plan decide(const Event& event, const FlowView& flow, State& state);
  void describe(const FlowView& flow, const State& state, Facts& facts) const;

  Knobs knobs {};
};

} // namespace tandem::offload
