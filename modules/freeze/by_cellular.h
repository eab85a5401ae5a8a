// What the strategies share that speak to the server by the second interface while the link is gone. For comparison:
// the default needs none.
#pragma once

#include "modules/freeze/blackout_strategy.h"
#include "modules/freeze/cellular_path.h"

#include <memory>

namespace tandem::freeze
{

class ByCellular : public BlackoutStrategy
{
public:
  struct State : BlackoutState
  {
    std::unique_ptr<CellularPath> path {}; // apart: only these strategies pay for it
  };
  void describe(const FlowView& flow, const State& state, Facts& facts) const;

protected:
  // The link is gone, and what is sent by cellular arrives.
  virtual Plan send_by_cellular(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan) = 0;

  void acknowledged(const Event& event, const FlowView& flow, BlackoutState& state, Plan& plan) override;
  Plan arrived(const Event& event, const FlowView& flow, BlackoutState& state) override;
  Plan alarm(const Event& event, const FlowView& flow, BlackoutState& state) override;
  Plan link_lost(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan) override;
  bool validated(const Event& event, const FlowView& flow, const BlackoutState& state) const;
};

} // namespace tandem::freeze
