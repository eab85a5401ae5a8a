#include "modules/mirror/refetch.h"

#include <algorithm>

namespace tandem::mirror
{

namespace
{

fetching::State& holes_of(Undo::State& state)
{
  auto& holes = static_cast<Refetch::State&>(state).holes;
  if (!holes) holes = std::make_unique<fetching::State>();
  return *holes;
}

} // namespace

void Refetch::repair_too(const Event& event, const FlowView& flow, Undo::State& state, Plan& plan)
{
  const Plan fetch = fetching::on_ack(event, flow, holes_of(state), settings_, scratch_);
  plan.fetch = fetch.fetch;
  if (plan.inject.empty()) plan.inject = fetch.inject;
  plan.wake = fetch.wake;
  if (plan.why.empty()) plan.why = fetch.why;
}

Plan Refetch::alarm(const Event& event, const FlowView& flow, Undo::State& state)
{
  Plan plan = fetching::on_alarm(event, flow, holes_of(state), settings_, scratch_);
  if (!plan.inject.empty()) return plan;
  const Plan own = Undo::alarm(event, flow, state);
  if (own.wake) plan.wake = plan.wake ? std::min(*plan.wake, *own.wake) : *own.wake;
  plan.inject = own.inject;
  if (!own.why.empty()) plan.why = own.why;
  return plan;
}

Plan Refetch::fetched(const Event& event, const FlowView& flow, Undo::State& state)
{
  return fetching::on_fetched(event, flow, holes_of(state), scratch_);
}

void Refetch::describe(const FlowView& flow, const State& state, Facts& facts) const
{
  Undo::describe(flow, state, facts);
  fetching::describe(flow, state.holes ? *state.holes : fetching::State {}, facts);
}

} // namespace tandem::mirror
