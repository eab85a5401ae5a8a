#include "tools/lab/medium/pipe.h"

#include <algorithm>

namespace tandem::medium
{

Pipe::Pipe(const PipeConfig& config, std::uint64_t seed, std::uint64_t stream, NodeId from, NodeId to, Outbox& outbox)
    : config_(config), outbox_(outbox), from_(from), to_(to), loss_(Random(seed, 0x100000 + 2 * stream)),
      random_(seed, 0x100001 + 2 * stream)
{
  loss_.configure(config.loss);
  tokens_ = static_cast<double>(config.policer.burst);
}

void Pipe::drop(const Packet& packet, Tick at, DropReason why)
{
  ++stats_.drops[static_cast<std::size_t>(why)];
  outbox_.drops.push_back({ packet.handle, from_, at, why, static_cast<std::uint32_t>(queue_.size()), queue_bytes_ });
}

void Pipe::submit(Tick now, const Packet& packet)
{
  now_ = std::max(now_, now);
  ++stats_.submitted;
  stats_.submitted_bytes += packet.bytes;
  if (down_ && !hold_) return drop(packet, now_, DropReason::blackout);
  if (polices(packet.bytes, now_)) return drop(packet, now_, DropReason::policed);
  if (queue_.size() >= config_.queue_packets
      || (config_.queue_bytes > 0 && queue_bytes_ + packet.bytes > config_.queue_bytes))
    return drop(packet, now_, DropReason::queue_full);
  const bool was_empty = queue_.empty();
  queue_.push({ packet, now_ });
  queue_bytes_ += packet.bytes;
  if (down_) return;
  if (!config_.trace)
  {
    if (!sending_) start(now_);
    return;
  }
  if (!was_empty) return;
  // Opportunities that passed while nothing waited are gone.
  const auto& list = config_.trace->milliseconds;
  const auto ms = static_cast<std::uint64_t>(now_.time_since_epoch() / std::chrono::milliseconds { 1 });
  const std::uint64_t rounds = ms / config_.trace->period();
  const auto rest = static_cast<std::uint32_t>(ms % config_.trace->period());
  // The first one strictly after `now`; the last entry of a round is the beginning of the next.
  const auto index = static_cast<std::uint64_t>(std::upper_bound(list.begin(), list.end(), rest) - list.begin());
  opportunity_ = std::max(opportunity_, rounds * list.size() + index);
}

void Pipe::pop()
{
  queue_bytes_ -= queue_.front().packet.bytes;
  queue_.pop();
  head_sent_ = 0;
  head_checked_ = false;
}

// Takes the packet's tokens, or says that there are not enough.
bool Pipe::polices(std::uint32_t bytes, Tick at)
{
  const Policer& policer = config_.policer;
  if (policer.rate.bits_per_second <= 0) return false;
  tokens_ = std::min(static_cast<double>(policer.burst),
                     tokens_ + policer.rate.bits_per_second / 8 * seconds(at - tokens_since_));
  tokens_since_ = at;
  if (tokens_ < bytes) return true;
  tokens_ -= bytes;
  return false;
}

// Whether the packet may go on, and whether it carries a mark. Decided when it leaves the queue, so that its waiting
// time is known.
bool Pipe::leaves_queue(const Waiting& waiting, Tick at, bool& mark)
{
  mark = false;
  if (config_.aqm.kind == Aqm::Kind::none) return true;
  if (config_.aqm.kind == Aqm::Kind::codel)
    return !codel_.drops(at - waiting.since, queue_bytes_, config_.aqm.threshold, at);
  const Duration waited = at - waiting.since;
  if (waited < config_.aqm.threshold) return true;
  if (config_.aqm.full > config_.aqm.threshold && waited < config_.aqm.full
      && !random_.chance(seconds(waited - config_.aqm.threshold) / seconds(config_.aqm.full - config_.aqm.threshold)))
    return true;
  if (!waiting.packet.ect) return false;
  mark = true;
  return true;
}

void Pipe::start(Tick at)
{
  while (!queue_.empty())
  {
    current_ = queue_.front();
    pop();
    if (!leaves_queue(current_, at, current_mark_))
    {
      drop(current_.packet, at, DropReason::aqm);
      continue;
    }
    const Duration time = config_.rate.bits_per_second > 0 ? config_.rate.time_for(current_.packet.bytes) : Duration {};
    stats_.busy += time;
    if (time == Duration {})
    {
      send(current_.packet, current_mark_, at);
      continue;
    }
    done_ = at + time;
    sending_ = true;
    return;
  }
}

void Pipe::complete(Tick at)
{
  sending_ = false;
  send(current_.packet, current_mark_, at);
  if (!down_ && !config_.trace) start(at); // a trace may have taken over meanwhile
}

void Pipe::send(const Packet& packet, bool mark, Tick at)
{
  const bool lost = loss_.lose();
  if (config_.shown && outbox_.want_frames)
  {
    FrameReport& frame = outbox_.frames.emplace_back();
    frame.duration = config_.rate.bits_per_second > 0 ? config_.rate.time_for(packet.bytes) : Duration {};
    frame.start = at - frame.duration;
    frame.transmitter = from_;
    frame.receiver = to_;
    frame.bytes = packet.bytes;
    frame.mbps = config_.rate.bits_per_second / 1e6;
    frame.failed = lost;
  }
  if (lost) return drop(packet, at, DropReason::loss);
  ++stats_.delivered;
  stats_.delivered_bytes += packet.bytes;
  stats_.marked += mark ? 1 : 0;
  Tick release = at + config_.delay;
  if (config_.jitter > Duration {})
    release += Duration { static_cast<std::int64_t>(random_.uniform() * static_cast<double>(config_.jitter.count())) };
  const bool late = config_.reordering.share > 0 && random_.chance(config_.reordering.share);
  Tick& last = late ? last_late_release_ : last_release_;
  release = std::max(late ? release + config_.reordering.later : release, last);
  last = release;
  Delivery delivery { packet.handle, from_, to_, release, mark };
  if (mark)
  {
    delivery.queued = static_cast<std::uint32_t>(queue_.size());
    delivery.queued_bytes = queue_bytes_;
  }
  if (late)
    late_flights_.push(delivery);
  else if (release <= now_ && flights_.empty())
    outbox_.deliveries.push_back(delivery);
  else
    flights_.push(delivery);
}

Tick Pipe::next_opportunity() const
{
  const auto& list = config_.trace->milliseconds;
  const std::uint64_t ms = opportunity_ / list.size() * config_.trace->period() + list[opportunity_ % list.size()];
  return Tick {} + std::chrono::milliseconds { static_cast<std::int64_t>(ms) };
}

void Pipe::use_opportunity(Tick at)
{
  ++opportunity_;
  std::uint32_t room = Opportunities::bytes;
  while (room > 0 && !queue_.empty())
  {
    const Waiting head = queue_.front();
    if (!head_checked_)
    {
      head_checked_ = true;
      if (!leaves_queue(head, at, head_mark_))
      {
        pop();
        drop(head.packet, at, DropReason::aqm);
        continue;
      }
    }
    const std::uint32_t part = std::min(room, head.packet.bytes - head_sent_);
    room -= part;
    head_sent_ += part;
    if (head_sent_ < head.packet.bytes) return;
    const bool mark = head_mark_;
    pop();
    send(head.packet, mark, at);
  }
}

Tick Pipe::next_event() const
{
  Tick next = flights_.empty() ? Tick::max() : flights_.front().at;
  if (!late_flights_.empty()) next = std::min(next, late_flights_.front().at);
  if (sending_) next = std::min(next, done_);
  if (config_.trace && !down_ && !queue_.empty()) next = std::min(next, next_opportunity());
  return next;
}

void Pipe::run_until(Tick now)
{
  for (;;)
  {
    const Tick next = next_event();
    if (next > now || next == Tick::max()) break;
    now_ = std::max(now_, next);
    if (!flights_.empty() && flights_.front().at == next)
    {
      outbox_.deliveries.push_back(flights_.front());
      flights_.pop();
    }
    else if (!late_flights_.empty() && late_flights_.front().at == next)
    {
      outbox_.deliveries.push_back(late_flights_.front());
      late_flights_.pop();
    }
    else if (sending_ && done_ == next)
      complete(next);
    else
      use_opportunity(next);
  }
  now_ = std::max(now_, now);
}

void Pipe::configure(Tick now, const PipeConfig& config)
{
  now_ = std::max(now_, now);
  const bool other_clock = config_.trace != config.trace;
  config_ = config;
  loss_.configure(config.loss);
  tokens_ = std::min(tokens_, static_cast<double>(config.policer.burst));
  if (other_clock)
  {
    // Find the place in the new trace (or leave trace mode) as if the queue had just begun to wait.
    opportunity_ = 0;
    if (config_.trace)
      while (next_opportunity() <= now_)
        ++opportunity_;
    head_sent_ = 0;
  }
  if (!config_.trace && !sending_ && !down_) start(now_);
}

void Pipe::set_down(Tick now, bool down, bool hold)
{
  now_ = std::max(now_, now);
  down_ = down;
  hold_ = hold;
  if (down && !hold)
    while (!queue_.empty())
    {
      const Packet packet = queue_.front().packet;
      pop();
      drop(packet, now_, DropReason::blackout);
    }
  if (down) return;
  if (config_.trace)
  {
    const auto& list = config_.trace->milliseconds;
    const std::uint64_t rounds =
        static_cast<std::uint64_t>(now_.time_since_epoch() / std::chrono::milliseconds { 1 }) / config_.trace->period();
    opportunity_ = std::max(opportunity_, rounds * list.size());
    while (next_opportunity() <= now_)
      ++opportunity_;
  }
  else if (!sending_)
    start(now_);
}

} // namespace tandem::medium
