// What the laptop's side of each flow tells, put in order for stall_cause.cc.
#include "tools/trace/stalls.h"

#include "tools/trace/stall_cause.h"

#include <algorithm>
#include <utility>

namespace tandem::trace_tool
{
namespace
{

// Sequence numbers without wrap: near the one seen last.
std::uint64_t unwrap(Seq seq, std::optional<std::uint64_t>& last)
{
  if (!last) last = (std::uint64_t { 1 } << 32) + seq.raw; // room for older ones
  const std::uint64_t value =
      *last + static_cast<std::uint64_t>(std::int64_t { seq - Seq { static_cast<std::uint32_t>(*last) } });
  last = std::max(*last, value);
  return value;
}

constexpr std::size_t most_echoes = 4096;

// RFC 7323 2.2: scaled only when both ends say so. Of a capture that lacks one of the SYNs it may stay unknown.
void settle_scale(StalledFlow& flow)
{
  const StalledFlow::Syn &own = flow.own_syn, &peer = flow.peer_syn;
  if ((own.seen && !own.scale) || (peer.seen && !peer.scale))
    flow.shift = 0;
  else if (own.seen && peer.seen)
    flow.shift = own.scale;
}

} // namespace

void StallFinder::arrived(StalledFlow& flow, const Segment& s, std::int64_t at)
{
  if (s.has(tcp_flag::syn))
  {
    if (flow.syn_ns != 0 && flow.story.rtt_ns == 0) flow.story.rtt_ns = std::max<std::int64_t>(0, at - flow.syn_ns);
    flow.peer_syn = { .seen = true, .scale = s.window_scale };
    settle_scale(flow);
    static_cast<void>(unwrap(s.seq + 1u, flow.base));
    return;
  }
  if (s.timestamps)
  {
    flow.story.timestamps = true;
    const auto echo = flow.echoes.find(s.timestamps->echo.raw);
    if (echo != flow.echoes.end())
    {
      const std::int64_t sample = at - echo->second;
      // None is negative, unless the clock was set back.
      if (sample > 0 && (flow.story.rtt_ns == 0 || sample < flow.story.rtt_ns)) flow.story.rtt_ns = sample;
      flow.echoes.erase(flow.echoes.begin(), std::next(echo)); // an echo is timed once
    }
  }
  if (s.payload_length == 0) return;
  flow.in.push_back({ .at = at,
                      .seq = unwrap(s.seq, flow.base),
                      .length = s.payload_length,
                      .ts = s.timestamps ? s.timestamps->value.raw : 0,
                      .has_ts = s.timestamps.has_value(),
                      .push = s.has(tcp_flag::psh) });
}

void StallFinder::recorded(StalledFlow& flow, const Segment& s, trace::Disposition disposition)
{
  if (s.payload_length == 0) return;
  flow.sampled = flow.sampled || disposition == trace::Disposition::observed;
  flow.pushes[unwrap(s.end(), flow.base)] = s.has(tcp_flag::psh);
  if (flow.pushes.size() > most_echoes) flow.pushes.erase(flow.pushes.begin());
}

// What an ACK of the laptop's TCP shows to have arrived; TSecr is the server's TSval of it (RFC 7323 4.3).
void StallFinder::acknowledged(StalledFlow& flow, const Segment& s, std::uint64_t ack, std::int64_t at)
{
  const auto show = [&](std::uint64_t from, std::uint64_t to)
  {
    const auto push = flow.pushes.find(to);
    flow.acknowledged.push_back({ .at = at,
                                  .seq = from,
                                  .length = static_cast<std::uint32_t>(to - from),
                                  .ts = s.timestamps ? s.timestamps->echo.raw : 0,
                                  .has_ts = s.timestamps.has_value(),
                                  .push = push != flow.pushes.end() && push->second });
  };
  for (const SackBlock& block : s.sacks())
  {
    const std::uint64_t right = unwrap(block.right, flow.base), left = unwrap(block.left, flow.base);
    if (left < ack || right <= flow.shown) continue; // a duplicate (RFC 2883), or known
    show(std::max(left, flow.shown), right);
    flow.shown = right;
  }
  if (flow.acked != 0 && ack > flow.acked) show(flow.acked, ack);
  flow.acked = std::max(flow.acked, ack);
  flow.shown = std::max(flow.shown, ack);
}

void StallFinder::left(StalledFlow& flow, const Event& event, const Segment& s, std::int64_t at)
{
  if (s.has(tcp_flag::syn))
  {
    if (flow.syn_ns == 0) flow.syn_ns = at;
    flow.own_syn = { .seen = true, .scale = s.window_scale };
    settle_scale(flow);
    return;
  }
  if (s.timestamps && flow.echoes.size() < most_echoes) flow.echoes.emplace(s.timestamps->value.raw, at);
  flow.story.bytes_out += s.payload_length;
  if (!s.has(tcp_flag::ack)) return;
  const bool fresh = s.payload_length > 0 && (!flow.sent || s.end().after(*flow.sent));
  if (fresh) flow.sent = s.end();
  const bool dropped = event.disposition() == trace::Disposition::dropped;
  const std::uint64_t own = unwrap(s.ack, flow.base);
  const unsigned shift = flow.shift.value_or(0);
  Departure out {
    .at = at, .own_ack = own, .own_edge = own + (std::uint64_t { s.window } << shift), .length = s.payload_length
  };
  std::uint64_t ack = out.own_ack, edge = out.own_edge;
  if (event.after)
    if (const wire::Parsed after = parse(*event.after); after.ok())
    {
      ack = unwrap(after.segment.ack, flow.base);
      edge = ack + (std::uint64_t { after.segment.window } << shift);
    }
  if (!dropped)
  {
    flow.told_ack = std::max(flow.told_ack, ack);
    flow.told_edge = edge; // a window may shrink when Tandem wants it
  }
  out.ack = flow.told_ack;
  out.edge = flow.told_edge;
  // An ACK of Tandem's own tells the server, but nothing of what the laptop's TCP wanted.
  if (event.disposition() == trace::Disposition::injected)
  {
    if (!flow.out.empty())
    {
      out.own_ack = flow.out.back().own_ack;
      out.own_edge = flow.out.back().own_edge;
    }
  }
  else if (event.disposition())
    acknowledged(flow, s, own, at);
  flow.out.push_back(out);
}

void StallFinder::take(const Event& event, const FlowBook::Found& found)
{
  const trace::Recorded& packet = event.packet;
  const bool injected = event.disposition() == trace::Disposition::injected;
  const bool arriving = found.flow != nullptr ? found.parsed.segment.direction == Direction::ingress
                                              : packet.direction == Direction::ingress;
  if (arriving && !injected && !packet.bytes.empty()) arrivals_.push_back(packet.time_ns);
  if (found.flow == nullptr) return;
  if (flows_.size() < found.flow->number) flows_.resize(found.flow->number);
  StalledFlow& flow = flows_[found.flow->number - 1];
  flow.story.flow = *found.flow;
  if (flow.story.packets++ == 0) flow.story.first_ns = flow.story.last_ns = packet.time_ns;
  flow.story.last_ns = std::max(flow.story.last_ns, packet.time_ns);
  if (event.disposition() && !event.why().empty()) ++flow.story.decisions[event.why()];
  note(event, flow.story.effects);
  const Segment& segment = found.parsed.segment;
  if (!arriving)
    left(flow, event, segment, packet.time_ns);
  else
  {
    arrived(flow, segment, packet.time_ns);
    if (const auto disposition = event.disposition()) recorded(flow, segment, *disposition);
  }
}

std::vector<FlowStory> StallFinder::finish(const std::vector<std::int64_t>& returns)
{
  std::sort(arrivals_.begin(), arrivals_.end());
  std::vector<FlowStory> stories;
  for (StalledFlow& flow : flows_)
  {
    if (flow.sampled) flow.in.swap(flow.acknowledged);
    for (std::size_t i = 0; i < returns.size(); ++i)
    {
      const auto first = std::find_if(flow.in.begin(), flow.in.end(),
                                      [&](const Arrival& arrival) { return arrival.at >= returns[i]; });
      // What had not begun before waited for nothing; what came after the next time has to do with that.
      if (first == flow.in.begin() || first == flow.in.end()) continue;
      if (i + 1 < returns.size() && first->at >= returns[i + 1]) continue;
      flow.story.effects.resumed_ns.push_back(first->at - returns[i]);
    }
    find_stalls(flow, arrivals_, shortest_ns_);
    stories.push_back(std::move(flow.story));
  }
  return stories;
}

} // namespace tandem::trace_tool
