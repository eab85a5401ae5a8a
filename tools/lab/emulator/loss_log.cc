#include "tools/lab/emulator/loss_log.h"

#include "tools/lab/emulator/packets.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

namespace tandem::lab
{

namespace
{

std::uint32_t big(std::span<const std::byte> frame, std::size_t offset, unsigned bytes)
{
  std::uint32_t value = 0;
  for (unsigned i = 0; i < bytes; ++i)
    value = value << 8 | std::to_integer<std::uint32_t>(frame[offset + i]);
  return value;
}

std::uint32_t tsval(std::span<const std::byte> options)
{
  constexpr unsigned end = 0, nop = 1, timestamps = 8;
  for (std::size_t i = 0; i < options.size();)
  {
    const auto kind = std::to_integer<unsigned>(options[i]);
    if (kind == end) break;
    if (kind == nop)
    {
      ++i;
      continue;
    }
    if (kind == timestamps && i + 10 <= options.size()) return big(options, i + 2, 4);
    if (i + 1 >= options.size()) break;
    const auto length = std::to_integer<std::size_t>(options[i + 1]);
    if (length < 2) break;
    i += length;
  }
  return 0;
}

} // namespace

std::optional<LossRecord> loss_record(std::span<const std::byte> frame, Tick at, std::int64_t epoch_ns,
                                      std::uint8_t what, const Topology::Place& place)
{
  constexpr unsigned tcp = 6, ipv4 = 0x0800, ipv6 = 0x86dd;
  constexpr std::size_t ip = ethernet_header;
  if (frame.size() < ip + 20) return {};
  const unsigned type = big(frame, 12, 2);
  LossRecord record;
  std::size_t header = 0, end = 0, addresses = 0, width = 0;
  if (type == ipv4 && big(frame, ip + 9, 1) == tcp && (big(frame, ip + 6, 2) & 0x1fff) == 0)
  {
    record.version = 4;
    header = ip + (big(frame, ip, 1) & 0x0f) * 4u;
    end = ip + big(frame, ip + 2, 2);
    addresses = ip + 12;
    width = 4;
  }
  else if (type == ipv6 && frame.size() >= ip + 40 && big(frame, ip + 6, 1) == tcp)
  {
    record.version = 6;
    header = ip + 40;
    end = header + big(frame, ip + 4, 2);
    addresses = ip + 8;
    width = 16;
  }
  else
    return {};
  if (end > frame.size() || header + 20 > end) return {};
  const std::size_t data = header + (big(frame, header + 12, 1) >> 4) * 4u;
  if (data > end || data < header + 20) return {};
  record.at_ns = epoch_ns + at.time_since_epoch().count();
  record.source_port = static_cast<std::uint16_t>(big(frame, header, 2));
  record.destination_port = static_cast<std::uint16_t>(big(frame, header + 2, 2));
  record.seq = big(frame, header + 4, 4);
  record.ack = big(frame, header + 8, 4);
  record.flags = static_cast<std::uint8_t>(big(frame, header + 13, 1));
  record.tsval = tsval(frame.subspan(header + 20, data - header - 20));
  record.payload = static_cast<std::uint16_t>(end - data);
  std::memcpy(record.source, frame.data() + addresses, width);
  std::memcpy(record.destination, frame.data() + addresses + width, width);
  record.what = what;
  record.link = place.link;
  record.down = place.down ? 1 : 0;
  record.queued = place.queued;
  record.queued_bytes = static_cast<std::uint32_t>(place.queued_bytes);
  return record;
}

bool Unrepaired::Flow::is_answered_by(const LossRecord& packet) const
{
  return packet.destination_port == name.source_port && packet.source_port == name.destination_port
         && packet.version == name.version && std::memcmp(packet.destination, name.source, sizeof name.source) == 0
         && std::memcmp(packet.source, name.destination, sizeof name.destination) == 0;
}

void Unrepaired::lost(const LossRecord& record)
{
  LossRecord answer = record;
  std::swap(answer.source_port, answer.destination_port);
  std::swap(answer.source, answer.destination);
  auto flow = std::find_if(flows_.begin(), flows_.end(), [&](const Flow& f) { return f.is_answered_by(answer); });
  constexpr std::uint8_t syn = 0x02;
  if (flow == flows_.end())
  {
    // Connections that are over give way to new ones: a client does not have this many at once in the lab.
    constexpr std::size_t most_flows = 256;
    if (flows_.size() >= most_flows) flows_.erase(flows_.begin());
    flow = flows_.insert(flows_.end(), Flow {});
    flow->name = record;
  }
  if ((record.flags & syn) != 0) flow->losses.clear();
  const std::uint32_t end = record.seq + record.payload;
  for (const LossRecord& known : flow->losses)
    if (known.seq == record.seq) return;
  if (flow->losses.empty() || static_cast<std::int32_t>(flow->first_end - end) > 0) flow->first_end = end;
  flow->losses.push_back(record);
}

LossLog::LossLog(const std::filesystem::path& file) : file_(std::fopen(file.c_str(), "wbe"))
{
  if (!file_) throw std::system_error(errno, std::generic_category(), "create " + file.string());
  char head[sizeof(LossRecord)] {};
  std::memcpy(head, loss_log_magic, sizeof loss_log_magic);
  std::fwrite(head, sizeof head, 1, file_.get());
  flush();
}

} // namespace tandem::lab
