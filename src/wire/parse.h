// From the bytes of an IP packet to a Segment, or to the reason why it is none.
#pragma once

#include <tandem/segment.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tandem::wire
{

// Why a packet is not a segment that may be worked on. Such a packet passes untouched and is counted under its fault.
enum class ParseFault : std::uint8_t
{
  none,
  empty,           // no byte at all
  bad_version,     // neither IPv4 nor IPv6
  truncated_ip,    // the buffer ends inside the IP header, or before the IP length although the packet should be whole
  bad_ihl,         // IPv4 header length below 20 bytes
  length_mismatch, // IP length shorter than the headers, or an IPv6 jumbo length beside a payload length (RFC 2675)
  ip_option,       // an IPv4 option that overruns the header or is shorter than its own head
  fragment,        // an IP fragment, the first one and an atomic one included
  source_routed,   // the addresses in the IP header are not those of the ends (source route, home address): no pseudo
                   // header
  extension_overrun, // an IPv6 extension header that overruns the packet, its own options, or 1024 bytes in all
  extension_order,   // hop-by-hop options elsewhere than right behind the IPv6 header (RFC 8200 4.1)
  not_tcp,           // another protocol; AH and ESP included
  truncated_tcp,     // the buffer ends inside the TCP header
  bad_data_offset,   // TCP header length below 20 bytes or beyond the IP length
  option_length,     // a TCP option shorter than its own head
  options_overrun,   // a TCP option that overruns the header
};

constexpr std::size_t parse_fault_count = static_cast<std::size_t>(ParseFault::options_overrun) + 1;

// Words for counters and traces, in the order of the enumeration.
constexpr std::array<std::string_view, parse_fault_count> parse_fault_names {
  "none",          "empty",           "bad_version",   "truncated_ip",      "bad_ihl",         "length_mismatch",
  "ip_option",     "fragment",        "source_routed", "extension_overrun", "extension_order", "not_tcp",
  "truncated_tcp", "bad_data_offset", "option_length", "options_overrun"
};

constexpr std::string_view name(ParseFault fault)
{
  const auto index = static_cast<std::size_t>(fault);
  return index < parse_fault_count ? parse_fault_names[index] : "?";
}

struct Parsed
{
  Segment segment {}; // complete when ok(); else only what was read before the fault, with direction and bytes
  ParseFault fault = ParseFault::none;

  constexpr bool ok() const { return fault == ParseFault::none; }
};

// Reads an IPv4 or IPv6 packet with its TCP header and all options. Allocates nothing, never throws, reads only
// `packet`.
//
// `packet` starts at the IP header. It may be longer than the IP length says (link padding): Segment::bytes is then the
// shorter part. With `observed_cut` it may end anywhere behind the TCP header, and payload_length comes from the IP
// length. An IP length of zero (big TCP: a GSO / GRO super-packet beyond 64 KiB) means `original_length`, or the buffer
// when that is 0 too; an IPv6 jumbo option (RFC 2675) wins over both. `gso_size`: payload bytes of one segment of a
// super-packet, 0 when unknown or ordinary. Segment::link is left Link::other for the caller to set. Checksums are not
// looked at: see verify().
//
// Sources: RFC 791, RFC 8200, RFC 9293, RFC 7323, RFC 2018, RFC 8684 3, RFC 2385, RFC 5925, RFC 7413, RFC 5482, RFC
// 9768.
Parsed parse(std::span<const std::byte> packet, Direction direction, bool observed_cut = false,
             std::uint16_t gso_size = 0, std::uint32_t original_length = 0);

} // namespace tandem::wire
