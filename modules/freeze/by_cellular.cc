#include "modules/freeze/by_cellular.h"

#include "modules/freeze/withheld_acks.h"

#include <tandem/pure_ack.h>

#include <algorithm>

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
  if (const Tick due = path->due(flow); due != Tick::max()) plan.wake = std::min(plan.wake.value_or(due), due);
}

// What lets no data pass that echoes a TSval younger than those that it has seen (pf: pf_normalize_tcp_stateful()) has
// kept the echo of the copies from this host, and all that followed it: an ACK by the flow's own link has a younger
// one.
Plan ByCellular::alarm(const Event& event, const FlowView& flow, BlackoutState& state)
{
  Plan plan = BlackoutStrategy::alarm(event, flow, state);
  const auto& path = static_cast<State&>(state).path;
  const Tick due = path ? path->due(flow) : Tick::max();
  if (event.now < due)
  {
    if (due != Tick::max()) plan.wake = std::min(plan.wake.value_or(due), due);
    return plan;
  }
  path->overdue(event, flow, plan);
  if (!plan.inject.empty() || !flow.timestamps_ok) return plan;
  scratch_[0] = latest_ack(flow, flow.link);
  scratch_[0].ack = flow.sent_ack;
  plan.inject = { scratch_.data(), 1 };
  return plan;
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
