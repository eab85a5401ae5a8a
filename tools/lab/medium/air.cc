#include "tools/lab/medium/air.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace tandem::medium
{

namespace
{

constexpr std::uint32_t never = std::numeric_limits<std::uint32_t>::max();
constexpr std::uint16_t sequence_mask = 0x0fff;
constexpr std::size_t block_ack_window = 64;
constexpr std::uint32_t delimiter_bytes = 4;
constexpr Duration longest_memory = std::chrono::milliseconds { 20 }; // longer than any exchange

std::uint32_t subframe_bytes(std::uint32_t mpdu)
{
  return delimiter_bytes + ((mpdu + 3) & ~3u);
}

} // namespace

Air::Air(const AirConfig& config, std::uint64_t seed, Outbox& outbox)
    : config_(config), seed_(seed), outbox_(outbox), driver_random_(seed, 0xd1), observer_random_(seed, 0x0b)
{
}

std::uint8_t Air::channel_index(unsigned number, unsigned group)
{
  const auto made = static_cast<std::uint8_t>(channels_.size());
  std::vector<std::uint8_t> apart;
  for (std::uint8_t i = 0; i < made; ++i)
  {
    if (channels_[i].number != number) continue;
    if (channels_[i].group == group) return i;
    apart.push_back(i);
  }
  for (const std::uint8_t other : apart)
    channels_[other].apart.push_back(made);
  Channel& channel = channels_.emplace_back();
  channel.number = number;
  channel.group = group;
  channel.apart = std::move(apart);
  channel.contention = now_ + config_.phy.difs();
  return made;
}

void Air::join(Channel& channel, NodeId id)
{
  channel.nodes.push_back(id);
  channel.sending.reserve(channel.nodes.size()); // all of them may collide; nothing is allocated later
}

NodeId Air::add_access_point(Tick now, unsigned channel, double signal_dbm, unsigned group)
{
  now_ = std::max(now_, now);
  const auto id = static_cast<NodeId>(nodes_.size());
  Node& node = nodes_.emplace_back();
  node.is_ap = true;
  node.channel = channel_index(channel, group);
  node.dbm = signal_dbm;
  node.cw = config_.phy.cw_min;
  node.random = Random(seed_, 0x1000 + id);
  join(channels_[node.channel], id);
  // Beacons of different access points do not fall together: their clocks have nothing to do with each other.
  if (config_.beacon_interval > Duration {})
    add_timer(now_
                  + Duration { static_cast<std::int64_t>(node.random.uniform()
                                                         * static_cast<double>(config_.beacon_interval.count())) },
              TimerKind::beacon, id);
  return id;
}

NodeId Air::add_station(NodeId ap)
{
  const auto id = static_cast<NodeId>(nodes_.size());
  Node& node = nodes_.emplace_back();
  node.ap = ap;
  node.channel = nodes_[ap].channel;
  node.cw = config_.phy.cw_min;
  node.random = Random(seed_, 0x1000 + id);
  join(channels_[node.channel], id);
  make_lane(id, ap, id, false);
  make_lane(ap, id, id, true);
  if (config_.power_save) doze_later(id);
  return id;
}

Air::Lane& Air::make_lane(NodeId from, NodeId to, NodeId station, bool down)
{
  const std::uint64_t stream = streams_++;
  Lane lane(RateControl(config_.phy, config_.rate, Random(seed_, 0x20000 + stream)),
            LossModel(Random(seed_, 0x30000 + stream)));
  lane.to = to;
  lane.station = station;
  lane.down = down;
  lane.loss.configure(down ? config_.loss_down : config_.loss_up);
  lane.exponents.assign(config_.phy.rates.size(), -1);
  nodes_[from].lanes.push_back(std::move(lane));
  return nodes_[from].lanes.back();
}

Air::Lane* Air::lane_to(NodeId from, NodeId to)
{
  for (auto& lane : nodes_[from].lanes)
    if (lane.to == to) return &lane;
  return nullptr;
}

void Air::add_background(Tick now, NodeId station, Traffic direction, std::uint32_t packet_bytes,
                         std::optional<Rate> rate)
{
  now_ = std::max(now_, now);
  nodes_[station].real = false;
  const NodeId from = direction == Traffic::up ? station : nodes_[station].ap;
  Lane& lane = *lane_to(from, direction == Traffic::up ? nodes_[station].ap : station);
  lane.background_bytes = packet_bytes;
  if (!rate)
  {
    lane.saturated = true;
    enlist(from);
    return;
  }
  lane.mean_gap = rate->time_for(packet_bytes);
  const auto index = static_cast<std::uint32_t>(&lane - nodes_[from].lanes.data());
  add_timer(now_, TimerKind::arrival, from, index);
}

void Air::set_hidden(Tick now, NodeId station, const HiddenSettings& settings)
{
  now_ = std::max(now_, now);
  auto& hidden = nodes_[station].hidden;
  if (hidden.empty()) hidden.emplace_back(Random(seed_, 0x40000 + station));
  hidden.front().configure(now_, settings);
}

bool Air::jammed(NodeId receiver, Tick from, Tick to)
{
  if (receiver == nobody || nodes_[receiver].hidden.empty()) return false;
  return nodes_[receiver].hidden.front().overlaps(from, to);
}

// Out of each other's range are only access points of different groups.
bool Air::senses(NodeId listener, NodeId transmitter) const
{
  return !nodes_[listener].is_ap || !nodes_[transmitter].is_ap;
}

void Air::note_on_air(Channel& channel, const OnAir& one)
{
  if (channel.apart.empty()) return;
  while (!channel.recent.empty() && channel.recent.front().end + longest_memory < one.begin)
    channel.recent.pop_front();
  channel.recent.push_back(one);
}

// The power at this receiver of what other groups send in [from, to), the strongest at each moment taken for all of it,
// in mW. Without limit when its own card sends meanwhile.
double Air::interference(const Channel& channel, NodeId receiver, Tick from, Tick to) const
{
  double sum = 0;
  for (const std::uint8_t index : channel.apart)
  {
    double most = 0;
    for (const OnAir& one : channels_[index].recent)
    {
      if (one.begin >= to || one.end <= from || !senses(receiver, one.node)) continue;
      if (nodes_[receiver].is_ap == nodes_[one.node].is_ap) return std::numeric_limits<double>::infinity();
      most = std::max(most, std::pow(10, (snr_between(receiver, one.node) + config_.noise_dbm) / 10));
    }
    sum += most;
  }
  return sum;
}

// Of the lane's frames at their receiver over noise and this interference in mW; in dB, as of the last
// update_quality().
double Air::sinr(const Lane& lane, double other) const
{
  return lane.snr_db - 10 * std::log10(1 + other / std::pow(10, config_.noise_dbm / 10));
}

// Who hears an interferer's burst or another group puts its access off behind it and DIFS.
bool Air::wait_for_silence(Channel& channel, NodeId id)
{
  Node& node = nodes_[id];
  std::optional<Tick> end;
  if (!node.hidden.empty()) end = node.hidden.front().busy_until(channel.next);
  for (const std::uint8_t index : channel.apart)
    for (const OnAir& one : channels_[index].recent)
      if (one.begin < channel.next && one.end > channel.next && senses(id, one.node))
        end = std::max(end.value_or(one.end), one.end);
  if (!end) return false;
  const Duration wait = *end - channel.next + config_.phy.difs();
  node.backoff = static_cast<std::uint32_t>((wait + config_.phy.slot - Duration { 1 }) / config_.phy.slot)
                 + node.random.up_to(node.cw);
  return true;
}

void Air::add_timer(Tick at, TimerKind kind, NodeId node, std::uint32_t lane)
{
  timers_.push_back({ at, timer_order_++, kind, node, lane });
  std::push_heap(timers_.begin(), timers_.end(),
                 [](const Timer& a, const Timer& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; });
}

Tick Air::next_event() const
{
  Tick next = Tick::max();
  for (const auto& channel : channels_)
    next = std::min(next, channel.next);
  if (!timers_.empty()) next = std::min(next, timers_.front().at);
  if (!flights_.empty()) next = std::min(next, flights_.front().at);
  return next;
}

void Air::run_until(Tick now)
{
  for (;;)
  {
    // The order at equal times is fixed: arrivals at the driver, timers, then channels by number of appearance.
    Tick next = flights_.empty() ? Tick::max() : flights_.front().at;
    int source = -1;
    if (!timers_.empty() && timers_.front().at < next)
    {
      next = timers_.front().at;
      source = -2;
    }
    for (std::size_t i = 0; i < channels_.size(); ++i)
      if (channels_[i].next < next)
      {
        next = channels_[i].next;
        source = static_cast<int>(i);
      }
    if (next > now || next == Tick::max()) break;
    now_ = std::max(now_, next);
    if (source == -1)
    {
      outbox_.deliveries.push_back(flights_.front());
      flights_.pop();
    }
    else if (source == -2)
    {
      const Timer timer = timers_.front();
      std::pop_heap(timers_.begin(), timers_.end(),
                    [](const Timer& a, const Timer& b) { return a.at != b.at ? a.at > b.at : a.order > b.order; });
      timers_.pop_back();
      fire(timer);
    }
    else if (Channel& channel = channels_[static_cast<std::size_t>(source)]; channel.senders > 0)
      finish(channel);
    else
      access(channel);
  }
  now_ = std::max(now_, now);
}

void Air::fire(const Timer& timer)
{
  Node& node = nodes_[timer.node];
  switch (timer.kind)
  {
  case TimerKind::beacon:
  {
    Channel& channel = channels_[node.channel];
    if (!node.beacon_due)
    {
      node.beacon_due = true;
      node.beacon_slot = 0;
      if (channel.contention <= now_)
        node.beacon_slot = static_cast<std::uint32_t>((now_ - channel.contention + config_.phy.slot - Duration { 1 })
                                                      / config_.phy.slot);
      refresh(channel);
    }
    add_timer(timer.at + config_.beacon_interval, TimerKind::beacon, timer.node);
    return;
  }
  case TimerKind::arrival:
  {
    Lane& lane = node.lanes[timer.lane];
    Packet packet;
    packet.bytes = lane.background_bytes;
    if (lane.open) enqueue(timer.node, lane, packet);
    const auto gap =
        Duration { static_cast<std::int64_t>(node.random.exponential(static_cast<double>(lane.mean_gap.count()))) };
    add_timer(timer.at + gap, TimerKind::arrival, timer.node, timer.lane);
    return;
  }
  case TimerKind::associate:
  {
    // A later handoff overtook this one: it has its own timer.
    if (!node.associating || timer.lane != node.associations) return;
    node.associating = false;
    enlist(timer.node);
    enlist(node.ap);
    return;
  }
  case TimerKind::doze:
  {
    if (!config_.power_save || node.dozing) return;
    const Tick due = node.last_activity + config_.power_save_timeout;
    if (due > now_ || !node.lanes[0].queue.empty())
      add_timer(std::max(due, now_ + config_.power_save_timeout / 4), TimerKind::doze, timer.node);
    else
      node.dozing = true;
    return;
  }
  }
}

void Air::doze_later(NodeId station)
{
  nodes_[station].last_activity = now_;
  add_timer(now_ + config_.power_save_timeout, TimerKind::doze, station);
}

// --- queues ---

bool Air::blocked(const Lane& lane) const
{
  const Node& station = nodes_[lane.station];
  return !lane.open || station.associating || station.blackout == Blackout::buffer || (lane.down && station.dozing);
}

bool Air::eligible(const Lane& lane) const
{
  return (lane.saturated || !lane.queue.empty()) && !blocked(lane);
}

bool Air::has_work(const Node& node) const
{
  return std::any_of(node.lanes.begin(), node.lanes.end(), [this](const Lane& lane) { return eligible(lane); });
}

void Air::enlist(NodeId id)
{
  Node& node = nodes_[id];
  if (node.contending || !has_work(node)) return;
  node.contending = true;
  Channel& channel = channels_[node.channel];
  if (now_ < channel.contention)
  {
    // The medium is busy: an access that finds it so draws a backoff, unless the one of the last frame still runs
    // (10.3.4.3).
    if (node.backoff == 0) node.backoff = node.random.up_to(node.cw);
  }
  else
  {
    const auto elapsed =
        static_cast<std::uint32_t>((now_ - channel.contention + config_.phy.slot - Duration { 1 }) / config_.phy.slot);
    node.backoff = std::max(node.backoff, elapsed);
  }
  if (channel.senders == 0)
    channel.next =
        std::min(channel.next, channel.contention + static_cast<std::int64_t>(node.backoff) * config_.phy.slot);
}

void Air::refresh(Channel& channel)
{
  if (channel.senders > 0) return;
  std::uint32_t first = never;
  for (NodeId id : channel.nodes)
  {
    const Node& node = nodes_[id];
    if (node.contending) first = std::min(first, node.backoff);
    if (node.beacon_due) first = std::min(first, node.beacon_slot);
  }
  channel.next =
      first == never ? Tick::max() : channel.contention + static_cast<std::int64_t>(first) * config_.phy.slot;
}

void Air::submit(Tick now, const Packet& packet, NodeId from, NodeId to)
{
  now_ = std::max(now_, now);
  Node& sender = nodes_[from];
  ++sender.stats.submitted;
  Lane* lane = nullptr;
  if (!sender.is_ap)
    lane = &sender.lanes[0];
  else
    for (auto& candidate : sender.lanes)
      if (candidate.open && (to == nobody ? nodes_[candidate.station].real : candidate.to == to))
      {
        lane = &candidate;
        break;
      }
  if (lane == nullptr || !lane->open) return drop(packet.handle, from, DropReason::not_associated);
  const Blackout blackout = nodes_[lane->station].blackout;
  if (blackout == Blackout::drop) return drop(packet.handle, from, DropReason::blackout);
  if (packet.airless && !blocked(*lane))
  {
    if (blackout == Blackout::fade) return drop(packet.handle, from, DropReason::blackout);
    if (lane->loss.lose()) return drop(packet.handle, from, DropReason::loss);
    ++sender.stats.delivered;
    sender.stats.delivered_bytes += packet.bytes;
    return deliver(packet.handle, from, lane->to, now_ + config_.airless_delay);
  }
  enqueue(from, *lane, packet);
}

void Air::enqueue(NodeId from, Lane& lane, const Packet& packet)
{
  Node& node = nodes_[from];
  if (lane.packets() >= (node.is_ap ? config_.ap_queue : config_.station_queue))
    return drop(packet.handle, from, DropReason::queue_full);
  if (node.is_ap && config_.codel > Duration {})
  {
    lane.held.push({ packet, now_ });
    lane.held_bytes += packet.bytes;
    pull(from, lane);
  }
  else
    push(node, lane, packet);
  if (!node.is_ap) node.last_activity = now_;
  enlist(from);
}

// Fills what the driver has from what CoDel looks after: two aggregates, or four frames.
void Air::pull(NodeId from, Lane& lane)
{
  const std::size_t most = config_.aggregation.frames > 1 ? 2 * config_.aggregation.frames : 4;
  while (!lane.held.empty() && lane.queue.size() < most)
  {
    const Held held = lane.held.front();
    lane.held.pop();
    lane.held_bytes -= held.packet.bytes;
    if (config_.codel > Duration {} && lane.codel.drops(now_ - held.since, lane.held_bytes, config_.codel, now_))
      drop(held.packet.handle, from, DropReason::aqm);
    else
      push(nodes_[from], lane, held.packet);
  }
}

void Air::push(const Node& node, Lane& lane, const Packet& packet)
{
  Queued entry;
  entry.handle = packet.handle;
  entry.bytes = packet.bytes;
  entry.group = packet.group && node.is_ap; // towards the access point every frame is unicast
  lane.queue.push(entry);
}

void Air::flush(NodeId from, Lane& lane, DropReason why)
{
  for (std::size_t i = 0; i < lane.queue.size(); ++i)
    if (const Queued& entry = lane.queue[i]; !entry.null_frame && !entry.settled) drop(entry.handle, from, why);
  for (; !lane.held.empty(); lane.held.pop())
    drop(lane.held.front().packet.handle, from, why);
  lane.held_bytes = 0;
  lane.queue.clear();
  lane.released = 0;
  ++lane.generation;
}

void Air::drop(Handle handle, NodeId from, DropReason why)
{
  ++nodes_[from].stats.drops[static_cast<std::size_t>(why)];
  if (handle == virtual_packet) return;
  std::uint32_t queued = 0;
  for (const auto& lane : nodes_[from].lanes)
    queued += static_cast<std::uint32_t>(lane.packets());
  outbox_.drops.push_back({ handle, from, now_, why, queued });
}

void Air::deliver(Handle handle, NodeId from, NodeId to, Tick at)
{
  if (handle == virtual_packet) return;
  Node& node = nodes_[from];
  if (config_.delay > Duration {} || config_.jitter > Duration {})
    at += config_.delay
          + Duration { static_cast<std::int64_t>(driver_random_.uniform()
                                                 * static_cast<double>(config_.jitter.count())) };
  at = std::max(at, node.last_release);
  node.last_release = at;
  if (at <= now_)
  {
    outbox_.deliveries.push_back({ .handle = handle, .from = from, .to = to, .at = at });
    return;
  }
  flights_.push({ .handle = handle, .from = from, .to = to, .at = at });
  for (std::size_t i = flights_.size() - 1; i > 0 && flights_[i].at < flights_[i - 1].at; --i)
    std::swap(flights_[i], flights_[i - 1]);
}

// --- channel access ---

void Air::access(Channel& channel)
{
  const auto slot = static_cast<std::uint32_t>((channel.next - channel.contention) / config_.phy.slot);
  channel.sent_at = channel.next;
  Duration longest {};
  for (NodeId id : channel.nodes)
  {
    Node& node = nodes_[id];
    const bool beacon = node.beacon_due && node.beacon_slot == slot;
    const bool data = !beacon && node.contending && node.backoff == slot;
    node.backoff -= std::min(node.backoff, slot);
    node.beacon_slot -= std::min(node.beacon_slot, slot);
    if (!beacon && !data) continue;
    if (channel.senders == channel.sending.size()) channel.sending.emplace_back();
    Sending& sending = channel.sending[channel.senders];
    sending.node = id;
    if (beacon)
    {
      node.beacon_due = false;
      sending.type = FrameType::beacon;
      sending.group = true;
      sending.count = 1;
      sending.duration = config_.phy.airtime(config_.phy.basic.front(), mac_bytes::beacon);
      sending.sequence = node.next_sequence;
      node.next_sequence = (node.next_sequence + 1) & sequence_mask;
    }
    else if (wait_for_silence(channel, id))
      continue;
    else if (!prepare(id, sending))
    {
      node.contending = false;
      continue;
    }
    longest = std::max(longest, sending.duration);
    note_on_air(channel, { channel.sent_at, channel.sent_at + sending.duration, id });
    ++channel.senders;
  }
  if (channel.senders == 0)
  {
    channel.contention = channel.next;
    refresh(channel);
    return;
  }
  channel.contention = Tick::max();
  channel.next = channel.sent_at + longest;
}

bool Air::prepare(NodeId id, Sending& out)
{
  Node& node = nodes_[id];
  const std::size_t lanes = node.lanes.size();
  if (!node.sticky || !eligible(node.lanes[node.lane]))
  {
    std::size_t tried = 0;
    std::size_t lane = node.lane;
    do
      lane = lane + 1 == lanes ? 0 : lane + 1;
    while (!eligible(node.lanes[lane]) && ++tried < lanes);
    if (tried == lanes) return false;
    node.lane = lane;
  }
  out.lane = node.lane;
  fill(node, node.lanes[node.lane], out);
  return true;
}

void Air::fill(Node& node, Lane& lane, Sending& out)
{
  const Phy& phy = config_.phy;
  if (lane.saturated)
    while (lane.queue.size() < config_.aggregation.frames)
    {
      Queued entry;
      entry.bytes = lane.background_bytes;
      lane.queue.push(entry);
    }
  Queued& front = lane.queue.front();
  out.type = front.null_frame ? FrameType::null : FrameType::data;
  out.group = front.group;
  out.generation = lane.generation;
  out.count = 1;
  out.entries[0] = 0;
  const auto number = [&](Queued& entry)
  {
    if (entry.numbered) return;
    const bool qos = phy.standard == Standard::n && !entry.group && !entry.null_frame;
    std::uint16_t& next = qos ? lane.next_sequence : node.next_sequence;
    entry.numbered = true;
    entry.sequence = next;
    next = (next + 1) & sequence_mask;
  };
  number(front);
  if (front.group)
  {
    out.duration = phy.airtime(phy.basic.front(), phy.mpdu(front.bytes));
    return;
  }
  // There is nearly always a repeated frame in front of an aggregate: each one chooses anew, and samples faster rates
  // whatever is in front, or a rate control would hardly ever try another rate.
  const bool aggregates = config_.aggregation.frames > 1;
  if (front.attempts == 0 || aggregates) lane.rates.begin_packet(now_);
  out.rate = lane.rates.rate(aggregates && lane.rates.samples_faster() ? 0 : front.attempts);
  const PhyRate& rate = phy.rates[out.rate];
  if (config_.aggregation.frames > 1 && !front.null_frame)
  {
    std::uint32_t total = subframe_bytes(phy.mpdu(front.bytes));
    const std::size_t window = std::min(lane.queue.size(), block_ack_window);
    for (std::size_t i = 1; i < window && out.count < config_.aggregation.frames; ++i)
    {
      Queued& entry = lane.queue[i];
      if (entry.group || entry.null_frame) break;
      if (entry.acked) continue;
      const std::uint32_t with = total + subframe_bytes(phy.mpdu(entry.bytes));
      if (with > config_.aggregation.bytes || phy.airtime(rate, with) > config_.aggregation.time) break;
      number(entry);
      total = with;
      out.entries[out.count++] = static_cast<std::uint8_t>(i);
    }
    if (out.count > 1)
    {
      out.duration = phy.airtime(rate, total);
      return;
    }
  }
  out.duration = phy.airtime(rate, front.null_frame ? mac_bytes::null : phy.mpdu(front.bytes));
}

Duration Air::response_time(const Sending& sending) const
{
  const Phy& phy = config_.phy;
  return phy.airtime(phy.response_rate(phy.rates[sending.rate]),
                     sending.count > 1 ? mac_bytes::block_ack : mac_bytes::ack);
}

void Air::finish(Channel& channel)
{
  const Phy& phy = config_.phy;
  const bool collided = channel.senders > 1;
  Tick resume = now_ + phy.difs();
  for (std::size_t i = 0; i < channel.senders; ++i)
  {
    const Sending& sending = channel.sending[i];
    Node& node = nodes_[sending.node];
    ++node.stats.exchanges;
    node.stats.collisions += collided ? 1 : 0;
    if (sending.group)
    {
      settle_group(channel, sending, collided);
      node.stats.air += sending.duration;
      continue;
    }
    const Duration response = phy.sifs + response_time(sending);
    settle_unicast(channel, sending, collided);
    node.stats.air += sending.duration + response;
    resume = now_ + response + phy.difs();
  }
  if (collided) resume = now_ + phy.eifs();
  channel.senders = 0;
  channel.busy += resume - phy.difs() - channel.sent_at;
  channel.contention = resume;
  refresh(channel);
}

void Air::settle_unicast(Channel& channel, const Sending& sending, bool collided)
{
  const Phy& phy = config_.phy;
  const NodeId id = sending.node;
  Node& node = nodes_[id];
  Lane& lane = node.lanes[sending.lane];
  const PhyRate& rate = phy.rates[sending.rate];
  node.stats.attempts += sending.count;
  // The queue was emptied, or the station left, while the frame was on the air: nothing is left to settle.
  if (lane.generation != sending.generation || &channels_[node.channel] != &channel)
  {
    node.sticky = false;
    node.contending = false;
    enlist(id);
    return;
  }

  update_quality(id, lane);
  const bool deaf = collided || nodes_[lane.station].blackout != Blackout::none;
  const std::uint32_t aggregate = sending.count > 1 ? ++aggregates_ : 0;
  unsigned received = 0;
  std::uint64_t received_now = 0;
  // The preamble is what the receiver locks on to; behind it each MPDU takes its part of the time.
  const Duration preamble = phy.airtime(rate, 0);
  const double over_preamble = interference(channel, lane.to, channel.sent_at, channel.sent_at + preamble);
  const bool jammed_first = jammed(lane.to, channel.sent_at, channel.sent_at + preamble)
                            || (over_preamble > 0 && sinr(lane, over_preamble) < detection_snr_db);
  for (unsigned i = 0; i < sending.count; ++i)
  {
    Queued& entry = lane.queue[sending.entries[i]];
    const std::uint32_t mpdu = entry.null_frame ? mac_bytes::null : phy.mpdu(entry.bytes);
    const bool retry = entry.attempts > 0;
    if (entry.attempts < 255) ++entry.attempts;
    bool ok = false;
    const Duration body = sending.duration - preamble;
    const Tick begin = channel.sent_at + preamble + body * i / sending.count;
    const Tick end = channel.sent_at + preamble + body * (i + 1) / sending.count;
    bool met = jammed_first || jammed(lane.to, begin, end);
    if (const double other = interference(channel, lane.to, begin, end); !met && other > 0)
      met = std::isinf(other) || node.random.chance(-std::expm1(-8.0 * mpdu * error_exponent(rate, sinr(lane, other))));
    if (!deaf && !met)
    {
      ok = !node.random.chance(frame_error(lane, sending.rate, mpdu));
      node.stats.errors += ok ? 0 : 1;
    }
    if (ok)
    {
      ++received;
      received_now |= 1ull << i;
      if (!entry.received)
      {
        entry.received = true;
        entry.lost = !entry.null_frame && entry.handle != virtual_packet && lane.loss.lose();
      }
    }
    if (FrameReport* frame = report(channel, id, lane.to, rate, mpdu, collided, channel.sent_at, sending.duration))
    {
      frame->type = sending.type;
      frame->retry = retry;
      frame->sequence = entry.sequence;
      frame->failed = !ok;
      frame->collision |= met;
      if (nodes_[lane.to].observes && !collided) frame->bad_fcs = !ok || entry.lost;
      frame->aggregated = sending.count > 1;
      frame->last_of_aggregate = frame->aggregated && i + 1 == sending.count;
      frame->aggregate = aggregate;
    }
  }

  const PhyRate& response = phy.response_rate(rate);
  const std::uint32_t response_bytes = sending.count > 1 ? mac_bytes::block_ack : mac_bytes::ack;
  bool confirmed = false;
  if (received > 0)
  {
    const Tick answered = now_ + phy.sifs;
    const Duration answer = phy.airtime(response, response_bytes);
    note_on_air(channel, { answered, answered + answer, lane.to });
    confirmed =
        !node.random.chance(response_error(lane, response, response_bytes)) && !jammed(id, answered, answered + answer);
    if (FrameReport* frame = report(channel, lane.to, id, response, response_bytes, false, answered, answer))
    {
      frame->type = sending.count > 1 ? FrameType::block_ack : FrameType::ack;
      frame->failed = !confirmed;
      if (nodes_[id].observes) frame->bad_fcs = !confirmed;
    }
  }
  lane.rates.report(sending.rate, sending.count, confirmed ? received : 0);

  bool front_given_up = false;
  for (unsigned i = 0; i < sending.count; ++i)
  {
    Queued& entry = lane.queue[sending.entries[i]];
    if (confirmed && (received_now >> i & 1))
    {
      entry.acked = true;
      if (entry.lost && !entry.settled)
      {
        entry.settled = true;
        drop(entry.handle, id, DropReason::loss);
      }
    }
    else if (entry.attempts >= config_.retry_limit)
    {
      front_given_up |= i == 0;
      if (!entry.settled && !entry.null_frame && (!entry.received || entry.lost))
      {
        entry.settled = true;
        drop(entry.handle, id, entry.received ? DropReason::loss : DropReason::retry_limit);
      }
      entry.lost |= !entry.received;
      // The sender moves the receiver's window on (block ack request), so what waited behind it is handed up.
      entry.acked = entry.received = true;
    }
  }

  const bool from_station = !node.is_ap;
  if (confirmed || front_given_up)
  {
    node.cw = phy.cw_min;
    node.sticky = false;
  }
  else
  {
    node.cw = std::min(2 * node.cw + 1, phy.cw_max);
    node.sticky = true;
  }
  if (from_station && sending.type == FrameType::null) node.waking = false;
  if (from_station && confirmed && node.dozing)
  {
    node.dozing = false;
    doze_later(id);
    enlist(node.ap);
  }
  if (received > 0) nodes_[lane.station].last_activity = now_;

  // Handing up keeps the order: a subframe waits in the receiver's reorder buffer for the ones before it.
  release(id, lane);
  while (!lane.queue.empty() && lane.queue.front().acked)
  {
    lane.queue.pop();
    --lane.released;
  }
  pull(id, lane);
  node.backoff = node.random.up_to(node.cw);
  node.contending = has_work(node);
}

void Air::release(NodeId sender, Lane& lane)
{
  Node& node = nodes_[sender];
  while (lane.released < lane.queue.size() && lane.queue[lane.released].received)
  {
    Queued& entry = lane.queue[lane.released++];
    if (entry.lost || entry.null_frame) continue;
    entry.settled = true;
    ++node.stats.delivered;
    node.stats.delivered_bytes += entry.bytes;
    deliver(entry.handle, sender, lane.to, now_);
  }
}

void Air::settle_group(Channel& channel, const Sending& sending, bool collided)
{
  const Phy& phy = config_.phy;
  const NodeId id = sending.node;
  Node& node = nodes_[id];
  const PhyRate& rate = phy.basic.front();
  const bool beacon = sending.type == FrameType::beacon;
  if (!beacon && node.lanes[sending.lane].generation != sending.generation)
  {
    node.contending = false;
    enlist(id);
    return;
  }
  const std::uint32_t bytes = beacon ? mac_bytes::beacon : phy.mpdu(node.lanes[sending.lane].queue.front().bytes);
  if (FrameReport* frame = report(channel, id, nobody, rate, bytes, collided, channel.sent_at, sending.duration))
  {
    frame->type = sending.type;
    frame->sequence = beacon ? sending.sequence : node.lanes[sending.lane].queue.front().sequence;
    frame->failed = collided;
  }
  if (beacon)
  {
    if (config_.power_save && !collided)
      for (const Lane& lane : node.lanes)
        // The traffic indication map: a dozing station with frames waiting asks for them.
        if (lane.down && lane.open && !lane.queue.empty() && nodes_[lane.station].dozing) wake_station(lane.station);
    return;
  }
  Lane& lane = node.lanes[sending.lane];
  update_quality(id, lane);
  const Queued entry = lane.queue.front();
  lane.queue.pop();
  lane.released -= std::min<std::size_t>(lane.released, 1);
  pull(id, lane);
  const Tick end = channel.sent_at + sending.duration;
  const double other = interference(channel, lane.station, channel.sent_at, end);
  const bool deaf = collided || nodes_[lane.station].blackout != Blackout::none
                    || jammed(lane.station, channel.sent_at, end)
                    || (other > 0 && sinr(lane, other) < detection_snr_db);
  if (deaf || node.random.chance(response_error(lane, rate, bytes)) || lane.loss.lose())
    drop(entry.handle, id, DropReason::loss);
  else
  {
    ++node.stats.delivered;
    node.stats.delivered_bytes += entry.bytes;
    deliver(entry.handle, id, lane.to, now_);
  }
  node.sticky = false;
  node.cw = phy.cw_min;
  node.backoff = node.random.up_to(node.cw);
  node.contending = has_work(node);
}

void Air::wake_station(NodeId station)
{
  Node& node = nodes_[station];
  if (node.waking || node.blackout != Blackout::none || node.associating) return;
  node.waking = true;
  Queued entry;
  entry.null_frame = true;
  node.lanes[0].queue.push(entry);
  enlist(station);
}

// --- quality of the air ---

double Air::signal(NodeId station, NodeId ap, Tick now) const
{
  for (const Curve& curve : nodes_[station].signals)
  {
    if (curve.ap != ap) continue;
    const auto& points = curve.points;
    if (points.empty()) return curve.dbm;
    const auto after =
        std::upper_bound(points.begin(), points.end(), now, [](Tick t, const auto& p) { return t < p.first; });
    if (after == points.begin()) return points.front().second;
    if (after == points.end()) return points.back().second;
    const auto& before = *(after - 1);
    const double part = seconds(now - before.first) / seconds(after->first - before.first);
    return before.second + part * (after->second - before.second);
  }
  return nodes_[ap].dbm;
}

double Air::snr_between(NodeId a, NodeId b) const
{
  if (nodes_[a].is_ap == nodes_[b].is_ap)
    return nodes_[a].dbm - config_.noise_dbm; // two stations, or two access points: only a monitor asks
  return (nodes_[a].is_ap ? signal(b, a, now_) : signal(a, b, now_)) - config_.noise_dbm;
}

void Air::update_quality(NodeId sender, Lane& lane)
{
  const double snr = snr_between(sender, lane.to);
  // A twentieth of a decibel moves no error rate visibly; below it the cached exponents stay.
  if (std::abs(snr - lane.snr_db) < 0.05) return;
  lane.snr_db = snr;
  std::fill(lane.exponents.begin(), lane.exponents.end(), -1);
  lane.response_exponent = -1;
}

double Air::frame_error(Lane& lane, unsigned rate_index, std::uint32_t mpdu) const
{
  double& exponent = lane.exponents[rate_index];
  if (exponent < 0) exponent = error_exponent(config_.phy.rates[rate_index], lane.snr_db);
  const double bits = 8.0 * mpdu;
  // Below 1e-9 a run of a billion frames would not show it; then no random number is drawn either.
  const double by_noise = exponent * bits < 1e-9 ? 0 : -std::expm1(-exponent * bits);
  return 1 - (1 - by_noise) * (1 - config_.frame_error) * (1 - lane.frame_error);
}

double Air::response_error(Lane& lane, const PhyRate& rate, std::uint32_t bytes)
{
  // Responses use a few basic rates; the exponent of the last one asked for is kept only when it is the lowest.
  double exponent = 0;
  if (&rate == &config_.phy.basic.front())
  {
    if (lane.response_exponent < 0) lane.response_exponent = error_exponent(rate, lane.snr_db);
    exponent = lane.response_exponent;
  }
  else if (lane.snr_db > 30)
    return 0; // the fastest basic rate (24 Mb/s) has an error rate below 1e-12 there
  else
    exponent = error_exponent(rate, lane.snr_db);
  const double bits = 8.0 * bytes;
  return exponent * bits < 1e-9 ? 0 : -std::expm1(-exponent * bits);
}

void Air::observe(NodeId station)
{
  if (nodes_[station].observes) return;
  nodes_[station].observes = true;
  observers_.push_back(station);
}

NodeId Air::observer_of(const Channel& channel, NodeId transmitter, NodeId receiver) const
{
  for (const NodeId end : { receiver, transmitter })
    if (end != nobody && nodes_[end].observes) return end;
  for (const NodeId id : observers_)
    if (&channels_[nodes_[id].channel] == &channel) return id;
  return nobody;
}

FrameReport* Air::report(const Channel& channel, NodeId transmitter, NodeId receiver, const PhyRate& rate,
                         std::uint32_t bytes, bool collided, Tick start, Duration duration)
{
  if (!outbox_.want_frames) return nullptr;
  const NodeId by = observer_of(channel, transmitter, receiver);
  if (by == nobody) return nullptr;
  FrameReport& frame = outbox_.frames.emplace_back();
  frame.start = start;
  frame.duration = duration;
  frame.transmitter = transmitter;
  frame.receiver = receiver;
  frame.channel = static_cast<std::uint8_t>(channel.number);
  frame.mcs = rate.mcs;
  frame.ht = rate.ht;
  frame.mbps = rate.mbps;
  frame.bytes = bytes;
  frame.collision = collided;
  if (transmitter == by) return &frame;
  const double snr = snr_between(by, transmitter);
  const Node& observer = nodes_[by];
  frame.signal_valid = 1;
  frame.signal_dbm = static_cast<float>(snr + config_.noise_dbm);
  const bool dsss = rate.bits_per_symbol == 0;
  frame.heard = snr >= (dsss ? dsss_detection_snr_db : detection_snr_db)
                && !(observer.blackout != Blackout::none && transmitter == observer.ap);
  frame.heard &= !jammed(by, start, start + config_.phy.airtime(rate, 0));
  frame.bad_fcs = collided || jammed(by, start, start + duration)
                  || (receiver != by && observer_random_.chance(-std::expm1(-8.0 * bytes * error_exponent(rate, snr))));
  return &frame;
}

// --- live changes ---

void Air::set_loss(Traffic direction, const LossSettings& settings)
{
  (direction == Traffic::down ? config_.loss_down : config_.loss_up) = settings;
  for (auto& node : nodes_)
    for (auto& lane : node.lanes)
      if (lane.down == (direction == Traffic::down)) lane.loss.configure(settings);
}

void Air::set_rate(std::optional<unsigned> rate)
{
  config_.rate = rate;
  for (auto& node : nodes_)
    for (auto& lane : node.lanes)
      if (!lane.own_rate) lane.rates = RateControl(config_.phy, rate, Random(seed_, 0x20000 + streams_++));
}

void Air::set_link(NodeId station, NodeId ap, std::optional<unsigned> rate, double frame_error)
{
  for (Lane* lane : { lane_to(station, ap), lane_to(ap, station) })
  {
    lane->frame_error = frame_error;
    if (rate || lane->own_rate) // back to the configuration's
      lane->rates = RateControl(config_.phy, rate ? rate : config_.rate, Random(seed_, 0x20000 + streams_++));
    lane->own_rate = rate.has_value();
  }
}

void Air::set_delay(Duration delay, Duration jitter)
{
  config_.delay = delay;
  config_.jitter = jitter;
}

void Air::set_power_save(Tick now, bool on)
{
  now_ = std::max(now_, now);
  if (config_.power_save == on) return;
  config_.power_save = on;
  for (NodeId id = 0; id < nodes_.size(); ++id)
  {
    Node& node = nodes_[id];
    if (node.is_ap) continue;
    if (on)
      doze_later(id);
    else if (node.dozing)
    {
      node.dozing = false;
      enlist(node.ap);
    }
  }
}

void Air::set_signal(NodeId station, NodeId ap, double dbm)
{
  set_signal(station, ap, { { Tick {}, dbm } });
}

void Air::set_signal(NodeId station, NodeId ap, std::vector<std::pair<Tick, double>> points)
{
  auto& signals = nodes_[station].signals;
  auto it = std::find_if(signals.begin(), signals.end(), [ap](const Curve& c) { return c.ap == ap; });
  if (it == signals.end()) it = signals.insert(signals.end(), Curve {});
  it->ap = ap;
  it->points = std::move(points);
}

void Air::set_blackout(Tick now, NodeId station, Blackout mode)
{
  now_ = std::max(now_, now);
  Node& node = nodes_[station];
  node.blackout = mode;
  Lane* down = lane_to(node.ap, station);
  if (mode == Blackout::drop)
  {
    flush(station, node.lanes[0], DropReason::blackout);
    flush(node.ap, *down, DropReason::blackout);
    node.waking = false;
  }
  enlist(station);
  enlist(node.ap);
  refresh(channels_[node.channel]);
}

void Air::handoff(Tick now, NodeId station, NodeId ap, Duration gap, bool forward)
{
  now_ = std::max(now_, now);
  Node& node = nodes_[station];
  const NodeId old = node.ap;
  Lane& up = node.lanes[0];
  if (lane_to(ap, station) == nullptr) make_lane(ap, station, station, true);
  Lane& before = *lane_to(old, station);
  Lane& after = *lane_to(ap, station);
  if (ap != old)
  {
    before.open = false;
    after.open = true;
    if (forward)
    {
      for (std::size_t i = 0; i < before.queue.size(); ++i)
      {
        Queued entry = before.queue[i];
        if (entry.settled) continue;
        entry.attempts = 0;
        entry.numbered = entry.received = entry.lost = entry.acked = false;
        after.queue.push(entry);
      }
      before.queue.clear();
      before.released = 0;
      ++before.generation;
      for (; !before.held.empty(); before.held.pop())
        after.held.push(before.held.front());
      after.held_bytes += std::exchange(before.held_bytes, 0);
      pull(ap, after);
    }
    else
      flush(old, before, DropReason::not_associated);
  }
  // The station keeps what it has for the new access point; a frame on the air to the old one is given up and sent
  // again.
  ++up.generation;
  for (std::size_t i = 0; i < up.queue.size(); ++i)
    up.queue[i].attempts = 0;
  up.to = ap;
  Channel& left = channels_[node.channel];
  if (node.channel != nodes_[ap].channel)
  {
    left.nodes.erase(std::find(left.nodes.begin(), left.nodes.end(), station));
    node.channel = nodes_[ap].channel;
    channels_[node.channel].nodes.push_back(station);
  }
  refresh(left);
  node.ap = ap;
  node.associating = true;
  node.contending = false;
  node.dozing = node.waking = false;
  node.sticky = false;
  node.backoff = 0;
  refresh(left);
  add_timer(now_ + gap, TimerKind::associate, station, ++node.associations);
}

std::size_t Air::queued(NodeId from, NodeId to) const
{
  for (const auto& lane : nodes_[from].lanes)
    if (lane.to == to) return lane.packets();
  return 0;
}

unsigned Air::best_rate(NodeId from, NodeId to) const
{
  for (const auto& lane : nodes_[from].lanes)
    if (lane.to == to) return lane.rates.best();
  return 0;
}

} // namespace tandem::medium
