#include "modules/freeze/combined.h"

#include "modules/freeze/tcp_lcd.h"
#include "modules/freeze/withheld_acks.h"

namespace tandem::freeze
{

Plan Combined::withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress)
{
  if (state.phase != Phase::clear) return ProactiveFreeze::withhold(event, flow, state, progress);
  if (state.undo.watching) return {};
  if (!window_limited(flow)) return withhold_acks(event, flow, state, knobs, progress);
  state.standing.look(flow, event.now);
  state.target = 0;
  return {};
}

// Where nothing was withheld, or when the ACK stays without an answer.
std::optional<InjectedSegment> Combined::after_resume(const Event& event, const FlowView& flow,
                                                      const BlackoutState& state) const
{
  const bool unanswered = state.resumes > 0 && event.now - state.since > flow.rtt_smoothed + from_seconds(resume_gap);
  if (state.owed && !unanswered) return {};
  return host_unreachable(flow);
}

} // namespace tandem::freeze
