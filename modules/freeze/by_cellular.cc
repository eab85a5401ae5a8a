#include "modules/freeze/by_cellular.h"

#include "modules/freeze/withheld_acks.h"

namespace tandem::freeze
{

bool ByCellular::validated(const Event& event, const FlowView& flow, const BlackoutState& state) const
{
  const auto& path = static_cast<const State&>(state).path;
  return usable(Link::cell, *event.links, flow) && (knobs.validate_path == 0 || (path && path->fresh(event.now)));
}

void ByCellular::acknowledged(const Event& event, const FlowView& flow, BlackoutState& state, Plan& plan)
{
  if (knobs.validate_path == 0) return;
  auto& path = static_cast<State&>(state).path;
  if (!path) path = std::make_unique<CellularPath>();
  path->acknowledged(event, flow, state.phase == Phase::clear, !state.undo.watching && bulk(flow, *event.links, knobs),
                     scratch_[0], plan);
}

Plan ByCellular::arrived(const Event& event, const FlowView& flow, BlackoutState& state)
{
  const auto& path = static_cast<State&>(state).path;
  return path ? path->arrived(event, flow) : Plan {};
}

Plan ByCellular::link_lost(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan)
{
  if (const auto& path = static_cast<State&>(state).path) path->stop();
  Plan sent = plan;
  if (state.stirred && usable(Link::cell, *event.links, flow))
    sent = validated(event, flow, state)
               ? send_by_cellular(event, flow, state, plan)
               : Plan { .wake = plan.wake, .why = "freeze: cellular path not validated, nothing is sent by it" };
  sent.reserve = TsReservation {}; // no copy needs it any more
  return sent;
}

void ByCellular::describe(const FlowView& flow, const State& state, Facts& facts) const
{
  BlackoutStrategy::describe(flow, state, facts);
  if (knobs.validate_path != 0)
    facts.add("cellular", state.path && state.path->validated() ? "validated" : "not validated");
}

} // namespace tandem::freeze
