// Strategy auto, the default: the best by measurement (docs/results/freeze.md). The window is closed on a prediction;
// without one the ACKs withheld while all was well resume the download, and TCP-LCD does where nothing is withheld.
#pragma once

#include "modules/freeze/proactive_freeze.h"

namespace tandem::freeze
{

class Combined final : public ProactiveFreeze
{
public:
  static constexpr std::string_view name = "auto";
  static constexpr std::string_view help =
      "proactive on a warning, else resume_acks, with lcd where nothing is withheld";

protected:
  Plan withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress) override;
  std::optional<InjectedSegment> after_resume(const Event& event, const FlowView& flow,
                                              const BlackoutState& state) const override;
};

} // namespace tandem::freeze
