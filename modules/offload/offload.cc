#include "modules/offload/offload.h"

#include <tandem/knob_table.h>

#include <algorithm>
#include <cmath>

namespace tandem::offload
{

namespace
{

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 2> strategies { "proved", "fraction" };

constexpr std::array<KnobRow<Knobs>, 15> rows { {
    { { .name = "fraction",
        .minimum = 0,
        .maximum = 1,
        .help = "strategy fraction only: share of the ACKs that leave by the cellular link" },
      &Knobs::fraction },
    { { .name = "window_mss",
        .unit = "MSS",
        .minimum = 1,
        .maximum = 10000,
        .help = "offload only while the sender's window is above this; below it an RTT counts for more than air time" },
      &Knobs::window_mss },
    { { .name = "probe_copies",
        .type = KnobType::integer,
        .minimum = 1,
        .maximum = 32,
        .help = "copies of an ACK sent by the cellular link in search of a proof before a path is given up for now" },
      &Knobs::probe_copies },
    { { .name = "proof_acks",
        .type = KnobType::integer,
        .minimum = 8,
        .maximum = 4096,
        .help = "ACKs sent by the cellular link without an echo until the flow returns to Wi-Fi" },
      &Knobs::proof_acks },
    { { .name = "retry_first",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.1,
        .maximum = 600,
        .help = "rest after the first failed proof; doubles with every further one" },
      &Knobs::retry_first },
    { { .name = "retry_longest",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0.1,
        .maximum = 3600,
        .help = "longest rest between two tries" },
      &Knobs::retry_longest },
    { { .name = "added_delay_share",
        .minimum = 0,
        .maximum = 10,
        .help = "share of the flow's standing queueing delay that a slower ACK path may add" },
      &Knobs::added_delay_share },
    { { .name = "added_delay_free",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0,
        .maximum = 1,
        .help = "added delay that is always accepted" },
      &Knobs::added_delay_free },
    { { .name = "added_delay_longest",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0,
        .maximum = 2,
        .help = "added delay that is never accepted" },
      &Knobs::added_delay_longest },
    { { .name = "regret",
        .minimum = 0,
        .maximum = 1,
        .help = "return to Wi-Fi when the goodput stays this share below what it was there" },
      &Knobs::regret },
    { { .name = "stretch",
        .type = KnobType::integer,
        .minimum = 1,
        .maximum = 128,
        .help = "on a thin cellular link at most one ACK in this many is sent" },
      &Knobs::stretch },
    { { .name = "stretch_time",
        .unit = "RTT",
        .minimum = 0.01,
        .maximum = 1,
        .help = "and at least one in this share of a round trip" },
      &Knobs::stretch_time },
    { { .name = "thin_at_home",
        .type = KnobType::integer,
        .minimum = 1,
        .maximum = 64,
        .help = "without a cellular way at most one ACK in this many is sent by Wi-Fi, 1 = all" },
      &Knobs::thin_at_home },
    { { .name = "sparse_acks",
        .unit = "MSS",
        .minimum = 1,
        .maximum = 1000,
        .help = "leave a flow alone whose ACKs each cover more than this: there is no air to save" },
      &Knobs::sparse_acks },
    { { .name = "cell_budget",
        .unit = "bytes",
        .minimum = 0,
        .maximum = 1e15,
        .help = "bytes that decisions may put on the cellular link in total, 0 = no limit" },
      &Knobs::cell_budget },
} };

constexpr Knob strategy_knob {
  .name = "strategy",
  .type = KnobType::choice,
  .minimum = 0,
  .maximum = 1,
  .initial = 0,
  .help = "proved: all pure ACKs of a flow, proved by the server's echoes; fraction: as published, packet by packet",
  .choices = strategies
};

constexpr auto all_knobs = knob_table(strategy_knob, rows);

constexpr std::uint8_t still_acks = 16;    // with the same window before a probe
constexpr Duration longest_wait = 3s;      // for that, from the first time the flow is worth a probe
constexpr std::uint16_t acks_counted = 32; // before it is known how much an ACK covers
// Flags of a pure ACK that is never copied.
constexpr std::uint16_t not_copied = tcp_flag::ae | tcp_flag::cwr | tcp_flag::urg;
constexpr std::uint32_t max_budget_share = 120; // an ACK is never larger than this, in bytes

// Whether the newest ACK by cellular may be lost. An echo proves those up to its own TSval, not what left after it.
bool unsure(const FlowView& flow, const State& state)
{
  return state.unproved > 0 || flow.sent_ts_value.after(state.trusted_after);
}

// a - b of two delays whose common constant is arbitrary, so that the difference may wrap; in ticks.
std::int32_t wrapped(std::int32_t a, std::int32_t b)
{
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b));
}

// Over how long the standing queue is averaged, in seconds: longer than a peak, shorter than a download.
constexpr double queue_memory = 1;
// How long a delay that was found too long counts without a new probe.
constexpr Duration delay_memory = 30s;

} // namespace

std::string_view Offload::summary() const
{
  return "Moves the pure ACKs of a download from the Wi-Fi air to the cellular link, as long as the server proves that "
         "they arrive.";
}

std::string_view Offload::manual() const
{
  return R"(Wi-Fi is half-duplex: every TCP ACK takes air from the data it acknowledges, and costs a contention of its own. `offload` lets the
pure ACKs of a download leave by the cellular interface, with the Wi-Fi source address, so that the server sees one connection as before.

**Proof.** A cellular network may drop packets with a foreign source address, or rewrite it. So nothing is assumed: while the Wi-Fi ACKs keep
one timestamp (TSval), a few copies with the next one leave by cellular. When the server echoes that very timestamp (TSecr) the path is
proved, and its delay is known. From then on all pure ACKs of the flow go by cellular, marked by an odd TSval, and every echo proves the path
again. When proofs fail to appear, the flow returns to Wi-Fi at once and tries again later, each time after a longer rest.

**When.** Only above `window_mss` segments of window, only while the cellular ACK path adds less delay than the flow has standing in queues
on average (`added_delay_share`), and only as long as the goodput does not fall (`regret`).

**Without a way by cellular** (filtered, translated, too slow, or none there) fewer ACKs leave by Wi-Fi instead: at most `thin_at_home` to one,
at least sixteen in a round trip, each for at most eight segments.

**Thin links.** When the cellular uplink begins to queue, ACKs are left out there too, at most `stretch` to one. Either way only an ACK that
says nothing the next one does not repeat is left out, and never for longer than `stretch_time` of a round trip. ACKs with SACK, DSACK, ECE,
a window change, FIN or RST always leave.

`strategy = "fraction"` is the method as published in 2009, for comparison: each ACK goes by cellular with probability `fraction`, unproved.)";
}

std::span<const Knob> Offload::knobs() const
{
  return all_knobs;
}

void Offload::set(std::string_view knob, double value)
{
  if (knob == strategy_knob.name) knobs_.strategy = static_cast<Strategy>(static_cast<int>(value));
  set_knob(knobs_, rows, knob, value);
}

double Offload::get(std::string_view knob) const
{
  if (knob == strategy_knob.name) return static_cast<double>(knobs_.strategy);
  return get_knob(knobs_, rows, knob);
}

Interest Offload::interest() const
{
  // Echoes are the proofs, and the RTT without which no window is known.
  return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data };
}

Plan Offload::decide(const Event& event, const FlowView& flow, State& state)
{
  switch (event.kind)
  {
  case EventKind::segment:
    if (!event.queued) return event.segment->direction == Direction::ingress ? hear(event, flow, state) : Plan {};
    if (event.segment->direction == Direction::egress && event.segment->is_pure_ack())
      return acknowledge(event, flow, state);
    return {};
  case EventKind::alarm:
    return alarm(event, flow, state);
  case EventKind::link:
    if (state.phase != Phase::home && !usable(Link::cell, *event.links, flow))
      return return_home(event, flow, state, from_seconds(knobs_.retry_first), "offload: cellular link lost", true);
    return {};
  case EventKind::switched_off:
    // Nothing may stay held or unproved: nobody will notice any more when the cellular path has lost it.
    if (state.held > 0 || (state.phase == Phase::away && unsure(flow, state)))
      return return_home(event, flow, state, Duration {}, "offload: switched off", true);
    return {};
  case EventKind::radio:
  case EventKind::fetched:
    return {};
  }
  return {};
}

Plan Offload::acknowledge(const Event& event, const FlowView& flow, State& state)
{
  if (knobs_.strategy == Strategy::fraction) return publish(event, flow, state);
  if (flow.next_seq != state.data_edge)
  {
    // The host sent data by Wi-Fi with the kernel's own TSval: echoes up to now prove nothing about the cellular path.
    state.data_edge = flow.next_seq;
    state.trusted_after = flow.last_ts_value;
    if (state.phase == Phase::probing)
      return return_home(event, flow, state, 100ms, "offload: probe spoiled by upload data", false);
  }
  if (event.segment->window != state.window)
  {
    state.window = event.segment->window;
    state.still = 0;
  }
  else if (state.still < still_acks)
    ++state.still;
  if (state.phase == Phase::home && flow.rtt_at != state.rtt_taken)
  {
    const double queue = seconds(flow.rtt_smoothed - flow.rtt_min);
    const double age = std::clamp(seconds(flow.rtt_at - state.rtt_taken) / queue_memory, 0.0, 1.0);
    // From nothing: a young flow's overshoot is no standing queue.
    if (state.rtt_taken != Tick {}) state.queue_at_home += static_cast<float>((queue - state.queue_at_home) * age);
    state.rtt_taken = flow.rtt_at;
  }
  measure_rate(flow, state, event.now);
  switch (state.phase)
  {
  case Phase::home:
    return at_home(event, flow, state);
  case Phase::probing:
    return probe(event, flow, state);
  case Phase::away:
    return go_away(event, flow, state);
  }
  return {};
}

Plan Offload::at_home(const Event& event, const FlowView& flow, State& state)
{
  count_acks(flow, state);
  Plan plan = consider(event, flow, state);
  if (state.phase != Phase::home)
  {
    state.held = 0;
    return plan;
  }
  // Without a second way, or while it rests, fewer ACKs by Wi-Fi save most of the air that none would.
  const unsigned stretch = stretch_at_home(*event.segment, flow, state);
  if (stretch > 1)
  {
    plan.quiet.reset();
    leave_out(event, flow, state, stretch, plan);
  }
  return plan;
}

void Offload::count_acks(const FlowView& flow, State& state)
{
  if (state.counted == 0 || flow.bytes_delivered < state.counted_from) state.counted_from = flow.bytes_delivered;
  if (++state.counted <= acks_counted) return;
  state.mss_per_ack = static_cast<float>(flow.bytes_delivered - state.counted_from) / acks_counted / flow.mss;
  state.counted = 0;
}

// One ACK in this many is sent by Wi-Fi; 1 = all. What a sender is told at a time it sends at a time: at most eight
// segments, and at least sixteen ACKs in a round trip, or short queues overflow and cost more than the air that was
// saved (802.11n: an aggregate of frames is acknowledged by few ACKs anyway).
unsigned Offload::stretch_at_home(const Segment& segment, const FlowView& flow, const State& state) const
{
  if (flow.mptcp || !flow.sack_ok || segment.has(not_copied) || state.mss_per_ack <= 0
      || state.mss_per_ack > knobs_.sparse_acks || flow.window_estimate < knobs_.window_mss * flow.mss)
    return 1;
  constexpr double acks_per_rtt = 16;
  const double acks = flow.window_estimate / (static_cast<double>(flow.mss) * state.mss_per_ack);
  constexpr double burst_mss = 8;
  return static_cast<unsigned>(
      std::clamp(std::min(acks / acks_per_rtt, burst_mss / state.mss_per_ack), 1.0, knobs_.thin_at_home));
}

// How long a flow with sparse ACKs is left alone: longer each time it is found so again.
Duration Offload::sparse_rest(State& state) const
{
  const Duration rest = std::min<Duration>(4s * (1 << std::min<int>(state.sparse, 4)), 60s);
  if (state.sparse < 255) ++state.sparse;
  return rest;
}

// How long what an ACK says may wait for the next one.
Duration Offload::longest_hold(const FlowView& flow) const
{
  return Duration { static_cast<std::int64_t>(static_cast<double>(flow.rtt_smoothed.count()) * knobs_.stretch_time) };
}

// Drops the ACK at hand when the next one is sure to repeat it: by its own timer at the latest. True when it was
// dropped.
bool Offload::leave_out(const Event& event, const FlowView& flow, State& state, unsigned stretch, Plan& plan) const
{
  const Duration longest = longest_hold(flow);
  if (state.held + 1u < stretch && event.now - state.released_at < longest && repeats_in_next(*event.segment, flow))
  {
    ++state.held;
    plan.edit = {}; // an edit would be the wish that it leaves
    plan.verdict = Verdict::drop;
    plan.wake = state.released_at + longest;
    plan.why = "offload: repeated by the next ACK";
    return true;
  }
  state.held = 0;
  state.released_at = event.now;
  return false;
}

bool Offload::budget_spent(const Event& event) const
{
  const LinkState& cell = (*event.links)[static_cast<std::size_t>(Link::cell)];
  return knobs_.cell_budget > 0 && static_cast<double>(cell.bytes_out + max_budget_share) > knobs_.cell_budget;
}

// Whether to look for a way by cellular now.
Plan Offload::consider(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  // Only a rest that is worth the change of rules takes the queue out of the way.
  const auto quiet = [&]() -> std::optional<Tick>
  { return state.retry_at - event.now >= 300ms ? std::optional { state.retry_at } : std::nullopt; };
  if (event.now < state.retry_at) return { .quiet = quiet() };
  // What cannot change soon is looked at once in a while, not with every ACK.
  const auto rest = [&](Duration how_long, std::string_view why) -> Plan
  {
    state.retry_at = event.now + how_long;
    state.why = why;
    return { .quiet = quiet(), .why = why };
  };
  if (flow.mptcp) return rest(10s, "offload: MPTCP subflow left alone");
  if (!flow.timestamps_ok || !segment.timestamps) return rest(60s, "offload: no timestamps, no proof possible");
  // A copied ACK is a duplicate; only with SACK does a sender not count it as a sign of loss (RFC 6675).
  if (!flow.sack_ok) return rest(60s, "offload: no SACK");
  // RFC 9768: a counter in the flags of every ACK, which neither a copy nor a crafted ACK may repeat or skip.
  if (segment.has(not_copied)) return rest(10s, "offload: accurate ECN, left alone");
  if (!usable(Link::cell, *event.links, flow)) return rest(500ms, "offload: no cellular link");
  if (budget_spent(event)) return rest(1s, "offload: cellular budget spent");
  if (flow.rtt_smoothed == Duration {}) return rest(10ms, "offload: RTT not known yet");
  if (flow.window_estimate < knobs_.window_mss * flow.mss)
    return rest(std::max(flow.rtt_smoothed, 10ms + Duration {}), "offload: window below threshold");
  // Without it nobody could tell later what the cellular way adds; clocks of another kind are not waited for.
  if (!state.base_known && event.now - flow.first_seen < 1s) return rest(20ms, "offload: delay by Wi-Fi not known yet");
  // What ACKs cost in air grows with their number. Where the receiver merges segments (GRO) there is one for dozens,
  // and nothing to save.
  if (state.considered == Tick {}) state.considered = event.now;
  if (state.mss_per_ack <= 0) return {};
  if (state.mss_per_ack > knobs_.sparse_acks) return rest(sparse_rest(state), "offload: ACKs are sparse already");
  state.sparse = 0;
  if (event.now < state.slow_until && state.slow_delay > longest_delay(state)) return {};
  // A copy that a slower path delivers after younger ACKs came by Wi-Fi is echoed only while the advertised window
  // stands still: Linux then takes it by header prediction, before it sees that the ACK is old. A young flow's window
  // moves with every ACK.
  if (state.still < still_acks && event.now - state.considered < longest_wait)
  {
    state.why = "offload: advertised window still grows";
    return {};
  }

  state.phase = Phase::probing;
  state.since = event.now;
  state.path.begin(segment.timestamps->value, event.now);
  state.why = "offload: probing";
  return { .wake = event.now + patience(flow), .why = "offload: probe begins" };
}

Plan Offload::probe(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  Plan plan {};
  if (!segment.timestamps) return plan;
  const TsClock own = segment.timestamps->value;
  count_acks(flow, state);
  if (state.path.copies > 0 && state.path.expired(event.now, flow.rtt_smoothed))
    return return_home(event, flow, state, backoff(state.failures), "offload: no proof (filtered, NAT or too slow)",
                       false);
  if (!own.after(state.path.frozen)) return plan;
  plan.edit.ts_value = state.path.frozen;
  plan.why = "offload: TSval kept while probing";

  if (!segment.has(not_copied)
      && state.path.due(event.now, static_cast<unsigned>(knobs_.probe_copies), flow.rtt_smoothed))
  {
    scratch_[0] = state.path.copy(segment, segment.ack, Link::cell, event.now);
    plan.craft = scratch_;
    plan.why = "offload: probe by cellular";
    plan.wake = event.now + patience(flow);
    state.held = 0;
    state.released_at = event.now;
  }
  else if (const unsigned stretch = stretch_at_home(segment, flow, state);
           stretch > 1 && leave_out(event, flow, state, stretch, plan))
    plan.edit = {}; // an edit would be the wish that this one leaves
  return plan;
}

Plan Offload::go_away(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  if (!segment.timestamps) return {};
  if (budget_spent(event)) return return_home(event, flow, state, 60s, "offload: cellular budget spent", false);
  // An echo is due after a round trip; the queue that data stands in may have grown by half since it was measured.
  if (state.unproved >= knobs_.proof_acks && event.now - state.proof_at > flow.rtt_smoothed * 3 / 2 + 50ms)
    return return_home(event, flow, state, backoff(state.failures), "offload: proof lost", false);
  count_acks(flow, state);
  if (state.mss_per_ack > knobs_.sparse_acks)
    return return_home(event, flow, state, sparse_rest(state), "offload: ACKs are sparse already", false);
  if (state.slow_windows >= 2)
    return return_home(event, flow, state, backoff(state.regrets), "offload: slower than on Wi-Fi", false);

  if (Plan plan {}; leave_out(event, flow, state, state.stretch, plan))
  {
    plan.wake = std::min(*plan.wake, event.now + patience(flow));
    return plan;
  }
  ++state.unproved;
  Plan plan { .edit = { .route = Link::cell }, .wake = event.now + patience(flow), .why = "offload: by cellular" };
  // Odd TSvals mark the cellular path. Rounded down, so that it is never ahead of the kernel's clock; never below one
  // sent before.
  const TsClock own = segment.timestamps->value;
  TsClock tagged { own.raw & 1u ? own : own - 1 };
  if (flow.sent_any && tagged.before(flow.sent_ts_value)) tagged = flow.sent_ts_value;
  if (tagged != own && !tagged.after(own)) plan.edit.ts_value = tagged;
  return plan;
}

// An observed copy of what arrives: the echoes.
Plan Offload::hear(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  if (!segment.timestamps || !segment.has(tcp_flag::ack) || segment.has(tcp_flag::syn)) return {};
  const TsClock echo = segment.timestamps->echo;
  // What never left is not echoed: the copy is damaged (nobody has verified its checksum), or of upload data.
  if (flow.sent_any && echo.after(flow.sent_ts_value)) return {};
  measure_delay(segment, flow, state, event.now);
  if (state.phase == Phase::probing && state.path.confirmed_by(echo))
  {
    // Every copy carries the same TSval, and the server may have ignored the first ones (an ACK older than others that
    // came by Wi-Fi meanwhile counts only while the window stands still). The last copy gives the lower bound; a round
    // away tells exactly.
    const Duration copies = state.path.copy_at - state.path.begun_at;
    const auto delay = static_cast<std::int32_t>(segment.timestamps->value.raw - echo.raw);
    const double added = state.clocks_agree && state.base_known
                             ? wrapped(delay, state.home_delay) * 1e-3 - seconds(copies)
                             : seconds(event.now - state.path.copy_at - flow.rtt_smoothed);
    state.added_delay = static_cast<float>(added);
    // An ACK that was left out meanwhile must be said before its timer is forgotten.
    const bool held = state.held > 0;
    if (added > longest_delay(state)) return too_slow(event, flow, state, held);
    proved(event, flow, state);
    state.phase = Phase::away;
    state.since = event.now;
    state.trusted_after = state.path.frozen + 1;
    state.stretch = 1;
    state.held = 0;
    state.released_at = event.now;
    state.away_base_known = state.round_any = state.delay_known = false;
    state.window_at = Tick {};
    state.slow_windows = 0;
    state.why = "offload: by cellular";
    Plan plan { .wake = event.now + patience(flow), .why = "offload: path proved" };
    if (held)
    {
      scratch_[0] = latest(flow, Link::cell);
      plan.craft = scratch_;
      ++state.unproved;
    }
    return plan;
  }
  if (state.phase == Phase::away && state.delay_known && state.added_delay > longest_delay(state))
    return too_slow(event, flow, state, true);
  if (state.phase == Phase::away && (echo.raw & 1u) != 0 && echo.after(state.trusted_after))
  {
    state.trusted_after = echo;
    proved(event, flow, state);
  }
  return {};
}

// The added delay beyond which the cellular path is not worth while, in seconds. What a sender of window W delivers is
// min(C, W / (rtt_min + added)); as long as `added` is no more than what stands in queues on average, W delivers as
// much at the moment of the change as before, and grows on from there into the air that is free.
double Offload::longest_delay(const State& state) const
{
  return std::min(knobs_.added_delay_longest,
                  std::max(knobs_.added_delay_free, knobs_.added_delay_share * state.queue_at_home));
}

// Comes home from a path that is there but too slow for the queue of now. Its delay is remembered, so that the next try
// waits for a longer queue.
Plan Offload::too_slow(const Event& event, const FlowView& flow, State& state, bool say_again)
{
  state.slow_delay = state.added_delay;
  state.slow_until = event.now + delay_memory;
  return return_home(event, flow, state, from_seconds(knobs_.retry_first),
                     "offload: added delay costs more than it saves", say_again);
}

void Offload::proved(const Event& event, const FlowView&, State& state)
{
  state.proof_at = event.now;
  state.unproved = 0;
  state.failures = 0;
}

Plan Offload::alarm(const Event& event, const FlowView& flow, State& state)
{
  const bool away = state.phase == Phase::away;
  if (state.held > 0)
  {
    // The round trip may have grown since the timer was set: too early is no reason to forget about it.
    const Duration longest = longest_hold(flow);
    if (event.now - state.released_at < longest) return { .wake = state.released_at + longest };
    state.held = 0;
    state.released_at = event.now;
    scratch_[0] = latest(flow, away ? Link::cell : Link::wifi);
    Plan plan { .craft = scratch_, .why = "offload: timer sends what was left out" };
    if (state.phase == Phase::probing)
    {
      // A younger TSval by Wi-Fi would make the server refuse the copies (PAWS).
      scratch_[0].timestamps->value = state.path.frozen;
      plan.wake = state.path.begun_at + patience(flow);
    }
    if (away)
    {
      ++state.unproved;
      plan.wake = event.now + patience(flow);
    }
    return plan;
  }
  if (state.phase == Phase::probing)
  {
    if (!state.path.expired(event.now, flow.rtt_smoothed)) return { .wake = state.path.begun_at + patience(flow) };
    if (state.path.copies == 0) return return_home(event, flow, state, 500ms, "offload: no ACKs to probe with", false);
    return return_home(event, flow, state, backoff(state.failures), "offload: no proof (filtered, NAT or too slow)",
                       false);
  }
  if (!away || !unsure(flow, state)) return {};
  const Tick limit = std::max(state.proof_at, state.since) + patience(flow);
  if (event.now < limit) return { .wake = limit };
  // Either the path died or the server has nothing to say. The newest ACK by Wi-Fi settles it before the server's RTO.
  return return_home(event, flow, state, 1s, "offload: silence, back to Wi-Fi", true);
}

Plan Offload::return_home(const Event& event, const FlowView& flow, State& state, Duration rest, std::string_view why,
                          bool say_again)
{
  state.phase = Phase::home;
  state.since = event.now;
  state.retry_at = event.now + rest;
  state.held = 0;
  state.stretch = 1;
  state.window_at = Tick {};
  state.round_any = false;
  state.why = why;
  Plan plan { .why = why };
  if (say_again && flow.sent_any && flow.timestamps_ok)
  {
    scratch_[0] = latest(flow, Link::wifi);
    plan.craft = scratch_;
  }
  return plan;
}

// The published method: no state, no proof; chance comes from the seed and the ACK number, so that a replay draws the
// same.
Plan Offload::publish(const Event& event, const FlowView& flow, State&)
{
  if (flow.window_estimate < knobs_.window_mss * flow.mss || !usable(Link::cell, *event.links, flow)) return {};
  std::uint64_t h =
      event.seed ^ (static_cast<std::uint64_t>(event.segment->ack.raw) << 32) ^ flow.bytes_delivered ^ flow.id;
  h = (h ^ (h >> 33)) * 0xff51afd7ed558ccdull;
  h = (h ^ (h >> 33)) * 0xc4ceb9fe1a85ec53ull;
  const double draw = static_cast<double>((h ^ (h >> 33)) >> 11) * 0x1p-53;
  if (draw >= knobs_.fraction) return {};
  return { .edit = { .route = Link::cell }, .why = "offload: fraction by cellular" };
}

void Offload::measure_delay(const Segment& segment, const FlowView& flow, State& state, Tick now)
{
  const TsClock local = flow.last_ts_value;
  const TsClock remote = segment.timestamps->value;
  if (!state.first_known)
  {
    state.first_local = local;
    state.first_remote = remote;
    state.first_at = now;
    state.first_known = true;
    state.last_echo = segment.timestamps->echo;
    return;
  }
  const Duration span = now - state.first_at;
  if (!state.clocks_agree && span > 200ms)
  {
    // RFC 7323 leaves the clock open; delays can be read only where both tick in milliseconds, as Linux does.
    const double ms = milliseconds(span);
    const auto agrees = [&](TsClock a, TsClock b) { return std::abs(static_cast<double>(b - a) / ms - 1) < 0.25; };
    state.clocks_agree = agrees(state.first_local, local) && agrees(state.first_remote, remote);
    state.first_local = local;
    state.first_remote = remote;
    state.first_at = now;
  }
  const TsClock echo = segment.timestamps->echo;
  if (!state.clocks_agree || !echo.after(state.last_echo)) return;
  state.last_echo = echo;
  const auto delay = static_cast<std::int32_t>(remote.raw - echo.raw);
  if (!state.round_any)
  {
    state.round_any = true;
    state.round_delay = delay;
    state.round_at = now;
    return;
  }
  if (wrapped(delay, state.round_delay) < 0) state.round_delay = delay;
  if (now - state.round_at < flow.rtt_smoothed) return;

  state.round_any = false;
  if (state.phase == Phase::home)
  {
    state.home_delay = state.round_delay;
    state.base_known = true;
    return;
  }
  if (state.phase != Phase::away) return;
  if (!state.away_base_known || wrapped(state.round_delay, state.away_base) < 0)
  {
    state.away_base = state.round_delay;
    state.away_base_known = true;
  }
  if (state.base_known && !state.delay_known)
  {
    state.added_delay = static_cast<float>(wrapped(state.away_base, state.home_delay)) * 1e-3f;
    state.delay_known = true;
  }
  const double queued = wrapped(state.round_delay, state.away_base) * 1e-3;
  const double limit = std::max(0.02, seconds(flow.rtt_smoothed) / 8);
  if (queued > limit)
    state.stretch = static_cast<std::uint16_t>(std::min<double>(knobs_.stretch, state.stretch * 2));
  else if (queued < limit / 4 && state.stretch > 1)
    --state.stretch;
}

void Offload::measure_rate(const FlowView& flow, State& state, Tick now)
{
  const bool away = state.phase == Phase::away;
  const Duration settle = away ? std::max<Duration>(4 * flow.rtt_smoothed, 1s) : Duration {};
  if (state.window_at == Tick {} || (!away && flow.resumed > state.window_at))
  {
    if (now - state.since < settle) return;
    state.window_at = now;
    state.window_bytes = flow.bytes_delivered;
    return;
  }
  const Duration length = now - state.window_at;
  if (length < (away ? Duration { 2s } : Duration { 1s })) return;
  const auto rate =
      static_cast<float>(static_cast<double>(flow.bytes_delivered - state.window_bytes) / seconds(length));
  state.window_at = now;
  state.window_bytes = flow.bytes_delivered;
  if (!away)
  {
    state.home_rate = state.home_rate > 0 ? 0.5f * (state.home_rate + rate) : rate;
    return;
  }
  state.away_rate = rate;
  if (state.home_rate > 0 && rate < state.home_rate * static_cast<float>(1 - knobs_.regret))
    ++state.slow_windows;
  else
    state.slow_windows = 0;
}

Duration Offload::backoff(std::uint8_t& times) const
{
  return from_seconds(PathProof::rest(times, knobs_.retry_first, knobs_.retry_longest));
}

// How long without a proof is too long: an RTT and a margin, so that the ACK by Wi-Fi is there before the server's RTO
// (RFC 6298 with Linux's floor of 200 ms above the RTT).
Duration Offload::patience(const FlowView& flow) const
{
  return PathProof::patience(flow.rtt_smoothed);
}

Craft Offload::latest(const FlowView& flow, Link by) const
{
  return { .kind = CraftKind::ack,
           .by = by,
           .seq = flow.next_seq,
           .ack = flow.highest_ack,
           .window = flow.last_window,
           .timestamps = Timestamps { flow.last_ts_value, flow.last_ts_echo } };
}

void Offload::describe(const FlowView&, const State& state, Facts& facts) const
{
  constexpr std::array<std::string_view, 3> phases { "home", "probing", "away" };
  facts.add("phase", phases[static_cast<std::size_t>(state.phase)]);
  facts.add("why", state.why);
  facts.add("one ACK in", state.stretch);
  facts.add("added delay", state.added_delay * 1e3, "ms");
  if (state.home_rate > 0) facts.add("goodput at home", state.home_rate * 8e-6, "Mb/s");
  if (state.away_rate > 0) facts.add("goodput away", state.away_rate * 8e-6, "Mb/s");
}

} // namespace tandem::offload

using tandem::offload::Offload;
TANDEM_MODULE(Offload);
