#include "tools/sim/sender.h"

#include <algorithm>
#include <cmath>
#include <vector>

namespace tandem::sim
{

namespace
{

using namespace std::chrono_literals;

constexpr unsigned duplicate_threshold = 3; // RFC 5681, RFC 6675
constexpr std::uint32_t bare_header = 40;   // IPv4 and TCP without options

} // namespace

Sender::Sender(World& world, const SenderConfig& config, Source& source, const Route& route, Group& group)
    : world_(world), config_(config), source_(source), route_(route), timer_(world.loop, [this] { timer(); }),
      reorder_(world.loop,
               [this]
               {
                 if (detect_by_time() && (state_ == State::open || state_ == State::reducing)) enter_recovery();
                 if (state_ == State::recovery) proportional(0, false, true);
                 send_all();
               })
{
  window_.cwnd = config.initial_window;
  group.push_back(&window_);
  control_ = make_congestion(config.algorithm, window_, group);
}

void Sender::handshake(const Packet& packet)
{
  if (packet.kind == Kind::syn)
  {
    ts_recent_ = packet.ts_value;
    syn_ack_at_ = world_.now();
    const Handle handle = world_.pool.make();
    Packet& answer = world_.pool[handle];
    answer.route = &route_;
    answer.kind = Kind::syn_ack;
    answer.bytes = bare_header + 20;
    answer.interface = interface;
    answer.ts_value = world_.clock();
    answer.ts_echo = packet.ts_value;
    world_.forward(handle);
    return;
  }
  window_.established = true;
  take_rtt(world_.now() - syn_ack_at_);
}

void Sender::accept(Handle handle)
{
  const Packet packet = world_.pool[handle];
  world_.pool.free(handle);
  if (closed_) return;
  if (packet.kind == Kind::syn) return handshake(packet);
  if (packet.kind != Kind::ack) return;
  // PAWS, RFC 7323 5.3.
  if (static_cast<std::int32_t>(packet.ts_value - ts_recent_) < 0)
  {
    ++stats_.paws;
    return;
  }
  ts_recent_ = packet.ts_value;
  if (!window_.established) handshake(packet);
  if (config_.own_window && packet.ack >= window_.acked) window_edge_ = packet.ack + packet.window / config_.mss;

  const std::uint64_t before = window_.acked;
  const bool duplicate = packet.ack == before && waiting() > 0;
  stats_.duplicates += duplicate ? 1 : 0;
  const bool was_limited = window_.slow_start() ? window_.cwnd < 2 * static_cast<double>(waiting()) : limited_;
  const unsigned newly_acked = take_cumulative(packet);
  const unsigned delivered = newly_acked + take_sacks(packet);
  const auto advanced = static_cast<unsigned>(window_.acked - before);
  window_.delivered += delivered;
  if (advanced > 0)
  {
    backoff_ = 0;
    probed_ = false;
  }

  if (packet.ece && config_.ecn)
  {
    undo_possible_ = false;
    if (state_ == State::open && packet.ack > cwr_until_)
    {
      ++stats_.ecn_reductions;
      begin_reduction(State::reducing);
    }
  }

  switch (state_)
  {
  case State::open:
    break;
  case State::loss:
    if (advanced > 0 && may_undo(packet))
      undo();
    else if (window_.acked >= high_seq_)
      state_ = State::open;
    break;
  case State::recovery:
    if (window_.acked < high_seq_) break;
    if (may_undo(packet))
      undo();
    else
      leave();
    break;
  case State::reducing:
    if (window_.acked > high_seq_) leave();
    break;
  }

  const bool lost_now = detect(duplicate, advanced);
  if (lost_now && (state_ == State::open || state_ == State::reducing)) enter_recovery();
  if (state_ == State::recovery || state_ == State::reducing)
  {
    if (delivered > 0 || lost_now || (config_.repair == Repair::reno && duplicate))
      proportional(std::max(delivered, config_.repair == Repair::reno && duplicate ? 1u : 0u), advanced > 0, lost_now);
  }
  else if (advanced > 0 && was_limited)
    control_->increase(std::max(delivered, 1u), world_.now());

  rearm(advanced > 0);
  source_.acknowledged(*this, packet.data_ack, packet.window);
  send_all();
}

void Sender::push()
{
  if (window_.established) send_all();
}

std::vector<std::uint64_t> Sender::close()
{
  closed_ = true;
  window_.established = false;
  timer_.stop();
  reorder_.stop();
  std::vector<std::uint64_t> missing;
  for (std::uint64_t seq = window_.acked; seq < window_.sent; ++seq)
    if (!out(seq).sacked) missing.push_back(out(seq).dsn);
  return missing;
}

// What the newest delivered segment says of those sent before it (RFC 8985 6.2).
void Sender::heard(const Out& one)
{
  if (one.order < rack_order_) return;
  const Duration rtt = world_.now() - one.sent;
  // An acknowledgement that comes too soon for a retransmission is one of the first transmission.
  if (one.times > 1 && rtt < window_.rtt_min) return;
  rack_order_ = one.order;
  rack_rtt_ = rtt;
}

unsigned Sender::take_cumulative(const Packet& packet)
{
  unsigned delivered = 0;
  std::optional<Tick> oldest, newest;
  while (window_.acked < packet.ack && window_.acked < window_.sent)
  {
    Out& one = outs_.front();
    if (!one.sacked)
    {
      ++delivered;
      heard(one);
      if (one.times == 1)
      {
        if (!oldest) oldest = one.sent;
        newest = one.sent;
      }
    }
    if (config_.repair != Repair::reno) sacked_ -= one.sacked ? 1 : 0;
    lost_ -= one.lost ? 1 : 0;
    again_ -= one.again ? 1 : 0;
    outs_.pop();
    ++window_.acked;
  }
  if (oldest)
  {
    take_rtt(world_.now() - *oldest);
    control_->sample(world_.now() - *newest, world_.now());
  }
  highest_sacked_ = std::max(highest_sacked_, window_.acked);
  return delivered;
}

unsigned Sender::take_sacks(const Packet& packet)
{
  if (config_.repair == Repair::reno) return 0;
  unsigned delivered = 0;
  for (unsigned i = 0; i < packet.sacks; ++i)
  {
    const Block& block = packet.sack[i];
    for (std::uint64_t seq = std::max(block.from, window_.acked); seq < std::min(block.to, window_.sent); ++seq)
    {
      Out& one = out(seq);
      if (one.sacked) continue;
      heard(one);
      one.sacked = true;
      ++sacked_;
      lost_ -= one.lost ? 1 : 0;
      again_ -= one.again ? 1 : 0;
      one.lost = one.again = false;
      ++delivered;
      highest_sacked_ = std::max(highest_sacked_, seq + 1);
    }
  }
  return delivered;
}

// Returns whether it was not lost before.
bool Sender::mark_lost(std::uint64_t seq)
{
  Out& one = out(seq);
  if (one.sacked || (one.lost && !one.again)) return false;
  again_ -= one.again ? 1 : 0;
  lost_ += one.lost ? 0 : 1;
  one.lost = true;
  one.again = false;
  hint_ = std::min(hint_, seq);
  return true;
}

void Sender::set_cwnd(double segments)
{
  window_.cwnd = segments;
  // Below the threshold it would double within a round trip.
  window_.ssthresh = std::min(window_.ssthresh, segments);
  push();
}

void Sender::reset_estimates()
{
  window_.rtt = rtt_var_ = {};
  rto_ = 1s; // RFC 6298 2.1
  backoff_ = 0;
  rearm(true);
}

void Sender::limit(double segments)
{
  limit_ = segments;
  push();
}

bool Sender::detect(bool duplicate, unsigned advanced)
{
  if (world_.now() < ignore_until_) return false;
  if (config_.repair == Repair::rack) return detect_by_time();
  if (config_.repair == Repair::sack) return detect_by_count();
  // Every duplicate acknowledgement stands for a segment that arrived beyond the hole.
  if (advanced > 0)
    sacked_ = state_ == State::recovery ? sacked_ - std::min(sacked_, advanced - 1) : 0;
  else if (duplicate && sacked_ + lost_ < waiting())
    ++sacked_;
  if (waiting() == 0) return false;
  if (state_ == State::recovery) return advanced > 0 && mark_lost(window_.acked);
  return state_ != State::loss && sacked_ >= duplicate_threshold && mark_lost(window_.acked);
}

bool Sender::detect_by_count()
{
  if (sacked_ == 0 && again_ == 0) return false;
  bool found = false;
  unsigned above = 0;
  for (std::uint64_t seq = highest_sacked_; seq-- > window_.acked;)
  {
    const Out& one = out(seq);
    above += one.sacked ? 1 : 0;
    if (one.sacked) continue;
    if (one.again ? one.order < rack_order_ : !one.lost && above >= duplicate_threshold) found |= mark_lost(seq);
  }
  return found;
}

bool Sender::detect_by_time()
{
  if (sacked_ == 0 && again_ == 0) return false;
  const bool sure = sacked_ >= duplicate_threshold || state_ == State::recovery || state_ == State::loss;
  const Duration wait = sure ? Duration {} : std::min(window_.rtt_min / 4, window_.rtt);
  bool found = false;
  Tick next = Tick::max();
  for (std::uint64_t seq = window_.acked; seq < window_.sent; ++seq)
  {
    const Out& one = out(seq);
    if (one.sacked || (one.lost && !one.again) || one.order >= rack_order_) continue;
    const Tick due = one.sent + rack_rtt_ + wait;
    if (due <= world_.now())
      found |= mark_lost(seq);
    else
      next = std::min(next, due);
  }
  if (next != Tick::max()) reorder_.set(next);
  return found;
}

void Sender::begin_reduction(State state)
{
  state_ = state;
  high_seq_ = window_.sent;
  prior_cwnd_ = window_.cwnd;
  prior_ssthresh_ = window_.ssthresh;
  window_.between_losses = window_.since_last_loss();
  window_.at_last_loss = window_.delivered;
  window_.ssthresh = control_->reduce();
  delivered_in_ = sent_in_ = 0;
  cwr_until_ = window_.sent;
  cwr_due_ = config_.ecn;
}

void Sender::enter_recovery()
{
  ++stats_.recoveries;
  undo_possible_ = config_.undo && state_ != State::reducing; // what ECE asked for stays
  first_again_ = 0;
  if (state_ == State::reducing) // has just been reduced
  {
    state_ = State::recovery;
    high_seq_ = window_.sent;
  }
  else
    begin_reduction(State::recovery);
}

void Sender::leave()
{
  window_.cwnd = window_.ssthresh;
  state_ = State::open;
  undo_possible_ = false;
}

bool Sender::may_undo(const Packet& packet) const
{
  return undo_possible_ && first_again_ != 0 && packet.ts_echo != 0
         && static_cast<std::int32_t>(packet.ts_echo - first_again_) < 0;
}

void Sender::undo()
{
  ++stats_.undone;
  for (std::uint64_t seq = window_.acked; seq < window_.sent; ++seq)
    out(seq).lost = out(seq).again = false;
  lost_ = again_ = 0;
  window_.cwnd = std::max(window_.cwnd, prior_cwnd_);
  window_.ssthresh = std::max(window_.ssthresh, prior_ssthresh_);
  control_->undo();
  state_ = State::open;
  undo_possible_ = false;
}

// RFC 6937 with the slow-start bound, as Linux.
void Sender::proportional(unsigned delivered, bool advanced, bool lost_now)
{
  delivered_in_ += delivered;
  const auto flying = static_cast<double>(in_flight());
  const double room = window_.ssthresh - flying;
  double send = 0;
  if (room < 0)
    send = std::ceil(delivered_in_ * window_.ssthresh / std::max(prior_cwnd_, 1.0)) - sent_in_;
  else
  {
    send = std::max(delivered_in_ - sent_in_, static_cast<double>(delivered));
    if (advanced && !lost_now) send += 1;
    send = std::min(room, send);
  }
  send = std::max(send, sent_in_ > 0 ? 0.0 : 1.0); // the first retransmission always leaves
  window_.cwnd = flying + send;
}

void Sender::take_rtt(Duration rtt)
{
  // RFC 6298 2, with Linux's floor on the variance term instead of on the sum.
  if (window_.rtt == Duration {})
  {
    window_.rtt = rtt;
    rtt_var_ = rtt / 2;
    window_.rtt_min = rtt;
  }
  else
  {
    rtt_var_ = (3 * rtt_var_ + (rtt > window_.rtt ? rtt - window_.rtt : window_.rtt - rtt)) / 4;
    window_.rtt = (7 * window_.rtt + rtt) / 8;
    window_.rtt_min = std::min(window_.rtt_min, rtt);
  }
  rto_ = std::min(window_.rtt + std::max(4 * rtt_var_, config_.rto_min), config_.rto_max);
}

void Sender::rearm(bool restart)
{
  if (waiting() == 0)
  {
    timer_.stop();
    return;
  }
  if (timer_.armed() && !restart) return;
  const Duration rto = std::min(rto_ * (std::int64_t { 1 } << std::min(backoff_, 10u)), config_.rto_max);
  timer_is_probe_ = false;
  Duration wait = rto;
  // A tail loss probe, RFC 8985 7; the allowance for a lone segment's delayed acknowledgement is Linux's.
  if (config_.repair == Repair::rack && state_ == State::open && sacked_ == 0 && !probed_ && window_.rtt > Duration {})
  {
    const Duration probe = 2 * window_.rtt + (waiting() == 1 ? config_.rto_min : 2ms);
    if (probe < rto)
    {
      wait = probe;
      timer_is_probe_ = true;
    }
  }
  timer_.set(world_.now() + wait);
}

void Sender::timer()
{
  if (waiting() == 0) return;
  if (timer_is_probe_)
    probe();
  else
    timeout();
}

void Sender::probe()
{
  ++stats_.probes;
  probed_ = true;
  if (!send_new())
  {
    const std::uint64_t last = window_.sent - 1;
    Out& one = out(last);
    if (!one.again) ++again_;
    if (!one.lost) ++lost_; // so that what is in flight stays the same
    one.lost = one.again = true;
    transmit(last, one);
  }
  rearm(true);
}

void Sender::timeout()
{
  ++stats_.timeouts;
  if (state_ == State::open || state_ == State::reducing || (state_ == State::recovery && window_.acked >= high_seq_)
      || (state_ == State::loss && backoff_ == 0))
  {
    prior_cwnd_ = window_.cwnd;
    prior_ssthresh_ = window_.ssthresh;
    window_.between_losses = window_.since_last_loss();
    window_.at_last_loss = window_.delivered;
    window_.ssthresh = control_->reduce();
    undo_possible_ = config_.undo;
    first_again_ = 0;
  }
  control_->timed_out();
  state_ = State::loss;
  high_seq_ = window_.sent;
  cwr_until_ = window_.sent;
  cwr_due_ = config_.ecn;
  if (config_.repair == Repair::reno) sacked_ = 0;
  lost_ = again_ = 0;
  std::vector<std::uint64_t> missing;
  for (std::uint64_t seq = window_.acked; seq < window_.sent; ++seq)
  {
    Out& one = out(seq);
    one.again = false;
    one.lost = !one.sacked;
    lost_ += one.lost ? 1 : 0;
    if (one.lost) missing.push_back(one.dsn);
  }
  hint_ = window_.acked;
  window_.cwnd = 1;
  ++backoff_;
  timer_.stop();
  send_all();
  source_.stalled(*this, missing);
  rearm(true);
}

void Sender::send_all()
{
  limited_ = false;
  while (true)
  {
    if (in_flight() >= static_cast<std::uint64_t>(window_.cwnd))
    {
      limited_ = true;
      break;
    }
    const bool full = static_cast<double>(in_flight()) >= limit_;
    if (!retransmit_next() && (full || !send_new())) break;
  }
  rearm(false);
}

bool Sender::retransmit_next()
{
  if (lost_ == again_) return false;
  for (std::uint64_t seq = std::max(hint_, window_.acked); seq < window_.sent; ++seq)
  {
    Out& one = out(seq);
    if (!one.lost || one.again) continue;
    one.again = true;
    ++again_;
    hint_ = seq + 1;
    transmit(seq, one);
    return true;
  }
  return false;
}

bool Sender::send_new()
{
  if (window_.sent >= window_edge_) return false;
  const std::optional<Chunk> chunk = source_.next(*this);
  if (!chunk) return false;
  outs_.push({ .dsn = chunk->dsn, .length = chunk->length });
  const std::uint64_t seq = window_.sent++;
  transmit(seq, out(seq));
  return true;
}

void Sender::transmit(std::uint64_t seq, Out& one)
{
  one.sent = world_.now();
  one.order = ++order_;
  ++one.times;
  ++sent_in_;
  ++stats_.segments;
  const bool again = one.times > 1;
  if (again)
  {
    ++stats_.retransmissions;
    if (first_again_ == 0) first_again_ = world_.clock();
  }
  const Handle handle = world_.pool.make();
  Packet& packet = world_.pool[handle];
  packet.route = &route_;
  packet.kind = Kind::data;
  packet.interface = interface;
  packet.bytes = one.length + config_.header;
  packet.seq = seq;
  packet.length = one.length;
  packet.dsn = one.dsn;
  packet.retransmission = again;
  packet.ect = config_.ecn && !again; // RFC 3168 6.1.5
  if (cwr_due_ && !again)
  {
    packet.cwr = true;
    cwr_due_ = false;
  }
  packet.ts_value = world_.clock();
  packet.ts_echo = ts_recent_;
  world_.forward(handle);
}

} // namespace tandem::sim
