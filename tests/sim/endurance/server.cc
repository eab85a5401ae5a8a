#include "tests/sim/endurance/server.h"

#include <algorithm>

namespace tandem::test::days
{

namespace
{

constexpr std::uint32_t full = 2896; // bytes: two segments that the card has merged
constexpr std::uint64_t reordering = 3 * 1448;
constexpr Duration rto_min = ms(200);
constexpr Duration rto_max = ms(120'000);

} // namespace

TsClock Server::clock(Tick now) const
{
  const double ms = milliseconds(now.time_since_epoch()) * (1 + ppm_ * 1e-6);
  return TsClock { 900'000 } + static_cast<std::uint32_t>(static_cast<std::int64_t>(ms));
}

void Server::rearm(Tick now)
{
  due_ = out_.empty() && nxt_ == written_ ? Tick::max() : now + rto_;
}

void Server::take_sacks(const Packet& ack)
{
  for (std::size_t i = 0; i < ack.sack_count; ++i)
  {
    const Range& block = ack.sacks[i];
    highest_sacked_ = std::max(highest_sacked_, block.right);
    auto at = std::lower_bound(out_.begin(), out_.end(), block.left,
                               [](const Out& one, std::uint64_t left) { return one.seq < left; });
    for (; at != out_.end() && at->seq + at->length <= block.right; ++at)
    {
      if (at->sacked) continue;
      if (!at->lost || at->again > 0) in_flight_ -= at->length;
      at->sacked = true;
    }
  }
}

void Server::hear(const Packet& ack, std::uint64_t asked, Tick now)
{
  if (heard_ && recent_ - ack.value > 1) // Linux's TCP_PAWS_WINDOW
  {
    ++rejected_;
    return;
  }
  told_too_much_ = told_too_much_ || ack.ack > nxt_;
  asked_ = std::max(asked_, asked);
  if (ack.ack < una_) // taken by header prediction only
  {
    if (ack.window == window_ && ack.sack_count == 0 && ack.value.after(recent_)) recent_ = ack.value;
    return;
  }
  if (!heard_ || ack.value.after(recent_)) recent_ = ack.value;
  heard_ = true;
  window_ = ack.window;
  const std::uint64_t advanced = ack.ack - una_;
  una_ = ack.ack;
  while (!out_.empty() && out_.front().seq + out_.front().length <= una_)
  {
    const Out& one = out_.front();
    if (!one.sacked && (!one.lost || one.again > 0)) in_flight_ -= one.length;
    out_.pop_front();
  }
  take_sacks(ack);
  if (advanced > 0)
  {
    const auto age = std::chrono::milliseconds { clock(now) - ack.echo };
    if (age.count() >= 0 && age < ms(60'000)) srtt_ = srtt_ == Duration {} ? age : srtt_ + (age - srtt_) / 8;
    rto_ = std::max<Duration>(rto_min + srtt_, 2 * srtt_);
    if (!recovering_) cwnd_ += cwnd_ < ssthresh_ ? static_cast<double>(advanced) : 1448. * advanced / cwnd_;
  }
  if (recovering_ && una_ >= recover_) recovering_ = false;
  bool lost = false;
  for (Out& one : out_)
  {
    if (one.seq + one.length + reordering > highest_sacked_) break;
    if (one.sacked || one.lost) continue;
    one.lost = lost = true;
    in_flight_ -= one.length;
  }
  if (lost && !recovering_)
  {
    recovering_ = at_once_ = true;
    recover_ = nxt_;
    ssthresh_ = cwnd_ = std::max(cwnd_ * 0.7, 2. * full);
  }
  if (advanced > 0 || out_.empty()) rearm(now);
}

void Server::tick(Tick now)
{
  if (now < due_) return;
  rto_ = std::min(2 * rto_, rto_max);
  if (out_.empty())
  {
    probe_ = nxt_ < written_; // the window is closed
    due_ = probe_ ? now + rto_ : Tick::max();
    return;
  }
  ++timeouts_;
  for (Out& one : out_)
  {
    one.again = 0;
    one.lost = !one.sacked;
  }
  in_flight_ = 0;
  ssthresh_ = std::max(cwnd_ / 2, 2. * full);
  cwnd_ = full;
  recovering_ = true;
  recover_ = nxt_;
  due_ = now + rto_;
}

Packet Server::data(std::uint64_t seq, std::uint32_t length, Tick now)
{
  sent_at_ = now;
  if (due_ == Tick::max()) due_ = now + rto_;
  return { .seq = seq, .length = length, .ack = asked_, .value = clock(now), .echo = recent_ };
}

std::optional<Packet> Server::send(Tick now)
{
  if (!heard_) return {};
  if (probe_)
  {
    probe_ = false;
    return Packet { .seq = una_ - 1, .ack = asked_, .value = clock(now), .echo = recent_ };
  }
  const bool room = at_once_ || static_cast<double>(in_flight_) + full <= std::max(cwnd_, 1. * full);
  for (auto one = out_.begin(); room && one != out_.end() && (one->lost || one->seq <= highest_sacked_); ++one)
  {
    if (!one->lost || one->sacked || one->again > 0) continue;
    one->again = 1;
    at_once_ = false;
    in_flight_ += one->length;
    const std::uint64_t from = std::max(one->seq, una_);
    return data(from, static_cast<std::uint32_t>(one->seq + one->length - from), now);
  }
  if (nxt_ == written_) return {};
  if (out_.empty() && now - sent_at_ > rto_) cwnd_ = std::min(cwnd_, 14'480.); // RFC 2861
  const auto length = static_cast<std::uint32_t>(std::min<std::uint64_t>(full, written_ - nxt_));
  if (static_cast<double>(in_flight_) + length > cwnd_ || nxt_ + length > una_ + window_)
  {
    if (due_ == Tick::max()) due_ = now + rto_;
    return {};
  }
  out_.push_back({ .seq = nxt_, .length = length });
  in_flight_ += length;
  nxt_ += length;
  return data(nxt_ - length, length, now);
}

} // namespace tandem::test::days
