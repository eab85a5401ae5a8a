#include "src/trace/formats.h"
#include "src/trace/reader.h"
#include "src/wire/bytes.h"

#include <algorithm>

namespace tandem::trace
{
namespace
{

using Frame = std::span<const std::byte>;

// LINKTYPE_ values; 12 is what DLT_RAW is on Linux, which some programs write unchanged.
constexpr std::uint32_t null = 0, ethernet = 1, raw_dlt = 12, raw = 101, ieee802_11 = 105, loop = 108,
                        linux_cooked = 113, radiotap = 127, ipv4 = 228, ipv6 = 229, linux_cooked_2 = 276;
constexpr std::uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100, type_provider_vlan = 0x88a8,
                        type_old_vlan = 0x9100; // outer tag before 802.1ad

bool is_tag(std::uint16_t type)
{
  return type == type_vlan || type == type_provider_vlan || type == type_old_vlan;
}

// `at` is the place of an Ethernet type field; the payload follows it.
std::optional<std::size_t> behind_type(Frame frame, std::size_t at)
{
  while (at + 2 <= frame.size())
  {
    const std::uint16_t type = wire::load16(frame, at);
    if (type == type_ipv4 || type == type_ipv6) return at + 2;
    if (!is_tag(type)) return {};
    at += 4;
  }
  return {};
}

// Behind the header of an 802.11 data frame (IEEE 802.11-2016, 9.2) that begins at `at`, and its LLC/SNAP header (RFC
// 1042). `padded`: the driver filled the header up to a multiple of four. Nothing for other frames, encrypted ones,
// later fragments and aggregates of MSDUs.
std::optional<std::size_t> behind_wifi(Frame frame, std::size_t at, bool padded)
{
  if (frame.size() < at + 24) return {};
  const auto control = std::to_integer<unsigned>(frame[at]), flags = std::to_integer<unsigned>(frame[at + 1]);
  constexpr unsigned type = 0x0c, data = 0x08, without_data = 0x40, qos = 0x80;
  constexpr unsigned both_ds = 0x03, encrypted = 0x40, ht_control = 0x80, fragment = 0x0f, aggregate = 0x80;
  if ((control & type) != data || (control & without_data) != 0 || (flags & encrypted) != 0) return {};
  if ((std::to_integer<unsigned>(frame[at + 22]) & fragment) != 0) return {};
  std::size_t length = (flags & both_ds) == both_ds ? 30 : 24;
  if ((control & qos) != 0)
  {
    if (frame.size() <= at + length || (std::to_integer<unsigned>(frame[at + length]) & aggregate) != 0) return {};
    length += (flags & ht_control) != 0 ? 6 : 2;
  }
  if (padded) length = (length + 3) / 4 * 4;
  at += length;
  if (frame.size() < at + 8 || wire::load16(frame, at) != 0xaaaa || wire::load16(frame, at + 2) != 0x0300
      || wire::load16(frame, at + 4) != 0)
    return {};
  return behind_type(frame, at + 6);
}

// A header of the driver (radiotap.org), then the 802.11 frame. Nothing for a frame that arrived damaged.
std::optional<std::size_t> behind_radiotap(Frame frame)
{
  const auto byte = [&frame](std::size_t at) { return std::to_integer<unsigned>(frame[at]); };
  if (frame.size() < 8) return {};
  const std::size_t length = byte(2) | byte(3) << 8;
  if (byte(0) != 0 || length < 8 || length > frame.size()) return {};
  // Words of what is present; the last one has its highest bit clear.
  std::size_t at = 4;
  while (at + 4 <= length && (byte(at + 3) & 0x80) != 0)
    at += 4;
  at += 4;
  constexpr unsigned has_clock = 0x01, has_flags = 0x02, data_pad = 0x20, bad_check = 0x40;
  if ((byte(4) & has_clock) != 0) at = (at + 7) / 8 * 8 + 8;
  const unsigned flags = (byte(4) & has_flags) != 0 && at < length ? byte(at) : 0;
  if ((flags & bad_check) != 0) return {};
  return behind_wifi(frame, length, (flags & data_pad) != 0);
}

// Finds the IP packet in frames of a link type; null: of none that is read.
using IpFinder = std::optional<std::size_t> (*)(Frame);

IpFinder finder_of(std::uint32_t link_type)
{
  using Offset = std::optional<std::size_t>;
  switch (link_type)
  {
  case raw:
  case raw_dlt:
  case ipv4:
  case ipv6:
    return [](Frame) -> Offset { return 0; };
  case ethernet:
    return [](Frame frame) { return behind_type(frame, 12); };
  case linux_cooked:
    return [](Frame frame) { return behind_type(frame, 14); };
  case linux_cooked_2:
    return [](Frame frame) -> Offset
    {
      // The protocol comes first in this one, behind it 18 bytes of addresses.
      if (frame.size() < 20) return {};
      const auto type = wire::load16(frame, 0);
      if (is_tag(type)) return behind_type(frame, 22);
      if (type != type_ipv4 && type != type_ipv6) return {};
      return 20;
    };
  case ieee802_11:
    return [](Frame frame) { return behind_wifi(frame, 0, false); };
  case radiotap:
    return behind_radiotap;
  case null:
  case loop:
    return [](Frame frame) -> Offset { return frame.size() < 4 ? Offset {} : 4; };
  default:
    return nullptr;
  }
}

// What the IP header says of the packet's length; nothing when it does not tell (segments of the kernel's own making
// may have none, RFC 2675), or is cut.
std::optional<std::uint32_t> total_length(Frame ip)
{
  constexpr std::uint32_t ipv6_header = 40;
  const unsigned version = ip.empty() ? 0 : std::to_integer<unsigned>(ip[0]) >> 4;
  const std::uint32_t told = version == 4 && ip.size() >= 4   ? wire::load16(ip, 2)
                             : version == 6 && ip.size() >= 6 ? wire::load16(ip, 4)
                                                              : 0u;
  if (told == 0) return {};
  return version == 4 ? told : ipv6_header + told;
}

} // namespace

bool is_read(std::uint32_t link_type)
{
  return finder_of(link_type) != nullptr;
}

bool is_wifi(std::uint32_t link_type)
{
  return link_type == ieee802_11 || link_type == radiotap;
}

void take_ip(Frame frame, std::uint32_t length, Recorded& packet)
{
  const auto offset = ip_offset(frame, packet.link_type);
  if (!offset || *offset > frame.size()) return;
  Frame ip = frame.subspan(*offset);
  packet.length = std::max(length, static_cast<std::uint32_t>(frame.size())) - static_cast<std::uint32_t>(*offset);
  // Without a link layer nothing is behind a packet but what is its own.
  if (const auto total = *offset == 0 ? std::nullopt : total_length(ip); total && *total < packet.length)
  {
    packet.length = *total;
    ip = ip.first(std::min<std::size_t>(ip.size(), *total));
  }
  packet.bytes.assign(ip.begin(), ip.end());
}

std::optional<std::size_t> ip_offset(Frame frame, std::uint32_t link_type)
{
  const IpFinder find = finder_of(link_type);
  return find != nullptr ? find(frame) : std::nullopt;
}

} // namespace tandem::trace
