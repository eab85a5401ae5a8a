#include "modules/freeze/paced_release.h"

#include "modules/freeze/withheld_acks.h"

#include <tandem/path_validation.h>
#include <tandem/pure_ack.h>

#include <algorithm>
#include <cmath>

namespace tandem::freeze
{

namespace
{

// RFC 6298 2.4 asks for a second; Linux takes 200 ms above the smoothed RTT.
constexpr float shortest_rttvar = 0.2f;
// Of the sender's timer that passes before a part is released.
constexpr float margin = 0.7f;

} // namespace

Plan PacedRelease::withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress)
{
  return state.phase == Phase::clear ? withhold_acks(event, flow, state, knobs, progress) : Plan {};
}

Plan PacedRelease::link_lost(const Event& event, const FlowView& flow, BlackoutState& core, const Plan& plan)
{
  auto& state = static_cast<State&>(core);
  state.released = 0;
  state.srtt = static_cast<float>(seconds(flow.rtt_smoothed));
  state.rttvar = 0;
  return ByCellular::link_lost(event, flow, state, plan);
}

Plan PacedRelease::while_lost(const Event& event, const FlowView& flow, BlackoutState& state, const Plan& plan)
{
  return state.stirred && validated(event, flow, state) ? send_by_cellular(event, flow, state, plan) : plan;
}

// Every part restarts the sender's timer, and its old echo makes it longer: the gaps grow by themselves.
Plan PacedRelease::send_by_cellular(const Event& event, const FlowView& flow, BlackoutState& core, const Plan& plan)
{
  auto& state = static_cast<State&>(core);
  const Seq most = PathValidation::most_by_cell(flow);
  if (!most.after(state.acknowledged)) return plan;
  const auto held = static_cast<std::uint32_t>(most - state.acknowledged);
  const auto all_parts = static_cast<unsigned>(knobs.release_parts);
  const unsigned parts = all_parts - std::min<unsigned>(state.released, all_parts - 1);
  const std::uint32_t part = std::clamp<std::uint32_t>(held / parts, std::min<std::uint32_t>(held, flow.mss), held);
  scratch_[0] = latest_ack(flow, Link::cell);
  state.acknowledged = state.acknowledged + part;
  scratch_[0].ack = state.acknowledged;
  scratch_[0].window = closed_window(flow, true); // what the blackout took is in flight
  state.window_closed = true;
  if (state.released < 255) ++state.released;
  // RFC 6298 section 2, fed with the age of the echo that the part carries.
  const auto sample = static_cast<float>(seconds(event.now - state.progress_at)) + state.srtt;
  state.rttvar += (std::abs(state.srtt - sample) - state.rttvar) / 4;
  state.srtt += (sample - state.srtt) / 8;
  const float timeout = state.srtt + std::max(shortest_rttvar, 4 * state.rttvar);
  const Tick next = event.now + from_seconds(static_cast<double>(margin * timeout));
  return injected(1, held == part ? deadline(state) : next, "freeze: paced release by cellular");
}

} // namespace tandem::freeze
