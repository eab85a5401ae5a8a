// What a mirror connection wants, and what it does next to get it: the moves of MirrorTcp.
#include "src/fetch/mirror_tcp.h"

#include <algorithm>

namespace tandem::fetch
{
namespace
{

// A Linux sender that defers a large segment in the hope of more window keeps back up to three segments, and one that
// does not fit; bytes this near to a limit may therefore not have been sent.
constexpr std::uint64_t withheld_segments = 4;
// Data behind a wanted piece: what shows the server that the piece's end was lost (RFC 5681: three duplicates).
constexpr std::uint64_t slack_segments = 4;
// CUBIC's HyStart takes ACKs that come within 2 ms of each other for a sign of a full link; these are no such sign.
constexpr Duration shortest_tick = 4ms, longest_tick = 10ms;

} // namespace

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
  const std::uint64_t margin = withheld_segments * config_.mss;
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
  // A server that is gone must not be waited for anew with every piece.
  if (move_ == MirrorMove::parked && last_arrival_ >= busy_since_) busy_since_ = now;
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
  const std::uint64_t margin = withheld_segments * config_.mss + (1u << scale_); // the edge is advertised in steps
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
  const std::uint64_t margin = withheld_segments * config_.mss + (1u << scale_);
  if (limit_ > proved() + config_.near) top_ack_ = std::max(top_ack_, limit_ - margin);
}

void MirrorTcp::sweep(Tick now)
{
  tick_at_ = now + clamp(stats_.rtt_min / 16, shortest_tick, longest_tick);
  const std::uint64_t sure = std::min(proved(), limit_);
  const std::uint64_t margin = withheld_segments * config_.mss;
  const double rate = config_.sweep_rate.bits_per_second / 8;
  credit_ = std::min(credit_ + rate * seconds(now - credit_at_), rate * seconds(rtt_) + 65536);
  credit_at_ = now;

  const Duration timeout = clamp(2 * rtt_ + 20ms, 60ms, 1s) * (1u << std::min(stalls_in_row_, 4u));
  const Duration pause = std::max(quiet, stats_.rtt_min / 4);
  const auto unanswered = unanswered_since();
  // What had to come by now has not, and nothing is queued.
  const bool ignored =
      unanswered && now - *unanswered >= stats_.rtt_min + pause && now - last_arrival_ >= pause && now >= lead_after_;
  std::uint64_t ack = std::max(sure, sent_ack_);
  if (now - progress_at_ >= timeout || ignored)
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
  const std::uint64_t request =
      std::min(cluster_end(need) + slack_segments * config_.mss, std::max(ack, top_ack_) + window);
  const std::uint64_t edge = std::max(edge_, request);
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

// What was acknowledged ahead of what is proved, with the edge that is meant for the first, and then what is proved,
// with an edge of its own: the server ignores the second with its window if it took the first, and the first if it had
// not sent so much. One of them counts.
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

} // namespace tandem::fetch
