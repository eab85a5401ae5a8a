#include "src/daemon/datapath.h"

#include "src/wire/build.h"
#include "src/wire/checksum.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace tandem::daemon
{

Datapath::Datapath(const Settings& settings, const links::LinkTable& links, Send send)
    : by_cell_ { settings.by_cell }, links_ { links }, send_ { std::move(send) }
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
                       .why = outcome.why };
  if (outcome.verdict == Verdict::drop)
  {
    ++counters_.dropped;
    entry.disposition = trace::Disposition::dropped;
    record(entry);
    return { { .drop = true } };
  }
  Decided decision {};
  std::array<std::byte, 512> original; // what the recorder keeps of the packet before it is edited in place
  if (outcome.edit.changes_bytes())
  {
    if (recorder_)
    {
      const std::size_t kept =
          std::min<std::size_t>({ original.size(), packet.bytes.size(), recorder_->limits().snap });
      std::memcpy(original.data(), packet.bytes.data(), kept);
      entry.before = { original.data(), kept };
    }
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
    ++counters_.edited;
  }
  if (outcome.edit.route == Link::cell)
  {
    decision.mark = by_cell_.on(packet.mark);
    entry.after_link = Link::cell;
    ++counters_.rerouted;
  }
  if (outcome.edit.empty()) ++counters_.passed;
  entry.disposition = outcome.edit.empty() ? trace::Disposition::passed : trace::Disposition::edited;
  entry.after_length = packet.original_length;
  record(entry);
  return decision;
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

std::size_t Datapath::inject(const chain::Injection& injection, Tick now)
{
  std::array<std::byte, 256> buffer {};
  const std::size_t length = wire::build(buffer, injection.key, injection.segment);
  const std::span<const std::byte> packet { buffer.data(), length };
  const bool sent = length != 0 && send_(packet, injection.segment.by) == 0;
  return injected({ .at = now,
                    .link = injection.segment.by,
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
