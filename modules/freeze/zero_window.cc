#include "modules/freeze/zero_window.h"

#include "modules/freeze/withheld_acks.h"

#include <tandem/path_validation.h>
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
  if (state.resumes > 0 || !validated(event, flow, state) || !news_by_cell(flow)) return {};
  return PathValidation::latest_by_cell(flow);
}

} // namespace tandem::freeze
