#include "tools/trace/repeats.h"

#include <algorithm>
#include <functional>
#include <string_view>

namespace tandem::trace_tool
{
namespace
{

constexpr std::int64_t apart_ns = 1'000'000;
constexpr std::size_t most_recent = 1024; // of 1 ms; beyond 10 Gbit/s some are missed
constexpr std::uint64_t least_segments = 20;

} // namespace

void Repeats::take(const trace::Recorded& packet, const wire::Parsed& parsed)
{
  // Tandem itself writes down each packet once.
  if (!parsed.ok() || packet.decision) return;
  ++segments_;
  const std::size_t hash =
      std::hash<std::string_view> {}({ reinterpret_cast<const char*>(packet.bytes.data()), packet.bytes.size() });
  while (!recent_.empty() && (packet.time_ns - recent_.front().at > apart_ns || recent_.size() > most_recent))
    recent_.pop_front();
  const auto again =
      std::find_if(recent_.rbegin(), recent_.rend(),
                   [&](const Seen& seen) { return seen.hash == hash && packet.time_ns - seen.at >= -apart_ns; });
  if (again != recent_.rend())
    ++repeated_;
  else
    recent_.push_back({ .at = packet.time_ns, .hash = hash });
}

std::string Repeats::words() const
{
  const std::uint64_t once = segments_ - repeated_;
  if (segments_ < least_segments || repeated_ * 10 < once * 9) return {};
  return "nearly every segment is there again within 1 ms, the same to the byte: it was captured at several interfaces "
         "(tcpdump -i any at a VLAN, bridge or bond and what lies below), and the copies are taken for "
         "retransmissions; capture at one of them (tcpdump -i wlan0)";
}

} // namespace tandem::trace_tool
