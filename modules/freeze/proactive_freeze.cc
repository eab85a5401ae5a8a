#include "modules/freeze/proactive_freeze.h"

#include "modules/freeze/withheld_acks.h"

#include <tandem/pure_ack.h>

#include <algorithm>
#include <cmath>

namespace tandem::freeze
{

namespace
{

using namespace std::chrono_literals;

// What a sender may send at once when its window is opened.
constexpr double first_burst_mss = 10; // RFC 6928
// Its own acknowledgements set the pace after so many round trips of reopening.
constexpr Duration reopening(const FlowView& flow)
{
  return flow.rtt_smoothed * 5 / 4;
}

// Between two parts of what is withheld while the window is closed and the link still there: well within the sender's
// timer, which Linux keeps 200 ms above the round trip.
Duration closed_gap(const FlowView& flow)
{
  return (flow.rtt_smoothed + 200ms) * 3 / 5;
}

} // namespace

Plan ProactiveFreeze::withhold(const Event& event, const FlowView& flow, BlackoutState& state, bool progress)
{
  if (state.phase != Phase::closed) return {};
  Plan plan = withhold_acks(event, flow, state, knobs, progress);
  if (plan.wake) plan.wake = std::min({ *plan.wake, event.now + closed_gap(flow), longest_closed(own(state)) });
  return plan;
}

Plan ProactiveFreeze::warned(const Event& event, const FlowView& flow, BlackoutState& core)
{
  State& state = own(core);
  if (!bulk(flow, *event.links, knobs) || event.now < state.heeded_from || event.now - state.progress_at > lively)
    return {};
  state.phase = Phase::closed;
  state.since = event.now;
  state.window_closed = true;
  state.reopening = false;
  state.why = "freeze: window closed, a blackout is predicted";
  scratch_[0] = latest_ack(flow, flow.link);
  // What is withheld stays so. A sender with nothing at all in flight would slowly start anew after a pause (RFC 2861).
  scratch_[0].ack = flow.sent_ack;
  scratch_[0].window = closed_window(flow, withholds_ack(flow));
  state.pace = static_cast<float>(flow.delivery_rate);
  // The alarm finds out whether there is a part to release: perhaps nothing more arrives that would set it.
  return injected(1, std::min(std::max(event.now, state.progress_at + closed_gap(flow)), longest_closed(state)),
                  "freeze: window closed, blackout predicted");
}

Plan ProactiveFreeze::warning_over(const Event& event, const FlowView& flow, BlackoutState& state)
{
  back_off(event, own(state));
  state.phase = Phase::clear;
  return reopen(event, flow, own(state), "freeze: warning withdrawn, window reopens");
}

// After a warning that came to nothing.
void ProactiveFreeze::back_off(const Event& event, State& state) const
{
  state.heeded_from = event.now + from_seconds(knobs.closed_back_off * std::exp2(std::min<int>(state.misses, 8)));
  if (state.misses < 255) ++state.misses;
}

Plan ProactiveFreeze::link_lost(const Event&, const FlowView&, BlackoutState& state, const Plan& plan)
{
  own(state).misses = 0;
  return plan;
}

Plan ProactiveFreeze::link_back(const Event& event, const FlowView& flow, BlackoutState& state)
{
  return state.window_closed ? reopen(event, flow, own(state), "freeze: resume ACK, window reopens")
                             : BlackoutStrategy::link_back(event, flow, state);
}

Plan ProactiveFreeze::alarm(const Event& event, const FlowView& flow, BlackoutState& state)
{
  if (state.reopening) return reopen(event, flow, own(state), "freeze: window reopens");
  if (state.phase == Phase::closed) return while_closed(event, flow, own(state));
  return BlackoutStrategy::alarm(event, flow, state);
}

Plan ProactiveFreeze::while_closed(const Event& event, const FlowView& flow, State& state)
{
  const Tick limit = longest_closed(state);
  if (event.now >= limit)
  {
    back_off(event, state);
    state.phase = Phase::clear;
    return reopen(event, flow, state, "freeze: no blackout came, window reopens");
  }
  // Before the sender's timer fires: what it sends again would be answered, and what is withheld with it.
  const Tick next = std::max(state.progress_at, state.released_at) + closed_gap(flow);
  if (event.now < next) return { .wake = std::min(next, limit) };
  if (!withholds_ack(flow) || flow.rcv_nxt - flow.sent_ack <= flow.mss) return { .wake = limit };
  state.released_at = event.now;
  scratch_[0] = latest_ack(flow, flow.link);
  scratch_[0].ack = flow.sent_ack + static_cast<std::uint32_t>(flow.mss);
  scratch_[0].window = closed_window(flow, true);
  return injected(1, std::min(event.now + closed_gap(flow), limit),
                  "freeze: a part of the withheld ACK keeps the sender's timer from firing");
}

// Opens the window of a sender that may send all of its congestion window at once, so that the queue before the link
// is not overrun: at the pace that the flow had, for a round trip, after which its own acknowledgements set the pace.
Plan ProactiveFreeze::reopen(const Event& event, const FlowView& flow, State& state, const char* why)
{
  if (!state.reopening)
  {
    state.reopening = true;
    state.window_closed = false;
    state.reopening_at = event.now;
    state.why = why;
    state.edge = flow.rcv_nxt + static_cast<std::uint32_t>(first_burst_mss * flow.mss);
    state.undo.begin();
    state.up_at = event.now;
  }
  scratch_[0] = latest_ack(flow, flow.link);
  if (event.now - state.reopening_at > reopening(flow))
  {
    state.reopening = false;
    if (state.phase == Phase::returning) return resume(event, flow, state, "freeze: resume ACK again");
    return injected(1, event.now + release_timeout(flow, knobs), "freeze: window open");
  }
  scratch_[0].window = window_now(event, flow, state, scratch_[0].ack, flow.last_window);
  return injected(1, event.now + std::clamp<Duration>(flow.rtt_smoothed / 16, 5ms, 50ms), why);
}

std::uint16_t ProactiveFreeze::window_now(const Event& event, const FlowView& flow, const BlackoutState& core, Seq ack,
                                          std::uint16_t real) const
{
  const auto& state = static_cast<const State&>(core);
  if (state.window_closed || !state.reopening || event.now - state.reopening_at > reopening(flow))
    return BlackoutStrategy::window_now(event, flow, state, ack, real);
  const Seq edge = state.edge + static_cast<std::uint32_t>(state.pace * seconds(event.now - state.reopening_at));
  const std::uint32_t open = edge.after(ack) ? static_cast<std::uint32_t>(edge - ack) >> flow.local_window_scale : 0;
  const std::uint32_t closed = closed_window(flow, flow.rcv_nxt.after(ack));
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(real, std::max(open, closed)));
}

} // namespace tandem::freeze
