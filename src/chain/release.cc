#include "src/chain/release.h"

#include <algorithm>

namespace tandem::chain
{

std::uint32_t may_wait(const ReleaseLimits& limits, const FlowView& flow, const LinkState& link)
{
  const std::uint32_t most = (flow.slow_start ? limits.young : limits.settled) * flow.mss;
  return link.at_risk ? std::max(most, static_cast<std::uint32_t>(limits.warned * flow.window_estimate)) : most;
}

std::uint32_t may_withhold(const ReleaseLimits& limits, const FlowView& flow, const LinkState& link, bool left_out,
                           Tick now)
{
  // From the filling of the last hole to the ACK that reaches the recovery point it takes a round trip.
  const bool recovers = flow.holes || (flow.loss_episodes > 0 && now - flow.filled_at < flow.rtt_smoothed);
  if (recovers || flow.mptcp_refused) return 0;
  const std::uint32_t most = may_wait(limits, flow, link), room = limits.room * flow.mss;
  return left_out && most > room ? most - room : most;
}

} // namespace tandem::chain
