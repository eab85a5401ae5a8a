// Wireless losses, kept away from the sender's congestion control: after the loss fetching ("mirroring") of Tsao and
// Sivakumar (CoNEXT 2009), and beyond it.
#pragma once

#include "modules/mirror/range.h"
#include "modules/mirror/replay.h"
#include "modules/mirror/undo.h"

#include <tandem/strategy.h>

#include <array>

namespace tandem::mirror
{

class Mirror final : public StrategyModule<Undo, Range, Replay>
{
public:
  std::string_view name() const override { return "mirror"; }
  std::string_view summary() const override;
  std::string_view manual() const override;
  std::span<const RetiredKnob> retired_knobs() const override;
  Interest interest() const override;
  int priority() const override { return 20; }
  // A window that one visible loss has halved does not grow again while losses go on, hidden or not (decision 0008).
  bool carries_over() const override { return true; }

private:
  bool fetches() const
  {
    constexpr std::array does { Undo::fetches, Range::fetches, Replay::fetches };
    return does[chosen()];
  }
};

} // namespace tandem::mirror
