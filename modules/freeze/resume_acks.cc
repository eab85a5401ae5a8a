#include "modules/freeze/resume_acks.h"

#include "modules/freeze/withheld_acks.h"

namespace tandem::freeze
{

Plan ResumeAcks::withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress)
{
  return state.phase == Phase::clear ? withhold_acks(event, flow, state, knobs, progress) : Plan {};
}

} // namespace tandem::freeze
