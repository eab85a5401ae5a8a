#include "modules/offload/validated_path.h"

#include "modules/offload/added_delay.h"

#include <tandem/pure_ack.h>

#include <algorithm>
#include <utility>

namespace tandem::offload
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration longest_wait = 3s;         // for that, from the first time the flow is worth a probe
constexpr Duration survey_time = 1s;          // a driver is asked for its survey as often
constexpr std::uint32_t largest_ack = 120;    // bytes: IPv6 with every option
constexpr std::uint16_t validation_acks = 64; // by cellular without an echo until the flow returns to Wi-Fi
constexpr double longest_retry = 300;         // s, between two tries
// A cellular uplink that takes too few ACKs counts as so many losses of goodput, which double the time until the next
// try.
constexpr std::uint8_t full_uplink_losses = 3;
constexpr Duration delay_memory = 30s;     // how long one that was found too long counts without a new probe
constexpr std::int32_t late_memory = 2000; // ticks for which ACKs leave by both links once one by Wi-Fi was late
constexpr double copies_in_rtt = 8;
// Where losses let two of three ACKs leave by Wi-Fi, every other one goes to and fro with them. A rate-based sender
// takes each such change for a sample of the bandwidth, sends more than the path carries, and has three times as much
// to repair for 2 % of goodput (docs/results/paths.md). So many such ACKs more than twice the others, and for how long.
constexpr std::uint8_t most_holes = 96;
constexpr Duration holes_memory = 20s;
// What surveys tell of a flow that has just begun is older than the flow; and how long the air has room before ACKs
// that leave by cellular come back.
constexpr Duration survey_lag = 3s;
constexpr std::uint16_t room_lasts_ms = 2000;

// Whether the newest ACK by cellular may be lost. An echo proves those up to its own TSval, not what left after it.
bool unsure(const FlowView& flow, const ValidatedPath::State& state)
{
  return state.unvalidated > 0 || flow.sent_ts_value.after(state.validated_after);
}

// Whether the server may still have to be told something by Wi-Fi: what left by cellular and was not echoed, or the
// bytes that ACKs by cellular leave out.
bool unsettled(const FlowView& flow, const ValidatedPath::State& state)
{
  return state.phase == Phase::by_cell && (unsure(flow, state) || withholds_ack(flow));
}

// Whether an ACK has to leave with its whole number, and so by Wi-Fi. By cellular all acknowledge less
// (PathValidation::lag), since a NAT may begin there at any time; beside SACK blocks what is left out would look like a
// hole and be sent again, until the recovery point the core lets nothing be left out (docs/decisions/0015), and with
// less than was said already a window would be ignored.
bool whole_number(const Segment& segment, const FlowView& flow)
{
  return segment.sack_count > 0 || !PathValidation::may_lag(flow)
         || flow.sent_ack.after(segment.ack - PathValidation::lag);
}

void proved(ValidatedPath::State& state, Tick now)
{
  state.validated_at = now;
  state.unvalidated = 0;
  state.failures = 0;
  state.path.unechoed = false;
  state.on_word = false;
}

bool budget_spent(const Event& event)
{
  return (*event.links)[static_cast<std::size_t>(Link::cell)].bytes_left < largest_ack;
}

// By cellular for so long without a silence, and those before count no more.
constexpr Duration lasting = 5s;

// How long without a validation is too long: an RTT and a margin, so that the ACK by Wi-Fi is there before the server's
// RTO (RFC 6298 with Linux's floor of 200 ms above the RTT).
Duration timeout(const FlowView& flow)
{
  return PathValidation::timeout(flow.rtt_smoothed);
}

// Whether ACKs by Wi-Fi have waited for the air so long that copies by cellular are of use, and that link takes them.
bool late_lately(const FlowView& flow, const ValidatedPath::State& state)
{
  return state.late_known && !state.thin_uplink && flow.last_ts_value - state.late_at < late_memory;
}

// By cellular, what has left by Wi-Fi already: the same number, window and TSval.
InjectedSegment copy_of_last(const FlowView& flow)
{
  return { .by = Link::cell,
           .seq = flow.snd_nxt,
           .ack = flow.sent_ack,
           .window = std::min(flow.sent_window, flow.last_window),
           .timestamps = Timestamps { flow.sent_ts_value, flow.ts_recent } };
}

InjectedSegment latest(const FlowView& flow, Link by)
{
  return by == Link::cell ? PathValidation::latest_by_cell(flow) : latest_ack(flow, by);
}

} // namespace

Plan ValidatedPath::decide(const Event& event, const FlowView& flow, State& state)
{
  switch (event.kind)
  {
  case EventKind::segment:
    // A copy, or what another module decides about.
    if (event.segment->direction == Direction::ingress) return hear(event, flow, state);
    if (event.queued && event.segment->is_pure_ack()) return acknowledge(event, flow, state);
    return {};
  case EventKind::alarm:
    return alarm(event, flow, state);
  case EventKind::link:
    // What is owed is not said while nobody would hear it: the alarm says it once the flow's own link is back.
    if (state.phase != Phase::by_wifi && !usable(Link::cell, *event.links, flow) && !hears_of_loss(event, flow))
      return return_to_wifi(event, flow, state, from_seconds(knobs.retry_first), "offload: cellular link lost", true);
    return {};
  case EventKind::switched_off:
    // Nothing may stay held or unvalidated: nobody will notice any more when the cellular path has lost it.
    if (state.thinning.held > 0 || unsettled(flow, state))
      return return_to_wifi(event, flow, state, Duration {}, "offload: switched off", true);
    return {};
  case EventKind::radio:
  case EventKind::fetched:
    return {};
  }
  return {};
}

Plan ValidatedPath::acknowledge(const Event& event, const FlowView& flow, State& state)
{
  after_silence(event, flow, state);
  if (flow.snd_nxt != state.data_edge)
  {
    // The host sent data by Wi-Fi with the kernel's own TSval: echoes up to now prove nothing about the cellular path.
    state.data_edge = flow.snd_nxt;
    state.validated_after = flow.last_ts_value;
    if (state.phase == Phase::probing)
      return return_to_wifi(event, flow, state, 100ms, "offload: probe spoiled by upload data", false);
    if (state.on_word && state.unvalidated > 0)
      return return_to_wifi(event, flow, state, 100ms, "offload: first echo spoiled by upload data", false);
  }
  if (event.segment->window != state.window)
  {
    state.window = event.segment->window;
    state.still = 0;
    state.path.window_moved = true;
  }
  else if (state.still < PathValidation::still_acks)
    ++state.still;
  if (state.phase != Phase::by_wifi && flow.sender.kind == SenderKind::unresponsive)
    return return_to_wifi(event, flow, state, 10s, "offload: not Linux's TCP, bypassed", false);
  // Forgotten in time: after half of what 32 bits can count the difference is negative.
  state.late_known = state.late_known && flow.last_ts_value - state.late_at < late_memory;
  if (state.phase != Phase::probing) measure_queue(flow, state);
  state.goodput.measure(flow, state.phase == Phase::by_cell, state.since, knobs.goodput_loss_limit, event.now);
  switch (state.phase)
  {
  case Phase::by_wifi:
    return while_by_wifi(event, flow, state);
  case Phase::probing:
    return probe(event, flow, state);
  case Phase::by_cell:
    return while_by_cell(event, flow, state);
  }
  return {};
}

Plan ValidatedPath::while_by_wifi(const Event& event, const FlowView& flow, State& state)
{
  state.thinning.count(flow, event.now);
  if (faster_than_wifi(flow, *event.links))
  {
    state.thinning.held = 0;
    state.why = "offload: faster than any Wi-Fi";
    return { .quiet = event.now + look_again, .why = state.why };
  }
  Plan plan = consider(event, flow, state);
  if (state.phase != Phase::by_wifi)
  {
    state.thinning.held = 0;
    return plan;
  }
  // Without a second way, or while it backs off, fewer ACKs by Wi-Fi save most of the air that none would.
  const unsigned ratio = wifi_ratio(*event.segment, flow, state);
  if (ratio > 1)
  {
    // Air that has room now may fill at any time: the flow does not leave the queue for longer than surveys take.
    const bool room = state.thinning.air_has_room(flow, *event.links);
    plan.quiet = room && plan.quiet ? std::optional { std::min(*plan.quiet, event.now + survey_time) } : std::nullopt;
    state.thinning.withhold(event, flow, room ? 1 : ratio, plan);
  }
  if (plan.verdict == Verdict::pass && wants_copy(event, flow, state))
  {
    state.copied_at = static_cast<std::uint16_t>(flow.last_ts_value.raw);
    scratch_[0] = copy_of_last(flow);
    plan.quiet.reset();
    plan.inject = scratch_;
    plan.why = "offload: by cellular as well";
  }
  return plan;
}

// Whether what left by Wi-Fi last is to leave by cellular, too, though that is too slow to be the only way. An access
// point that always has something to send lets the ACKs of a whole window wait for the air now and then; the server
// answers them with as large a burst, which overflows the access point's queue. By the slower way they are there no
// later than it takes.
bool ValidatedPath::wants_copy(const Event& event, const FlowView& flow, const State& state) const
{
  const auto since_copy = static_cast<std::uint16_t>(flow.last_ts_value.raw - state.copied_at);
  const bool of_use = late_lately(flow, state) && slow_path(flow, state, event.now)
                      && since_copy >= milliseconds(flow.rtt_smoothed) / copies_in_rtt
                      && (flow.sender.kind == SenderKind::loss_based || flow.sender.kind == SenderKind::unknown);
  return of_use && flow.sent_any && !whole_number(*event.segment, flow) && !unfit(event, flow);
}

// One ACK in this many is sent by Wi-Fi; 1 = all.
unsigned ValidatedPath::wifi_ratio(const Segment& segment, const FlowView& flow, const State& state) const
{
  if (flow.window_estimate < knobs.window_mss * flow.mss) return 1;
  return state.thinning.wifi_ratio(segment, flow, knobs.wifi_ack_ratio);
}

// Why no ACK of the flow can leave by the cellular link; nothing when one can.
std::optional<ValidatedPath::Obstacle> ValidatedPath::unfit(const Event& event, const FlowView& flow)
{
  const Segment& segment = *event.segment;
  if (flow.mptcp) return Obstacle { 10s, "offload: MPTCP subflow, bypassed" };
  // A change of path: 0.32, 0.82 and 1.19 of plain with gVisor's netstack in three downloads (docs/results/senders.md).
  if (flow.sender.kind == SenderKind::unresponsive) return Obstacle { 10s, "offload: not Linux's TCP, bypassed" };
  if (!flow.timestamps_ok || !segment.timestamps)
    return Obstacle { 60s, "offload: no timestamps, no path validation possible" };
  // A copied ACK is a duplicate; only with SACK does a sender not count it as a sign of loss (RFC 6675).
  if (!flow.sack_ok) return Obstacle { 60s, "offload: no SACK" };
  // RFC 9768: a counter in the flags of every ACK, which neither a copy nor an injected ACK may repeat or skip. It may
  // well stand at zero.
  if (flow.acc_ecn || segment.has(loaded_flags)) return Obstacle { 10s, "offload: accurate ECN, bypassed" };
  switch (cell_denial(flow))
  {
  case CellDenied::no:
    break;
  case CellDenied::private_peer:
    return Obstacle { 60s, "offload: private-peer, never by cellular" };
  case CellDenied::mptcp_refused:
    return Obstacle { 60s, "offload: MPTCP refused by the server, whole ACK numbers" };
  }
  if (!usable(Link::cell, *event.links, flow)) return Obstacle { 500ms, "offload: no cellular link" };
  if (flow.cell_path_failed) return Obstacle { 5s, "offload: path not validated for other flows" };
  if (budget_spent(event)) return Obstacle { 1s, "offload: cellular budget spent" };
  return {};
}

// Why they should not all leave that way, likewise.
std::optional<ValidatedPath::Obstacle> ValidatedPath::obstacle(const Event& event, const FlowView& flow) const
{
  if (const auto found = unfit(event, flow)) return found;
  if (flow.rtt_smoothed == Duration {}) return Obstacle { 10ms, "offload: RTT not known yet" };
  // A young flow's window grows with each round trip.
  if (firewalls_fall_behind(flow, false))
    return Obstacle { flow.slow_start ? std::clamp<Duration>(flow.rtt_smoothed, 10ms, 500ms) : Duration { 500ms },
                      "offload: short receive window" };
  // A change of path is a false sample of the bandwidth, which such a sender keeps for ten round trips.
  if (flow.slow_start && flow.sender.kind == SenderKind::rate_based)
    return Obstacle { flow.rtt_smoothed, "offload: sender still starts" };
  if (flow.window_estimate < knobs.window_mss * flow.mss)
    return Obstacle { std::max(flow.rtt_smoothed, 10ms + Duration {}), "offload: window below threshold" };
  return {};
}

// Whether to look for a way by cellular now.
Plan ValidatedPath::consider(const Event& event, const FlowView& flow, State& state)
{
  // Only a back-off that is worth the change of rules takes the queue out of the way.
  const auto quiet = [&]() -> std::optional<Tick>
  { return state.retry_at - event.now >= 300ms ? std::optional { state.retry_at } : std::nullopt; };
  if (event.now < state.retry_at) return { .quiet = quiet() };
  // What cannot change soon is looked at once in a while, not with every ACK.
  const auto back_off = [&](Duration how_long, std::string_view why) -> Plan
  {
    state.retry_at = event.now + how_long;
    state.why = why;
    return { .quiet = quiet(), .why = why };
  };
  if (const auto found = obstacle(event, flow)) return back_off(found->back_off, found->why);
  // Without it nobody could tell later what the cellular way adds; clocks of another kind are not waited for.
  if (state.delay.clocks_agree() ? !base_recent(state, event.now) : event.now - flow.first_seen < 1s)
    return back_off(20ms, "offload: delay by Wi-Fi not known yet");
  if (state.considered == Tick {}) state.considered = event.now;
  if (state.thinning.mss_per_ack <= 0) return {};
  if (state.thinning.sparse()) return back_off(state.thinning.sparse_back_off(), "offload: ACKs are sparse already");
  state.thinning.sparse_times = 0;
  if (event.now - state.considered >= survey_lag && nothing_to_save(event, flow, state))
    return back_off(survey_time, "offload: the air has room for ACKs");
  if (event.now < state.slow_until
      && state.slow_delay > longest_delay(flow, knobs.added_delay_free, state.queue_by_wifi))
    return {};
  const bool waited = event.now - state.considered >= longest_wait;
  if (fits_on_word(flow, state)) return move_on_word(event, flow, state);
  // The queue may grow, and a probe would find the same; but the delay may be an old one.
  if (state.takes_word(flow) && !waited)
  {
    state.why = "offload: known path adds more than the queue";
    return {};
  }
  // A copy that a slower path delivers after younger ACKs came by Wi-Fi is echoed only while the advertised window
  // stands still: Linux then takes it by header prediction, before it sees that the ACK is old. A young flow's window
  // moves with every ACK.
  if (state.still < PathValidation::still_acks && !waited)
  {
    state.why = "offload: advertised window still grows";
    return {};
  }

  if (!PathValidation::possible(flow)) return back_off(10ms, "offload: TSval not free for a probe yet");

  state.phase = Phase::probing;
  state.since = event.now;
  state.path.begin(event.segment->timestamps->value, state.still, event.now);
  state.why = "offload: probing";
  return { .reserve = state.path.reservation(), .wake = event.now + timeout(flow), .why = "offload: probe begins" };
}

// Whether ACKs by cellular would only cost the user's budget: the air has room for them, and none waits for it.
bool ValidatedPath::nothing_to_save(const Event& event, const FlowView& flow, State& state)
{
  return state.thinning.air_has_room(flow, *event.links) && !state.late_known;
}

// The same of a flow whose ACKs leave by cellular, and for two surveys already.
bool ValidatedPath::saves_nothing(const Event& event, const FlowView& flow, State& state)
{
  const auto clock = static_cast<std::uint16_t>(clock_ms(event.now));
  if (!state.room) state.room_since = clock;
  state.room = nothing_to_save(event, flow, state);
  return state.room && static_cast<std::uint16_t>(clock - state.room_since) >= room_lasts_ms;
}

Plan ValidatedPath::probe(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  Plan plan {};
  if (!segment.timestamps) return plan;
  const TsClock own = segment.timestamps->value;
  state.thinning.count(flow, event.now);
  if (state.path.copies > 0 && state.path.expired(event.now, flow.rtt_smoothed))
    return not_validated(event, flow, state, false);
  if (!state.path.holds(flow)) return return_to_wifi(event, flow, state, 100ms, "offload: probe spoiled", false);
  if (!own.after(state.path.frozen)) return plan;
  plan.edit.ts_value = state.path.frozen;
  plan.why = "offload: TSval kept while probing";

  if (!segment.has(loaded_flags)
      && state.path.due(event.now, static_cast<unsigned>(knobs.probe_copies), flow.rtt_smoothed))
  {
    scratch_[0] = state.path.copy(segment, segment.ack, Link::cell, event.now);
    plan.inject = scratch_;
    plan.why = "offload: probe by cellular";
    plan.wake = event.now + timeout(flow);
    state.thinning.released(event.now);
  }
  else if (const unsigned ratio = wifi_ratio(segment, flow, state); ratio > 1)
    state.thinning.withhold(event, flow, state.thinning.air_has_room(flow, *event.links) ? 1 : ratio, plan);
  return plan;
}

Plan ValidatedPath::while_by_cell(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  if (!segment.timestamps) return {};
  if (budget_spent(event)) return return_to_wifi(event, flow, state, 60s, "offload: cellular budget spent", false);
  if (!usable(Link::cell, *event.links, flow))
    return return_to_wifi(event, flow, state, from_seconds(knobs.retry_first), "offload: cellular link lost", false);
  // Another module was faster, or packets passed beside the queue: no echo tells by which way an ACK came.
  if (flow.ts_reserved.what != TsReservation::What::odd)
    return return_to_wifi(event, flow, state, 100ms, "offload: TSval not free for ACKs by cellular", false);
  if (firewalls_fall_behind(flow, true))
    return return_to_wifi(event, flow, state, 500ms, "offload: short receive window", false);
  if (state.on_word)
    if (const auto plan = leave_on_word(event, flow, state)) return *plan;
  // An echo is due after a round trip; the queue that data stands in may have grown by half since it was measured.
  if (!state.on_word && state.unvalidated >= validation_acks
      && event.now - state.validated_at > flow.rtt_smoothed * 3 / 2 + 50ms)
    return doubt(event, flow, state, false);
  state.thinning.count(flow, event.now);
  if (state.thinning.sparse())
    return return_to_wifi(event, flow, state, state.thinning.sparse_back_off(), "offload: ACKs are sparse already",
                          false);
  if (state.goodput.lost())
  {
    // A path that has become longer meanwhile looks like a queue, which excuses nothing.
    state.shortest_by_wifi = state.queue_by_wifi = 0;
    return return_to_wifi(event, flow, state, backoff(state.goodput_losses), "offload: slower than on Wi-Fi", false);
  }
  if (saves_nothing(event, flow, state))
    return return_to_wifi(event, flow, state, survey_time, "offload: the air has room for ACKs", false);
  // The queue that excused the delay is gone (a handoff, losses): the sender's window limits now, not the air.
  if (state.delay_known && state.added_delay > unqueued_delay(flow, knobs.added_delay_free)
      && state.queue_by_cell < state.added_delay / 4)
  {
    state.queue_by_wifi = 0;
    return too_slow(event, flow, state, false);
  }

  if (whole_number(segment, flow))
  {
    if (segment.sack_count > 0 && flow.sender.kind == SenderKind::rate_based && ++state.holes >= most_holes)
      return return_to_wifi(event, flow, state, holes_memory, "offload: losses keep ACKs on Wi-Fi", false);
    // It says all that those by cellular did.
    state.validated_at = event.now;
    state.unvalidated = 0;
    state.thinning.released(event.now);
    return { .why = "offload: whole ACK number, by Wi-Fi" };
  }
  // What may not wait would leave all the same, but by Wi-Fi and with the kernel's younger TSval: the server then
  // refuses what is still on its way by cellular (PAWS), and the path looks as if it had failed. A thin uplink takes no
  // more.
  const bool may_wait = state.thin_uplink || !(segment.ack - flow.may_withhold).after(flow.sent_ack);
  if (Plan plan {}; state.thinning.withhold(event, flow, may_wait ? state.stretch : 1, plan, state.thin_uplink))
  {
    plan.wake = std::min(*plan.wake, event.now + timeout(flow));
    return plan;
  }
  state.holes -= std::min<std::uint8_t>(state.holes, 2);
  ++state.unvalidated;
  Plan plan { .edit = { .ack = segment.ack - PathValidation::lag, .route = Link::cell },
              .wake = state.on_word ? first_echo_due(flow, state) : event.now + timeout(flow),
              .why = "offload: by cellular" };
  // Odd TSvals mark the cellular path. Rounded down, so that it is never ahead of the kernel's clock; never below one
  // sent before.
  const TsClock own = segment.timestamps->value;
  TsClock tagged { own.raw & 1u ? own : own - 1 };
  if (flow.sent_any && tagged.before(flow.sent_ts_value)) tagged = flow.sent_ts_value;
  if (tagged != own && !tagged.after(own)) plan.edit.ts_value = tagged;
  return plan;
}

// What arrives: the echoes.
Plan ValidatedPath::hear(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  if (!segment.timestamps || !segment.has(tcp_flag::ack) || segment.has(tcp_flag::syn)) return {};
  const TsClock echo = segment.timestamps->echo;
  // What never left is not echoed: the copy is damaged (nobody has verified its checksum), or of upload data.
  if (flow.sent_any && echo.after(flow.sent_ts_value)) return {};
  const bool measured = measure_delay(segment, flow, state, event.now);
  if (state.phase == Phase::probing && state.path.holds(flow) && state.path.confirmed_by(echo))
    return confirm(event, flow, state);
  if (state.phase == Phase::probing) state.path.unconfirmed(event.now, flow.rtt_smoothed);
  if (state.phase != Phase::by_cell) return {};
  Plan plan {};
  if (state.uplink_full)
  {
    state.goodput_losses = std::max(state.goodput_losses, full_uplink_losses);
    plan = return_to_wifi(event, flow, state, backoff(state.goodput_losses),
                          "offload: the cellular uplink takes too few ACKs", true);
  }
  else if (state.delay_known && state.added_delay > longest_delay(flow, knobs.added_delay_free, state.queue_by_wifi))
    plan = too_slow(event, flow, state, true);
  else if (unmeasurable(state, event.now))
    plan = return_to_wifi(event, flow, state, 100ms, "offload: added delay cannot be measured after a pause", true);
  else if (flow.ts_reserved.holds(echo) && echo.after(state.validated_after))
  {
    state.validated_after = echo;
    proved(state, event.now);
  }
  // For the core and other flows: what the copies of a probe told was a lower bound.
  if (measured)
    plan.cell_path = CellPath { CellPath::Is::validated, from_seconds(static_cast<double>(state.added_delay)) };
  return plan;
}

// No copy's echo came: the next try is later, and other flows need not find out by themselves. Where the answer ended
// before an echo could come this says nothing of the path. `silent`: no ACK is at hand that leaves with a TSval of now.
// What lets no data pass that echoes a TSval younger than those that it has seen (pf: pf_normalize_tcp_stateful()) has
// kept the echo of the copies from this host, and all that followed it: without a younger one by Wi-Fi nothing would
// ever arrive again.
Plan ValidatedPath::not_validated(const Event& event, const FlowView& flow, State& state, bool silent)
{
  Plan plan = return_to_wifi(event, flow, state, backoff(state.failures),
                             state.path.echo_due ? "offload: path not validated (filtered, NAT or too slow)"
                                                 : "offload: the data ended before an echo",
                             silent);
  if (!state.path.echo_due) return plan;
  state.distrusts = true;
  if (state.path.failed()) plan.cell_path = CellPath { CellPath::Is::failed };
  return plan;
}

// The echo of a probe's copies has come.
Plan ValidatedPath::confirm(const Event& event, const FlowView& flow, State& state)
{
  // Every copy carries the same TSval, and the server may have ignored the first ones (an ACK older than others that
  // came by Wi-Fi meanwhile counts only while the window does not move). The last copy gives the lower bound; a round
  // by cellular gives the delay itself.
  const Timestamps& heard = *event.segment->timestamps;
  const Duration copies = state.path.copy_at - state.path.begun_at;
  const auto delay = static_cast<std::int32_t>(heard.value.raw - heard.echo.raw);
  const double added = state.delay.clocks_agree() && state.base_known
                           ? wrapped(delay, state.wifi_base) * 1e-3 - seconds(copies)
                           : seconds(event.now - state.path.copy_at - flow.rtt_smoothed);
  state.added_delay = static_cast<float>(added);
  // An ACK that was withheld meanwhile must leave before its timer is forgotten.
  const bool held = state.thinning.held > 0;
  state.distrusts = false;
  if (added > longest_delay(flow, knobs.added_delay_free, state.queue_by_wifi))
  {
    Plan plan = too_slow(event, flow, state, held);
    plan.cell_path = CellPath { CellPath::Is::validated };
    return plan;
  }
  proved(state, event.now);
  Plan plan = move(event, flow, state, state.path.frozen + 1, "offload: path validated");
  state.why = "offload: by cellular";
  plan.cell_path = CellPath { CellPath::Is::validated };
  plan.wake = event.now + timeout(flow);
  if (held)
  {
    scratch_[0] = latest(flow, Link::cell);
    plan.inject = scratch_;
    ++state.unvalidated;
  }
  return plan;
}

// From now on every pure ACK leaves by cellular; echoes up to `before` prove nothing.
Plan ValidatedPath::move(const Event& event, const FlowView& flow, State& state, TsClock before, std::string_view why)
{
  first_acks(event, flow, state, before);
  state.phase = Phase::by_cell;
  state.room = false;
  state.holes = 0;
  state.since = event.now;
  state.rtt_taken = flow.rtt_at;
  state.queue_by_cell = state.queue_by_wifi; // until it is measured
  state.validated_after = before;
  state.unvalidated = 0;
  state.thinning.released(event.now);
  state.delay.new_round();
  state.cell_base_known = state.delay_known = false;
  state.goodput.restart();
  state.goodput.forgive();
  state.why = why;
  // Odd TSvals mark the cellular path from now on.
  return { .reserve = TsReservation { .what = TsReservation::What::odd, .from = before + 1 }, .why = why };
}

// Returns to Wi-Fi from a path that is there but too slow for the queue of now. Its delay is remembered, so that the
// next try waits for a longer queue.
Plan ValidatedPath::too_slow(const Event& event, const FlowView& flow, State& state, bool say_again)
{
  state.slow_delay = state.added_delay;
  state.slow_until = event.now + delay_memory;
  return return_to_wifi(event, flow, state, from_seconds(knobs.retry_first),
                        "offload: added delay costs more than it saves", say_again);
}

// The timer of a withheld ACK, when no other acknowledged the same in time.
Plan ValidatedPath::release(const Event& event, const FlowView& flow, State& state)
{
  const bool by_cell = state.phase == Phase::by_cell;
  // The round trip may have grown since the timer was set: too early is no reason to forget about it.
  const Duration longest = longest_hold(flow, by_cell && state.thin_uplink);
  if (event.now - state.thinning.released_at < longest) return { .wake = state.thinning.released_at + longest };
  state.thinning.released(event.now);
  scratch_[0] = latest(flow, by_cell ? Link::cell : Link::wifi);
  Plan plan { .inject = scratch_, .why = "offload: timer sends what was left out" };
  if (state.phase == Phase::probing)
  {
    // A younger TSval by Wi-Fi would make the server refuse the copies (PAWS).
    scratch_[0].timestamps->value = state.path.frozen;
    plan.wake = state.path.begun_at + timeout(flow);
  }
  if (by_cell)
  {
    ++state.unvalidated;
    plan.wake = event.now + timeout(flow);
  }
  return plan;
}

Plan ValidatedPath::alarm(const Event& event, const FlowView& flow, State& state)
{
  if (state.thinning.held > 0) return release(event, flow, state);
  if (state.phase == Phase::probing)
  {
    if (!state.path.expired(event.now, flow.rtt_smoothed)) return { .wake = state.path.begun_at + timeout(flow) };
    if (state.path.copies == 0)
      return return_to_wifi(event, flow, state, 500ms, "offload: no ACKs to probe with", false);
    return not_validated(event, flow, state, true);
  }
  if (!unsettled(flow, state)) return {};
  const Tick limit =
      state.on_word ? first_echo_due(flow, state) : std::max(state.validated_at, state.since) + timeout(flow);
  if (event.now < limit) return { .wake = limit };
  if (!unsure(flow, state))
  {
    scratch_[0] = latest(flow, Link::wifi);
    return { .inject = scratch_, .why = "offload: the last bytes, by Wi-Fi" };
  }
  if (state.on_word) return doubt(event, flow, state, true);
  // Either the path died or the server has nothing to send. The newest ACK by Wi-Fi settles it before the server's RTO.
  state.distrusts = true;
  if (event.now - state.since >= lasting) state.silences = 0;
  state.fell_silent = true;
  return return_to_wifi(event, flow, state, 1s, "offload: silence, back to Wi-Fi", true);
}

// Whether the server had nothing to send, or was waiting for an ACK: then it goes on a round trip after that by Wi-Fi.
// Something on the way of the data may have changed the numbers, or answered in the server's name, so that it takes the
// TSval of what leaves by cellular but nothing else of it: each try ends so, and is worth a longer back-off.
void ValidatedPath::after_silence(const Event& event, const FlowView& flow, State& state) const
{
  if (!state.fell_silent) return;
  const bool told = flow.snd_nxt == state.data_edge && state.phase == Phase::by_wifi;
  // What left by cellular may have said a little less than had come.
  const bool went_on = event.segment->ack.after(flow.sent_ack + PathValidation::lag) || event.segment->sack_count > 0;
  if (told && !went_on) return; // the application has read
  state.fell_silent = false;
  if (!told) return;
  const Duration took = event.now - state.since;
  if (took < flow.rtt_min * 3 / 4 || took > 2 * flow.rtt_smoothed)
    state.silences = 0; // it makes pauses, and some of them end as if it had waited
  else
    state.retry_at = std::max(state.retry_at, event.now + backoff(state.silences));
}

Plan ValidatedPath::return_to_wifi(const Event& event, const FlowView& flow, State& state, Duration back_off,
                                   std::string_view why, bool say_again)
{
  // Heard again before the next try: the clocks have parted, and what comes first behind a blackout tells little.
  if (state.phase == Phase::by_cell) state.base_recent = false;
  state.phase = Phase::by_wifi;
  state.on_word = false;
  state.since = event.now;
  state.retry_at = event.now + back_off;
  state.thinning.held = 0;
  state.rtt_taken = flow.rtt_at; // round trips by cellular say nothing of the queue by Wi-Fi
  state.goodput.restart();
  state.delay.new_round();
  state.why = why;
  Plan plan { .reserve = TsReservation {}, .why = why };
  if (say_again && flow.sent_any && flow.timestamps_ok)
  {
    scratch_[0] = latest(flow, Link::wifi);
    plan.inject = scratch_;
  }
  return plan;
}

Duration ValidatedPath::backoff(std::uint8_t& times) const
{
  return from_seconds(PathValidation::back_off(times, knobs.retry_first, std::max(knobs.retry_first, longest_retry)));
}

void ValidatedPath::describe(const FlowView& flow, const State& state, Facts& facts) const
{
  constexpr std::array<std::string_view, 3> phases { "wifi", "probing", "cellular" };
  facts.add("phase", phases[static_cast<std::size_t>(state.phase)]);
  facts.add("why", state.why);
  if (state.phase == Phase::by_wifi && late_lately(flow, state)) facts.add("copies", "by cellular");
  facts.add("one ACK in", state.phase == Phase::by_cell ? state.stretch : std::uint16_t { 1 });
  facts.add("added delay", state.added_delay * 1e3, "ms");
  if (state.goodput.by_wifi() > 0) facts.add("goodput by Wi-Fi", state.goodput.by_wifi() * 8e-6, "Mb/s");
  if (state.goodput.by_cell() > 0) facts.add("goodput by cellular", state.goodput.by_cell() * 8e-6, "Mb/s");
}

} // namespace tandem::offload
