#include "modules/mirror/undo.h"

#include "modules/mirror/count.h"

#include <tandem/pure_ack.h>

#include <algorithm>
#include <cmath>
#include <utility>

namespace tandem::mirror
{

namespace
{

using namespace std::chrono_literals;

// What fills a hole sooner than this part of the round trip was not asked for: it had only been overtaken.
constexpr double reordering = 0.6;
// A retransmission that takes longer than this many round trips was lost itself.
constexpr double late_trips = 1.5;
constexpr Duration late_slack = 10ms;
// No new data for longer than both is a pause.
constexpr Duration pause = 1s;
constexpr int pause_trips = 4;
// Where the path reorders, no echo is older than so many round trips, or than this: within it no sender's timeout
// becomes longer (RTO_MIN is 200 ms with Linux, a second by RFC 6298).
constexpr int oldest_echo_trips = 4;
constexpr Duration oldest_echo = 200ms;
// How long an ACK waits for one beside whose new SACK block an old echo is no sample.
constexpr Duration longest_wait = 25ms;
// A sample longer than both is given to no sender: its timer becomes about as long, for some ten round trips. A second
// is what RFC 6298 (2.4) has for the least.
constexpr Duration longest_sample = 1s;
constexpr int longest_sample_trips = 20;
// A sender that has more to send does so within two round trips, with or without a loss probe (RFC 8985 7.2).
constexpr int dry_trips = 2;
// Less in flight than this part of what was there before an undo means that it brought nothing.
constexpr double in_vain = 0.75;
constexpr double worked = 0.9;
constexpr int most_doublings = 6; // doublings
// Delays this close, in seconds or as a share, are the same, and so many in a row no accident.
constexpr float same_delay = 0.0015f;
constexpr float same_share = 0.12f;
// Below this score the air alone explains an episode. The rate of such losses is averaged over about so many.
constexpr double sure = 0.5;
constexpr float rate_memory = 8;
constexpr std::uint8_t alike_losses = 3;
// A flow goes by its own losses once it has had so many episodes.
constexpr int own_episodes = 4;
// Around a hole, within which the radio's clock and ours agree.
constexpr Duration radio_slack = 3ms;
// Injected duplicates leave behind the ACK that made them true.
constexpr Duration behind = 1ms;

std::string_view hidden(const Score& score, bool late)
{
  switch (score.why)
  {
  case Weight::young:
    return "mirror: hidden, young flow";
  case Weight::steered:
    return "mirror: hidden, the cap keeps the queue short";
  case Weight::radio:
    return "mirror: hidden, damaged frames heard";
  case Weight::others:
  case Weight::share:
  case Weight::load:
  case Weight::queue:
  case Weight::none:
    break;
  }
  return late ? "mirror: hidden, queue not full, repaired late" : "mirror: hidden, queue not full";
}

std::string_view kept(const Score& score)
{
  switch (score.why)
  {
  case Weight::share:
    return "mirror: kept, too many at once";
  case Weight::others:
    return "mirror: kept, other flows overflow a queue here";
  case Weight::load:
    return "mirror: kept, nothing is lost at lower rates";
  case Weight::radio:
    return "mirror: kept, no damaged frame heard";
  case Weight::none:
    return "mirror: kept, nothing known of the queue";
  case Weight::young:
  case Weight::steered:
  case Weight::queue:
    break;
  }
  return "mirror: kept, queue full";
}

bool bypassed(const Event& event, const FlowView& flow, Undo::State& state)
{
  // An MPTCP subflow is told by data-level ACKs what arrived, and its other subflows have windows of their own.
  if (!state.bypassed && (flow.mptcp || !flow.sack_ok || tied_to_its_flags(*event.segment, flow)))
  {
    state.bypassed = true;
    state.why = flow.mptcp      ? "MPTCP subflow, bypassed"
                : !flow.sack_ok ? "no SACK, bypassed"
                                : "accurate ECN or unknown option, bypassed";
  }
  return state.bypassed;
}

// Episodes hidden before the sender was known for one that answers losses. A short queue is kept from the first losses
// on; begun when the window has long been what losses leave, it only costs (docs/results/senders.md).
constexpr std::uint16_t late_to_steer = 4;

// Of a sender that takes nothing back nothing is hidden, and one with a rate of its own needs no cap, which would only
// limit it (docs/results/senders.md).
bool left_alone(const Sender& sender)
{
  return sender.kind == SenderKind::rate_based || sender.kind == SenderKind::unresponsive;
}

// Without new data for longer is a pause.
Duration longest_gap(const FlowView& flow)
{
  return std::max<Duration>(pause, flow.rtt_smoothed * pause_trips);
}

void note_holes(const Event& event, const FlowView& flow, Undo::State& state)
{
  const auto queued = static_cast<float>(state.delay.peak());
  const bool above = state.episode.stage == Stage::repairing;
  float& at = above ? state.later_queue : state.hole_queue;
  at = std::max(at, queued);
  // The frames were lost after what arrived last, and before what showed the holes. Which of them the radio heard is
  // asked at the recovery point: a frame's record may come after the ACK, and a retry may still make it good.
  if (event.damage == nullptr) state.deaf = true;
  // Before a pause they were not sent.
  if (state.hole_from == Tick {})
    state.hole_from = std::max(state.edge_at, event.now - longest_gap(flow)) - radio_slack;
  state.hole_span = static_cast<float>(seconds(event.now - state.hole_from));
}

// Wireless losses come at any delay; those of a full queue always at the same.
void learn(Undo::State& state)
{
  const float apart = std::abs(state.hole_queue - state.last_queue);
  if (apart < std::max(same_delay, same_share * state.hole_queue))
    bump(state.alike);
  else
    state.alike = 0;
  state.last_queue = state.hole_queue;
}

// How many wireless losses are usual, from one that nothing else explains: of all that has arrived since the one
// before, whatever a full queue has lost meanwhile.
void learn_rate(const FlowView& flow, Undo::State& state)
{
  const auto so_far = static_cast<std::uint32_t>(flow.bytes_delivered / Undo::State::judged_unit);
  const auto delivered = static_cast<double>(so_far - state.judged_at) * Undo::State::judged_unit;
  state.judged_at = so_far;
  if (delivered <= 0) return;
  const auto rate = static_cast<float>(std::min(1.0, state.episode.holes * static_cast<double>(flow.mss) / delivered));
  state.loss_rate += (rate - state.loss_rate) / rate_memory;
}

// Ends an episode. The next one may be there already, shown by the same ACK.
void begin(const Event& event, const FlowView& flow, Undo::State& state)
{
  const Segment& segment = *event.segment;
  Episode& episode = state.episode;
  const Seq edge = episode.edge;
  const bool shown = episode.next(segment, event.now);
  // Holes above the recovery point that were seen before count as one.
  const bool carried = shown && episode.chained && edge.after(segment.ack);
  state.hole_queue = carried ? state.later_queue : 0;
  state.later_queue = 0;
  // Holes above the recovery point were seen while those of the episode before were being filled: a round trip.
  const Tick last = state.hole_from + from_seconds(static_cast<double>(state.hole_span));
  state.hole_from = carried ? std::max(state.hole_from, last - flow.rtt_min - radio_slack) : Tick {};
  state.deaf = carried && state.deaf;
  if (shown && episode.holes > (carried ? 1u : 0u)) note_holes(event, flow, state);
}

// Longer until the first hole is filled means that its retransmission was lost. Without timestamps no round trip is
// known, and nothing is late.
Duration retransmission_timeout(const FlowView& flow)
{
  return flow.rtt_smoothed > Duration {} ? flow.rtt_smoothed * static_cast<int>(late_trips * 2) / 2 + late_slack
                                         : Duration::max();
}

// How long before the newest data the old echo's was sent, in seconds.
double echo_age(const Undo::State& state)
{
  return (state.order.newest() - state.episode.old) * state.delay.tick();
}

// Where the delay is not known after so much the server has a clock of another kind (RFC 7323 5.4 allows a tick of a
// second), or something on the way rewrites what it says: nothing will be known of the queue. On a fast link so much
// comes before a tick can be found at all.
bool is_young(const FlowView& flow, Tick now)
{
  constexpr std::uint64_t most = 2u << 20;
  return flow.bytes_delivered < most || now - flow.first_seen < 1s;
}

bool lengthens_timer(const FlowView& flow, const Undo::State& state)
{
  return echo_age(state) > seconds(std::max(oldest_echo, flow.rtt_smoothed * oldest_echo_trips));
}

// And so far that the sender must not have it as a sample.
bool makes_timer_useless(const FlowView& flow, const Undo::State& state)
{
  return echo_age(state) > seconds(std::max(longest_sample, flow.rtt_smoothed * longest_sample_trips));
}

// Until when an old echo waits for data that are newer than the last. Where the sender must not have it without a new
// block, a true one costs the reaction to the whole chain, and what is in flight arrives within a round trip.
Tick waits_until(const FlowView& flow, const Undo::State& state)
{
  return state.edge_at + (makes_timer_useless(flow, state) ? std::max(longest_wait, flow.rtt_smoothed) : longest_wait);
}

// The ACK at hand is left out, until a later one comes or the wait is over; true unless it is.
bool wait_for_block(const Event& event, const FlowView& flow, Undo::State& state, Plan& plan, std::string_view why)
{
  const Tick until = waits_until(flow, state);
  if (event.now >= until) return false;
  plan.verdict = Verdict::drop;
  plan.wake = plan.wake ? std::min(*plan.wake, until) : until;
  plan.why = why;
  return state.waiting = true;
}

// Whether a SACK block tells of data beyond a hole that the sender has not heard of. A duplicate (RFC 2883) is none.
bool reports_beyond(const Segment& segment, Seq known)
{
  return std::ranges::any_of(segment.sacks(), [&](const SackBlock& block)
                             { return block.left.after(segment.ack) && block.right.after(known); });
}

// Whether what an ACK acknowledges was sent once, and nothing of it reported before: the sender's sample of the round
// trip is of that, whatever the echo (tcp_clean_rtx_queue).
bool acknowledges_new_only(const Segment& segment, const FlowView& flow)
{
  return segment.sack_count == 0 && segment.ack.after(flow.sent_sacked) && flow.sent_ack.at_or_after(flow.sent_sacked);
}

// Whether the echo from before the chain is older than a sender may have it. Where the path reorders a Linux sender
// waits before it takes a segment for lost, for as long as an eighth of its smoothed round trip (RACK, RFC 8985 6.2),
// which such echoes lengthen, and its timer with it; when it has no more to send meanwhile (its send buffer is full),
// it stands still. A sender that answers losses gains more than that costs (docs/results/paths.md).
bool too_old(const FlowView& flow, const Undo::State& state)
{
  if (!state.episode.chained || !state.order.reorders() || flow.sender.kind == SenderKind::loss_based) return false;
  return lengthens_timer(flow, state);
}

} // namespace

Plan Undo::decide(const Event& event, const FlowView& flow, State& state)
{
  switch (event.kind)
  {
  case EventKind::segment:
    // Packets went by beside the queue: what was seen of the flow before may be more than a sequence space old.
    if (event.queued && event.now == flow.resumed) state = State {};
    if (event.queued && event.segment->direction == Direction::egress && event.segment->is_pure_ack())
      return acknowledge(event, flow, state);
    if (event.segment->direction == Direction::ingress && event.segment->timestamps
        && event.segment->payload_length > 0)
    {
      // By a value that no path allows for every echo would be old.
      const TsClock value = event.segment->timestamps->value;
      if (state.delay.arrived(value, event.segment->received != Tick {} ? event.segment->received : event.now))
        state.order.arrived(value);
    }
    return {};
  case EventKind::alarm:
    return alarm(event, flow, state);
  case EventKind::fetched:
    return fetched(event, flow, state);
  case EventKind::link:
  case EventKind::radio:
  case EventKind::switched_off: // the chain flushes what was left out, and opens the window
    return {};
  }
  return {};
}

// No Wi-Fi is as fast as what arrives: what is lost is lost elsewhere.
Plan Undo::look_away(const Event& event, State& state)
{
  state.episode = {};
  // So much may go by until the flow is looked at again that numbers of before have no order to those of then.
  state.last_ack = event.segment->ack;
  state.steering.lose_place();
  state.stopped = state.aged = state.insisting = state.owed = state.waiting = false;
  state.steering.acknowledged(event.now);
  state.why = "faster than any Wi-Fi";
  return { .quiet = event.now + look_again, .why = "mirror: faster than any Wi-Fi" };
}

// What the download before from this server has shown of the air counts for one that begins.
void Undo::expect_losses(const Event& event, const FlowView& flow, State& state) const
{
  if (flow.loss_episodes > 0 || left_alone(flow.sender)) return;
  const LossyAir::Expected expected = air_.expected(flow, *event.links, event.now);
  state.loss_rate = expected.lost;
  if (expected.lost <= 0) return;
  state.steering.expect_losses(expected.carried, event.now);
  state.why = "losses are expected, as of the download before";
}

Plan Undo::acknowledge(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  if (bypassed(event, flow, state)) return {};
  if (faster_than_wifi(flow, *event.links)) return look_away(event, state);
  if (state.ack_known && segment.ack.before(state.last_ack)) return {}; // an old one, overtaken
  if (left_alone(flow.sender))
  {
    state.insisting = state.owed = false;
    if (state.steering.lossy()) state.steering = {};
  }
  if (!state.ack_known) expect_losses(event, flow, state);
  const bool progress = !state.ack_known || segment.ack.after(state.last_ack);
  if (progress) state.last_ack = segment.ack;
  state.ack_known = true;
  // What has arrived since its place was lost is not known.
  const bool known = state.steering.has_place();
  const Seq edge = state.steering.edge();
  const bool steered = state.steering.cap() > 0;
  state.steering.acknowledged(segment, flow, state.delay, steering(),
                              (*event.links)[static_cast<std::size_t>(flow.link)].delivery_rate, event.now);
  if (known) state.load.arrived(segments(static_cast<double>(state.steering.edge() - edge), flow), event.now);
  // The sender is slowed down, as by an answer.
  if (!steered && state.steering.cap() > 0) state.load.answered(event.now);

  // An echo from before a pause would give the sender a round-trip sample of that length, and make it wait as
  // long before its next timeout.
  if (state.episode.stage != Stage::none && state.edge_at != Tick {} && event.now - state.edge_at > longest_gap(flow))
    state.stopped = true;
  state.aged = state.aged || too_old(flow, state);
  const bool quiet = state.steering.edge() == edge && state.edge_at != Tick {}
                     && event.now - state.edge_at > flow.rtt_smoothed * dry_trips + late_slack;
  // The ACK that leaves no hole shows no block: what those before it have shown.
  if (segment.sack_count > 0) state.episode.ended = ends_short(segment, flow.mss);
  Plan plan = follow(event, flow, state, progress, quiet && state.episode.ended);
  if (state.episode.stage == Stage::none) state.stopped = state.aged = false;
  if (state.steering.edge() != edge) state.edge_at = event.now;
  repair_too(event, flow, state, plan);

  spare_timer(event, flow, state, plan);
  if (!state.waiting) ease(event, flow, state, plan);
  return plan;
}

// What ends a chain acknowledges nothing but what was sent twice or reported before, so that its echo is the sample. It
// waits, a moment, for two segments that come behind it. An ACK up to the first of these, with a SACK block of the
// second, has the old echo beside something new, and right behind it an ACK says that the first is here, too. No more
// than one segment is reported: three above a hole are a loss to the sender (RFC 5681 3.2), one may have overtaken.
void Undo::end_by_block(const Event& event, const FlowView& flow, State& state, Plan& plan)
{
  const Segment& segment = *event.segment;
  if (segment.sack_count > 0 || !segment.timestamps || !flow.sent_sacked.after(flow.sent_ack)) return;
  const std::uint32_t mss = flow.mss;
  if (segment.ack - flow.sent_sacked < 2 * static_cast<std::int32_t>(mss))
  {
    if (may_be_left_out(segment, flow)
        && wait_for_block(event, flow, state, plan, "mirror: the end of a chain waits for new data"))
      plan.edit.ts_echo = segment.timestamps->echo; // should it leave
    return;
  }
  // This host's own ACK may leave by another link, and come when the sender waits no more. Both TSvals have left
  // before: another module may be withholding younger ones.
  for (InjectedSegment& ack : std::span { scratch_ }.first(2))
  {
    ack = latest_ack(flow, flow.link);
    ack.window = state.steering.window(flow, segment.ack, segment.window, event.now);
    ack.window_waits = true;
    if (ack.timestamps) ack.timestamps->value = flow.sent_ts_value;
  }
  InjectedSegment& ack = scratch_[0];
  ack.ack = segment.ack - 2 * mss;
  ack.sack_blocks[ack.sack_count++] = { segment.ack - mss, segment.ack };
  if (ack.timestamps) ack.timestamps->echo = state.episode.old;
  plan.inject = { scratch_.data(), flow.ts_reserved.what == TsReservation::What::none ? 1u : 2u };
  plan.why = "mirror: old echo beside a block of new data, the end of the chain";
}

// A Linux sender takes a round-trip sample from an echo when nothing else in the ACK gives it one: what it acknowledges
// for the first time was sent twice, and no SACK block is new (tcp_ack_update_rtt). In a long chain such samples are as
// long as the chain, and the timer becomes a multiple of that: seconds, in which a sender that a short blackout has
// silenced does nothing (docs/results/drawn.md). So an old echo waits for the next ACK that reports something new, most
// often the very next one.
void Undo::spare_timer(const Event& event, const FlowView& flow, State& state, Plan& plan)
{
  const Segment& segment = *event.segment;
  const bool waited = std::exchange(state.waiting, false);
  if (state.owed && waited) return end_by_block(event, flow, state, plan);
  // Judged when it came, unless this one reaches a recovery point of its own.
  if (waited && state.episode.chained && plan.why.empty()) plan.edit.ts_echo = state.episode.old;
  if (!plan.edit.ts_echo || !plan.inject.empty()) return;
  if (!lengthens_timer(flow, state) || acknowledges_new_only(segment, flow)) return;
  if (reports_beyond(segment, flow.sent_sacked)) return;
  const bool waits = reports_nothing_new(segment, flow)
                     && wait_for_block(event, flow, state, plan, "mirror: old echo waits for a new SACK block");
  if (!makes_timer_useless(flow, state)) return;
  plan.edit.ts_echo.reset(); // also of one that waits: another module may insist that it leaves
  if (waits) return;
  plan.why = "mirror: true echo, the old one would lengthen the timer";
  if (state.episode.stage != Stage::none) return;
  // A chain has ended here. Where its last hole was of an episode before, the sender has not reached its recovery point
  // yet: that lies within what is in flight. Up to there an old echo still takes its reaction back, and beside new data
  // it is no sample; and a hole that is seen before then is of the same chain.
  state.owed = true;
  state.insisting = false;
  state.until = segment.ack + state.steering.flight();
  end_by_block(event, flow, state, plan);
}

// Fewer ACKs, and the window that steering wants, with the ACK that the plan is about.
void Undo::ease(const Event& event, const FlowView& flow, State& state, Plan& plan) const
{
  const Segment& segment = *event.segment;
  if (plan.edit.empty() && plan.inject.empty() && state.steering.may_wait(flow, steering(), event.now)
      && repeats_in_next(segment, flow))
  {
    const Tick due = state.steering.due(flow, steering());
    plan.verdict = Verdict::drop;
    plan.wake = plan.wake ? std::min(*plan.wake, due) : due;
    if (plan.why.empty()) plan.why = "mirror: repeated by the next ACK";
    return;
  }
  state.steering.acknowledged(event.now);
  if (const std::uint16_t window = state.steering.window(flow, segment.ack, segment.window, event.now);
      window < segment.window)
  {
    plan.edit.window = window;
    plan.edit.window_waits = true;
    if (plan.why.empty()) plan.why = "mirror: window keeps the queue short";
  }
}

Plan Undo::alarm(const Event& event, const FlowView& flow, State& state)
{
  if (state.bypassed || !withholds_ack(flow)) return {};
  const bool waited = state.waiting;
  if (const Tick due = waited ? waits_until(flow, state) : state.steering.due(flow, steering()); event.now < due)
    return { .wake = due };
  state.waiting = false;
  InjectedSegment& ack = scratch_[0];
  ack = latest_ack(flow, flow.link);
  ack.window = state.steering.window(flow, flow.rcv_nxt, flow.last_window, event.now);
  ack.window_waits = true;
  // No younger TSval than what has left: another module may be withholding it for a path validation
  // (docs/decisions/0003).
  if (ack.timestamps) ack.timestamps->value = flow.sent_ts_value;
  if (ack.timestamps && waited && !makes_timer_useless(flow, state)) ack.timestamps->echo = state.episode.old;
  state.steering.acknowledged(event.now);
  return { .inject = { &ack, 1 }, .why = "mirror: the ACK that was waiting" };
}

Score Undo::score(const Event& event, const FlowView& flow, const State& state) const
{
  const Episode& episode = state.episode;
  const bool listening = event.damage != nullptr && !state.deaf;
  return judge(
      { .timed = state.delay.known(),
        .timestamps = flow.timestamps_ok && is_young(flow, event.now),
        .queued = static_cast<double>(state.hole_queue),
        .top = state.delay.top(),
        .rtt_min = seconds(flow.rtt_min),
        .recent = state.delay.recent(),
        .repeated = state.alike >= alike_losses,
        .growing = state.steering.growing(),
        .unproved = state.loss_rate > 0 && !state.overflowed,
        .loaded = state.load.tells()
                  || (state.steering.queue_loses()
                      && !Steering::short_queue(flow, static_cast<double>(state.hole_queue), steering())),
        .others = state.hidden + state.kept < own_episodes && overflows_.usual(flow.link, *event.links, event.now),
        .steered = state.steering.holds(flow, static_cast<double>(state.hole_queue), steering()),
        .lost = episode.lost,
        .span = static_cast<std::uint32_t>(std::max(0, episode.edge - episode.una)),
        .holes = episode.holes,
        .expected = static_cast<double>(state.loss_rate) * std::max(0, episode.edge - episode.una) / flow.mss,
        .radio = listening,
        .damaged =
            listening ? event.damage->between(state.hole_from, state.hole_from + from_seconds(state.hole_span)) : 0 });
}

// `dry`: the sender's timer fired, and nothing will follow what is held. An older echo takes its marks from all holes,
// and with nothing behind them to be reported they would wait for the next timeout, twice as long: only the ACK that
// leaves no hole has one (docs/decisions/0008).
Plan Undo::follow(const Event& event, const FlowView& flow, State& state, bool progress, bool dry)
{
  const Segment& segment = *event.segment;
  Episode& episode = state.episode;
  // Another module lowered the ACK number: the echo is for the ACK that reaches it.
  if (state.insisting && (flow.sent_ack.at_or_after(state.until) || segment.sack_count > 0)) state.insisting = false;
  if (episode.stage == Stage::none)
  {
    const TsClock old = episode.old;
    begin(event, flow, state);
    state.owed = state.owed && segment.ack.before(state.until);
    if (state.owed && episode.stage != Stage::none)
    {
      episode.chained = true;
      episode.old = old;
      state.owed = false;
    }
    else if (state.owed && progress && acknowledges_new_only(segment, flow))
    {
      state.owed = false;
      state.insisting = true;
      state.until = segment.ack;
    }
    if (state.insisting && progress && flow.timestamps_ok)
      return { .edit = { .ts_echo = episode.old }, .why = "mirror: echo again, the number was withheld" };
    return {};
  }
  const bool first = episode.stage == Stage::open && !episode.chained;
  const Step step = episode.acknowledged(segment, progress, dry, retransmission_timeout(flow), event.now);
  if (step.holes > 0) note_holes(event, flow, state);
  if (step.filled && first && event.now - episode.began < from_seconds(seconds(flow.rtt_min) * reordering))
  {
    bump(state.reordered);
    state.why = "reordering";
    begin(event, flow, state);
    return { .why = "mirror: reordered, not lost" };
  }
  if (!progress || (!step.crossed && !episode.chained)) return {};
  if (!step.crossed && dry) return { .why = "mirror: true echo, nothing follows the holes" };
  return go_on(event, flow, state, step.crossed);
}

// At the recovery point (`crossed`), and in a chain at any progress, because nobody knows where its next one lies.
Plan Undo::go_on(const Event& event, const FlowView& flow, State& state, bool crossed)
{
  const Episode& episode = state.episode;
  if (crossed) learn(state);
  const Score verdict = score(event, flow, state);
  const bool congested = verdict.congestion > knobs.threshold;
  // What is left of losses by congestion is theirs, too.
  const bool left_over = episode.chained && state.was_kept && episode.holes <= 1;
  const bool hides = !left_over && !episode.ece && !state.stopped && !state.aged && knobs.undo != 0
                     && event.now >= state.bypass_until && !congested && verdict.congestion < 1
                     && !left_alone(flow.sender);
  if (!crossed)
  {
    if (!hides || !flow.timestamps_ok) return {};
    return { .edit = { .ts_echo = episode.old }, .why = "mirror: goes on after what was hidden" };
  }
  state.score = static_cast<float>(verdict.congestion);
  const bool surely = verdict.congestion < sure && !left_over && !episode.ece;
  if (surely) learn_rate(flow, state);
  if (!left_over && !state.stopped && !episode.ece)
    overflows_.lost(flow.link, congested && verdict.why == Weight::share, *event.links, event.now);
  if (Steering::short_queue(flow, static_cast<double>(state.hole_queue), steering())) state.steering.air_loses();
  // What a full queue explains says nothing of losses that no queue does.
  if (!congested || verdict.why == Weight::load) state.load.lost();
  // Without a rate nothing is to be had from knowing it: a flow that never filled the link overflows no queue.
  if (hides && surely && flow.sender.kind == SenderKind::loss_based && state.steering.carried() > 0)
    air_.lost(flow, { .lost = state.loss_rate, .carried = state.steering.carried() }, event.now);
  state.was_kept = !hides;
  Plan plan {};
  if (hides)
    plan = hide(event, flow, state, verdict);
  else
  {
    state.overflowed = state.overflowed || (congested && verdict.why != Weight::load && verdict.why != Weight::others);
    plan.why = left_over                        ? "mirror: kept, left over from congestion"
               : episode.ece                    ? "mirror: kept, ECN shows congestion"
               : state.stopped                  ? "mirror: kept, data had stopped"
               : state.aged                     ? "mirror: kept, the path reorders"
               : event.now < state.bypass_until ? "mirror: kept, the sender does not respond"
               : knobs.undo == 0                ? "mirror: kept, undo is off"
               : left_alone(flow.sender)        ? "mirror: kept, this sender is left alone"
                                                : kept(verdict);
  }
  if (state.was_kept)
  {
    bump(state.kept);
    state.load.answered(event.now);
  }
  state.why = plan.why.data() + 8; // behind "mirror: "
  begin(event, flow, state);
  return plan;
}

Plan Undo::hide(const Event& event, const FlowView& flow, State& state, const Score& score)
{
  Plan plan {};
  const Episode& episode = state.episode;
  if (flow.timestamps_ok)
    plan.edit.ts_echo = episode.old;
  else
  {
    plan.inject = duplicates(event, flow, episode);
    if (plan.inject.empty())
    {
      state.was_kept = true;
      return { .why = "mirror: kept, no timestamps and too many holes" };
    }
  }
  plan.why = hidden(score, episode.late);
  bump(state.hidden);
  state.insisting = flow.timestamps_ok;
  state.until = event.segment->ack;

  const std::uint32_t flight = state.steering.flight();
  if (state.flight > 0 && flight < in_vain * state.flight)
    bump(state.vain);
  else if (flight > worked * state.flight)
    state.vain = 0;
  state.flight = flight;
  if (state.vain >= knobs.give_up)
  {
    state.vain = 0;
    state.bypass_until = event.now + from_seconds(knobs.back_off * (1 << std::min<int>(state.pauses, most_doublings)));
    bump(state.pauses);
  }
  const float all = segments(static_cast<double>(flow.bytes_delivered), flow);
  state.steering.hidden(static_cast<float>(state.hidden) / std::max(1.0f, all), event.now);
  // A rate-based sender would be held by the cap, and under it nobody could tell that it is one.
  if (flow.sender.kind == SenderKind::loss_based && (state.steering.lossy() || state.hidden <= late_to_steer))
    state.steering.undone(flow, steering(), event.now);
  return plan;
}

// A Linux sender also takes back its reaction when all its retransmissions are reported as duplicates
// (tcp_try_undo_dsack). Each is reported once it is acknowledged: for nothing else does the sender count.
std::span<const InjectedSegment> Undo::duplicates(const Event& event, const FlowView& flow, const Episode& episode)
{
  if (episode.holes > episode.first.size()) return {};
  std::size_t count = 0;
  for (std::size_t i = 0; i < episode.holes; ++i)
  {
    const SackBlock& hole = episode.first[i];
    if (hole.right.after(event.segment->ack)) continue; // of the next episode
    scratch_[count++] = { .by = flow.link,
                          .at = event.now + behind,
                          .seq = flow.snd_nxt,
                          .ack = event.segment->ack,
                          .window = event.segment->window,
                          .sack_blocks = { hole },
                          .sack_count = 1 };
  }
  return { scratch_.data(), count };
}

void Undo::describe(const FlowView&, const State& state, Facts& facts) const
{
  facts.add("state", state.why);
  facts.add("hidden", state.hidden);
  facts.add("kept", state.kept);
  facts.add("reordered", state.reordered);
  facts.add("score", static_cast<double>(state.score));
  facts.add("queued", state.delay.queued() * 1e3, "ms");
  facts.add("most queued", state.delay.top() * 1e3, "ms");
  if (state.delay.known()) facts.add("server's clock tick", state.delay.tick() * 1e3, "ms");
  if (state.steering.cap() > 0) facts.add("in flight at most", state.steering.cap(), "bytes");
}

} // namespace tandem::mirror
