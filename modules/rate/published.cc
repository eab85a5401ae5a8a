#include "modules/rate/published.h"

namespace tandem::rate
{
namespace
{

// Shorter than Linux' least retransmission timeout and a round trip together: a sender that paused for longer begins
// with a small window (RFC 2861).
constexpr Duration period = std::chrono::milliseconds { 500 };

} // namespace

bool PublishedShare::look(Tick now, const ClaParameters& parameters, ClaState state)
{
  if (now - period_ >= period)
  {
    period_ = now;
    const ClaStage stage = rate::stage(parameters, state);
    if (stage == ClaStage::pre_handoff && !near_) R2p_ = state.R2;
    near_ = stage == ClaStage::pre_handoff;
    state.R2p = R2p_;
    share_ = stage == ClaStage::none ? 0
             : near_                 ? pre_handoff(parameters, state).cell / parameters.C2
                                     : stationary(parameters, state).cell / parameters.C2;
  }
  return seconds(now - period_) < share_ * seconds(period);
}

} // namespace tandem::rate
