#include "modules/freeze/freeze.h"

#include <tandem/knob_table.h>

#include <algorithm>
#include <cmath>

namespace tandem::freeze
{

namespace
{

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 6> strategies { "auto", "kick", "drip", "lcd", "ahead", "zero_window" };

constexpr std::array<KnobRow<Knobs>, 18> rows { {
    { { .name = "bulk_bytes",
        .unit = "bytes",
        .minimum = 0,
        .maximum = 1e12,
        .help = "delivered before a flow counts as a download; nothing of a younger one is held back" },
      &Knobs::bulk_bytes },
    { { .name = "bulk_window",
        .unit = "MSS",
        .minimum = 2,
        .maximum = 10000,
        .help = "window of the sender below which nothing is held back; twice this when the receive window limits the "
                "flow" },
      &Knobs::bulk_window },
    { { .name = "reserve_share",
        .minimum = 0,
        .maximum = 0.5,
        .help = "share of the sender's window whose acknowledgement is held back in any case, at least one segment" },
      &Knobs::reserve_share },
    { { .name = "reserve_queue",
        .minimum = 0,
        .maximum = 1,
        .help = "and this share of what the flow has standing in queues, where it costs nothing" },
      &Knobs::reserve_queue },
    { { .name = "reserve_recent",
        .minimum = 0,
        .maximum = 0.5,
        .help = "after a recent blackout at least this share of the window" },
      &Knobs::reserve_recent },
    { { .name = "reserve_warned",
        .minimum = 0,
        .maximum = 0.5,
        .help = "while a warning of a blackout stands at least this share of the window" },
      &Knobs::reserve_warned },
    { { .name = "reserve_most", .minimum = 0, .maximum = 0.5, .help = "never more than this share of the window" },
      &Knobs::reserve_most },
    { { .name = "risk_memory",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0,
        .maximum = 3600,
        .help = "how long a blackout counts as recent" },
      &Knobs::risk_memory },
    { { .name = "release_after",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.001,
        .maximum = 1,
        .help = "what is held back is said after this long without progress, or three quarters of a round trip if that "
                "is longer" },
      &Knobs::release_after },
    { { .name = "kick_gap",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.001,
        .maximum = 1,
        .help = "between the first two ACKs at link-up; grows by half each time" },
      &Knobs::kick_gap },
    { { .name = "kicks",
        .type = KnobType::integer,
        .minimum = 1,
        .maximum = 32,
        .help = "ACKs sent at link-up until the server answers" },
      &Knobs::kicks },
    { { .name = "undo",
        .type = KnobType::boolean,
        .minimum = 0,
        .maximum = 1,
        .help = "one older TSecr at the end of the retransmissions after a blackout: the sender restores its window" },
      &Knobs::undo },
    { { .name = "drips",
        .type = KnobType::integer,
        .minimum = 1,
        .maximum = 32,
        .help = "strategy drip only: parts in which the reserve is said" },
      &Knobs::drips },
    { { .name = "ahead_longest",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.05,
        .maximum = 10,
        .help = "how long the window stays closed for a warning without a blackout" },
      &Knobs::ahead_longest },
    { { .name = "ahead_rest",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0,
        .maximum = 3600,
        .help = "after a warning that came to nothing the next ones are not heeded for this long; doubles each time" },
      &Knobs::ahead_rest },
    { { .name = "prove",
        .type = KnobType::boolean,
        .minimum = 0,
        .maximum = 1,
        .help = "strategies drip and zero_window: nothing is sent by cellular before the server has proved that it "
                "arrives" },
      &Knobs::prove },
    { { .name = "deadline",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 1,
        .maximum = 600,
        .help = "blackouts longer than this are left to TCP, a closed window is opened" },
      &Knobs::deadline },
    { { .name = "rest_above",
        .unit = "bit/s",
        .minimum = 1e6,
        .maximum = 1e12,
        .help = "faster flows are left alone: no Wi-Fi is so fast, and every ACK costs time" },
      &Knobs::rest_above },
} };

constexpr Knob strategy_knob {
  .name = "strategy",
  .type = KnobType::choice,
  .minimum = 0,
  .maximum = 5,
  .initial = 0,
  .help = "auto: ahead on a warning, else kick, with lcd where nothing is held back; the others for comparison",
  .choices = strategies
};

constexpr auto all_knobs = knob_table(strategy_knob, rows);

// What a sender may send at once when its window is opened.
constexpr double first_burst_mss = 10; // RFC 6928
// A flow that has said nothing for this long before a blackout waits for nothing after it.
constexpr Duration lively = 2s;
// A proof of the way by cellular counts this long, and is renewed after half of it.
constexpr Duration proof_lasts = 30s;
constexpr unsigned proof_copies = 6;
// Rests after a proof that failed, in seconds.
constexpr double first_rest = 1;
constexpr double longest_rest = 300;
// An old ACK is echoed only while the advertised window stands still (docs/decisions/0003): waited for so many ACKs,
// and this long at most.
constexpr std::uint8_t still_acks = 16;
constexpr Duration longest_wait = 1s;
// The episode of retransmissions after a blackout is waited for this long from link-up.
constexpr Duration longest_watch = 10s;
// ACKs between two changes of the reserve by a segment: slower than the sender's own growth.
constexpr std::uint8_t acks_per_step = 4;
// RFC 6298 2.4 asks for a second; Linux takes 200 ms above the smoothed RTT.
constexpr float shortest_rttvar = 0.2f;
// Of the sender's timer that passes before a drip is sent.
constexpr float drip_margin = 0.7f;

const LinkState& home(const Event& event, const FlowView& flow)
{
  return (*event.links)[static_cast<std::size_t>(flow.link)];
}

bool has_reserve(const FlowView& flow)
{
  return flow.sent_any && flow.highest_ack.after(flow.sent_ack);
}

// A window into which no segment fits. With data in flight and a window of zero a Linux sender takes every expiry of
// its timer for a new one, and forgets the congestion window it had (tcp_retransmit_timer): one unit, if the scale
// allows. With nothing in flight it would fill that unit with a probe, which is then lost and counts as data: zero.
std::uint16_t closed_window(const FlowView& flow, bool in_flight)
{
  return in_flight && flow.scaled(1) < flow.mss ? std::min<std::uint16_t>(1, flow.last_window) : 0;
}

} // namespace

std::string_view Freeze::summary() const
{
  return "Lets a download go on one round trip after a Wi-Fi blackout, instead of when the server's retransmission "
         "timer next fires.";
}

std::string_view Freeze::manual() const
{
  return R"(While the Wi-Fi is gone the server's retransmission timer doubles with every try, and its congestion window collapses: a blackout of two
seconds easily costs four. `freeze` cannot speak to the server over a dead link, but it can prepare.

**Reserve.** Of a download (`bulk_bytes`, `bulk_window`) the acknowledgement of the last few segments is held back: the ACK number in each
ACK is lowered by the reserve. As much is held as stands in queues anyway, more after a warning or a recent blackout. Whatever goes wrong,
the server would only send these bytes again; when the flow pauses they are acknowledged after `release_after`. ACKs with SACK blocks are never
touched. A flow that its receive window limits would pay for a reserve, so by default it holds none and is served by LCD.

**Kick.** At link-up the reserve is acknowledged at once, a few times. The ACK is news to the server: it cancels the timer's backoff and,
because its timestamp (TSecr) is older than the server's retransmissions, the collapse of the congestion window as well (RFC 3522, and
`tcp_try_undo_loss` of Linux). Data arrives one round trip later. The segments that were really lost are then found by SACK and sent again; the
ACK that ends this episode carries one older TSecr, so that the blackout is not taken for congestion.

**LCD.** Where nothing was held back, or the kick stays without an answer, an ICMP host unreachable that quotes the flow follows (RFC 6069, TCP-LCD): it
takes back the doublings of the timer.

**Ahead.** When a blackout is predicted (`tandem link announce risk`, or the radio's signal) the window is closed, so that nothing is in flight
when it comes. Window probes are answered. At link-up, when the warning is withdrawn, or after `ahead_longest` the window is opened again; a warning
that came to nothing costs the next ones a rest.

Without a second interface all of this works just as well. The other strategies exist for comparison: `drip` says the reserve bit by bit over the cellular
link, with a closed window, so that the timer never fires; `zero_window` closes the window over the cellular link once the link is gone, as
published in 2009, and is worse than nothing against today's Linux senders, because they have data in flight. Both look for a proof that what
is sent by cellular arrives, as `offload` does, while all is well, and send nothing by it without one (`prove`).

Left alone are MPTCP subflows, flows with accurate ECN, and flows faster than `rest_above`.)";
}

std::span<const Knob> Freeze::knobs() const
{
  return all_knobs;
}

void Freeze::set(std::string_view knob, double value)
{
  if (knob == strategy_knob.name) knobs_.strategy = static_cast<Strategy>(static_cast<int>(value));
  set_knob(knobs_, rows, knob, value);
}

double Freeze::get(std::string_view knob) const
{
  if (knob == strategy_knob.name) return static_cast<double>(knobs_.strategy);
  return get_knob(knobs_, rows, knob);
}

Interest Freeze::interest() const
{
  // Copies of what arrives are for the RTT, without which no window is known.
  return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data, .radio = true };
}

bool Freeze::holds_reserve() const
{
  return knobs_.strategy == Strategy::automatic || knobs_.strategy == Strategy::kick
         || knobs_.strategy == Strategy::drip;
}

bool Freeze::heeds_warnings() const
{
  return knobs_.strategy == Strategy::automatic || knobs_.strategy == Strategy::ahead;
}

bool Freeze::bulk(const FlowView& flow) const
{
  return static_cast<double>(flow.bytes_delivered) >= knobs_.bulk_bytes && flow.sack_ok && !flow.fin_sent
         && flow.window_estimate >= knobs_.bulk_window * flow.mss && flow.delivery_rate * 8 <= knobs_.rest_above;
}

// How long without progress means that the flow pauses. Shorter than the sender's tail loss probe, which waits for two
// round trips (RFC 8985 7.2).
Duration Freeze::patience(const FlowView& flow) const
{
  return std::max(from_seconds(knobs_.release_after), flow.rtt_smoothed * 3 / 4);
}

// Between two parts of the reserve while the window is closed and the link still there: well within the sender's timer,
// which Linux keeps 200 ms above the round trip.
Duration Freeze::closed_gap(const FlowView& flow)
{
  return (flow.rtt_smoothed + 200ms) * 3 / 5;
}

Craft Freeze::latest(const FlowView& flow, Link by) const
{
  Craft craft { .by = by, .seq = flow.next_seq, .ack = flow.highest_ack, .window = flow.last_window };
  if (flow.timestamps_ok) craft.timestamps = Timestamps { flow.last_ts_value, flow.last_ts_echo };
  return craft;
}

Plan Freeze::decide(const Event& event, const FlowView& flow, State& state)
{
  switch (event.kind)
  {
  case EventKind::segment:
    if (event.segment->has(tcp_flag::rst)) note_reset(*event.segment, flow, state);
    if (!event.queued && event.segment->direction == Direction::ingress) return hear(event, flow, state);
    if (event.queued && event.segment->direction == Direction::egress && event.segment->is_pure_ack())
      return acknowledge(event, flow, state);
    return {};
  case EventKind::alarm:
    return alarm(event, flow, state);
  case EventKind::link:
    return link_changed(event, flow, state);
  case EventKind::switched_off:
    return give_up(event, flow, state, "freeze: switched off");
  case EventKind::radio:
  case EventKind::fetched:
    return {};
  }
  return {};
}

// ---- while packets flow

bool Freeze::left_alone(const Event& event, const FlowView& flow, State& state) const
{
  // RFC 9768 counts in the flags of every ACK, which a crafted one may neither repeat nor skip. What an unknown option
  // ties to the ACK number nobody knows.
  constexpr std::uint16_t counted = tcp_flag::ae | tcp_flag::cwr | tcp_flag::urg;
  if (!state.alone && (flow.mptcp || event.segment->has(counted) || event.segment->has_option(option::unknown)))
  {
    state.alone = true;
    state.why = flow.mptcp ? "freeze: MPTCP subflow left alone" : "freeze: accurate ECN or unknown option, left alone";
  }
  return state.alone;
}

// One below what was acknowledged is ignored by TCP (RFC 5961 3.2).
void Freeze::note_reset(const Segment& segment, const FlowView& flow, State& state)
{
  state.over = segment.direction == Direction::egress || segment.seq.at_or_after(flow.highest_ack);
  if (state.over) state.why = "freeze: reset";
}

Plan Freeze::acknowledge(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  state.over = false; // it was none that the local TCP believed
  if (left_alone(event, flow, state)) return {};
  const bool progress = !state.ack_known || segment.ack.after(state.last_ack);
  heard(event, flow, state, progress);
  Plan plan = watch(event, flow, state, progress);
  if (progress)
  {
    state.progress_at = event.now;
    state.last_ack = segment.ack;
    state.ack_known = true;
    state.unheard = false;
  }
  if (plan.edit.empty()) plan = hold_back(event, flow, state, progress);
  if (state.phase == Phase::closed && plan.wake)
    plan.wake =
        std::min({ *plan.wake, event.now + closed_gap(flow), state.since + from_seconds(knobs_.ahead_longest) });
  if (const std::uint16_t window = window_now(event, flow, state, plan.edit.ack.value_or(segment.ack), segment.window);
      window < segment.window)
  {
    // Also in the local TCP's answer to a window probe.
    plan.verdict = Verdict::pass;
    plan.edit.window = window;
    if (plan.why.empty()) plan.why = state.thawing ? "freeze: window opens" : "freeze: window stays closed";
  }
  prove(event, flow, state, plan);
  if (state.phase == Phase::clear && flow.delivery_rate * 8 > knobs_.rest_above && !has_reserve(flow))
    plan.quiet = event.now + 1s;
  return plan;
}

bool Freeze::speaks_by_cell() const
{
  return knobs_.strategy == Strategy::drip || knobs_.strategy == Strategy::zero_window;
}

bool Freeze::cell_trusted(const Event& event, const FlowView& flow, const State& state) const
{
  return usable(Link::cell, *event.links, flow)
         && (knobs_.prove == 0 || (state.proved_at != Tick {} && event.now - state.proved_at < proof_lasts));
}

// Looks for a proof while all is well: in a blackout it is too late.
void Freeze::prove(const Event& event, const FlowView& flow, State& state, Plan& plan)
{
  if (!speaks_by_cell() || knobs_.prove == 0) return;
  const Segment& segment = *event.segment;
  const auto end = [&](Duration rest, std::string_view why)
  {
    state.proving = false;
    state.prove_at = event.now + rest;
    plan.why = why;
  };
  state.still = segment.window != state.window ? std::uint8_t { 0 }
                                               : static_cast<std::uint8_t>(std::min<int>(state.still + 1, still_acks));
  state.window = segment.window;
  const std::uint64_t bytes = (*event.links)[static_cast<std::size_t>(Link::cell)].bytes_out;
  const bool others = bytes != state.cell_bytes;
  state.cell_bytes = bytes;
  if (!state.proving)
  {
    // Whoever else sends by cellular now may be marking TSvals of this flow: two such would spoil each other.
    if (others) state.cell_at = event.now;
    if (event.now < state.prove_at || state.phase != Phase::clear || state.watching || !segment.timestamps
        || !bulk(flow) || !usable(Link::cell, *event.links, flow))
      return;
    if (state.proved_at != Tick {} && event.now - state.proved_at < proof_lasts / 2) return;
    if (state.cell_at != Tick {} && event.now - state.cell_at < 1s) return;
    if (state.worth_at == Tick {}) state.worth_at = event.now;
    if (state.still < still_acks && event.now - state.worth_at < longest_wait) return;
    state.worth_at = Tick {};
    state.proving = true;
    state.path.begin(segment.timestamps->value, event.now);
    state.data_edge = flow.next_seq;
    return;
  }
  if (state.phase != Phase::clear) return end(1s, "freeze: proof given up, the link changed");
  if (flow.next_seq != state.data_edge) return end(100ms, "freeze: proof spoiled by upload data");
  // Something younger has left, which the server would take for the newest.
  if (flow.sent_ts_value.after(state.path.frozen + 1)) return end(1s, "freeze: proof spoiled");
  if (state.path.expired(event.now, flow.rtt_smoothed))
  {
    state.proved_at = Tick {};
    return end(from_seconds(PathProof::rest(state.failures, first_rest, longest_rest)),
               "freeze: no proof by cellular (filtered, NAT or too slow)");
  }
  if (plan.verdict == Verdict::drop || !segment.timestamps || !segment.timestamps->value.after(state.path.frozen))
    return;
  plan.edit.ts_value = state.path.frozen;
  if (plan.why.empty()) plan.why = "freeze: TSval kept for a proof";
  if (!usable(Link::cell, *event.links, flow) || !state.path.due(event.now, proof_copies, flow.rtt_smoothed)) return;
  scratch_[0] = state.path.copy(segment, plan.edit.ack.value_or(segment.ack), Link::cell, event.now);
  plan.craft = { scratch_.data(), 1 };
  plan.why = "freeze: proof asked for by cellular";
}

// An observed copy of what arrives: the echo.
Plan Freeze::hear(const Event& event, const FlowView& flow, State& state) const
{
  const Segment& segment = *event.segment;
  if (!state.proving || !segment.timestamps || !segment.has(tcp_flag::ack)
      || !state.path.confirmed_by(segment.timestamps->echo) || flow.next_seq != state.data_edge)
    return {};
  state.proving = false;
  state.failures = 0;
  state.proved_at = event.now;
  return { .why = "freeze: cellular proved" };
}

// The window to offer with `ack` instead of the real one.
std::uint16_t Freeze::window_now(const Event& event, const FlowView& flow, const State& state, Seq ack,
                                 std::uint16_t real) const
{
  // Of the reserve counts what is left when `ack` has been said.
  const std::uint16_t closed = closed_window(flow, flow.highest_ack.after(ack));
  if (state.window_closed)
    return knobs_.strategy == Strategy::zero_window ? std::uint16_t { 0 } : std::min(real, closed);
  if (!state.thawing || event.now - state.thaw_at > flow.rtt_smoothed * 5 / 4) return real;
  const Seq edge = state.thaw_edge + static_cast<std::uint32_t>(state.pace * seconds(event.now - state.thaw_at));
  const std::uint32_t open = edge.after(ack) ? static_cast<std::uint32_t>(edge - ack) >> flow.local_window_scale : 0;
  return static_cast<std::uint16_t>(std::min<std::uint32_t>(real, std::max<std::uint32_t>(open, closed)));
}

// The local TCP speaks when something arrived: the server has answered. A new window alone is the application reading.
void Freeze::heard(const Event& event, const FlowView& flow, State& state, bool progress)
{
  if (state.phase != Phase::returning) return;
  if (!progress && event.segment->sack_count == 0 && event.segment->window != flow.sent_window) return;
  if (!state.answered) state.first_data = static_cast<float>(seconds(event.now - state.since));
  state.answered = true;
  // Behind a hole even data that the access point had kept makes the local TCP speak, while the server goes on waiting
  // for its timer.
  if (!progress && (!state.owed || event.now - state.since < flow.rtt_min)) return;
  state.phase = Phase::clear;
  state.since = event.now;
  state.why = "freeze: back";
}

// After a blackout a Linux sender finds what was lost by SACK, and takes it for congestion. An echo older than its
// first retransmission, on the ACK that reaches the recovery point, tells it that the retransmissions were not needed
// (tcp_try_undo_recovery). Once per episode, and never while holes are open: that would clear its marks of what is
// lost.
Plan Freeze::watch(const Event& event, const FlowView&, State& state, bool progress) const
{
  const Segment& segment = *event.segment;
  if (!state.watching) return {};
  if (event.now - state.up_at > longest_watch
      || (!state.episode && event.now - state.up_at > std::max<Duration>(1s, 4 * from_seconds(state.srtt))))
  {
    state.watching = false;
    return {};
  }
  if (segment.has(tcp_flag::ece)) state.watching = false; // congestion was signalled: none of our business
  if (!state.watching || !segment.timestamps) return {};
  if (!progress && !state.edge_fixed)
    for (const SackBlock& block : segment.sacks())
    {
      if (!block.right.after(segment.ack)) continue; // a duplicate was reported (RFC 2883): no hole
      state.recovery_point = state.episode ? later(state.recovery_point, block.right) : block.right;
      state.episode = true;
    }
  if (!state.episode || !progress) return {};
  if (!state.edge_fixed)
  {
    // The head of the hole is filled: TS.Recent is now the TSval of the first retransmission (RFC 7323 4.3).
    state.edge_fixed = true;
    state.retransmission = segment.timestamps->echo;
  }
  if (!segment.ack.at_or_after(state.recovery_point)) return {};
  state.watching = false;
  if (knobs_.undo == 0) return {};
  return { .edit = { .ts_echo = state.retransmission - 1 }, .why = "freeze: undo at the recovery point" };
}

// A flow that its receive window limits pays for every byte that is held back, and its kick would be small: LCD does
// better (docs/results/freeze.md).
bool Freeze::window_limited(const FlowView& flow)
{
  return 4.0 * flow.window_estimate > 3.0 * flow.scaled(flow.last_window);
}

// Moves the target of the reserve towards what the flow can spare.
void Freeze::aim(const Event& event, const FlowView& flow, State& state) const
{
  if (!bulk(flow) || (knobs_.strategy == Strategy::automatic && state.phase == Phase::clear && window_limited(flow)))
  {
    state.target = 0;
    return;
  }
  const double window = flow.window_estimate;
  const double standing = flow.delivery_rate * std::max(0.0, seconds(flow.rtt_smoothed - flow.rtt_min));
  double share = knobs_.reserve_share;
  if (state.blackouts > 0 && event.now - state.up_at < from_seconds(knobs_.risk_memory))
    share = std::max(share, knobs_.reserve_recent);
  if (home(event, flow).at_risk) share = std::max(share, knobs_.reserve_warned);
  double wanted = std::max(std::max(share * window, knobs_.reserve_queue * standing), 1.0 * flow.mss);
  wanted = std::min(wanted, knobs_.reserve_most * window);
  if (++state.growing < acks_per_step) return;
  state.growing = 0;
  if (wanted >= state.target + flow.mss)
    state.target += flow.mss;
  else if (wanted + flow.mss < state.target)
    state.target -= flow.mss;
}

Plan Freeze::hold_back(const Event& event, const FlowView& flow, State& state, bool progress) const
{
  const Segment& segment = *event.segment;
  const bool held_now = holds_reserve() || (heeds_warnings() && state.phase == Phase::closed);
  if (!held_now || state.watching || (state.phase != Phase::clear && state.phase != Phase::closed)) return {};
  aim(event, flow, state);
  // With SACK blocks above it, what is held back would look lost and be sent again.
  if (state.target == 0 || segment.sack_count > 0 || !flow.sent_any || !segment.ack.after(flow.sent_ack)) return {};
  Plan plan { .wake = event.now + patience(flow), .why = "freeze: reserve held back" };
  if (!progress)
  {
    // A window update is passed on without giving up the reserve; a duplicate is what it is.
    if (segment.window == flow.sent_window) return {};
    plan.edit.ack = flow.sent_ack;
    plan.wake = state.progress_at + patience(flow);
    return plan;
  }
  const auto untold = static_cast<std::uint32_t>(segment.ack - flow.sent_ack);
  if (untold > state.target + flow.mss)
    plan.edit.ack = segment.ack - state.target;
  else if (untold >= 2u * flow.mss)
    plan.edit.ack = flow.sent_ack + static_cast<std::uint32_t>(flow.mss);
  else if (repeats_in_next(segment, flow))
  {
    plan.verdict = Verdict::drop;
    return plan;
  }
  else
    return {};
  // RFC 9293 3.8.6: a window is not shrunk; the offered edge must not move back because the reserve grows.
  const Seq offered = flow.sent_ack + flow.scaled(flow.sent_window);
  const Seq least = offered - flow.scaled(segment.window);
  if (least.after(*plan.edit.ack)) plan.edit.ack = earlier(least, segment.ack);
  if (*plan.edit.ack == segment.ack) return { .wake = plan.wake };
  return plan;
}

// ---- when the link changes

Plan Freeze::link_changed(const Event& event, const FlowView& flow, State& state)
{
  if (state.alone || state.over || !flow.sent_any) return {};
  const LinkState& link = home(event, flow);
  if (!link.up) return state.phase == Phase::down ? Plan {} : go_down(event, flow, state);
  if (state.phase == Phase::down) return come_back(event, flow, state);
  if (link.at_risk && state.phase == Phase::clear) return close_ahead(event, flow, state);
  if (!link.at_risk && state.phase == Phase::closed)
  {
    rest(event, state);
    state.phase = Phase::clear;
    return thaw(event, flow, state, "freeze: warning withdrawn, window opens");
  }
  // A timer that fired while the local address was away is lost.
  if (state.window_closed || (state.phase == Phase::clear && has_reserve(flow))) return { .wake = event.now };
  return {};
}

// After a warning that came to nothing.
void Freeze::rest(const Event& event, State& state) const
{
  state.rest_until = event.now + from_seconds(knobs_.ahead_rest * std::exp2(std::min<int>(state.misses, 8)));
  if (state.misses < 255) ++state.misses;
}

Plan Freeze::close_ahead(const Event& event, const FlowView& flow, State& state)
{
  if (!heeds_warnings() || !bulk(flow) || event.now < state.rest_until || event.now - state.progress_at > lively)
    return {};
  state.phase = Phase::closed;
  state.since = event.now;
  state.window_closed = true;
  state.thawing = false;
  state.why = "freeze: window closed, a blackout is predicted";
  scratch_[0] = latest(flow, flow.link);
  // The reserve stays one. A sender with nothing at all in flight would slowly start anew after a pause (RFC 2861).
  scratch_[0].ack = flow.sent_ack;
  scratch_[0].window = closed_window(flow, has_reserve(flow));
  state.pace = static_cast<float>(flow.delivery_rate);
  // The alarm finds out whether there is a part to say: perhaps nothing more arrives that would set it.
  return { .craft = { scratch_.data(), 1 },
           .wake = std::min(std::max(event.now, state.progress_at + closed_gap(flow)),
                            event.now + from_seconds(knobs_.ahead_longest)),
           .why = "freeze: window closed ahead" };
}

Plan Freeze::go_down(const Event& event, const FlowView& flow, State& state)
{
  // Back and gone again before the server could answer: still the same wait. A closed window makes every flow silent.
  state.stirred =
      state.phase == Phase::returning || state.phase == Phase::closed || event.now - state.progress_at < lively;
  // What is said from now on may be lost.
  state.window_closed = state.window_closed || state.thawing; // not open yet
  state.owed = has_reserve(flow) || state.window_closed || (state.phase == Phase::returning && state.owed);
  state.unheard = state.unheard && state.stirred;
  if (!state.unheard) state.said = flow.sent_ack;
  state.proving = false;
  state.phase = Phase::down;
  state.since = event.now;
  state.drips = 0;
  state.watching = state.episode = state.edge_fixed = state.thawing = false;
  state.srtt = static_cast<float>(seconds(flow.rtt_smoothed));
  state.rttvar = 0;
  if (state.blackouts < 65535) ++state.blackouts;
  state.why = "freeze: blackout";
  Plan plan { .wake = event.now + from_seconds(knobs_.deadline) };
  if (!state.stirred || !speaks_by_cell() || !usable(Link::cell, *event.links, flow)) return plan;
  if (!cell_trusted(event, flow, state))
  {
    plan.why = "freeze: cellular not proved, nothing is sent by it";
    return plan;
  }
  if (knobs_.strategy == Strategy::drip && flow.highest_ack.after(state.said)) return drip(event, flow, state);
  if (knobs_.strategy == Strategy::zero_window)
  {
    state.window_closed = state.owed = true;
    scratch_[0] = latest(flow, Link::cell);
    scratch_[0].window = 0;
    plan.craft = { scratch_.data(), 1 };
    plan.why = "freeze: window closed by cellular";
  }
  return plan;
}

// Says a part of the reserve over the second interface, before the sender's timer fires. Every drip restarts that
// timer, and its old echo makes it longer: the gaps grow by themselves.
Plan Freeze::drip(const Event& event, const FlowView& flow, State& state)
{
  const auto held = static_cast<std::uint32_t>(flow.highest_ack - state.said);
  const unsigned parts =
      static_cast<unsigned>(knobs_.drips) - std::min<unsigned>(state.drips, static_cast<unsigned>(knobs_.drips) - 1);
  const std::uint32_t part = std::clamp<std::uint32_t>(held / parts, std::min<std::uint32_t>(held, flow.mss), held);
  scratch_[0] = latest(flow, Link::cell);
  state.said = state.said + part;
  scratch_[0].ack = state.said;
  scratch_[0].window = closed_window(flow, true); // what the blackout took is in flight
  state.window_closed = true;
  if (state.drips < 255) ++state.drips;
  // RFC 6298 section 2, fed with the age of the echo that the drip carries.
  const auto sample = static_cast<float>(seconds(event.now - state.progress_at)) + state.srtt;
  state.rttvar += (std::abs(state.srtt - sample) - state.rttvar) / 4;
  state.srtt += (sample - state.srtt) / 8;
  const float timeout = state.srtt + std::max(shortest_rttvar, 4 * state.rttvar);
  Tick wake = event.now + from_seconds(drip_margin * timeout);
  if (held == part) wake = state.since + from_seconds(knobs_.deadline);
  return { .craft = { scratch_.data(), 1 }, .wake = wake, .why = "freeze: drip by cellular" };
}

Plan Freeze::come_back(const Event& event, const FlowView& flow, State& state)
{
  const bool late = event.now - state.since > from_seconds(knobs_.deadline);
  state.up_at = state.since = event.now;
  state.misses = 0;
  state.kicks = 0;
  state.answered = false;
  if (!state.stirred || late)
  {
    state.phase = Phase::returning;
    constexpr std::string_view why = "freeze: link back, nothing waited for";
    Plan plan = give_up(event, flow, state, why);
    if (plan.craft.empty() && (state.owed || state.unheard))
    {
      scratch_[0] = latest(flow, flow.link);
      plan = { .craft = { scratch_.data(), 1 }, .why = why };
    }
    return plan;
  }
  state.phase = Phase::returning;
  state.watching = true;
  state.srtt = static_cast<float>(seconds(flow.rtt_smoothed));
  state.why = "freeze: link back";
  if (state.window_closed && heeds_warnings()) return thaw(event, flow, state, "freeze: kick, window opens");
  return kick(event, flow, state, "freeze: kick");
}

Plan Freeze::kick(const Event& event, const FlowView& flow, State& state, std::string_view why)
{
  const Duration waited = event.now - state.since;
  std::size_t count = 0;
  scratch_[count++] = latest(flow, flow.link);
  if (knobs_.strategy == Strategy::zero_window && state.kicks == 0 && cell_trusted(event, flow, state))
    scratch_[count++] = latest(flow, Link::cell);
  // RFC 6069: takes back the doublings of the sender's timer. Behind the ACK, so that it quotes SND.UNA.
  const bool unanswered = state.kicks > 0 && waited > flow.rtt_smoothed + from_seconds(knobs_.kick_gap);
  if (knobs_.strategy == Strategy::lcd || (knobs_.strategy == Strategy::automatic && (!state.owed || unanswered)))
    scratch_[count++] = { .kind = CraftKind::host_unreachable, .by = flow.link, .seq = flow.highest_ack };
  state.window_closed = false;
  Plan plan { .craft = { scratch_.data(), count }, .why = why };
  // Without SACK a repetition counts as a duplicate ACK (RFC 5681).
  const unsigned most = flow.sack_ok ? static_cast<unsigned>(knobs_.kicks) : 1;
  if (++state.kicks < most)
    plan.wake = event.now + from_seconds(knobs_.kick_gap * std::pow(1.5, state.kicks - 1));
  else
    plan.wake = event.now + lively;
  return plan;
}

Plan Freeze::alarm(const Event& event, const FlowView& flow, State& state)
{
  if (state.over) return {};
  if (state.thawing) return thaw(event, flow, state, "freeze: window opens");
  switch (state.phase)
  {
  case Phase::clear:
    if (!has_reserve(flow) || flow.fin_sent) return {}; // a FIN says all
    if (event.now - state.progress_at < patience(flow)) return { .wake = state.progress_at + patience(flow) };
    // Or the link is gone, which is told later: then the server does not hear this.
    state.unheard = true;
    state.said = flow.sent_ack;
    return release(flow, state, "freeze: reserve released, the flow pauses");
  case Phase::closed:
  {
    const Tick limit = state.since + from_seconds(knobs_.ahead_longest);
    if (event.now >= limit)
    {
      rest(event, state);
      state.phase = Phase::clear;
      return thaw(event, flow, state, "freeze: no blackout came, window opens");
    }
    // Before the sender's timer fires: what it sends again would be answered, and the reserve with it.
    const Tick next = std::max(state.progress_at, state.dripped_at) + closed_gap(flow);
    if (event.now < next) return { .wake = std::min(next, limit) };
    if (!has_reserve(flow) || flow.highest_ack - flow.sent_ack <= flow.mss) return { .wake = limit };
    state.dripped_at = event.now;
    scratch_[0] = latest(flow, flow.link);
    scratch_[0].ack = flow.sent_ack + static_cast<std::uint32_t>(flow.mss);
    scratch_[0].window = closed_window(flow, true);
    return { .craft = { scratch_.data(), 1 },
             .wake = std::min(event.now + closed_gap(flow), limit),
             .why = "freeze: a part of the reserve keeps the sender's timer from firing" };
  }
  case Phase::down:
    if (event.now >= state.since + from_seconds(knobs_.deadline))
    {
      state.stirred = false;
      return give_up(event, flow, state, "freeze: blackout too long, left to TCP");
    }
    if (knobs_.strategy == Strategy::drip && state.stirred && flow.highest_ack.after(state.said)
        && cell_trusted(event, flow, state))
      return drip(event, flow, state);
    return { .wake = state.since + from_seconds(knobs_.deadline) };
  case Phase::returning:
    if (state.kicks < static_cast<unsigned>(knobs_.kicks) && flow.sack_ok)
      return kick(event, flow, state, "freeze: kick again");
    state.phase = Phase::clear;
    state.why = "freeze: no answer, left to TCP";
    return {};
  }
  return {};
}

// Opens the window of a sender that may send all of its congestion window at once, so that the queue before the link
// is not overrun: at the pace that the flow had, for a round trip, after which its own acknowledgements set the pace.
Plan Freeze::thaw(const Event& event, const FlowView& flow, State& state, std::string_view why)
{
  if (!state.thawing)
  {
    state.thawing = true;
    state.window_closed = false;
    state.thaw_at = event.now;
    state.thaw_edge = flow.highest_ack + static_cast<std::uint32_t>(first_burst_mss * flow.mss);
    state.watching = true;
    state.up_at = event.now;
  }
  scratch_[0] = latest(flow, flow.link);
  if (event.now - state.thaw_at > flow.rtt_smoothed * 5 / 4)
  {
    state.thawing = false;
    if (state.phase == Phase::returning) return kick(event, flow, state, "freeze: kick again");
    return { .craft = { scratch_.data(), 1 }, .wake = event.now + patience(flow), .why = "freeze: window open" };
  }
  scratch_[0].window = window_now(event, flow, state, scratch_[0].ack, flow.last_window);
  const Duration gap = std::clamp<Duration>(flow.rtt_smoothed / 16, 5ms, 50ms);
  return { .craft = { scratch_.data(), 1 }, .wake = event.now + gap, .why = why };
}

// Says all that is held back, with the window as the local TCP offers it.
Plan Freeze::release(const FlowView& flow, State& state, std::string_view why)
{
  if (!has_reserve(flow) && !state.window_closed) return {};
  state.window_closed = false;
  scratch_[0] = latest(flow, flow.link);
  return { .craft = { scratch_.data(), 1 }, .why = why };
}

// Undoes everything; the window is opened by every way that may have closed it.
Plan Freeze::give_up(const Event& event, const FlowView& flow, State& state, std::string_view why)
{
  // A window that is being opened is not open yet.
  state.window_closed = state.window_closed || state.thawing;
  state.thawing = false;
  const bool by_cell = state.window_closed && state.phase == Phase::down && usable(Link::cell, *event.links, flow);
  if (state.phase != Phase::down) state.phase = Phase::clear;
  state.why = why;
  Plan plan = release(flow, state, why);
  if (by_cell)
  {
    scratch_[1] = latest(flow, Link::cell);
    plan.craft = { scratch_.data(), 2 };
  }
  return plan;
}

void Freeze::describe(const FlowView& flow, const State& state, Facts& facts) const
{
  constexpr std::array<std::string_view, 4> phases { "clear", "closed", "down", "returning" };
  facts.add("phase", phases[static_cast<std::size_t>(state.phase)]);
  facts.add("why", state.why);
  facts.add("held back", flow.sent_any ? static_cast<double>(flow.highest_ack - flow.sent_ack) : 0.0, "bytes");
  facts.add("reserve", state.target, "bytes");
  facts.add("blackouts", state.blackouts);
  if (speaks_by_cell() && knobs_.prove != 0)
    facts.add("cellular", state.proved_at != Tick {} ? "proved" : "not proved");
  if (state.first_data > 0) facts.add("answer after link-up", state.first_data * 1e3, "ms");
}

} // namespace tandem::freeze

using tandem::freeze::Freeze;
TANDEM_MODULE(Freeze);
