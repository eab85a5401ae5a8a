#include "src/trace/formats.h"
#include "src/wire/bytes.h"

namespace tandem::trace
{
namespace
{

using Frame = std::span<const std::byte>;

// LINKTYPE_ values; 12 is what DLT_RAW is on Linux, which some programs write unchanged.
constexpr std::uint32_t null = 0, ethernet = 1, raw_dlt = 12, raw = 101, loop = 108, linux_cooked = 113, ipv4 = 228,
                        ipv6 = 229, linux_cooked_2 = 276;
constexpr std::uint16_t type_ipv4 = 0x0800, type_ipv6 = 0x86dd, type_vlan = 0x8100, type_provider_vlan = 0x88a8;

// `at` is the place of an Ethernet type field; the payload follows it.
std::optional<std::size_t> behind_type(Frame frame, std::size_t at)
{
  while (at + 2 <= frame.size())
  {
    const std::uint16_t type = wire::load16(frame, at);
    if (type == type_ipv4 || type == type_ipv6) return at + 2;
    if (type != type_vlan && type != type_provider_vlan) return {};
    at += 4;
  }
  return {};
}

} // namespace

std::optional<std::size_t> ip_offset(Frame frame, std::uint32_t link_type)
{
  switch (link_type)
  {
  case raw:
  case raw_dlt:
  case ipv4:
  case ipv6:
    return 0;
  case ethernet:
    return behind_type(frame, 12);
  case linux_cooked:
    return behind_type(frame, 14);
  case linux_cooked_2:
    // The protocol comes first in this one, behind it 18 bytes of addresses.
    if (frame.size() < 20) return {};
    if (const auto type = wire::load16(frame, 0); type != type_ipv4 && type != type_ipv6) return {};
    return 20;
  case null:
  case loop:
    if (frame.size() < 4) return {};
    return 4;
  default:
    return {};
  }
}

} // namespace tandem::trace
