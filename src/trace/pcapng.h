// Numbers of the pcapng format. Inner header of src/trace.
// Source: draft-ietf-opsawg-pcapng (sections 3.5 options, 4.1 section header, 4.2 interface, 4.3 enhanced packet, 4.4
// simple packet).
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::trace::pcapng
{

constexpr std::uint32_t section_header = 0x0a0d0d0a, interface_description = 1, packet_obsolete = 2, simple_packet = 3,
                        enhanced_packet = 6;
// Local use, of Tandem's recordings: a time of the chain, then an encoded ChainInput.
constexpr std::uint32_t chain_input = 0x8054444d;
constexpr std::uint32_t byte_order_magic = 0x1a2b3c4d, byte_order_swapped = 0x4d3c2b1a;
constexpr std::uint16_t major_version = 1, minor_version = 0;

namespace option
{
constexpr std::uint16_t end = 0, comment = 1;
constexpr std::uint16_t section_os = 3, section_application = 4;
constexpr std::uint16_t interface_name = 2, interface_description = 3, interface_resolution = 9, interface_offset = 14;
constexpr std::uint16_t packet_flags = 2, packet_id = 5;
constexpr std::uint16_t asked = 0x8054; // local use, of a packet: how the chain was asked about it
} // namespace option

// epb_flags, bits 0 and 1.
constexpr std::uint32_t inbound = 1, outbound = 2, direction_mask = 3;

constexpr std::uint16_t linktype_raw = 101; // IPv4 or IPv6 by the version field

constexpr std::size_t padded(std::size_t length)
{
  return (length + 3) & ~std::size_t { 3 };
}

} // namespace tandem::trace::pcapng
