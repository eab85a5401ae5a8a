#include "modules/freeze/blackout_strategy.h"

#include "modules/freeze/withheld_acks.h"

#include <tandem/path_validation.h>
#include <tandem/pure_ack.h>

#include <algorithm>
#include <cmath>

namespace tandem::freeze
{

namespace
{

using namespace std::chrono_literals;

bool bypassed(const Event& event, const FlowView& flow, BlackoutState& state)
{
  if (!state.bypassed && (flow.mptcp || tied_to_its_flags(*event.segment, flow)))
  {
    state.bypassed = true;
    state.why = flow.mptcp ? "freeze: MPTCP subflow, bypassed" : "freeze: accurate ECN or unknown option, bypassed";
  }
  return state.bypassed;
}

// Whether what arrives first after a blackout was sent in its first half: the access point kept it. A retransmission
// that finds the link back was sent at its end.
bool was_kept(const Segment& ack, const FlowView& flow, const BlackoutState& state)
{
  return flow.timestamps_ok && ack.timestamps && ack.timestamps->echo.before(state.half_way);
}

// How long data that an access point kept is waited for. It is the first that leaves there; where others are known to
// have got theirs, behind what it kept for all flows, well within the least time of a sender's timer (200 ms).
Duration wait_for_kept(const FlowView& flow, const LinkStates& links)
{
  const bool known = links[static_cast<std::size_t>(flow.link)].keeps_frames.value_or(false);
  return known ? std::clamp<Duration>(flow.rtt_min, 50ms, 100ms) : std::clamp<Duration>(flow.rtt_min / 4, 5ms, 25ms);
}

// One below what was acknowledged is ignored by TCP (RFC 5961 3.2).
void note_reset(const Segment& segment, const FlowView& flow, BlackoutState& state)
{
  state.over = segment.direction == Direction::egress || segment.seq.at_or_after(flow.rcv_nxt);
  if (state.over) state.why = "freeze: reset";
}

// A connection that is over is not spoken for. The local TCP may not have taken the reset (RFC 5961 3.2), and then goes
// on with what became of links and timers meanwhile.
Plan unless_over(const Plan& plan, const BlackoutState& state)
{
  return state.over ? Plan { .reserve = plan.reserve, .wake = plan.wake } : plan;
}

} // namespace

Plan BlackoutStrategy::decide(const Event& event, const FlowView& flow, BlackoutState& state)
{
  switch (event.kind)
  {
  case EventKind::segment:
    if (event.segment->has(tcp_flag::rst)) note_reset(*event.segment, flow, state);
    // A copy, or what another module decides about.
    if (event.segment->direction == Direction::ingress) return arrived(event, flow, state);
    if (event.queued && event.segment->is_pure_ack()) return acknowledge(event, flow, state);
    return {};
  case EventKind::alarm:
    return unless_over(alarm(event, flow, state), state);
  case EventKind::link:
    return unless_over(link_changed(event, flow, state), state);
  case EventKind::switched_off:
    return give_up(event, flow, state, "freeze: switched off");
  case EventKind::radio:
  case EventKind::fetched:
    return {};
  }
  return {};
}

// ---- while packets flow

Plan BlackoutStrategy::acknowledge(const Event& event, const FlowView& flow, BlackoutState& state)
{
  const Segment& segment = *event.segment;
  if (state.over) state.why = "freeze: a reset that TCP did not take";
  state.over = false;
  if (bypassed(event, flow, state)) return {};
  // Packets went by beside the queue, perhaps more than half the sequence space.
  if (event.now == flow.resumed) state.ack_known = false;
  const bool progress = !state.ack_known || segment.ack.after(state.last_ack);
  const std::optional<bool> frames_kept = heard(event, flow, state, progress);
  Plan plan =
      state.undo.acknowledged(segment, progress, event.now - state.up_at, from_seconds(static_cast<double>(state.rtt)));
  if (knobs.undo == 0 || flow.sender.kind == SenderKind::unresponsive) plan = {};
  if (progress)
  {
    state.progress_at = event.now;
    state.last_ack = segment.ack;
    state.ack_known = true;
    state.unheard = false;
  }
  if (plan.edit.empty()) plan = withhold(event, flow, state, progress);
  if (const std::uint16_t window = window_now(event, flow, state, plan.edit.ack.value_or(segment.ack), segment.window);
      window < segment.window)
  {
    // Also in the local TCP's answer to a window probe.
    plan.verdict = Verdict::pass;
    plan.edit.window = window;
    if (plan.why.empty()) plan.why = state.reopening ? "freeze: window reopens" : "freeze: window stays closed";
  }
  acknowledged(event, flow, state, plan);
  plan.frames_kept = frames_kept;
  // Nothing is kept from the server once this ACK has left as it is.
  if (state.phase == Phase::clear && faster_than_wifi(flow, *event.links) && !plan.edit.changes_bytes())
    plan.quiet = event.now + look_again;
  return plan;
}

std::uint16_t BlackoutStrategy::window_now(const Event&, const FlowView& flow, const BlackoutState& state, Seq ack,
                                           std::uint16_t real) const
{
  // Of what is withheld counts what is left when `ack` has left.
  return state.window_closed ? std::min(real, closed_window(flow, flow.rcv_nxt.after(ack))) : real;
}

// The local TCP speaks when something arrived: the server has answered. A new window alone is the application reading.
// Returns what that says of the access point.
std::optional<bool> BlackoutStrategy::heard(const Event& event, const FlowView& flow, BlackoutState& state,
                                            bool progress) const
{
  if (state.phase != Phase::returning) return {};
  if (!progress && event.segment->sack_count == 0 && event.segment->window != flow.told_window) return {};
  std::optional<bool> frames_kept {};
  if (!state.answered)
  {
    state.first_data = static_cast<float>(seconds(event.now - state.since));
    state.buffers = progress && was_kept(*event.segment, flow, state);
    if (state.buffers)
    {
      // To tell others it must also be too early for an answer: the server's clock may be slower than 1 kHz.
      if (event.now - state.up_at < flow.rtt_min) frames_kept = true;
    }
    else if (progress)
      frames_kept = nothing_came(event, flow, state);
  }
  state.answered = true;
  // Behind a hole even data that the access point had kept makes the local TCP speak, while the server goes on waiting
  // for its timer.
  if (!progress && (!state.owed || event.now - state.since < flow.rtt_min)) return frames_kept;
  state.phase = Phase::clear;
  state.since = event.now;
  state.why = "freeze: back";
  return frames_kept;
}

// Something would have been on its way to a download when the link went.
std::optional<bool> BlackoutStrategy::nothing_came(const Event& event, const FlowView& flow,
                                                   const BlackoutState& state) const
{
  if (state.shut || !flow.timestamps_ok || !bulk(flow, *event.links, knobs)) return {};
  return false;
}

// ---- when the link changes

Plan BlackoutStrategy::link_changed(const Event& event, const FlowView& flow, BlackoutState& state)
{
  if (state.bypassed || !flow.sent_any) return {};
  const LinkState& link = (*event.links)[static_cast<std::size_t>(flow.link)];
  if (!link.up) return state.phase == Phase::down ? Plan {} : go_down(event, flow, state);
  if (state.phase == Phase::down) return come_back(event, flow, state);
  if (link.at_risk && state.phase == Phase::clear) return warned(event, flow, state);
  if (!link.at_risk && state.phase == Phase::closed) return warning_over(event, flow, state);
  return {};
}

Plan BlackoutStrategy::go_down(const Event& event, const FlowView& flow, BlackoutState& state)
{
  // Back and gone again before the server could answer: still the same wait. A closed window makes every flow silent.
  state.stirred =
      state.phase == Phase::returning || state.phase == Phase::closed || event.now - state.progress_at < lively;
  // ACKs from now on may be lost.
  state.window_closed = state.window_closed || state.reopening; // not open yet
  state.shut = state.window_closed;
  state.owed = withholds_ack(flow) || state.window_closed || (state.phase == Phase::returning && state.owed);
  state.unheard = state.unheard && state.stirred;
  if (!state.unheard) state.acknowledged = flow.sent_ack;
  if (state.phase == Phase::clear || state.phase == Phase::closed) state.half_way = flow.ts_recent;
  state.phase = Phase::down;
  state.since = event.now;
  state.undo.stop();
  state.reopening = false;
  if (state.blackouts < 65535) ++state.blackouts;
  state.why = "freeze: blackout";
  return link_lost(event, flow, state, { .wake = deadline(state) });
}

Plan BlackoutStrategy::come_back(const Event& event, const FlowView& flow, BlackoutState& state)
{
  const bool late = event.now > deadline(state);
  // Of clocks faster than 1 kHz: a part of it.
  const double half = milliseconds(event.now - state.since) / 2 * state.standing.pace(flow, state.progress_at);
  state.half_way = state.half_way + static_cast<std::uint32_t>(std::llround(half));
  state.up_at = state.since = event.now;
  state.resumes = 0;
  state.answered = false;
  state.phase = Phase::returning;
  if (state.stirred && !late)
  {
    state.buffers = keeps_frames(flow, *event.links, state);
    if (!state.buffers || state.owed) return ask_again(event, flow, state);
    // The frames it kept draw ACKs of the local TCP, which undo the server's timeouts by themselves.
    state.why = "freeze: link back, the access point kept frames before";
    return { .wake = event.now + wait_for_kept(flow, *event.links), .why = state.why };
  }
  constexpr const char* why = "freeze: link back, nothing waited for";
  Plan plan = give_up(event, flow, state, why);
  if (plan.inject.empty() && (state.owed || state.unheard))
  {
    scratch_[0] = latest_ack(flow, flow.link);
    plan = injected(1, {}, why);
  }
  return plan;
}

Plan BlackoutStrategy::ask_again(const Event& event, const FlowView& flow, BlackoutState& state)
{
  state.buffers = false;
  state.undo.begin();
  state.rtt = static_cast<float>(seconds(flow.rtt_smoothed));
  state.why = "freeze: link back";
  return link_back(event, flow, state);
}

Plan BlackoutStrategy::link_back(const Event& event, const FlowView& flow, BlackoutState& state)
{
  return resume(event, flow, state, "freeze: resume ACK");
}

Plan BlackoutStrategy::resume(const Event& event, const FlowView& flow, BlackoutState& state, std::string_view why)
{
  std::size_t count = 0;
  scratch_[count++] = latest_ack(flow, flow.link);
  if (const std::optional<InjectedSegment> more = after_resume(event, flow, state)) scratch_[count++] = *more;
  state.window_closed = false;
  // Without SACK a repetition counts as a duplicate ACK (RFC 5681).
  const unsigned most = flow.sack_ok ? static_cast<unsigned>(knobs.resumes) : 1;
  const Duration gap = ++state.resumes < most ? from_seconds(resume_gap * std::pow(1.5, state.resumes - 1)) : lively;
  return injected(count, event.now + gap, why);
}

Plan BlackoutStrategy::alarm(const Event& event, const FlowView& flow, BlackoutState& state)
{
  switch (state.phase)
  {
  case Phase::clear:
    if (!withholds_ack(flow) || flow.fin_sent) return {}; // a FIN acknowledges all
    if (const Tick due = state.progress_at + release_timeout(flow, knobs); event.now < due) return { .wake = due };
    // Or the link is gone, which is told later: then the server does not hear this.
    state.unheard = true;
    state.acknowledged = flow.sent_ack;
    return release(flow, state, "freeze: withheld ACK released, the flow pauses");
  case Phase::closed:
    return {};
  case Phase::down:
    if (event.now < deadline(state)) return while_lost(event, flow, state, { .wake = deadline(state) });
    state.stirred = false;
    return give_up(event, flow, state, "freeze: blackout too long, left to TCP");
  case Phase::returning:
    if (state.resumes == 0 && state.buffers)
    {
      Plan plan = ask_again(event, flow, state);
      plan.frames_kept = nothing_came(event, flow, state);
      return plan;
    }
    if (state.resumes < static_cast<unsigned>(knobs.resumes) && flow.sack_ok)
      return resume(event, flow, state, "freeze: resume ACK again");
    state.phase = Phase::clear;
    state.why = "freeze: no answer, left to TCP";
    return {};
  }
  return {};
}

// ---- the end of it

Plan BlackoutStrategy::release(const FlowView& flow, BlackoutState& state, std::string_view why)
{
  if (!withholds_ack(flow) && !state.window_closed) return {};
  state.window_closed = false;
  scratch_[0] = latest_ack(flow, flow.link);
  return injected(1, {}, why);
}

// Undoes everything; the window is opened by every way that may have closed it.
Plan BlackoutStrategy::give_up(const Event& event, const FlowView& flow, BlackoutState& state, const char* why)
{
  // A window that is being reopened is not open yet.
  state.window_closed = state.window_closed || state.reopening;
  state.reopening = false;
  const bool by_cell =
      state.window_closed && state.phase == Phase::down && usable(Link::cell, *event.links, flow) && news_by_cell(flow);
  if (state.phase != Phase::down) state.phase = Phase::clear;
  state.why = why;
  Plan plan = release(flow, state, why);
  if (!by_cell) return plan;
  scratch_[1] = PathValidation::latest_by_cell(flow);
  return injected(2, {}, why);
}

void BlackoutStrategy::describe(const FlowView& flow, const BlackoutState& state, Facts& facts) const
{
  constexpr std::array<std::string_view, 4> phases { "clear", "closed", "down", "returning" };
  facts.add("phase", phases[static_cast<std::size_t>(state.phase)]);
  facts.add("why", state.why);
  facts.add("withheld", flow.sent_any ? static_cast<double>(flow.rcv_nxt - flow.sent_ack) : 0.0, "bytes");
  facts.add("to withhold", state.target, "bytes");
  facts.add("blackouts", state.blackouts);
  if (state.first_data > 0) facts.add("answer after link-up", static_cast<double>(state.first_data) * 1e3, "ms");
}

} // namespace tandem::freeze
