#include "src/daemon/datapath.h"

#include "src/wire/build.h"
#include "src/wire/checksum.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace tandem::daemon
{

Datapath::Datapath(const Settings& settings, const links::LinkTable& links, Send send)
    : links_ { links }, send_ { std::move(send) }
{
  if (settings.record) recorder_.emplace(*settings.record);
}

void Datapath::record(const trace::Entry& entry)
{
  if (recorder_) recorder_->add(entry);
}

std::optional<Segment> Datapath::queued(const kernel::QueuedPacket& packet)
{
  ++counters_.queued;
  const Direction direction = packet.egress() ? Direction::egress : Direction::ingress;
  wire::Parsed parsed = wire::parse(packet.bytes, direction, packet.cut, 0, packet.original_length);
  if (!parsed.ok())
  {
    ++counters_.faults[static_cast<std::size_t>(parsed.fault)];
    ++counters_.passed;
    record({ .at = packet.arrival,
             .direction = direction,
             .disposition = trace::Disposition::fault,
             .before = packet.bytes,
             .before_length = packet.original_length,
             .why = wire::name(parsed.fault) });
    return {};
  }
  parsed.segment.link = links_.owner(parsed.segment.key.local);
  if (parsed.segment.link != Link::wifi)
  {
    ++counters_.not_wifi;
    ++counters_.passed;
    return {};
  }
  return parsed.segment;
}

Datapath::Decided Datapath::decided(kernel::QueuedPacket& packet, const Segment& segment, const chain::Outcome& outcome)
{
  trace::Entry entry { .at = packet.arrival,
                       .direction = segment.direction,
                       .before = packet.bytes,
                       .before_length = packet.original_length,
                       .why = outcome.why,
                       .asked = trace::Asked { .at = packet.arrival,
                                               .seen = static_cast<std::uint32_t>(packet.bytes.size()),
                                               .checksum_not_ready = packet.checksum_not_ready } };
  if (outcome.verdict == Verdict::drop)
  {
    ++counters_.dropped;
    entry.disposition = trace::Disposition::dropped;
    record(entry);
    return { { .drop = true } };
  }
  Decided decision {};
  const bool by_cell = outcome.edit.route == Link::cell;
  std::array<std::byte, 512> original; // what the recorder keeps of the packet before it is edited in place
  if (recorder_ && (outcome.edit.changes_bytes() || by_cell))
  {
    const std::size_t kept = std::min<std::size_t>({ original.size(), packet.bytes.size(), recorder_->limits().snap });
    std::memcpy(original.data(), packet.bytes.data(), kept);
    entry.before = { original.data(), kept };
  }
  if (outcome.edit.changes_bytes())
  {
    const wire::EditFault fault =
        wire::edit(packet.bytes, segment, outcome.edit,
                   packet.checksum_not_ready ? wire::ChecksumState::partial : wire::ChecksumState::complete);
    if (fault != wire::EditFault::none)
    {
      ++counters_.edit_faults[static_cast<std::size_t>(fault)];
      ++counters_.passed;
      entry.disposition = trace::Disposition::fault;
      entry.why = wire::name(fault);
      record(entry);
      decision.unedited = true;
      return decision;
    }
    decision.bytes = entry.after = packet.bytes;
  }
  if (by_cell)
  {
    if (!reroute(packet, segment, outcome.edit.changes_bytes()))
    {
      ++counters_.reroute_failed;
      ++counters_.passed;
      entry.disposition = trace::Disposition::fault;
      entry.after = {};
      entry.why = trace::not_rerouted;
      record(entry);
      decision.bytes = {};
      decision.unedited = true;
      return decision;
    }
    decision.drop = true;
    decision.bytes = {};
    entry.after_link = Link::cell;
    ++counters_.rerouted;
  }
  if (outcome.edit.changes_bytes()) ++counters_.edited;
  if (outcome.edit.empty()) ++counters_.passed;
  entry.disposition = outcome.edit.empty() ? trace::Disposition::passed : trace::Disposition::edited;
  entry.after_length = packet.original_length;
  record(entry);
  return decision;
}

bool Datapath::send(std::span<const std::byte> packet, Link by)
{
  const int error = send_(packet, by);
  // The first is a rule's word, the second a route's (prohibit).
  if (by == Link::cell && (error == EPERM || error == EACCES)) ++counters_.cell_filtered;
  return error == 0;
}

// `sealed`: its checksum is whole.
bool Datapath::reroute(kernel::QueuedPacket& packet, const Segment& segment, bool sealed)
{
  if (packet.cut || (!sealed && packet.checksum_not_ready && !wire::seal(packet.bytes, segment))) return false;
  return send(packet.bytes, Link::cell);
}

std::optional<Segment> Datapath::observed(Link by, const kernel::ObservedPacket& packet)
{
  ++counters_.observed;
  wire::Parsed parsed =
      wire::parse(packet.bytes, packet.direction, true, 0, static_cast<std::uint32_t>(packet.original_length));
  if (!parsed.ok()) return {}; // counted when it is queued; a copy that cannot be read concerns nobody
  // What Tandem itself sent this way for another link's flow tells nothing of that flow.
  parsed.segment.link = links_.owner(parsed.segment.key.local);
  if (parsed.segment.link != by) return {};
  if (packet.direction == Direction::ingress && packet.checksum_ready && wire::damaged(parsed.segment))
  {
    ++counters_.damaged;
    return {};
  }
  parsed.segment.received = packet.received;
  return parsed.segment;
}

void Datapath::asked(const kernel::ObservedPacket& packet, const Segment& segment)
{
  const std::size_t headers = segment.ip_header_length + segment.tcp_header_length;
  record({ .at = packet.arrival,
           .direction = packet.direction,
           .link = segment.link,
           .disposition = trace::Disposition::observed,
           .before = packet.bytes.first(std::min(packet.bytes.size(), headers)),
           .before_length = static_cast<std::uint32_t>(packet.original_length),
           .asked = trace::Asked { .at = packet.arrival,
                                   .received = packet.received,
                                   .seen = static_cast<std::uint32_t>(packet.bytes.size()) } });
}

std::size_t Datapath::inject(const chain::Injection& injection, Tick now, bool tunnelled)
{
  std::array<std::byte, 256> buffer {};
  const std::size_t length = wire::build(buffer, injection.key, injection.segment, injection.ip_class);
  const std::span<const std::byte> packet { buffer.data(), length };
  const Link by = injection.segment.by;
  const bool around = tunnelled && by == Link::cell;
  const bool sent = length != 0 && !around && send(packet, tunnelled ? Link::other : by);
  return injected({ .at = now,
                    .link = by,
                    .disposition = trace::Disposition::injected,
                    .after = sent ? packet : std::span<const std::byte> {},
                    .why = injection.why });
}

std::size_t Datapath::filled(const chain::Injection& injection, std::span<const std::byte> packet, Tick now)
{
  return injected({ .at = now,
                    .direction = Direction::ingress,
                    .link = injection.segment.by,
                    .disposition = trace::Disposition::injected,
                    .after = packet,
                    .why = injection.why });
}

std::size_t Datapath::injected(trace::Entry entry)
{
  if (entry.after.empty())
  {
    ++counters_.inject_failed;
    return 0;
  }
  ++counters_.injected;
  record(entry);
  return entry.after.size();
}

} // namespace tandem::daemon
