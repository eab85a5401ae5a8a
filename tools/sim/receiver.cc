#include "tools/sim/receiver.h"

#include <algorithm>

namespace tandem::sim
{

namespace
{

using namespace std::chrono_literals;

constexpr std::uint32_t ack_bytes = 52; // IPv4, TCP, timestamps
constexpr std::uint32_t syn_bytes = 60;

} // namespace

bool Arrived::add(std::uint64_t seq)
{
  if (seq < next_) return false;
  auto after = beyond_.upper_bound(seq);
  if (seq == next_)
  {
    ++next_;
    if (after != beyond_.end() && after->first == next_)
    {
      next_ = after->second;
      beyond_.erase(after);
    }
    return true;
  }
  if (after != beyond_.begin())
  {
    auto before = std::prev(after);
    if (seq < before->second) return false;
    if (seq == before->second)
    {
      before->second = seq + 1;
      if (after != beyond_.end() && after->first == seq + 1)
      {
        before->second = after->second;
        beyond_.erase(after);
      }
      return true;
    }
  }
  std::uint64_t end = seq + 1;
  if (after != beyond_.end() && after->first == end)
  {
    end = after->second;
    beyond_.erase(after);
  }
  beyond_.emplace(seq, end);
  return true;
}

Block Arrived::block(std::uint64_t seq) const
{
  const auto after = beyond_.upper_bound(seq);
  if (after == beyond_.begin()) return {};
  const auto found = std::prev(after);
  return seq < found->second ? Block { found->first, found->second } : Block {};
}

Receiver::Receiver(World& world, const ReceiverConfig& config, Sink& sink, const Route& route)
    : world_(world), config_(config), sink_(sink), route_(route), quick_(config.quick),
      delayed_(world.loop, [this] { acknowledge(); }), syn_(world.loop, [this] { connect(); })
{
}

void Receiver::connect()
{
  send(Kind::syn);
  syn_.set(world_.now() + 1s);
}

void Receiver::accept(Handle handle)
{
  const Packet packet = world_.pool[handle];
  world_.pool.free(handle);
  if (packet.kind == Kind::syn_ack)
  {
    if (connected_) return;
    connected_ = true;
    syn_.stop();
    ts_recent_ = packet.ts_value;
    acknowledge();
    return;
  }
  if (packet.kind != Kind::data) return;
  ++stats_.segments;
  if (timed_ != 0 && static_cast<std::int32_t>(packet.ts_echo - timed_) >= 0)
  {
    const Duration sample = world_.now() - timed_at_;
    rtt_ = rtt_ == Duration {} ? sample : (7 * rtt_ + sample) / 8;
    rtt_min_ = rtt_min_ == Duration {} ? sample : std::min(rtt_min_, sample);
    timed_ = 0;
  }
  // RFC 7323 4.3: the timestamp of the segment that the next acknowledgement will be about first.
  if (packet.seq <= last_ack_ && static_cast<std::int32_t>(packet.ts_value - ts_recent_) >= 0)
    ts_recent_ = packet.ts_value;
  const bool echoed = ece_;
  if (packet.cwr) ece_ = false;
  if (packet.ce)
  {
    ++stats_.marked;
    ece_ = true;
  }
  const bool had_holes = arrived_.holes();
  const bool in_order = packet.seq == arrived_.next();
  if (!arrived_.add(packet.seq))
  {
    ++stats_.duplicates;
    acknowledge();
    return;
  }
  stats_.bytes += packet.length;
  sink_.received(packet.dsn, packet.length);
  if (!in_order)
  {
    const Block block = arrived_.block(packet.seq);
    // Newest first, each block once.
    unsigned kept = 1;
    std::array<std::uint64_t, 4> recent { packet.seq };
    for (unsigned i = 0; i < recent_count_ && kept < recent.size(); ++i)
      if (recent_[i] >= arrived_.next() && (recent_[i] < block.from || recent_[i] >= block.to))
        recent[kept++] = recent_[i];
    recent_ = recent;
    recent_count_ = kept;
  }
  ++pending_;
  if (quick_ > 0)
  {
    --quick_;
    acknowledge();
  }
  else if (!in_order || had_holes || pending_ >= config_.delayed || ece_ != echoed)
    acknowledge();
  else if (!delayed_.armed())
    delayed_.set(world_.now() + config_.delay);
}

void Receiver::acknowledge()
{
  delayed_.stop();
  pending_ = 0;
  send(Kind::ack);
}

void Receiver::send(Kind kind)
{
  const Handle handle = world_.pool.make();
  Packet& packet = world_.pool[handle];
  packet.route = &route_;
  packet.kind = kind;
  packet.interface = interface;
  packet.bytes = kind == Kind::syn ? syn_bytes : ack_bytes + config_.option_bytes;
  packet.ts_value = world_.clock();
  packet.ts_echo = ts_recent_;
  packet.window = sink_.room();
  if (kind == Kind::ack)
  {
    ++stats_.acks;
    packet.ack = last_ack_ = arrived_.next();
    packet.data_ack = sink_.data_ack();
    packet.ece = ece_;
    if (config_.sack && arrived_.holes())
      for (unsigned i = 0; i < recent_count_ && packet.sacks < packet.sack.size(); ++i)
      {
        const Block block = arrived_.block(recent_[i]);
        if (block.to == 0) continue;
        bool again = false;
        for (unsigned k = 0; k < packet.sacks; ++k)
          again |= packet.sack[k].from == block.from;
        if (!again) packet.sack[packet.sacks++] = block;
      }
    if (packet.sacks > 0) packet.bytes += 4 + 8u * packet.sacks;
    if (timed_ == 0)
    {
      timed_ = packet.ts_value;
      timed_at_ = world_.now();
    }
  }
  world_.forward(handle);
}

} // namespace tandem::sim
