#include "src/fetch/mirror_tcp.h"

#include "src/fetch/craft_syn.h"
#include "src/wire/craft.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace tandem::fetch
{
namespace
{

// Windows up to 8 MiB in steps of 128 bytes.
constexpr std::uint8_t our_window_scale = 7;
// RFC 9293 3.10.7.4, RFC 5961 5.2: an acknowledgement may be older than what we know by the largest window we were
// sent.
constexpr std::uint64_t initial_segments = 10; // RFC 6928
constexpr Duration shortest_timeout = 300ms, longest_timeout = 8s;
constexpr unsigned most_tries = 6;
constexpr unsigned challenges_per_second = 50;
// A Linux sender that defers a large segment in the hope of more window keeps back up to three segments, and one that
// does not fit; bytes this near to a limit may therefore not have been sent.
constexpr std::uint64_t held_back_segments = 4;
// Data behind a wanted piece: what shows the server that the piece's end was lost (RFC 5681: three duplicates).
constexpr std::uint64_t slack_segments = 4;
// CUBIC's HyStart takes ACKs that come within 2 ms of each other for a sign of a full link; these are no such sign.
constexpr Duration shortest_tick = 4ms, longest_tick = 10ms;
constexpr Duration quiet = 20ms; // nothing came for so long: the link's queue is empty
constexpr Duration remembered = 4s;
constexpr std::size_t most_remembered = 4096;

Duration clamp(Duration value, Duration low, Duration high)
{
  return std::max(low, std::min(value, high));
}

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
  packet.resize(wire::craft_segment(packet, headers, payload));
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
  auto packet = craft_syn(headers, { .mss = config_.mss, .window_scale = our_window_scale });
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
  send_request(now);
  judge(now, false);
}

// RFC 9293 3.10.7.4 in its order, with the checks of RFC 5961 and RFC 7323.
void MirrorTcp::arrive_open(const Segment& segment, Tick now)
{
  const std::int64_t from = offset_of(segment.seq);
  const std::int64_t to = from + segment.sequence_length();
  const auto edge = static_cast<std::int64_t>(edge_);
  const auto acked = static_cast<std::int64_t>(sent_ack_);
  const bool reset = segment.has(tcp_flag::rst);

  if (timestamps_ && !reset)
  {
    if (!segment.timestamps)
    {
      ++stats_.refused; // RFC 7323 3.2: dropped in silence
      return;
    }
    if (segment.timestamps->value.before(ts_recent_))
    {
      ++stats_.refused;
      challenge(now);
      return;
    }
  }
  // One byte beyond the edge is allowed to a FIN.
  if (from > edge || to > edge + (segment.has(tcp_flag::fin) ? 1 : 0))
  {
    ++stats_.refused;
    if (!reset) challenge(now);
    return;
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
    return;
  }
  if (segment.has(tcp_flag::syn))
  {
    challenge(now); // RFC 5961 4.2; also a SYN/ACK sent again because our ACK was lost
    return;
  }
  if (!segment.has(tcp_flag::ack))
  {
    ++stats_.refused;
    return;
  }
  const Seq first = config_.initial_sequence + 1;
  const Seq una = first + static_cast<std::uint32_t>(request_acked_);
  if (segment.ack.after(first + static_cast<std::uint32_t>(request_top_)) || una - segment.ack > 0xffff)
  {
    ++stats_.refused;
    challenge(now);
    return;
  }

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
  if (fresh >= 0) peer_window_ = std::uint32_t { segment.window } << peer_scale_;
  if (fresh <= 0) return;
  request_acked_ += static_cast<std::uint32_t>(fresh);
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
  ++stats_.challenges;
  put(tcp_flag::ack, request_top_, {}, now);
}

// ---- our bytes ----

void MirrorTcp::send_request(Tick now)
{
  const std::uint64_t segment = std::min<std::uint64_t>(peer_mss_, config_.mss) - (timestamps_ ? 12 : 0);
  const std::uint64_t allowed = request_acked_ + std::min<std::uint64_t>(peer_window_, initial_segments * segment);
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
  if (request_acked_ == request_.size()) retransmit_at_ = Tick::max();
}

// ---- what is wanted ----

bool MirrorTcp::want(const Piece& piece, Tick now)
{
  if (phase_ == MirrorPhase::closed || piece.from >= piece.to) return false;
  if (const std::uint64_t gap = store_.first_gap(piece.from); gap < piece.to && gap < top_ack_) return false;
  wants_.insert(std::upper_bound(wants_.begin(), wants_.end(), piece,
                                 [](const Piece& a, const Piece& b) { return a.from < b.from; }),
                piece);
  if (phase_ == MirrorPhase::open) judge(now, false);
  return true;
}

void MirrorTcp::unwant(const Piece& piece, Tick now)
{
  const auto found = std::find(wants_.begin(), wants_.end(), piece);
  if (found == wants_.end()) return;
  wants_.erase(found);
  store_.trim(wants_);
  if (phase_ == MirrorPhase::open) judge(now, false);
}

std::optional<std::uint64_t> MirrorTcp::first_missing() const
{
  for (const Piece& piece : wants_)
    if (const std::uint64_t gap = store_.first_gap(piece.from); gap < piece.to)
      return config_.optimistic ? gap : received_.first_gap(0);
  return {};
}

// Wanted pieces that are near each other are received in one go.
std::uint64_t MirrorTcp::cluster_end(std::uint64_t from) const
{
  std::uint64_t end = from;
  for (const Piece& piece : wants_)
    if (!config_.optimistic || piece.from <= end + near()) end = std::max(end, piece.to);
  return end;
}

// What the link carries while a skip waits for its guard and for the first bytes behind it is no farther by receiving.
std::uint64_t MirrorTcp::near() const
{
  constexpr std::uint64_t most = 4 * 1024 * 1024;
  const double carried = link_rate_ * seconds(stats_.rtt_min + quiet + std::min(config_.guard, 2 * rtt_));
  return std::max(config_.near, std::min(static_cast<std::uint64_t>(carried), most));
}

// All before is sure to have been sent: it was seen, or its acknowledgement was taken.
std::uint64_t MirrorTcp::proved() const
{
  return config_.optimistic ? std::max(high_, confirmed_) : received_.first_gap(0);
}

// What the server has sent by the time that it has seen what left here before `when`: as much beyond the
// acknowledgement as it has been seen to send, if the window allowed it.
std::uint64_t MirrorTcp::sent_by_server(Tick when) const
{
  const auto behind =
      std::upper_bound(sent_.begin(), sent_.end(), when, [](Tick at, const Sent& sent) { return at < sent.at; });
  if (behind == sent_.begin()) return confirmed_;
  const Sent& last = *std::prev(behind);
  const std::uint64_t margin = held_back_segments * config_.mss;
  const std::uint64_t allowed = std::max(last.ack, last.edge > margin ? last.edge - margin : 0);
  return std::min(last.ack + flight(), allowed);
}

std::uint64_t MirrorTcp::flight() const
{
  return std::max({ flight_now_, flight_before_, initial_segments * config_.mss });
}

// When the first acknowledgement left that nothing has come of yet; nothing when there is none.
std::optional<Tick> MirrorTcp::unanswered_since() const
{
  const std::uint64_t sure = proved();
  auto at = echoed_ ? std::upper_bound(sent_.begin(), sent_.end(), newest_echo_,
                                       [](TsClock clock, const Sent& sent) { return sent.clock.after(clock); })
                    : sent_.begin();
  at = std::find_if(at, sent_.end(), [&](const Sent& sent) { return sent.ack > sure; });
  if (at == sent_.end()) return {};
  return at->at;
}

// ---- what to do next ----

void MirrorTcp::judge(Tick now, bool arrived)
{
  if (phase_ != MirrorPhase::open) return;
  steer(now);
  switch (move_)
  {
  case MirrorMove::parked:
    park(arrived, now);
    break;
  case MirrorMove::sweeping:
    if (now >= tick_at_) sweep(now);
    break;
  case MirrorMove::guarding:
    // The window ends at the wanted byte, so acknowledging draws none of it; staying silent would make the server think
    // that the last ones were lost.
    if (const std::uint64_t ack = std::min(proved(), limit_); now >= repeat_at_ || ack > sent_ack_)
      acknowledge(ack, edge_, now);
    break;
  case MirrorMove::receiving:
    receive(now, arrived);
    break;
  }
  if (fin_ && !first_missing() && high_ >= *fin_)
  {
    put(tcp_flag::rst | tcp_flag::ack, request_top_, {}, now);
    die("the server closed the mirror connection");
  }
}

void MirrorTcp::enter(MirrorMove move, Tick now)
{
  if (move_ == move) return;
  move_ = move;
  tick_at_ = Tick::max();
  repeat_after_ = clamp(rtt_ * 3 / 2, 100ms, 1s);
  repeat_at_ = move == MirrorMove::parked ? Tick::max() : now + repeat_after_;
  if (move == MirrorMove::guarding) guard_since_ = now;
  if (move != MirrorMove::sweeping) return;
  ++stats_.sweeps;
  // A server that was idle or repaired a loss goes on with a smaller window (RFC 2861, RFC 5681).
  const Duration idle = now - opened_wide_;
  const auto halvings = static_cast<unsigned>(std::min<std::int64_t>(idle / (rtt_ + 200ms), 4)) + (lost_ ? 1 : 0);
  flight_before_ = flight() >> halvings;
  flight_now_ = 0;
  flight_since_ = now;
  lost_ = false;
  refused_ahead_ = false;
  credit_ = static_cast<double>(flight());
  credit_at_ = progress_at_ = now;
  stalls_in_row_ = 0;
  tick_at_ = now;
  repeat_at_ = Tick::max();
}

void MirrorTcp::steer(Tick now)
{
  const auto missing = first_missing();
  if (!missing) return enter(MirrorMove::parked, now);
  const std::uint64_t need = *missing;
  const std::uint64_t sure = proved();
  const std::uint64_t margin = held_back_segments * config_.mss + (1u << scale_); // the edge is said in steps
  const bool under_way = (move_ == MirrorMove::sweeping || move_ == MirrorMove::guarding) && limit_ == need;
  if (!config_.optimistic) return enter(MirrorMove::receiving, now);
  if (!under_way)
  {
    if ((need <= edge_ && !refused_ahead_) || need <= sure + near()) return enter(MirrorMove::receiving, now);
    limit_ = need;
    if (move_ == MirrorMove::guarding) move_ = MirrorMove::receiving; // so that the sweep begins anew
    return enter(MirrorMove::sweeping, now);
  }
  if (move_ == MirrorMove::sweeping && std::max(top_ack_, sure) + margin >= need) enter(MirrorMove::guarding, now);
  if (move_ != MirrorMove::guarding) return;
  if (config_.early_guard && high_ + margin >= need) return enter(MirrorMove::receiving, now);
  const Duration waited = now - guard_since_;
  const bool empty = now - last_arrival_ >= quiet;
  // By then the last bytes would have come if nothing was queued; while something is, they come without a pause.
  const bool early = config_.early_guard && empty && waited >= stats_.rtt_min + quiet;
  if (!early && (waited < config_.guard || (!empty && waited < 4 * config_.guard))) return;
  presume_all_sent();
  enter(MirrorMove::receiving, now);
}

// The server should have sent all that comes before the wanted piece, though the end of it has not been seen. If it has
// not it says so by answering the lower one of two acknowledgements (acknowledge_both).
void MirrorTcp::presume_all_sent()
{
  const std::uint64_t margin = held_back_segments * config_.mss + (1u << scale_);
  if (limit_ > proved() + config_.near) top_ack_ = std::max(top_ack_, limit_ - margin);
}

void MirrorTcp::sweep(Tick now)
{
  tick_at_ = now + clamp(stats_.rtt_min / 16, shortest_tick, longest_tick);
  const std::uint64_t sure = std::min(proved(), limit_);
  const std::uint64_t margin = held_back_segments * config_.mss;
  const double rate = config_.sweep_rate.bits_per_second / 8;
  credit_ = std::min(credit_ + rate * seconds(now - credit_at_), rate * seconds(rtt_) + 65536);
  credit_at_ = now;

  const Duration patience = clamp(2 * rtt_ + 20ms, 60ms, 1s) * (1u << std::min(stalls_in_row_, 4u));
  const Duration pause = std::max(quiet, stats_.rtt_min / 4);
  const auto unanswered = unanswered_since();
  // What had to come by now has not, and nothing is queued.
  const bool ignored =
      unanswered && now - *unanswered >= stats_.rtt_min + pause && now - last_arrival_ >= pause && now >= lead_after_;
  std::uint64_t ack = std::max(sure, sent_ack_);
  if (now - progress_at_ >= patience || ignored)
  {
    ++stats_.stalls;
    ++stalls_in_row_;
    progress_at_ = now;
    lead_after_ = now + stats_.rtt_min + pause;
    // Perhaps it has sent all that it may, and the end of that was lost: then only a wider window brings an answer.
    // That neither of two acknowledgements brought one says the same.
    const bool all_sent = top_ack_ > sure && (limit_ <= top_ack_ + flight() + margin || stalls_in_row_ > 1);
    haste_limit_ = std::max(0.6 * haste_, 1.0);
    haste_ = 1;
    flight_before_ = flight() / 2;
    flight_now_ = 0;
    if (!all_sent) return acknowledge_both(sure, std::min(limit_, sure + config_.sweep_window), limit_, now);
    presume_all_sent();
    enter(MirrorMove::receiving, now);
    return receive(now, true);
  }
  if (timestamps_ && now >= lead_after_ && stats_.rtt_min != Duration {})
  {
    const std::uint64_t by_now = sent_by_server(now - from_seconds(seconds(stats_.rtt_min) / haste_));
    const std::uint64_t reach = limit_ > margin ? limit_ - margin : 0;
    ack = std::max(ack, std::min(by_now, reach));
  }
  ack = std::min(ack, sent_ack_ + static_cast<std::uint64_t>(std::max(credit_, 0.0)));
  const std::uint64_t edge = std::min(limit_, ack + config_.sweep_window);
  // The header carries the edge in steps.
  const bool wider = ((edge - ack) >> scale_) > window_;
  if (ack <= sent_ack_ && !wider) return;
  if (ack > sent_ack_) credit_ -= static_cast<double>(ack - sent_ack_);
  if (ack > sure) ++stats_.ahead;
  if (wider || ack > sent_ack_) opened_wide_ = now;
  acknowledge(ack, edge, now);
}

void MirrorTcp::receive(Tick now, bool arrived)
{
  const auto missing = first_missing();
  const std::uint64_t need = missing.value_or(high_);
  const std::uint64_t ack = std::min(proved(), need);
  const auto filled = static_cast<std::uint64_t>(1.25 * link_rate_ * seconds(stats_.rtt_min));
  const std::uint64_t window = config_.optimistic
                                   ? std::max(config_.receive_window, std::min(filled, config_.sweep_window))
                                   : config_.sweep_window;
  const std::uint64_t wish =
      std::min(cluster_end(need) + slack_segments * config_.mss, std::max(ack, top_ack_) + window);
  const std::uint64_t edge = std::max(edge_, wish);
  const bool again = now >= repeat_at_;
  if (again) repeat_after_ = std::min(2 * repeat_after_, Duration { 1s });
  const bool doubt = top_ack_ > ack && need > ack + config_.near;
  if (again || arrived || edge > edge_ + (1u << scale_) || ack > sent_ack_)
    acknowledge_both(ack, doubt ? limit_ : edge, edge, now);
}

void MirrorTcp::park(bool arrived, Tick now)
{
  const std::uint64_t ack = proved();
  if (ack != sent_ack_ && arrived)
    acknowledge(ack, std::max(edge_, ack), now);
  else if (arrived)
    challenge(now);
}

// What was said ahead of what is proved, with the edge that is meant for the first, and then what is proved, with an
// edge of its own: the server ignores the second with its window if it took the first, and the first if it had not sent
// so much. One of them counts.
void MirrorTcp::acknowledge_both(std::uint64_t ack, std::uint64_t edge, std::uint64_t edge_ahead, Tick now)
{
  const bool both = top_ack_ > ack;
  if (both) acknowledge(top_ack_, edge_ahead, now);
  fallback_ = both;
  acknowledge(ack, edge, now);
  fallback_ = false;
}

void MirrorTcp::acknowledge(std::uint64_t ack, std::uint64_t edge, Tick now)
{
  edge = std::max(edge, ack);
  const std::uint64_t window = std::min<std::uint64_t>((edge - ack) >> scale_, 0xffff);
  window_ = static_cast<std::uint16_t>(window);
  sent_ack_ = ack;
  top_ack_ = std::max(top_ack_, ack);
  granted_ = ack + (window << scale_);
  edge_ = std::max(edge_, granted_);
  sacks_.clear();
  if (config_.optimistic) received_.forget_below(ack);
  if (move_ == MirrorMove::receiving && sack_ && high_ > ack) report_ranges(ack);
  if (duplicate_ && sack_ && duplicate_->to <= ack)
  {
    // Without it a Linux sender takes the probe of a tail for the repair of a loss, and halves its window.
    sacks_.insert(sacks_.begin(), { .left = seq_of(duplicate_->from), .right = seq_of(duplicate_->to) });
    if (sacks_.size() > (timestamps_ ? 3u : 4u)) sacks_.pop_back();
  }
  duplicate_.reset();
  if (move_ == MirrorMove::receiving || move_ == MirrorMove::guarding) repeat_at_ = now + repeat_after_;
  put(tcp_flag::ack, request_top_, {}, now);
}

// RFC 2018 4: the range that the last segment fell into comes first.
void MirrorTcp::report_ranges(std::uint64_t ack)
{
  const std::size_t room = timestamps_ ? 3 : 4;
  received_.above(ack,
                  [&](std::uint64_t from, std::uint64_t to)
                  {
                    const SackBlock block { .left = seq_of(from), .right = seq_of(to) };
                    if (from <= last_payload_ && last_payload_ < to)
                      sacks_.insert(sacks_.begin(), block);
                    else if (sacks_.size() + (from < last_payload_ ? 1 : 0) < room)
                      sacks_.push_back(block);
                    return sacks_.size() < room || from < last_payload_;
                  });
  if (sacks_.size() > room) sacks_.resize(room);
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
      retransmit_at_ = now + retransmit_after_;
      retransmit_after_ = std::min(2 * retransmit_after_, longest_timeout);
      send_request(now);
    }
  }
  if (phase_ != MirrorPhase::open) return;
  if (move_ != MirrorMove::parked && now - last_arrival_ >= config_.give_up)
  {
    put(tcp_flag::rst | tcp_flag::ack, request_top_, {}, now);
    return die("the mirror connection fell silent");
  }
  judge(now, false);
}

Tick MirrorTcp::wake() const
{
  if (phase_ != MirrorPhase::connecting && phase_ != MirrorPhase::open) return Tick::max();
  Tick next = retransmit_at_;
  if (phase_ == MirrorPhase::connecting || move_ == MirrorMove::parked) return next;
  next = std::min({ next, move_ == MirrorMove::sweeping ? tick_at_ : repeat_at_, last_arrival_ + config_.give_up });
  if (move_ == MirrorMove::guarding)
  {
    const Duration least = config_.early_guard ? std::min(config_.guard, stats_.rtt_min + quiet) : config_.guard;
    const Tick over = guard_since_ + least;
    next = std::min(next, std::max(over, last_arrival_ + quiet));
  }
  return next;
}

} // namespace tandem::fetch
