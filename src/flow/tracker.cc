#include "src/flow/tracker.h"

#include "src/flow/token.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::flow
{

namespace
{
constexpr Duration half_window = std::chrono::seconds { 5 };
constexpr Duration shortest_round = std::chrono::milliseconds { 10 };
// Without an RTT (no timestamps) a round of this length still gives a delivery rate.
constexpr Duration default_round = std::chrono::milliseconds { 100 };
// What fills a hole sooner than this part of the round trip had only been overtaken.
constexpr int overtaken_tenths = 6;
// Slow start doubles the window in each round trip, or nearly so with delayed ACKs (RFC 5681 3.1); congestion avoidance
// adds a segment.
constexpr double growth_of_slow_start = 1.25;
constexpr int rounds_without_growth = 8;
// So many TSvals that left are remembered in a round trip, and those between them are taken to be in line, to this time
// (Linux's tick) or part of the round trip.
constexpr int spacing = 8;
constexpr Duration clock_slack = std::chrono::milliseconds { 2 };
constexpr int slack_part = 64;
// Beyond it newest_left_at_us_ may have wrapped.
constexpr Duration longest_ago = std::chrono::hours { 1 };
// What every host takes (RFC 9293 3.7.1): less is no bound to what is sent.
constexpr std::uint16_t smallest_mss = 536;
// Attached mid-flow the shifts of the windows are not known: they may be the largest (RFC 7323 2.3).
constexpr unsigned largest_shift = 14;

// Copies are read after what waits for a verdict. One that is older than what was seen last takes nothing back: neither
// a window, of which an injected ACK would offer more than is left, nor a TSval, nor a hole.
bool overtaken(const Segment& copy, const FlowView& view)
{
  if (!copy.has(tcp_flag::ack)) return false;
  if (copy.ack != view.rcv_nxt) return copy.ack.before(view.rcv_nxt);
  return view.timestamps_ok && copy.timestamps && view.last_ts_value != TsClock {}
         && copy.timestamps->value.before(view.last_ts_value);
}
} // namespace

Acceptability Tracker::seen(const Segment& segment, FlowView& view, Tick now)
{
  view.last_seen = now;
  const bool arrives = segment.direction == Direction::ingress;
  const Acceptability found = arrives ? judge(segment, view) : Acceptability::acceptable;
  if (found == Acceptability::unacceptable) return found;
  // An arriving SYN agrees to it; later on this host's own segments tell, which nobody else can make.
  const bool agrees = !arrives || (segment.has(tcp_flag::syn) && fits(segment, view));
  if (agrees && segment.has_option(option::md5 | option::ao)) view.bypass = Bypass::authenticated;
  if (agrees && segment.has_option(option::mptcp)) multipath(segment, view);
  if (segment.has(tcp_flag::syn))
  {
    if (fits(segment, view)) handshake(segment, view, now);
  }
  else if (!arrives)
    sent_by_host(segment, view, now);
  else if (found == Acceptability::acceptable)
    arrived(segment, view, now);
  return found;
}

// A SYN/ACK must answer this host's SYN; everything else is measured by what this host has sent last.
Acceptability Tracker::judge(const Segment& arriving, const FlowView& view) const
{
  using enum Acceptability;
  if (!established_ && arriving.has(tcp_flag::syn))
  {
    if (!arriving.has(tcp_flag::ack) || !local_syn_) return acceptable;
    return arriving.ack.after(local_isn_) && arriving.ack.at_or_before(view.snd_nxt) ? acceptable : unacceptable;
  }
  if (!synchronized_) return unknown;
  const unsigned local = established_ ? view.local_window_scale : largest_shift;
  const Windows windows { .rcv_nxt = view.rcv_nxt,
                          .receive = std::uint32_t { largest_window_ } << local,
                          .snd_nxt = una_known_ ? later(view.snd_nxt, view.snd_una) : view.snd_nxt,
                          .send = std::uint32_t { 0xffff } << remote_shift(view) };
  return in_windows(arriving, windows) ? acceptable : unacceptable;
}

unsigned Tracker::remote_shift(const FlowView& view) const
{
  return remote_scale_known_ ? view.remote_window_scale : largest_shift;
}

// Whether this host has sent more than half the sequence space since it was seen last, as in an upload that no module
// wants to see: further back than the peer's window nothing is sent once more, nor does a copy come so late. A reset
// may have any number (RFC 9293 3.10.7.1).
bool Tracker::went_round(const Segment& segment, const FlowView& view) const
{
  constexpr std::int64_t least = 1 << 24, most = 1 << 30;
  const std::int64_t window = std::int64_t { 0xffff } << remote_shift(view);
  const std::int64_t back = std::clamp(2 * window, least, most);
  return view.sent_any && !segment.has(tcp_flag::rst) && view.snd_nxt - segment.end() > back;
}

void Tracker::sent_by_host(const Segment& segment, FlowView& view, Tick now)
{
  if (went_round(segment, view)) resume(view);
  const bool late = ack_seen_ && overtaken(segment, view);
  // Data: seen itself, or by the sequence number of the next ACK.
  const bool sent_more = view.sent_any && segment.end().after(view.snd_nxt);
  if (sent_more) sender_.asked();
  if (segment.is_pure_ack() && !late) sender_.acknowledged(segment, view, now);
  if (segment.has(tcp_flag::ack) && !late) acknowledged(segment, view, now);
  if (sent_more) view.bytes_sent += static_cast<std::uint32_t>(segment.end() - view.snd_nxt);
  if (sent_more || !view.sent_any) view.snd_nxt = segment.end();
  view.fin_sent = view.fin_sent || segment.has(tcp_flag::fin);
  if (late) return;
  view.last_window = segment.window;
  largest_window_ = std::max(largest_window_, segment.window);
  if (view.acc_ecn) count_marks(segment, view);
  if (segment.timestamps)
  {
    view.last_ts_value = segment.timestamps->value;
    view.ts_recent = segment.timestamps->echo;
  }
}

void Tracker::arrived(const Segment& segment, FlowView& view, Tick now)
{
  if (segment.payload_length > 0)
  {
    view.ecn_seen = segment.ecn;
    sender_.arrived(segment, view, now);
  }
  if (!segment.has(tcp_flag::ack)) return;
  if (!una_known_ || segment.ack.after(view.snd_una)) view.snd_una = segment.ack;
  una_known_ = true;
  if (segment.timestamps) echoed(segment.timestamps->echo, view, now);
}

// Multipath is offered by a SYN of either side. Later options count when they are this host's own: who still speaks
// MPTCP has not fallen back, whatever SYN/ACK was seen.
void Tracker::multipath(const Segment& segment, FlowView& view)
{
  const bool own = segment.direction == Direction::egress;
  const bool begins = segment.mptcp == MptcpSubtype::mp_capable || segment.mptcp == MptcpSubtype::mp_join;
  view.mptcp = view.mptcp || own || begins;
  if (segment.mptcp_token != 0) view.mptcp_token = segment.mptcp_token;
  if (segment.mptcp_prio && own && !segment.mptcp_prio_of) view.mptcp_backup = segment.mptcp_backup;
}

// The ACK of the SYN/ACK tells in the same bits how that came; in all of table 3 but its last line the count stands at
// five nevertheless (RFC 9768 3.2.2.1).
void Tracker::count_marks(const Segment& segment, FlowView& view)
{
  constexpr std::uint16_t marked = tcp_flag::ae | tcp_flag::cwr;
  const auto said = static_cast<std::uint16_t>(segment.flags & ace_bits);
  if (view.bytes_delivered > 0 || said == marked) view.ace = said;
}

void Tracker::resume(FlowView& view)
{
  // The newest echo may be half round as well: all that comes would seem older, for as long as that again.
  ack_seen_ = una_known_ = synchronized_ = echo_known_ = false;
  view.sent_any = view.holes = false;
  sent_count_ = 0;
  round_bytes_ = 0;
  sender_.resume();
}

// Whether a SYN may be that of the handshake. Anyone can send one at any time (RFC 5961 section 4), and a lost ACK
// makes the server repeat its own; neither may move what is known of a running flow.
bool Tracker::fits(const Segment& syn, const FlowView& view) const
{
  if (established_) return false;
  if (!ack_seen_) return true;
  // The copy of a handshake that took longer than its first ACK: not far behind, never ahead.
  constexpr std::int32_t nearby = 1 << 24;
  const std::int32_t behind = syn.direction == Direction::egress ? view.snd_nxt - syn.end() : view.rcv_nxt - syn.end();
  return behind >= 0 && behind < nearby;
}

void Tracker::handshake(const Segment& segment, FlowView& view, Tick now)
{
  joins_ = joins_ || segment.mptcp == MptcpSubtype::mp_join;
  if (segment.direction == Direction::egress)
    local_syn(segment, view);
  else
    remote_syn(segment, view);
  if (!local_syn_ || !remote_syn_) return;

  established_ = synchronized_ = true;
  const std::uint32_t both = local_options_ & remote_options_;
  view.timestamps_ok = (both & option::timestamps) != 0;
  view.sack_ok = (both & option::sack_permitted) != 0;
  agree_on_ecn(view);
  if (refused_multipath())
  {
    view.mptcp = false;
    view.mptcp_refused = asked_multipath_;
  }
  // RFC 7323 1.3: scaling is in force only when both SYNs carried the option.
  if ((both & option::window_scale) == 0)
  {
    view.local_window_scale = view.remote_window_scale = 0;
    remote_scale_known_ = true;
  }
  // RFC 9293 3.7.1: the effective send MSS is without options; timestamps take twelve bytes of every segment.
  if (view.timestamps_ok && view.mss > 512) view.mss = static_cast<std::uint16_t>(view.mss - 12);
  if (view.bypass == Bypass::mid_flow) view.bypass = Bypass::none;
  if (segment.direction == Direction::ingress && segment.has(tcp_flag::ack))
    sender_.handshake(segment, now - view.first_seen, view);
}

void Tracker::local_syn(const Segment& segment, FlowView& view)
{
  // Sent again it is without data (RFC 7413), which the answer to the first one may acknowledge.
  const bool again = local_syn_ && local_isn_ == segment.seq;
  local_options_ = segment.options;
  local_flags_ = segment.flags;
  local_syn_ = true;
  local_isn_ = segment.seq;
  asked_multipath_ = asked_multipath_ || (segment.has_option(option::mptcp) && !segment.has(tcp_flag::ack));
  view.local_window_scale = segment.window_scale.value_or(0);
  if (!ack_seen_) view.snd_nxt = again ? later(view.snd_nxt, segment.end()) : segment.end();
  // An option of 0 is none, as to Linux (tcp_parse_options).
  if (segment.mss.value_or(0) != 0) view.mss = *segment.mss;
  if (segment.mptcp == MptcpSubtype::mp_join)
  {
    view.mptcp_joined = true;
    view.mptcp_address_id = segment.mptcp_address_id;
    view.mptcp_backup = segment.mptcp_backup;
  }
  if (segment.has(tcp_flag::ack) && !remote_syn_) answered_unseen(segment, view);
}

// A SYN that arrives makes no flow, so what it carried is known by the answer: this host agrees to nothing that was not
// offered (RFC 7323 1.3 and 3.2, RFC 9768 table 2; Linux also with SACK). Only the peer's shift is not in it.
void Tracker::answered_unseen(const Segment& answer, FlowView& view)
{
  constexpr std::uint16_t classic = tcp_flag::ece;
  const auto said = static_cast<std::uint16_t>(answer.flags & ace_bits);
  remote_options_ = answer.options;
  remote_flags_ = tcp_flag::syn;
  if (said != 0) remote_flags_ |= said == classic ? tcp_flag::ece | tcp_flag::cwr : ace_bits;
  remote_syn_ = true;
  if (!ack_seen_) view.rcv_nxt = answer.ack;
}

void Tracker::remote_syn(const Segment& segment, FlowView& view)
{
  remote_options_ = segment.options;
  remote_flags_ = segment.flags;
  remote_syn_ = remote_scale_known_ = true;
  view.remote_window_scale = segment.window_scale.value_or(0);
  if (!ack_seen_) view.rcv_nxt = segment.end();
  // Who takes smaller segments sends none that are larger, as a rule; and a router before a tunnel that makes both ends
  // send smaller ones rewrites both SYNs, of which only this one is seen behind it.
  if (local_syn_ && segment.mss.value_or(0) != 0)
    view.mss = std::min(view.mss, std::max<std::uint16_t>(*segment.mss, smallest_mss));
  if (segment.has(tcp_flag::ack)) view.snd_una = segment.ack;
  una_known_ = segment.has(tcp_flag::ack);
  if (segment.mptcp != MptcpSubtype::mp_capable) return;
  view.mptcp_version = segment.mptcp_version;
  if (segment.mptcp_key) view.mptcp_token = token_of(*segment.mptcp_key, segment.mptcp_version);
}

// RFC 8684 3.7: whose SYN carried MP_CAPABLE and whose SYN/ACK comes without it speaks plain TCP. A join that is not
// answered is no connection of its own, and is left as it is.
bool Tracker::refused_multipath() const
{
  const bool here = (local_flags_ & tcp_flag::ack) != 0; // who answers
  const bool answered = here || (remote_flags_ & tcp_flag::ack) != 0;
  return answered && !joins_ && ((here ? local_options_ : remote_options_) & option::mptcp) == 0;
}

// RFC 3168 6.1.1 and RFC 9768 3.1, table 2.
void Tracker::agree_on_ecn(FlowView& view) const
{
  constexpr std::uint16_t bits = tcp_flag::ae | tcp_flag::cwr | tcp_flag::ece;
  const bool here = (local_flags_ & tcp_flag::ack) != 0; // who answers
  const auto asked = static_cast<std::uint16_t>((here ? remote_flags_ : local_flags_) & bits);
  const auto answer = static_cast<std::uint16_t>((here ? local_flags_ : remote_flags_) & bits);
  const bool classic = answer == tcp_flag::ece || answer == (tcp_flag::ae | tcp_flag::ece);
  const bool accurate = answer != 0 && !classic && answer != bits;
  view.acc_ecn = asked == bits && accurate;
  if (view.acc_ecn) view.ace = tcp_flag::ae | tcp_flag::ece; // the count begins at five (RFC 9768 3.2.1)
  view.ecn = view.acc_ecn || (asked != 0 && asked != tcp_flag::ece && classic);
}

void Tracker::acknowledged(const Segment& segment, FlowView& view, Tick now)
{
  synchronized_ = true;
  if (!ack_seen_)
  {
    ack_seen_ = true;
    view.rcv_nxt = segment.ack;
    view.highest_held = segment.ack;
    held(segment, view, now);
    round_start_ = now;
    return;
  }
  held(segment, view, now);
  if (!segment.ack.after(view.rcv_nxt)) return;

  const auto progress = static_cast<std::uint32_t>(segment.ack - view.rcv_nxt);
  view.rcv_nxt = segment.ack;
  view.bytes_delivered += progress;
  round_bytes_ += progress;

  const Duration length = view.rtt_smoothed > Duration {} ? std::max(view.rtt_smoothed, shortest_round) : default_round;
  const Duration elapsed = now - round_start_;
  if (elapsed < length) return;
  const double rate = static_cast<double>(round_bytes_) / seconds(elapsed);
  view.delivery_rate = view.delivery_rate > 0 ? 0.5 * (view.delivery_rate + rate) : rate;
  if (view.rtt_smoothed > Duration {})
  {
    // The larger of two rounds: a round that straddles a pause does not hide the window.
    const auto window = static_cast<std::uint32_t>(std::min(rate * seconds(view.rtt_smoothed), 4e9));
    view.window_estimate = std::max(window, previous_round_);
    previous_round_ = window;
    note_growth(view, now);
  }
  round_start_ = now;
  round_bytes_ = 0;
}

void Tracker::held(const Segment& segment, FlowView& view, Tick now)
{
  view.highest_held = later(view.highest_held, segment.ack);
  bool holes = false;
  for (const SackBlock& block : segment.sacks())
  {
    view.highest_held = later(view.highest_held, block.right);
    holes = holes || block.right.after(segment.ack); // else a duplicate is reported (RFC 2883)
  }
  if (holes && !view.holes) holes_since_ = now;
  if (!holes && view.holes && now - holes_since_ >= view.rtt_min * overtaken_tenths / 10)
  {
    if (view.loss_episodes < std::numeric_limits<std::uint16_t>::max()) ++view.loss_episodes;
    view.filled_at = now;
    view.slow_start = false;
  }
  view.holes = holes;
}

// A sender has left slow start for good when a loss episode is over, or when it has not grown for some round trips.
void Tracker::note_growth(FlowView& view, Tick now)
{
  if (!view.slow_start) return;
  if (view.window_estimate > growth_of_slow_start * largest_estimate_)
  {
    largest_estimate_ = view.window_estimate;
    grew_at_ = now;
  }
  view.slow_start = now - grew_at_ <= rounds_without_growth * std::max(view.rtt_smoothed, shortest_round);
}

void Tracker::left(const Segment& segment, Seq ack, Offer offer, TsClock ts_value, FlowView& view, Tick now)
{
  if (segment.has(tcp_flag::ack))
  {
    view.sent_window = offer.window;
    view.told_window = offer.told;
  }
  if (segment.has(tcp_flag::ack))
  {
    view.sent_sacked = view.sent_any ? later(view.sent_sacked, ack) : ack;
    for (const SackBlock& block : segment.sacks())
      view.sent_sacked = later(view.sent_sacked, block.right);
    view.sent_ack = view.sent_any ? later(view.sent_ack, ack) : ack;
  }
  if (segment.timestamps)
  {
    // Only when it leaves for the first time: an injected ACK may repeat a TSval that left long before.
    const bool first = !view.sent_any || ts_value.after(view.sent_ts_value);
    const auto since_begin = static_cast<std::uint32_t>((now - view.first_seen).count() / 1000);
    const Duration ago = std::chrono::microseconds { since_begin - newest_left_at_us_ };
    const Sent* newest = sent_count_ > 0 ? &sent_[sent_count_ - 1u] : nullptr;
    if (first)
    {
      const bool bends = newest != nullptr && now - newest->at < longest_ago
                         && off_line(*newest, { view.sent_ts_value, now - ago }, { ts_value, now })
                                > std::max<Duration>(clock_slack, view.rtt_smoothed / slack_part);
      const bool due =
          newest == nullptr || (ts_value.after(newest->value) && now - newest->at >= view.rtt_smoothed / spacing);
      if (bends) remember({ view.sent_ts_value, now - ago });
      if (bends || due) remember({ ts_value, now });
      view.sent_ts_value = ts_value;
      newest_left_at_us_ = since_begin;
    }
  }
  view.sent_any = true;
}

// When a clock that ticks evenly from `from` to `to` had this TSval.
Tick Tracker::in_line(const Sent& from, TsClock value, const Sent& to)
{
  const double part = static_cast<double>(value - from.value) / static_cast<double>(to.value - from.value);
  return from.at + Duration { std::llround(part * static_cast<double>((to.at - from.at).count())) };
}

// How far from there `between` left: so wrong is the age of those beside it without it. An ACK that waited keeps its
// TSval, and while a path is probed TSvals stand still or are counted (TsReservation).
Duration Tracker::off_line(const Sent& from, const Sent& between, const Sent& to)
{
  if (!between.value.after(from.value) || !to.value.after(between.value)) return {};
  return std::chrono::abs(in_line(from, between.value, to) - between.at);
}

void Tracker::remember(const Sent& one)
{
  if (sent_count_ == remembered) make_room();
  sent_[sent_count_++] = one;
}

void Tracker::not_left(TsClock ts_value, Tick now)
{
  if (sent_count_ > 0 && sent_[sent_count_ - 1u].value == ts_value && sent_[sent_count_ - 1u].at == now) --sent_count_;
}

// What is older than the newest echo is never asked for again. When nothing was echoed yet, because the RTT is unknown
// or has grown by a leap, the one goes that its neighbours tell best: however long the round trip, its beginning is
// remembered.
void Tracker::make_room()
{
  std::size_t useless = 0;
  while (echo_known_ && useless + 1 < sent_count_ && sent_[useless + 1].value.at_or_before(last_echo_))
    ++useless;
  if (useless > 0)
  {
    std::copy(sent_.begin() + static_cast<std::ptrdiff_t>(useless), sent_.begin() + sent_count_, sent_.begin());
    sent_count_ = static_cast<std::uint8_t>(sent_count_ - useless);
    return;
  }
  std::size_t gone = 1;
  for (std::size_t i = 2; i + 1 < sent_count_; ++i)
    if (off_line(sent_[i - 1], sent_[i], sent_[i + 1]) < off_line(sent_[gone - 1], sent_[gone], sent_[gone + 1]))
      gone = i;
  std::copy(sent_.begin() + static_cast<std::ptrdiff_t>(gone + 1), sent_.begin() + sent_count_,
            sent_.begin() + static_cast<std::ptrdiff_t>(gone));
  --sent_count_;
}

void Tracker::echoed(TsClock echo, FlowView& view, Tick now)
{
  if (sent_count_ == 0) return;
  if (echo_known_ && !echo.after(last_echo_)) return;
  // Interpolates between the two recorded TSvals around the echo, so that the tick of the clock need not be known.
  const Sent* before = nullptr;
  for (std::size_t i = 0; i < sent_count_; ++i)
  {
    const Sent& entry = sent_[i];
    if (entry.value.before(echo))
    {
      before = &entry;
      continue;
    }
    const bool exact = entry.value == echo;
    if (!exact && before == nullptr) return; // older than what is remembered
    last_echo_ = echo;
    echo_known_ = true;
    const Duration sample = now - (exact ? entry.at : in_line(*before, echo, entry));
    // The server had not heard of what left next, which may have been after a pause; and where nothing younger is on
    // its way it may have been silent itself. Such a sample moves the mean slowly at most.
    const Tick next = !exact                       ? entry.at
                      : i + 1u < sent_count_       ? sent_[i + 1].at
                      : echo == view.sent_ts_value ? now
                                                   : entry.at;
    const bool known = view.rtt_smoothed > Duration {};
    rtt_sample(known ? std::min(sample, std::max(now - next, 2 * view.rtt_smoothed)) : sample, view, now);
    return;
  }
}

void Tracker::rtt_sample(Duration sample, FlowView& view, Tick now)
{
  if (sample <= Duration {}) return;
  view.rtt_latest = sample;
  view.rtt_at = now;
  // RFC 6298 section 2, alpha = 1/8.
  view.rtt_smoothed = view.rtt_smoothed == Duration {} ? sample : view.rtt_smoothed + (sample - view.rtt_smoothed) / 8;
  if (min_turn_ == Tick {} || now - min_turn_ >= half_window)
  {
    min_previous_ = min_turn_ != Tick {} && now - min_turn_ < 2 * half_window ? min_current_ : sample;
    min_current_ = sample;
    min_turn_ = now;
  }
  min_current_ = std::min(min_current_, sample);
  view.rtt_min = std::min(min_current_, min_previous_);
}

} // namespace tandem::flow
