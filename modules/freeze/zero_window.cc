#include "modules/freeze/zero_window.h"

#include <tandem/pure_ack.h>

namespace tandem::freeze
{

Plan ZeroWindow::send_by_cellular(const Event&, const FlowView& flow, BlackoutState& state, const Plan& plan)
{
  state.window_closed = state.owed = true;
  scratch_[0] = latest_ack(flow, Link::cell);
  scratch_[0].window = 0;
  return injected(1, plan.wake, "freeze: window closed by cellular");
}

std::optional<InjectedSegment> ZeroWindow::after_resume(const Event& event, const FlowView& flow,
                                                        const BlackoutState& state) const
{
  if (state.resumes > 0 || !validated(event, flow, state)) return {};
  return latest_ack(flow, Link::cell);
}

} // namespace tandem::freeze
