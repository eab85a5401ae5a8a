#include "tools/trace/flow_book.h"

#include "src/links/network.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

FlowKey reversed(FlowKey key)
{
  std::swap(key.local, key.remote);
  std::swap(key.local_port, key.remote_port);
  return key;
}

bool opens(const Segment& s)
{
  return s.has(tcp_flag::syn) && !s.has(tcp_flag::ack);
}

// Whether a SYN is of another connection than the one that had its addresses and ports before.
bool begins_anew(const Segment& s, const BookedFlow& flow)
{
  return opens(s) && (flow.syn ? flow.isn != s.seq : !flow.syn_ack);
}

} // namespace

std::size_t FlowBook::Hash::operator()(const FlowKey& key) const noexcept
{
  std::uint64_t hash = (std::uint64_t { key.local_port } << 16 | key.remote_port) + (key.local.v6 ? 1u << 31 : 0u);
  const auto mix = [&hash](const Address& address)
  {
    std::array<std::uint64_t, 2> words {};
    std::memcpy(words.data(), address.bytes.data(), sizeof words);
    for (const std::uint64_t word : words)
      hash = (hash ^ word) * 0x9e3779b97f4a7c15u, hash ^= hash >> 29;
  };
  mix(key.local);
  mix(key.remote);
  return static_cast<std::size_t>(hash);
}

Side FlowBook::side_of(const Segment& s, std::optional<Direction> recorded, bool& local_is_source) const
{
  if (recorded)
  {
    local_is_source = *recorded == Direction::egress;
    return Side::recorded;
  }
  const auto told = [this](const Address& address)
  { return std::find(locals_.begin(), locals_.end(), address) != locals_.end(); };
  if (told(s.key.local) || told(s.key.remote))
  {
    local_is_source = told(s.key.local);
    return Side::told;
  }
  if (s.has(tcp_flag::syn))
  {
    local_is_source = !s.has(tcp_flag::ack);
    return Side::handshake;
  }
  const bool source_private = links::is_private(s.key.local);
  local_is_source =
      source_private != links::is_private(s.key.remote) ? source_private : s.key.local_port > s.key.remote_port;
  return Side::guessed;
}

const BookedFlow* FlowBook::find(const FlowKey& key) const
{
  const auto at = places_.find(key);
  return at == places_.end() ? nullptr : &flows_[at->second.index];
}

const FlowBook::Place& FlowBook::place_of(const Segment& s, std::optional<Direction> recorded)
{
  if (!opens(s))
    for (const Places::const_pointer one : latest_)
      if (one != nullptr && one->first == s.key) return one->second;
  const auto at = places_.find(s.key);
  if (at == places_.end() || begins_anew(s, flows_[at->second.index])) return add(s, recorded);
  latest_[at->second.direction == Direction::ingress ? 1 : 0] = &*at; // a node stays where it is
  return at->second;
}

const FlowBook::Place& FlowBook::add(const Segment& s, std::optional<Direction> recorded)
{
  bool local_is_source = true;
  const Side side = side_of(s, recorded, local_is_source);
  flows_.push_back({ .number = flows_.size() + 1, .key = local_is_source ? s.key : reversed(s.key), .side = side });
  const std::size_t index = flows_.size() - 1;
  places_[reversed(s.key)] = { index, local_is_source ? Direction::ingress : Direction::egress };
  return places_[s.key] = { index, local_is_source ? Direction::egress : Direction::ingress };
}

FlowBook::Found FlowBook::take(const trace::Recorded& packet)
{
  Found found { .parsed = wire::parse(packet.bytes, Direction::egress, packet.bytes.size() < packet.length, 0,
                                      packet.length) };
  Segment& s = found.parsed.segment;
  if (!found.parsed.ok())
  {
    s.direction = packet.direction.value_or(Direction::egress);
    return found;
  }
  const Place& place = place_of(s, packet.direction);
  BookedFlow& flow = flows_[place.index];
  if (place.direction == Direction::ingress)
  {
    s.direction = Direction::ingress;
    s.key = flow.key;
  }
  if (s.has(tcp_flag::syn)) (s.has(tcp_flag::ack) ? flow.syn_ack : flow.syn) = true;
  if (opens(s)) flow.isn = s.seq;
  found.flow = &flow;
  return found;
}

} // namespace tandem::trace_tool
