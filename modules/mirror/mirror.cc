#include "modules/mirror/mirror.h"

#include "modules/mirror/count.h"

#include <tandem/knob_table.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::mirror
{

namespace
{

using namespace std::chrono_literals;

constexpr std::array<std::string_view, 3> strategies { "undo", "range", "replay" };

constexpr std::array<KnobRow<Knobs>, 8> rows { {
    { { .name = "threshold",
        .minimum = 0,
        .maximum = 1,
        .help =
            "score above which an episode of losses is left to the sender as congestion: 0 hides nothing that could "
            "be a full queue, 1 hides all but certain ones" },
      &Knobs::threshold },
    { { .name = "undo",
        .type = KnobType::boolean,
        .minimum = 0,
        .maximum = 1,
        .help =
            "the sender's reaction to losses of the air is taken back; off, they are fetched only (range, replay)" },
      &Knobs::undo },
    { { .name = "cap",
        .minimum = 0,
        .maximum = 8,
        .help =
            "once losses of the air were seen the advertised window keeps the queueing delay near this many eighths of "
            "the round trip (4 to 16 ms times this); 0: the window is left alone" },
      &Knobs::cap },
    { { .name = "acks",
        .minimum = 0,
        .maximum = 1000,
        .help = "ACKs per round trip in a slow start with losses of the air, so that it does not end early; 0: all" },
      &Knobs::acks },
    { { .name = "pace",
        .type = KnobType::boolean,
        .minimum = 0,
        .maximum = 1,
        .help = "after an undo the window opens at the pace of what arrives, not at once" },
      &Knobs::pace },
    { { .name = "dsack",
        .type = KnobType::boolean,
        .minimum = 0,
        .maximum = 1,
        .help =
            "without timestamps, and only with a radio that heard the damaged frames: retransmissions are reported as "
            "duplicates (RFC 2883)" },
      &Knobs::dsack },
    { { .name = "give_up",
        .type = KnobType::integer,
        .minimum = 1,
        .maximum = 100,
        .help = "undos in a row after which less is in flight than before, until a flow is left alone for a while" },
      &Knobs::give_up },
    { { .name = "rest",
        .type = KnobType::duration,
        .unit = "s",
        .minimum = 0,
        .maximum = 3600,
        .help = "how long it is left alone then; doubles each time" },
      &Knobs::rest },
} };

constexpr Knob strategy_knob {
  .name = "strategy",
  .type = KnobType::choice,
  .minimum = 0,
  .maximum = 2,
  .initial = 0,
  .help =
      "undo: the server repairs, its congestion control is told nothing; range, replay: plaintext HTTP also gets the "
      "missing bytes by the cellular link, by a Range request or as published in 2009",
  .choices = strategies
};

constexpr auto all_knobs = knob_table(strategy_knob, rows);

// What fills a hole sooner than this part of the round trip was not asked for: it had only been overtaken.
constexpr double reordering = 0.6;
// A retransmission that takes longer than this many round trips was lost itself.
constexpr double late_trips = 1.5;
constexpr Duration late_slack = 10ms;
// No new data for longer than both is a pause.
constexpr Duration pause = 1s;
constexpr int pause_trips = 4;
// Less in flight than this part of what was there before an undo means that it brought nothing.
constexpr double in_vain = 0.75;
constexpr double worked = 0.9;
constexpr int most_rests = 6; // doublings
// Delays this close, in seconds or as a share, are the same, and so many in a row no accident.
constexpr float same_delay = 0.0015f;
constexpr float same_share = 0.12f;
// Below this score the air alone explains an episode. The rate of such losses is averaged over about so many.
constexpr double sure = 0.5;
constexpr float rate_memory = 8;
constexpr std::uint8_t alike_losses = 3;
// Around a hole, within which the radio's clock and ours agree.
constexpr Duration radio_slack = 3ms;
// Crafted duplicates leave behind the ACK that made them true.
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
  case Weight::share:
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

} // namespace

std::string_view Mirror::summary() const
{
  return "Hides losses of the air from the sender's congestion control, and leaves those of full queues visible.";
}

std::string_view Mirror::manual() const
{
  return R"(A download over a lossy link is slow because its sender takes every loss for congestion and halves its window: three lost segments in a thousand
leave a third of a 20 Mb/s link with a round trip of 50 ms, one in a hundred a seventh. `mirror` lets the server repair the loss as ever, but takes back what its congestion
control made of it. Nothing is acknowledged that was not received, it works under TLS, and it needs no second interface.

**Undo.** The SACK blocks of this host's own ACKs show the holes and when they are filled. On the ACK that reaches the recovery point the echoed timestamp
(TSecr) is set just before the first retransmission. A sender that follows RFC 3522 and RFC 4015, as Linux does, concludes that the retransmission was not
needed and restores its window. Once per episode; while losses follow each other without a gap, at every step forward.

**Air or queue.** Only losses of the air are hidden: a full queue must stay visible, or the link drowns. Each episode gets a score from 0 (the air) to 1
(congestion), `threshold` divides them. It is made of the queueing delay at the holes (one-way, from the server's timestamps) against the most that the queue held
lately; of losses that come again and again at the same delay; of the share lost at once; of the rate of losses that nothing but the air explains; and, with a radio
that listens (`links.radio`), of damaged frames heard at the time. One hole at a full queue makes the whole episode congestion's. ECN's word is final.

**Short queue.** While every round trip sees a loss no congestion window grows except in slow start. So once losses of the air were seen the advertised window keeps
the queueing delay near `cap` eighths of the round trip, and the sender's window stays above what is in flight. It also opens gently after an undo (`pace`), and in slow
start fewer ACKs are sent (`acks`), which keeps HyStart from ending it early. When somebody else fills the queue the cap is lifted. A flow that never loses to the air
is not steered at all.

**Fetching.** Strategies `range` and `replay` also fetch the missing bytes of plaintext HTTP over the cellular link and hand them to the local TCP: by a Range request
with a strong ETag and If-Range, or, as published in 2009, from a mirror connection that replays the request. What is fetched is compared with what arrived on both sides
of the hole first, and the download is left alone, with the reason, when anything differs (`tandem flows`). They pay where the cellular round trip is shorter than the
Wi-Fi path's, and they cost cellular volume, `replay` much more than `range`; see `[fetch]` in tandem.toml(5).

Left alone are flows without SACK, MPTCP subflows, flows with accurate ECN, TCP-MD5 and TCP-AO. Without timestamps nothing is known of the queue: losses are hidden only when
a radio heard the damaged frames, by reporting the retransmissions as duplicates (`dsack`). A flow whose sender does not respond is left alone for a while (`give_up`, `rest`).
BBR hardly reacts to such losses; nothing is won, and nothing lost.)";
}

std::span<const Knob> Mirror::knobs() const
{
  return all_knobs;
}

void Mirror::set(std::string_view knob, double value)
{
  if (knob == strategy_knob.name) knobs_.strategy = static_cast<Strategy>(static_cast<int>(value));
  set_knob(knobs_, rows, knob, value);
}

double Mirror::get(std::string_view knob) const
{
  if (knob == strategy_knob.name) return static_cast<double>(knobs_.strategy);
  return get_knob(knobs_, rows, knob);
}

Interest Mirror::interest() const
{
  // Copies of what arrives are for the one-way delay.
  return { .decide = traffic::egress_pure_ack, .observe = traffic::ingress_data, .radio = true, .content = fetches() };
}

Plan Mirror::decide(const Event& event, const FlowView& flow, State& state)
{
  switch (event.kind)
  {
  case EventKind::segment:
    if (event.queued && event.segment->direction == Direction::egress && event.segment->is_pure_ack())
      return acknowledge(event, flow, state);
    if (event.segment->direction == Direction::ingress && event.segment->timestamps
        && event.segment->payload_length > 0)
      state.delay.arrived(event.segment->timestamps->value,
                          event.segment->received != Tick {} ? event.segment->received : event.now);
    return {};
  case EventKind::alarm:
    return alarm(event, flow, state);
  case EventKind::fetched:
    return fetching::on_fetched(event, flow, state.fetching, scratch_);
  case EventKind::link:
  case EventKind::radio:
  case EventKind::switched_off: // the chain makes good what was left out, and opens the window
    return {};
  }
  return {};
}

bool Mirror::left_alone(const Event& event, const FlowView& flow, State& state) const
{
  // RFC 9768 counts in the flags of every ACK; what an unknown option ties to an ACK nobody knows; an MPTCP subflow is
  // told by data-level ACKs what arrived, and its other subflows have windows of their own.
  constexpr std::uint16_t counted = tcp_flag::ae | tcp_flag::cwr | tcp_flag::urg;
  if (!state.alone
      && (flow.mptcp || flow.acc_ecn || !flow.sack_ok || event.segment->has(counted)
          || event.segment->has_option(option::unknown)))
  {
    state.alone = true;
    state.why = flow.mptcp      ? "MPTCP subflow, left alone"
                : !flow.sack_ok ? "no SACK, left alone"
                                : "accurate ECN or unknown option, left alone";
  }
  return state.alone;
}

Plan Mirror::acknowledge(const Event& event, const FlowView& flow, State& state)
{
  const Segment& segment = *event.segment;
  if (left_alone(event, flow, state)) return {};
  if (state.ack_known && segment.ack.before(state.last_ack)) return {}; // an old one, overtaken
  const bool progress = !state.ack_known || segment.ack.after(state.last_ack);
  if (progress) state.last_ack = segment.ack;
  state.ack_known = true;
  const Seq edge = state.steering.edge();
  state.steering.acknowledged(segment, flow, state.delay, steering(), event.now);

  // An echo from before a pause would make the sender believe in a round trip of that length, and wait as long before
  // its next timeout.
  if (state.episode.stage != Stage::none && state.edge_at != Tick {}
      && event.now - state.edge_at > std::max(pause, flow.rtt_smoothed * pause_trips))
    state.stopped = true;
  Plan plan = repair(event, flow, state, progress);
  if (state.episode.stage == Stage::none) state.stopped = false;
  if (state.steering.edge() != edge) state.edge_at = event.now;
  if (fetches())
  {
    const Plan fetch = fetching::on_ack(event, flow, state.fetching, fetch_settings(), scratch_);
    plan.fetch = fetch.fetch;
    if (plan.craft.empty()) plan.craft = fetch.craft;
    plan.wake = fetch.wake;
    if (plan.why.empty()) plan.why = fetch.why;
  }

  if (plan.edit.empty() && state.steering.may_wait(flow, steering(), event.now) && repeats_in_next(segment, flow))
  {
    const Tick due = state.steering.due(flow, steering());
    plan.verdict = Verdict::drop;
    plan.wake = plan.wake ? std::min(*plan.wake, due) : due;
    if (plan.why.empty()) plan.why = "mirror: repeated by the next ACK";
    return plan;
  }
  state.steering.said(event.now);
  if (const std::uint16_t window = state.steering.window(flow, segment.ack, segment.window, event.now);
      window < segment.window)
  {
    plan.edit.window = window;
    if (plan.why.empty()) plan.why = "mirror: window keeps the queue short";
  }
  return plan;
}

Plan Mirror::alarm(const Event& event, const FlowView& flow, State& state)
{
  Plan plan {};
  if (fetches()) plan = fetching::on_alarm(event, flow, state.fetching, fetch_settings(), scratch_);
  if (!plan.craft.empty() || state.alone || !flow.sent_any || !flow.highest_ack.after(flow.sent_ack)) return plan;
  if (event.now < state.steering.due(flow, steering()))
  {
    const Tick due = state.steering.due(flow, steering());
    plan.wake = plan.wake ? std::min(*plan.wake, due) : due;
    return plan;
  }
  Craft& craft = crafts_[0];
  craft = { .by = flow.link,
            .seq = flow.next_seq,
            .ack = flow.highest_ack,
            .window = state.steering.window(flow, flow.highest_ack, flow.last_window, event.now) };
  // No younger TSval than what has left: another module may be holding it back for a proof (docs/decisions/0003).
  if (flow.timestamps_ok) craft.timestamps = Timestamps { flow.sent_ts_value, flow.last_ts_echo };
  state.steering.said(event.now);
  plan.craft = { crafts_.data(), 1 };
  plan.why = "mirror: the ACK that was waiting";
  return plan;
}

void Mirror::note_holes(const Event& event, State& state) const
{
  const auto queued = static_cast<float>(state.delay.peak());
  const bool above = state.episode.stage == Stage::repairing;
  float& at = above ? state.later_queue : state.hole_queue;
  at = std::max(at, queued);
  // The frames were lost after what arrived last, and before what showed the holes. Which of them the radio heard is
  // asked at the recovery point: a frame's record may come after the ACK, and a retry may still make it good.
  if (event.damage == nullptr) state.deaf = true;
  if (state.hole_from == Tick {}) state.hole_from = state.edge_at - radio_slack;
  state.hole_span = static_cast<float>(seconds(event.now - state.hole_from));
}

Score Mirror::score(const Event& event, const FlowView& flow, const State& state) const
{
  const Episode& episode = state.episode;
  const bool listening = event.damage != nullptr && !state.deaf;
  return judge(
      { .timed = state.delay.known(),
        .timestamps = flow.timestamps_ok,
        .queued = static_cast<double>(state.hole_queue),
        .top = state.delay.top(),
        .rtt_min = seconds(flow.rtt_min),
        .recent = state.delay.recent(),
        .repeated = state.alike >= alike_losses,
        .growing = state.steering.growing(),
        .steered = state.steering.holds(flow, static_cast<double>(state.hole_queue), steering()),
        .lost = episode.lost,
        .span = static_cast<std::uint32_t>(std::max(0, episode.edge - episode.una)),
        .holes = episode.holes,
        .expected = static_cast<double>(state.loss_rate) * std::max(0, episode.edge - episode.una) / flow.mss,
        .radio = listening,
        .damaged =
            listening ? event.damage->between(state.hole_from, state.hole_from + from_seconds(state.hole_span)) : 0 });
}

// Losses of the air come at any delay; those of a full queue always at the same.
void Mirror::learn(State& state)
{
  const float apart = std::abs(state.hole_queue - state.last_queue);
  if (apart < std::max(same_delay, same_share * state.hole_queue))
    bump(state.alike);
  else
    state.alike = 0;
  state.last_queue = state.hole_queue;
}

// How many losses of the air are usual, from those that nothing else explains.
void Mirror::learn_rate(const FlowView& flow, State& state, bool surely)
{
  const auto delivered = static_cast<double>(flow.bytes_delivered - state.judged_at);
  state.judged_at = flow.bytes_delivered;
  if (!surely || delivered <= 0) return;
  const auto rate = static_cast<float>(std::min(1.0, state.episode.holes * static_cast<double>(flow.mss) / delivered));
  state.loss_rate += (rate - state.loss_rate) / rate_memory;
}

Plan Mirror::repair(const Event& event, const FlowView& flow, State& state, bool progress)
{
  const Segment& segment = *event.segment;
  Episode& episode = state.episode;
  const auto begin = [&]
  {
    const Seq edge = episode.edge;
    const bool shown = episode.next(segment, event.now);
    // Holes above the recovery point that were seen before count as one.
    const bool carried = shown && episode.chained && edge.after(segment.ack);
    state.hole_queue = carried ? state.later_queue : 0;
    state.later_queue = 0;
    // Holes above the recovery point were seen while those of the episode before were being filled: a round trip.
    const Tick last = state.hole_from + from_seconds(state.hole_span);
    state.hole_from = carried ? std::max(state.hole_from, last - flow.rtt_min - radio_slack) : Tick {};
    state.deaf = carried && state.deaf;
    if (shown && episode.holes > (carried ? 1u : 0u)) note_holes(event, state);
  };
  Plan plan {};
  // Another module held the ACK number back: the echo is for the one that says it.
  if (state.insisting && (flow.sent_ack.at_or_after(state.until) || segment.sack_count > 0)) state.insisting = false;
  if (episode.stage == Stage::none)
  {
    begin();
    if (state.insisting && progress && flow.timestamps_ok)
      plan = { .edit = { .ts_echo = episode.old }, .why = "mirror: echo again, the number was held back" };
    return plan;
  }

  // Without timestamps no round trip is known, and nothing is late.
  const Duration patience = flow.rtt_smoothed > Duration {}
                                ? flow.rtt_smoothed * static_cast<int>(late_trips * 2) / 2 + late_slack
                                : Duration::max();
  const bool first = episode.stage == Stage::open && !episode.chained;
  const Step step = episode.acknowledged(segment, progress, patience, event.now);
  if (step.holes > 0) note_holes(event, state);
  if (step.filled && first && event.now - episode.began < from_seconds(seconds(flow.rtt_min) * reordering))
  {
    bump(state.reordered);
    state.why = "reordering";
    begin();
    return { .why = "mirror: reordered, not lost" };
  }
  if (!progress || (!step.crossed && !episode.chained)) return {};

  // At the recovery point, and in a chain at any progress, because nobody knows where its next one lies.
  if (step.crossed) learn(state);
  const Score verdict = score(event, flow, state);
  // What is left of losses by congestion is theirs, too.
  const bool left_over = episode.chained && state.was_kept && episode.holes <= 1;
  const bool hides = !left_over && !episode.ece && !state.stopped && knobs_.undo != 0 && event.now >= state.rest_until
                     && verdict.congestion <= knobs_.threshold && verdict.congestion < 1;
  if (!step.crossed)
  {
    if (hides && flow.timestamps_ok)
      plan = { .edit = { .ts_echo = episode.old }, .why = "mirror: goes on after what was hidden" };
    return plan;
  }
  state.score = static_cast<float>(verdict.congestion);
  learn_rate(flow, state, verdict.congestion < sure && !left_over && !episode.ece);
  state.was_kept = !hides;
  if (hides)
    plan = hide(event, flow, state, verdict);
  else
  {
    bump(state.kept);
    plan.why = left_over                      ? "mirror: kept, left over from congestion"
               : episode.ece                  ? "mirror: kept, ECN says congestion"
               : state.stopped                ? "mirror: kept, data had stopped"
               : event.now < state.rest_until ? "mirror: kept, the sender does not respond"
               : knobs_.undo == 0             ? "mirror: kept, undo is off"
                                              : kept(verdict);
  }
  state.why = plan.why.data() + 8; // behind "mirror: "
  begin();
  return plan;
}

Plan Mirror::hide(const Event& event, const FlowView& flow, State& state, const Score& score)
{
  Plan plan {};
  const Episode& episode = state.episode;
  if (flow.timestamps_ok)
    plan.edit.ts_echo = episode.old;
  else
  {
    plan.craft = duplicates(event, flow, episode);
    if (plan.craft.empty())
    {
      bump(state.kept);
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
  if (state.vain >= knobs_.give_up)
  {
    state.vain = 0;
    state.rest_until = event.now + from_seconds(knobs_.rest * (1 << std::min<int>(state.rests, most_rests)));
    bump(state.rests);
  }
  state.steering.undone(flow, steering(), event.now);
  return plan;
}

// A Linux sender also takes back its reaction when all its retransmissions are reported as duplicates
// (tcp_try_undo_dsack). Each is reported once it is acknowledged: for nothing else does the sender count.
std::span<const Craft> Mirror::duplicates(const Event& event, const FlowView& flow, const Episode& episode)
{
  if (knobs_.dsack == 0 || episode.holes > episode.first.size()) return {};
  std::size_t count = 0;
  for (std::size_t i = 0; i < episode.holes; ++i)
  {
    const SackBlock& hole = episode.first[i];
    if (hole.right.after(event.segment->ack)) continue; // of the next episode
    crafts_[count++] = { .by = flow.link,
                         .at = event.now + behind,
                         .seq = flow.next_seq,
                         .ack = event.segment->ack,
                         .window = event.segment->window,
                         .sack_blocks = { hole },
                         .sack_count = 1 };
  }
  return { crafts_.data(), count };
}

void Mirror::describe(const FlowView& flow, const State& state, Facts& facts) const
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
  if (fetches()) fetching::describe(flow, state.fetching, facts);
}

} // namespace tandem::mirror

TANDEM_MODULE(tandem::mirror::Mirror);
