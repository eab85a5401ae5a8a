#include "src/fetch/mirror_tcp.h"

#include "src/fetch/build_syn.h"
#include "src/wire/build.h"

#include <algorithm>
#include <utility>

namespace tandem::fetch
{
namespace
{

// Windows up to 8 MiB in steps of 128 bytes.
constexpr std::uint8_t our_window_scale = 7;
constexpr Duration shortest_timeout = 300ms, longest_timeout = 8s;
constexpr unsigned most_tries = 6;
constexpr unsigned challenges_per_second = 50;
constexpr Duration remembered = 4s;
constexpr std::size_t most_remembered = 4096;
// Nothing that is still under way is older: no window of ours is longer.
constexpr std::int64_t oldest = std::int64_t { 0xffff } << our_window_scale;

} // namespace

MirrorTcp::MirrorTcp(const MirrorConfig& config, std::vector<std::byte> request)
    : config_ { config }, request_ { std::move(request) }, clock_ { config.initial_clock }, store_ { config.store }
{
}

std::int64_t MirrorTcp::offset_of(Seq seq) const
{
  const Seq reference = answer_ + static_cast<std::uint32_t>(high_);
  return static_cast<std::int64_t>(high_) + (seq - reference);
}

Seq MirrorTcp::seq_of(std::uint64_t offset) const
{
  return answer_ + static_cast<std::uint32_t>(offset);
}

// Milliseconds, and never the same twice: an echo names the one packet that it answers. A thousand packets in a second
// are no more than the clock moves anyway; more let it run ahead, which PAWS allows.
TsClock MirrorTcp::next_clock(Tick now)
{
  const auto elapsed = std::chrono::duration_cast<std::chrono::milliseconds>(now - opened_).count();
  const TsClock by_time = config_.initial_clock + static_cast<std::uint32_t>(elapsed);
  clock_ = by_time.after(clock_) ? by_time : clock_ + 1;
  return clock_;
}

void MirrorTcp::put(std::uint16_t flags, std::uint64_t request_from, std::span<const std::byte> payload, Tick now)
{
  wire::Headers headers { .key = config_.key,
                          .seq = config_.initial_sequence + 1 + static_cast<std::uint32_t>(request_from),
                          .ack = seq_of(sent_ack_),
                          .flags = flags,
                          .window = window_ };
  const bool reset = (flags & tcp_flag::rst) != 0;
  if (timestamps_ && !reset) headers.timestamps = Timestamps { .value = next_clock(now), .echo = ts_recent_ };
  if (sack_ && !reset) headers.sacks = sacks_;
  std::vector<std::byte> packet(wire::longest_header + payload.size());
  packet.resize(wire::build_segment(packet, headers, payload));
  if (packet.empty()) return;
  ++stats_.packets_out;
  stats_.bytes_out += packet.size();
  packets_.push_back(std::move(packet));
  if (!timestamps_ || reset) return;
  sent_.push_back({ .clock = clock_, .ack = sent_ack_, .edge = granted_, .at = now, .fallback = fallback_ });
  while (sent_.size() > most_remembered || (sent_.size() > 1 && sent_[1].at + remembered < now))
    sent_.pop_front();
}

void MirrorTcp::send_syn(Tick now)
{
  const wire::Headers headers { .key = config_.key,
                                .seq = config_.initial_sequence,
                                .window = 0xffff,
                                .timestamps = Timestamps { .value = next_clock(now) } };
  auto packet = build_syn(headers, { .mss = config_.mss, .window_scale = our_window_scale });
  sent_.push_back({ .clock = clock_, .ack = 0, .edge = 0, .at = now, .fallback = false });
  ++stats_.packets_out;
  stats_.bytes_out += packet.size();
  packets_.push_back(std::move(packet));
  ++tries_;
  retransmit_at_ = now + retransmit_after_;
  retransmit_after_ = std::min(2 * retransmit_after_, longest_timeout);
}

void MirrorTcp::open(Tick now)
{
  if (phase_ != MirrorPhase::idle) return;
  phase_ = MirrorPhase::connecting;
  opened_ = opened_wide_ = last_arrival_ = credit_at_ = progress_at_ = lead_after_ = now;
  send_syn(now);
}

void MirrorTcp::die(std::string_view why)
{
  if (phase_ == MirrorPhase::closed) return;
  phase_ = MirrorPhase::closed;
  why_ = why;
}

void MirrorTcp::abort()
{
  if (phase_ == MirrorPhase::open)
  {
    sacks_.clear();
    put(tcp_flag::rst | tcp_flag::ack, request_top_, {}, last_arrival_);
  }
  die("closed by this host");
}

std::vector<std::vector<std::byte>> MirrorTcp::take_packets()
{
  return std::exchange(packets_, {});
}

// ---- arriving ----

void MirrorTcp::arrive(const Segment& segment, Tick now)
{
  if (phase_ != MirrorPhase::connecting && phase_ != MirrorPhase::open) return;
  if (segment.direction != Direction::ingress || !(segment.key == config_.key))
  {
    ++stats_.refused;
    return;
  }
  ++stats_.packets_in;
  stats_.bytes_in += std::uint64_t { segment.ip_header_length } + segment.tcp_header_length + segment.payload_length;
  // Authenticated segments belong to somebody with a key; a mirror connection never has one.
  if (segment.has_option(option::md5 | option::ao))
  {
    ++stats_.refused;
    return;
  }
  if (phase_ == MirrorPhase::connecting)
    arrive_connecting(segment, now);
  else
    arrive_open(segment, now);
}

void MirrorTcp::arrive_connecting(const Segment& segment, Tick now)
{
  const bool ours = segment.has(tcp_flag::ack) && segment.ack == config_.initial_sequence + 1;
  if (segment.has(tcp_flag::rst))
  {
    if (ours) die("the server refused the mirror connection");
    return;
  }
  if (!ours || !segment.has(tcp_flag::syn) || segment.has(tcp_flag::fin) || segment.payload_length != 0)
  {
    ++stats_.refused;
    return;
  }
  phase_ = MirrorPhase::open;
  answer_ = segment.seq + 1;
  timestamps_ = segment.timestamps.has_value();
  sack_ = segment.has_option(option::sack_permitted);
  scale_ = segment.window_scale ? our_window_scale : std::uint8_t { 0 };
  peer_scale_ = segment.window_scale.value_or(0);
  peer_window_ = segment.window; // of a SYN: never scaled
  peer_mss_ =
      std::max<std::uint16_t>(segment.mss.value_or(536), 88); // smaller ones are an attack (Linux: tcp_min_snd_mss)
  edge_ = 0xffff;
  last_arrival_ = progress_at_ = now;
  if (timestamps_)
  {
    ts_recent_ = segment.timestamps->value;
    learn_from_echo(segment, 0, now);
  }
  else if (tries_ == 1)
    rtt_ = stats_.rtt_min = now - opened_;
  tries_ = 0;
  retransmit_after_ =
      stats_.rtt_min != Duration {} ? clamp(3 * rtt_, shortest_timeout, longest_timeout) : Duration { 1s };
  repeat_after_ = clamp(rtt_ * 3 / 2, 100ms, 1s);
  window_ = static_cast<std::uint16_t>(std::min<std::uint64_t>(edge_ >> scale_, 0xffff));
  request_room_ = initial_segments * request_segment();
  send_request(now);
  // Its window is closed, as that of a SYN proxy is until it has reached the server: the handshake is ended all the
  // same.
  if (request_top_ == 0) put(tcp_flag::ack, 0, {}, now);
  judge(now, false);
}

// RFC 9293 3.10.7.4 in its order, with the checks of RFC 5961 and RFC 7323. What is refused is answered and counted
// here.
bool MirrorTcp::acceptable(const Segment& segment, std::int64_t from, std::int64_t to, Tick now)
{
  const auto edge = static_cast<std::int64_t>(edge_);
  const auto acked = static_cast<std::int64_t>(sent_ack_);
  const bool reset = segment.has(tcp_flag::rst);

  if (timestamps_ && !reset)
  {
    if (!segment.timestamps)
    {
      ++stats_.refused; // RFC 7323 3.2: dropped in silence
      return false;
    }
    if (segment.timestamps->value.before(ts_recent_))
    {
      ++stats_.refused;
      challenge(now);
      return false;
    }
  }
  // One byte beyond the edge is allowed to a FIN. What is older than a window would be taken for a keep-alive, and with
  // half of all numbers a blind sender could have its timestamp kept.
  const bool old = !reset && from < static_cast<std::int64_t>(high_) - oldest;
  if (old || from > edge || to > edge + (segment.has(tcp_flag::fin) ? 1 : 0))
  {
    ++stats_.refused;
    if (!reset) challenge(now);
    return false;
  }
  if (reset)
  {
    // RFC 5961 3.2: only an exact number ends the connection. Which one is next, the server's idea and ours differ
    // while acknowledgements run ahead: both are exact.
    if (from == acked || from == static_cast<std::int64_t>(high_))
      die("the server reset the mirror connection");
    else if (from > std::min(acked, static_cast<std::int64_t>(high_)))
      challenge(now);
    else
      ++stats_.refused;
    return false;
  }
  if (segment.has(tcp_flag::syn))
  {
    challenge(now); // RFC 5961 4.2; also a SYN/ACK sent again because our ACK was lost
    return false;
  }
  if (!segment.has(tcp_flag::ack))
  {
    ++stats_.refused;
    return false;
  }
  const Seq first = config_.initial_sequence + 1;
  const Seq una = first + static_cast<std::uint32_t>(request_acked_);
  // RFC 9293 3.10.7.4, RFC 5961 5.2: it may be older than what we know by the largest window we were sent.
  if (segment.ack.after(first + static_cast<std::uint32_t>(request_top_)) || una - segment.ack > 0xffff)
  {
    ++stats_.refused;
    challenge(now);
    return false;
  }
  return true;
}

void MirrorTcp::arrive_open(const Segment& segment, Tick now)
{
  const std::int64_t from = offset_of(segment.seq);
  const std::int64_t to = from + segment.sequence_length();
  if (!acceptable(segment, from, to, now)) return;
  const auto acked = static_cast<std::int64_t>(sent_ack_);
  last_arrival_ = now;
  repeat_after_ = clamp(rtt_ * 3 / 2, 100ms, 1s);
  repeat_at_ = now + repeat_after_;
  if (timestamps_)
  {
    if (from <= acked) ts_recent_ = segment.timestamps->value; // RFC 7323 4.3
    learn_from_echo(segment, to, now);
  }
  take_acknowledgement(segment, now);
  if (segment.payload_length != 0) take_payload(segment, from);
  if (segment.has(tcp_flag::fin) && !fin_ && to >= 1) fin_ = static_cast<std::uint64_t>(to) - 1;
  send_request(now);
  // A bare segment from before is a probe of the closed window, or a keep-alive: it waits for an answer.
  judge(now, segment.payload_length != 0 || segment.has(tcp_flag::fin) || from < acked);
}

void MirrorTcp::learn_from_echo(const Segment& segment, std::int64_t end, Tick now)
{
  const TsClock echo = segment.timestamps->echo;
  const auto found = std::lower_bound(sent_.begin(), sent_.end(), echo,
                                      [](const Sent& sent, TsClock clock) { return sent.clock.before(clock); });
  if (found == sent_.end() || !(found->clock == echo)) return;
  if (!echoed_ || echo.after(newest_echo_))
  {
    // Only the first echo measures: later ones also waited for more window.
    const Duration sample = now - found->at;
    stats_.rtt_min = stats_.rtt_min == Duration {} ? sample : std::min(stats_.rtt_min, sample);
    rtt_ = rtt_ == Duration {} ? sample : (7 * rtt_ + sample) / 8;
    newest_echo_ = echo;
    echoed_ = true;
  }
  if (end <= 0) return;
  if (found->ack > confirmed_)
  {
    confirmed_ = found->ack;
    progress_at_ = now;
    stalls_in_row_ = 0;
    if (found->ack > high_) haste_ = std::min(haste_ * 1.03, haste_limit_);
  }
  // The server answers the lower one of two: it had not sent what the upper one acknowledged.
  if (found->fallback && found->ack == confirmed_ && top_ack_ > confirmed_)
  {
    top_ack_ = std::max(sent_ack_, confirmed_);
    refused_ahead_ = true;
  }
  // The largest of the last round trip and of the one before.
  if (now - flight_since_ >= rtt_)
  {
    flight_before_ = std::exchange(flight_now_, 0);
    flight_since_ = now;
  }
  if (static_cast<std::uint64_t>(end) > found->ack)
    flight_now_ = std::max(flight_now_, static_cast<std::uint64_t>(end) - found->ack);
}

void MirrorTcp::take_acknowledgement(const Segment& segment, Tick now)
{
  const Seq first = config_.initial_sequence + 1;
  const std::int32_t fresh = segment.ack - (first + static_cast<std::uint32_t>(request_acked_));
  if (fresh < 0) return;
  const bool opens = std::exchange(peer_window_, std::uint32_t { segment.window } << peer_scale_) == 0;
  // The byte that a closed window was probed with may not have been taken. More is the timer's: who opens and closes it
  // again and again would get all of it each time.
  if (opens && peer_window_ > 0 && request_sent_ == request_acked_ + 1) request_sent_ = request_acked_;
  if (fresh == 0) return;
  request_acked_ += static_cast<std::uint32_t>(fresh);
  // Slow start by bytes (RFC 5681 3.1), up to what it began with.
  request_room_ = std::min(request_room_ + static_cast<std::uint32_t>(fresh), initial_segments * request_segment());
  request_sent_ = std::max(request_sent_, request_acked_);
  tries_ = 0;
  retransmit_after_ = clamp(3 * rtt_, shortest_timeout, longest_timeout);
  retransmit_at_ = request_acked_ < request_sent_ ? now + retransmit_after_ : Tick::max();
}

void MirrorTcp::take_payload(const Segment& segment, std::int64_t offset)
{
  const std::size_t headers = std::size_t { segment.ip_header_length } + segment.tcp_header_length;
  if (segment.bytes.size() < headers + segment.payload_length) return;
  auto payload = segment.bytes.subspan(headers, segment.payload_length);
  if (offset < 0)
  {
    if (static_cast<std::uint64_t>(-offset) >= payload.size()) return;
    payload = payload.subspan(static_cast<std::size_t>(-offset));
    offset = 0;
  }
  const auto from = static_cast<std::uint64_t>(offset);
  const std::uint64_t to = from + payload.size();
  if (fin_ && to > *fin_) return; // nothing follows a FIN
  // The link's rate: the best of the last 100 ms that were busy, slowly forgotten.
  carried_ += payload.size();
  if (const Duration span = last_arrival_ - carried_since_; span >= 100ms)
  {
    if (span < 150ms) link_rate_ = std::max(0.9 * link_rate_, static_cast<double>(carried_) / seconds(span));
    carried_ = 0;
    carried_since_ = last_arrival_;
  }
  const bool kept = store_.add(from, payload);
  if (kept || !config_.optimistic) received_.add(from, to);
  store_.trim(wants_);
  // A cellular link keeps the order, so what lies before the newest byte was sent again (RFC 2883).
  if (from < high_) duplicate_ = Piece { from, to };
  last_payload_ = from;
  if (move_ == MirrorMove::receiving && from > high_) lost_ = true;
  if (to <= high_) return;
  high_ = to;
  progress_at_ = last_arrival_;
  stalls_in_row_ = 0;
}

void MirrorTcp::challenge(Tick now)
{
  if (now >= challenges_since_ + 1s)
  {
    challenges_since_ = now;
    challenges_ = 0;
  }
  if (challenges_ >= challenges_per_second) return;
  ++challenges_;
  put(tcp_flag::ack, request_top_, {}, now);
}

// ---- our bytes ----

std::uint64_t MirrorTcp::request_segment() const
{
  return std::min<std::uint64_t>(peer_mss_, config_.mss) - (timestamps_ ? 12 : 0);
}

void MirrorTcp::send_request(Tick now, bool probe)
{
  const std::uint64_t segment = request_segment();
  const std::uint64_t window = std::max<std::uint64_t>(peer_window_, probe ? 1 : 0);
  const std::uint64_t allowed = request_acked_ + std::min(window, request_room_);
  while (request_sent_ < request_.size() && request_sent_ < allowed)
  {
    const std::uint64_t length = std::min({ segment, request_.size() - request_sent_, allowed - request_sent_ });
    const auto part =
        std::span { request_ }.subspan(static_cast<std::size_t>(request_sent_), static_cast<std::size_t>(length));
    const std::uint64_t from = request_sent_;
    request_sent_ += length;
    request_top_ = std::max(request_top_, request_sent_);
    put(tcp_flag::ack | tcp_flag::psh, from, part, now);
    if (retransmit_at_ == Tick::max() || tries_ == 0) retransmit_at_ = now + retransmit_after_;
  }
  if (request_acked_ == request_.size())
    retransmit_at_ = Tick::max();
  else if (request_sent_ == request_acked_ && retransmit_at_ == Tick::max())
    retransmit_at_ = now + retransmit_after_; // RFC 9293 3.8.6.1: a closed window is probed
}

// ---- time ----

void MirrorTcp::tick(Tick now)
{
  if (phase_ != MirrorPhase::connecting && phase_ != MirrorPhase::open) return;
  if (now >= retransmit_at_)
  {
    if (tries_ >= most_tries)
      return die(phase_ == MirrorPhase::connecting ? "the server does not answer on the cellular link"
                                                   : "the server does not take the request");
    if (phase_ == MirrorPhase::connecting)
      send_syn(now);
    else
    {
      ++tries_;
      request_sent_ = request_acked_;
      request_room_ = request_segment(); // RFC 5681 3.1: the loss window
      retransmit_at_ = now + retransmit_after_;
      retransmit_after_ = std::min(2 * retransmit_after_, longest_timeout);
      send_request(now, true);
    }
  }
  if (phase_ != MirrorPhase::open) return;
  if (move_ != MirrorMove::parked && now >= silent_at())
  {
    put(tcp_flag::rst | tcp_flag::ack, request_top_, {}, now);
    return die("the mirror connection fell silent");
  }
  judge(now, false);
}

// While parked nothing is waited for: a server probes the closed window less and less often, Linux as seldom as every
// two minutes.
Tick MirrorTcp::silent_at() const
{
  return std::max(last_arrival_, busy_since_) + config_.give_up;
}

Tick MirrorTcp::wake() const
{
  if (phase_ != MirrorPhase::connecting && phase_ != MirrorPhase::open) return Tick::max();
  Tick next = retransmit_at_;
  if (phase_ == MirrorPhase::connecting || move_ == MirrorMove::parked) return next;
  next = std::min({ next, move_ == MirrorMove::sweeping ? tick_at_ : repeat_at_, silent_at() });
  if (move_ == MirrorMove::guarding)
  {
    const Duration least = config_.early_guard ? std::min(config_.guard, stats_.rtt_min + quiet) : config_.guard;
    const Tick over = guard_since_ + least;
    next = std::min(next, std::max(over, last_arrival_ + quiet));
  }
  return next;
}

} // namespace tandem::fetch
