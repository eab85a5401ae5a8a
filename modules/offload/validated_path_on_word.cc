// By cellular on another flow's word: no copies, and no waiting for a window that stands still. The first ACKs are the
// validation; what is found wrong is told to others (docs/decisions/0033).
#include "modules/offload/added_delay.h"
#include "modules/offload/validated_path.h"

#include <algorithm>
#include <chrono>

namespace tandem::offload
{

using namespace std::chrono_literals;

namespace
{

constexpr Duration longest_extra = 50ms; // for an echo of a path that is known to be slower

} // namespace

bool ValidatedPath::fits_on_word(const FlowView& flow, const State& state) const
{
  return state.takes_word(flow) && PathValidation::possible(flow) && PathValidation::may_lag(flow)
         && seconds(*flow.cell_path_known) <= longest_delay(flow, knobs.added_delay_free, state.queue_by_wifi);
}

// The ACK at hand still leaves by Wi-Fi; what follows is younger, whichever way is the faster one.
Plan ValidatedPath::move_on_word(const Event& event, const FlowView& flow, State& state)
{
  const TsClock own = event.segment->timestamps->value;
  const TsClock newest = flow.sent_any && flow.sent_ts_value.after(own) ? flow.sent_ts_value : own;
  state.added_delay = static_cast<float>(seconds(*flow.cell_path_known));
  state.on_word = true;
  return move(event, flow, state, newest, "offload: path known from another flow");
}

// When the first ACK by cellular must be echoed, however many follow. The server's RTO runs from the ACK by Wi-Fi
// before it, for 200 ms above the RTT at least: the newest ACK is there by Wi-Fi before that.
Tick ValidatedPath::first_echo_due(const FlowView& flow, const State& state)
{
  const Duration slower = std::clamp<Duration>(from_seconds(state.added_delay), 0ms, longest_extra);
  return state.since + PathValidation::timeout(flow.rtt_smoothed) + slower;
}

// Why an ACK must not leave that way.
std::optional<Plan> ValidatedPath::leave_on_word(const Event& event, const FlowView& flow, State& state)
{
  // Not the two bytes either may be left out then that keep the answer of an unknown NAT before the window.
  if (!PathValidation::may_lag(flow))
    return return_to_wifi(event, flow, state, 100ms, "offload: a loss before the first echo", false);
  if (state.unvalidated == 0)
    state.since = event.now;
  else if (event.now >= first_echo_due(flow, state))
    return doubt(event, flow, state, false);
  return {};
}

// No echo came, of the first ACKs or although data arrives: no other flow is to begin there without a validation, and
// this one takes no word before it has validated the path by itself.
Plan ValidatedPath::doubt(const Event& event, const FlowView& flow, State& state, bool say_again)
{
  const bool word = state.on_word;
  state.distrusts = true;
  Plan plan = return_to_wifi(
      event, flow, state, word ? from_seconds(knobs.retry_first) : backoff(state.failures),
      word ? "offload: no echo on a path known from another flow" : "offload: path validation lost", say_again);
  plan.cell_path = CellPath { CellPath::Is::doubted };
  return plan;
}

} // namespace tandem::offload
