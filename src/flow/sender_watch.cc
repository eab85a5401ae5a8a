#include "src/flow/sender_watch.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <utility>

namespace tandem::flow
{

namespace
{

// Votes, found on recorded downloads of each kind (docs/results/senders.md). A vote alone may be wrong, two of a kind
// hardly ever are.
constexpr int train_vote = 8;
constexpr int spread_vote = 6;
constexpr int even_vote = 12;
constexpr int loss_vote = 10;
constexpr int small_loss_vote = 6; // in a flight of few segments, which the reaction rounds
constexpr int probe_vote = 25;
constexpr int burst_vote = 6;
// After two rounds that say that the start was paced an answer to losses counts for less.
constexpr std::uint8_t paced_start = 2;
constexpr int contradicted_vote = 5;
// The window of a sender in slow start may be ahead of what it has in flight: then its answer to a loss is not to grow.
constexpr int growing_vote = 5;
// Where an ACK comes for more than this part of a flight (aggregated frames, jitter, a short round trip) what is
// counted is too coarse to tell: BBR had 0.05 to 1.25 at 20 ms over 802.11n, CUBIC 0.4 to 0.9. For more than a delayed
// ACK's two segments the smaller part does: of BBR's episodes there three of ten were "slower", of CUBIC's nine of
// twelve "not slower" (docs/results/senders.md).
constexpr double coarse = 1.0 / 8;
constexpr double coarse_steps = 1.0 / 24;
constexpr double delayed = 2.5; // segments
constexpr int coarse_vote = 1;
constexpr int largest_score = 40;
constexpr int decisive = 8;
constexpr int overwhelming = 20;  // against what the handshake says
constexpr double score_per_e = 5; // odds of being right grow by e with so much

// The start of a flow: rounds of at least `fewest` segments that grow.
constexpr std::uint8_t most_rounds = 8;
constexpr std::uint32_t fewest_in_train = 8;
constexpr std::uint32_t fewest_in_round = 14;
constexpr double growth = 1.2;
constexpr double round_share = 0.9; // of a round trip: the next train may come a little early
constexpr double longest_round = 1.3;
// A train that fills more than this part of the round trip at the rate of the path leaves nothing to see.
constexpr double longest_train = 0.7;
constexpr double stretched = 1.3; // train that takes longer than the path needs for it
constexpr double silent = 0.25;   // of the round trip
// Linux's pacing of loss-based senders, where a queueing discipline does it, leaves half of the round trip silent in
// slow start (tcp_pacing_ss_ratio), BBR's less than that from its second round on.
constexpr double spread = 0.47;
constexpr double even = 0.3;
// Whose round trip is evenly filled by less than the path can carry is paced. That it could carry more shows later, in
// a round that is so much faster; the rate of aggregated frames alone grows by two thirds with the queue behind them.
constexpr double faster = 2.5;
// More than this part of a round trip above the shortest one is a queue.
constexpr double queue_share = 0.2;
// A train shorter than an aggregate (802.11n: 5.5 ms) came at once, and says nothing of the path.
constexpr std::uint32_t shortest_train = 5'500;    // us
constexpr std::uint32_t longest_start = 2'000'000; // us; later the path may have changed

// An episode. Sooner filled is reordering, much later the retransmission was lost as well.
constexpr double reordering = 0.6;
constexpr double late_trips = 1.6;
constexpr std::uint32_t late_slack = 400'000; // us: of queue
constexpr std::uint32_t default_rtt = 100'000;
constexpr unsigned shown = 3;       // blocks that an ACK with timestamps has room for (RFC 2018)
constexpr double not_slower = 0.88; // BBR keeps its rate
constexpr double slower = 0.80;     // CUBIC's 0.7 and some
constexpr double longest_after = 1.5;
constexpr double longest_answered = 1.25; // smoothed round trips
constexpr double nearly_all = 0.8;
constexpr std::uint32_t tick = 1000; // us, of Linux's TSval
// Without the sender's clock a queue that drains meanwhile hides that less is sent.
constexpr double short_queue = 1.35; // round trips
constexpr std::uint32_t fewest_in_flight = 6;
constexpr std::uint32_t few_in_flight = 8;
constexpr std::uint32_t enough_in_flight = 12;
// Of the advertised window in flight: that may be what limits the flow, not what the sender makes of losses.
constexpr double window_limited = 0.85;

// PROBE_RTT: 200 ms at four segments (draft-ietf-ccwg-bbr, 4.3.4.5), with the round trips around it.
constexpr std::uint32_t fewest_probing = 2;
constexpr std::uint32_t most_probing = 6;
constexpr std::uint32_t fewest_before = 20;
constexpr std::uint16_t shortest_probe = 150; // ms
constexpr std::uint16_t longest_probe = 700;
constexpr double longest_probing_round = 1.6;

// Bursts, with one TSval. BBR was seen to send 12 segments so, its first ten and some unpaced (22), and in startup may
// send what six milliseconds carry by its own estimate, which is ahead of what has arrived.
constexpr std::uint32_t fewest_in_burst = 24;
constexpr double longest_paced = 12; // ticks' worth of what arrives
constexpr std::int32_t enough_ticks = 50;
constexpr std::uint32_t longest_clocked = 60'000'000; // us, until its clock is looked at anew

// What Linux leaves of a segment for timestamps, and gVisor for all options there are.
constexpr std::uint16_t timestamps_room = 12;
constexpr std::uint16_t all_options_room = 40;
constexpr std::uint32_t most_at_a_time = 64; // segments: beyond what merging makes of them (GRO)
constexpr int enough_sizes = 12;

constexpr const char* as_earlier_ones = "as earlier connections to it were";

constexpr std::uint8_t kind_nop = 1, kind_mss = 2, kind_scale = 3, kind_sack = 4, kind_timestamps = 8;

// Whether the options of a SYN/ACK begin in the order that Linux writes them in (tcp_options_write).
bool as_linux_writes(const Segment& syn_ack)
{
  std::array<std::uint8_t, 8> wanted { kind_mss };
  std::size_t count = 1;
  const bool timestamps = syn_ack.has_option(option::timestamps);
  const bool sack = syn_ack.has_option(option::sack_permitted);
  if (!timestamps || !sack)
    for (int i = 0; i < 2 && (timestamps || sack); ++i)
      wanted[count++] = kind_nop;
  if (sack) wanted[count++] = kind_sack;
  if (timestamps) wanted[count++] = kind_timestamps;
  if (syn_ack.window_scale)
  {
    wanted[count++] = kind_nop;
    wanted[count++] = kind_scale;
  }
  std::size_t there = 0;
  for (std::uint32_t rest = syn_ack.option_order; rest != 0; rest >>= 4)
    ++there;
  if (there < count) return false;
  for (std::size_t i = 0; i < count; ++i)
    if ((syn_ack.option_order >> 4 * (there - 1 - i) & 0xf) != wanted[i]) return false;
  return true;
}

// Whether what arrives has waited in a queue, so that it comes as fast as the path is, whoever sends it. Rate control
// that has just begun makes the air a slow one, which is three times as fast soon.
bool stands_in_queue(std::uint32_t trip, const FlowView& view)
{
  const double waited = static_cast<double>(view.rtt_latest.count()) / 1000 - trip;
  return waited > std::max(queue_share * trip, double { shortest_train });
}

} // namespace

void SenderWatch::handshake(const Segment& syn_ack, Duration rtt, FlowView& view)
{
  handshake_ = static_cast<Microseconds>(std::clamp<std::int64_t>(rtt.count() / 1000, 0, 10'000'000));
  // Without the handshake's options in order nothing is said about them: a module's test, or a trace.
  strange_ = syn_ack.option_order != 0 && !as_linux_writes(syn_ack);
  const std::uint16_t theirs = syn_ack.mss.value_or(view.mss);
  full_ = std::min<std::uint16_t>(view.mss, view.timestamps_ok && theirs > timestamps_room
                                                ? static_cast<std::uint16_t>(theirs - timestamps_room)
                                                : theirs);
  conclude("nothing tells yet", view);
}

void SenderWatch::expect(SenderKind kind, FlowView& view)
{
  if (kind == SenderKind::unresponsive)
  {
    sizes_ = enough_sizes;
    foretold_ = true;
    conclude(view.sender.why, view);
  }
  else if (kind == SenderKind::rate_based)
  {
    vote(-decisive, as_earlier_ones, view);
    told_ = score_;
  }
}

int SenderWatch::news()
{
  return score_ - std::exchange(told_, score_);
}

void SenderWatch::resume()
{
  began_ = in_round_ = false;
  stage_ = Stage::idle;
  rounds_ = most_rounds;
  low_ = 0;
  clocked_ = false;
}

SenderWatch::Microseconds SenderWatch::at(const FlowView& view, Tick now) const
{
  return static_cast<Microseconds>((now - view.first_seen).count() / 1000);
}

SenderWatch::Microseconds SenderWatch::rtt(const FlowView& view) const
{
  const auto measured = static_cast<Microseconds>(view.rtt_min.count() / 1000);
  if (handshake_ == 0 || measured == 0) return std::max(handshake_, measured);
  return std::min(handshake_, measured);
}

SenderWatch::Heard SenderWatch::hear(const Segment& ack, const FlowView& view)
{
  Heard heard { .edge = ack.ack, .count = ack.ack, .progress = ack.ack.after(view.rcv_nxt) };
  for (const SackBlock& block : ack.sacks())
  {
    if (!block.right.after(ack.ack)) continue; // a duplicate (RFC 2883)
    ++heard.blocks;
    heard.count = heard.count + static_cast<std::uint32_t>(std::max(0, block.right - block.left));
    heard.edge = later(heard.edge, block.right);
    heard.new_hole = heard.new_hole || block.left.after(later(view.highest_held, ack.ack));
  }
  heard.edge = later(heard.edge, view.highest_held);
  return heard;
}

void SenderWatch::acknowledged(const Segment& ack, FlowView& view, Tick now)
{
  const Microseconds when = at(view, now);
  past_start_ = past_start_ || now - view.first_seen >= std::chrono::microseconds { longest_start };
  if (!began_)
  {
    began_ = true;
    last_ = when;
    return;
  }
  // Attached mid-flow nobody knows what was agreed.
  if (view.bypass == Bypass::mid_flow || ack.ack.before(view.rcv_nxt)) return;
  const Heard heard = hear(ack, view);
  if (!heard.progress && heard.blocks == 0) return; // the application read
  if (heard.progress) size(ack, view);
  follow_round(heard, view, when);
  follow_losses(ack, heard, view, when);
  last_ = when;
  if (heard.blocks == 0) return;
  holed_ = true;
  holed_at_ = when;
}

// What is acknowledged at a time, while nothing is missing, is a number of segments.
void SenderWatch::size(const Segment& ack, FlowView& view)
{
  const auto bytes = static_cast<std::uint32_t>(ack.ack - view.rcv_nxt);
  if (!view.timestamps_ok || full_ < 512 || ack.sack_count > 0 || view.highest_held != view.rcv_nxt
      || bytes > most_at_a_time * full_)
    return;
  const std::uint32_t shorter = full_ + timestamps_room - all_options_room;
  const bool known = sizes_ >= enough_sizes, foretold = foretold_;
  if (bytes % full_ == 0)
    sizes_ = static_cast<std::int8_t>(std::max(sizes_ - 1, -enough_sizes));
  else if (bytes % shorter == 0)
  {
    sizes_ = static_cast<std::int8_t>(std::min(sizes_ + 1, +enough_sizes));
    foretold_ = false;
  }
  if (known != (sizes_ >= enough_sizes) || foretold != foretold_) conclude(view.sender.why, view);
}

// ---- rounds

// A round begins with the first ACK of a train and ends with that of the next one, a round trip later.
void SenderWatch::follow_round(const Heard& heard, FlowView& view, Microseconds now)
{
  const Microseconds trip = rtt(view);
  if (trip == 0) return;
  if (heard.blocks > 0)
  {
    in_round_ = false;
    rounds_ = most_rounds;
    low_ = 0;
    return;
  }
  if (stage_ != Stage::idle) return;
  if (in_round_)
  {
    turn_ = std::max(turn_, now - last_);
    const Microseconds span = now - mark_;
    if (span < round_share * trip) return;
    end_round(static_cast<std::uint32_t>(heard.edge - mark_edge_), span, view);
  }
  in_round_ = true;
  mark_ = now;
  mark_edge_ = heard.edge;
  turn_ = 0;
}

void SenderWatch::end_round(std::uint32_t window, Microseconds span, FlowView& view)
{
  const Microseconds trip = rtt(view);
  const std::uint32_t mss = view.mss;
  // What little a round had before a request was the end of an answer.
  const bool asked = asked_;
  asked_ = false;
  if (window >= fewest_probing * mss && window <= most_probing * mss && span <= longest_probing_round * trip
      && window_ >= fewest_before * mss)
  {
    if (asked) return;
    low_again_ = low_ > 0;
    low_ = static_cast<std::uint16_t>(std::min<std::uint32_t>(low_ + span / 1000, 60'000));
    return;
  }
  // Over a long path one such round may be a part of a flight that comes in two.
  if (low_again_ && low_ >= shortest_probe && low_ <= longest_probe && 2 * window >= window_)
    vote(-probe_vote, "hardly anything in flight for a moment (PROBE_RTT)", view);
  low_ = 0;
  if (rounds_ < most_rounds)
  {
    ++rounds_;
    judge_start(window, span, view);
  }
  else if (!past_start_) // a loss ended what can be seen of trains
    judge_growth(window, span - std::min(span, turn_), view);
  if (window > most_probing * mss) window_ = std::max(window, window_ - window_ / 10);
}

void SenderWatch::judge_start(std::uint32_t window, Microseconds span, FlowView& view)
{
  const Microseconds trip = rtt(view);
  if (window < fewest_in_train * view.mss || span > longest_round * trip) return;
  const Microseconds busy = std::max<Microseconds>(span - std::min(span, turn_), 100);
  const bool lasts = busy >= shortest_train;
  const float rate = static_cast<float>(window) / static_cast<float>(busy);
  const double silence = static_cast<double>(turn_) / trip;
  const bool queued = stands_in_queue(trip, view);
  bool in_trains = false;
  if (window_ > 0 && window >= growth * window_ && window >= fewest_in_round * view.mss)
  {
    const double needed = train_ > 0 ? window / static_cast<double>(train_) : trip;
    if (needed <= longest_train * trip && busy < stretched * needed && silence >= silent)
    {
      paced_ = 0;
      in_trains = true;
      vote(train_vote, "starts in trains, clocked by ACKs", view);
    }
    else if (judge_growth(window, busy, view))
      return;
    // Once that may be the air's doing.
    else if (lasts && !queued && needed <= longest_train * trip && busy >= stretched * needed && silence <= spread)
      vote(-spread_vote, "starts paced", view);
  }
  if (!lasts) return;
  if (silence <= even && !queued && !in_trains && window >= std::max(window_, fewest_in_round * view.mss)
      && (even_rate_ <= 0 || rate < even_rate_))
    even_rate_ = rate;
  train_ = std::max(train_, rate);
}

// Whether a round shows that an earlier one was paced.
bool SenderWatch::judge_growth(std::uint32_t window, Microseconds busy, FlowView& view)
{
  if (busy < shortest_train || even_rate_ <= 0 || paced_ >= paced_start) return false;
  if (static_cast<float>(window) < faster * even_rate_ * static_cast<float>(busy)) return false;
  ++paced_;
  vote(-even_vote, "starts paced", view);
  return true;
}

// ---- losses

void SenderWatch::follow_losses(const Segment& ack, const Heard& heard, FlowView& view, Microseconds now)
{
  const Microseconds trip = rtt(view) > 0 ? rtt(view) : default_rtt;
  const Microseconds longest = static_cast<Microseconds>(late_trips * trip) + late_slack;
  many_ = many_ || heard.blocks >= shown;
  step_ = std::max(step_, static_cast<std::uint32_t>(std::max(0, heard.count - last_count_)));
  last_count_ = heard.count;
  // A window that Tandem made smaller decides what is sent, whatever the sender makes of losses. One that leaves once
  // the hole is filled reaches the sender behind all that is measured.
  if (stage_ != Stage::filled && view.sent_any && view.sent_window < view.last_window)
  {
    stage_ = Stage::idle;
    return;
  }
  switch (stage_)
  {
  case Stage::idle:
    // Of losses upon losses nobody can say which of them the sender answers, and Tandem may be taking the answer back.
    if (!heard.new_hole || (holed_ && now - holed_at_ < trip)) return;
    stage_ = Stage::open;
    many_ = heard.blocks >= shown;
    growing_ = view.slow_start;
    mark_ = now;
    mark_edge_ = later(view.highest_held, ack.ack);
    mark_count_ = heard.count;
    step_ = 0;
    return;
  case Stage::open:
  {
    const Microseconds took = now - mark_;
    if (!ack.ack.after(mark_edge_))
    {
      if (took > longest) stage_ = Stage::idle;
      return;
    }
    // TS.Recent is now the TSval of the retransmission (RFC 7323 4.3): what the sender's clock said when the ACK that
    // showed the hole reached it.
    const bool usual = took >= reordering * trip && took <= longest;
    stage_ = usual ? Stage::filled : Stage::idle;
    turn_ = now;
    turn_edge_ = heard.edge;
    turn_count_ = heard.count;
    if (ack.timestamps) retransmission_ = ack.timestamps->echo;
    after_ms_ = 0;
    return;
  }
  case Stage::filled:
  {
    const Microseconds took = turn_ - mark_;
    const Microseconds since = now - turn_;
    // By the sender's clock it has heard of all that arrived up to then. Ticks are 1 ms; where they are not, this
    // host's clock has to do.
    const std::int32_t ticks = ack.timestamps ? ack.timestamps->echo - retransmission_ : 0;
    const auto by_its_clock = static_cast<std::int64_t>(ticks) * 1000;
    // The ACK that fills the hole may make it take its answer back (modules/mirror), in a burst: what counts is what it
    // sent before it heard that.
    if (heard.progress && by_its_clock > 0 && by_its_clock + 2 * std::int64_t { tick } <= trip)
    {
      after_ = sent_since_turn(heard);
      after_ms_ = static_cast<std::uint16_t>(ticks);
    }
    const bool heard_of_all =
        heard.progress && by_its_clock + 500 >= took && by_its_clock <= std::int64_t { since } + took;
    if (!heard_of_all && since < took + took / 8 + tick) return;
    stage_ = Stage::idle;
    const bool other_clock = !ack.timestamps || by_its_clock < took / 4 || by_its_clock > std::int64_t { since } + took;
    if (heard_of_all && after_ms_ * tick >= trip / 2)
      judge_episode(after_, after_ms_ * tick + tick / 2, view);
    else if (other_clock && took <= short_queue * trip)
      judge_episode(sent_since_turn(heard), since, view);
    return;
  }
  }
}

// With more holes than an ACK shows what is held cannot be counted: then how far the sender has come.
std::uint32_t SenderWatch::sent_since_turn(const Heard& heard) const
{
  return static_cast<std::uint32_t>(std::max(0, many_ ? heard.edge - turn_edge_ : heard.count - turn_count_));
}

// What was sent after the retransmission, in so many microseconds, over what had arrived before it.
void SenderWatch::judge_episode(std::uint32_t after, Microseconds sent_in, FlowView& view)
{
  const Microseconds took = turn_ - mark_;
  if (sent_in == 0 || sent_in > longest_after * took) return;
  const auto flight = static_cast<double>(std::max(0, turn_count_ - mark_count_));
  if (flight < fewest_in_flight * view.mss) return;
  const double time = static_cast<double>(took) / sent_in;
  const double before = many_ ? static_cast<double>(turn_edge_ - mark_edge_) : flight;
  const double ratio = before > 0 ? after * time / before : 0;
  if (ratio >= not_slower)
  {
    // A hole that stood longer than what is in flight explains was no loss, or not answered at once; and part of a
    // round trip may be a burst.
    const double smoothed = static_cast<double>(view.rtt_smoothed.count()) / 1000;
    if ((smoothed > 0 && took > longest_answered * smoothed) || sent_in < nearly_all * rtt(view)) return;
    if (flight < enough_in_flight * view.mss || flight > window_limited * view.scaled(view.sent_window)) return;
    const int weight = is_coarse(flight, view) ? coarse_vote : growing_ ? growing_vote : loss_vote;
    vote(-weight, "not slower after losses", view);
  }
  else if (ratio <= slower && !many_)
  {
    int weight = flight >= few_in_flight * view.mss ? loss_vote : small_loss_vote;
    if (paced_ >= paced_start) weight = contradicted_vote;
    if (flight >= few_in_flight * view.mss && is_coarse(flight, view)) weight = coarse_vote;
    vote(weight, "slower after losses", view);
  }
}

bool SenderWatch::is_coarse(double flight, const FlowView& view) const
{
  return step_ > coarse * flight || (step_ > delayed * view.mss && step_ > coarse_steps * flight);
}

// ---- bursts

// A retransmission lies below what the local TCP has reported, or is one of a burst itself.
void SenderWatch::arrived(const Segment& data, FlowView& view, Tick now)
{
  if (!data.timestamps || view.bypass == Bypass::mid_flow) return;
  const TsClock clock = data.timestamps->value;
  const Microseconds when = at(view, now);
  if (!clocked_ || when - clock_at_ > longest_clocked)
  {
    clocked_ = true;
    clock_ = clock;
    clock_at_ = when;
  }
  if (data.seq.before(view.highest_held)) return;
  if (clock != burst_)
  {
    burst_ = clock;
    burst_from_ = data.seq;
    return;
  }
  const std::int32_t burst = data.end() - burst_from_;
  // The trains of a start are looked at above.
  if (view.slow_start || burst < static_cast<std::int32_t>(fewest_in_burst * view.mss) || when - burst_at_ < rtt(view))
    return;
  if (burst < at_once_at_most(view, when)) return;
  burst_at_ = when;
  vote(burst_vote, "sends in bursts, clocked by ACKs", view);
}

// Bytes that a sender which paces gives one TSval; as many as there are while that is not known.
double SenderWatch::at_once_at_most(const FlowView& view, Microseconds now) const
{
  const std::int32_t ticks = burst_ - clock_;
  if (ticks < enough_ticks || view.delivery_rate <= 0) return std::numeric_limits<double>::infinity();
  const double smoothed = seconds(view.rtt_smoothed);
  // The larger of two rounds, of which one may have stood before a hole.
  const double rate = smoothed > 0 ? std::max(view.delivery_rate, view.window_estimate / smoothed) : view.delivery_rate;
  return longest_paced * rate / 1e6 * std::max<double>(tick, static_cast<double>(now - clock_at_) / ticks);
}

// ---- the sum

void SenderWatch::vote(int weight, const char* why, FlowView& view)
{
  score_ = static_cast<std::int8_t>(std::clamp(score_ + weight, -largest_score, largest_score));
  // The reason is what speaks for the outcome, not what was said against it last.
  conclude((weight > 0) == (score_ > 0) ? why : view.sender.why, view);
}

void SenderWatch::conclude(const char* why, FlowView& view) const
{
  const auto say = [&](SenderKind kind, double confidence, const char* because)
  {
    view.sender = { .kind = kind,
                    .confidence = static_cast<std::uint8_t>(std::min(99.0, confidence)),
                    .user_space = sizes_ >= enough_sizes,
                    .why = because };
  };
  const double right = 100 / (1 + std::exp(-std::abs(score_) / score_per_e));
  if (!view.timestamps_ok && !view.sack_ok)
    say(SenderKind::unresponsive, 99, "neither SACK nor timestamps agreed");
  else if (sizes_ >= enough_sizes)
    say(SenderKind::unresponsive, 95, foretold_ ? as_earlier_ones : "segments leave room for all options");
  else if (score_ <= -overwhelming)
    say(SenderKind::rate_based, right, why);
  else if (strange_)
    say(SenderKind::unresponsive, 90, "options of the SYN/ACK not in Linux's order");
  else if (score_ <= -decisive)
    say(SenderKind::rate_based, right, why);
  else if (score_ >= decisive)
    say(SenderKind::loss_based, right, why);
  else
    say(SenderKind::unknown, 0, score_ == 0 ? "nothing tells yet" : "signs contradict each other");
}

} // namespace tandem::flow
