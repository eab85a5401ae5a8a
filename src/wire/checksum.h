// Internet checksums (RFC 1071), their TCP and ICMPv6 pseudo headers (RFC 9293 3.1, RFC 8200 8.1) and incremental
// update (RFC 1624).
#pragma once

#include <tandem/segment.h>

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::wire
{

// What the TCP checksum field of a packet holds.
enum class ChecksumState : std::uint8_t
{
  partial,  // only the pseudo header's part, or nothing of use: a local packet, or one that GRO merged
            // (NFQA_SKB_CSUMNOTREADY)
  complete, // as on the wire; right or wrong
};

// One's complement sum of `bytes` folded to 16 bits, as if they stood at an even offset; an odd last byte is padded
// with zero. Not complemented. `initial` is a sum to go on from.
std::uint16_t sum(std::span<const std::byte> bytes, std::uint16_t initial = 0);

// The checksum of `bytes`: the complement of their sum.
std::uint16_t checksum(std::span<const std::byte> bytes, std::uint16_t initial = 0);

// Sum of the pseudo header for a payload of `length` bytes of `protocol` between two addresses of one family. The order
// of the addresses does not matter to the sum.
std::uint16_t pseudo_header_sum(const Address& a, const Address& b, std::uint8_t protocol, std::uint32_t length);

// `check` after a 16-bit aligned part of what it covers changed from `before` to `after` (RFC 1624 equation 3). A
// checksum that was wrong stays wrong by the same amount, so damage on the way is still found by the receiver.
constexpr std::uint16_t update16(std::uint16_t check, std::uint16_t before, std::uint16_t after)
{
  std::uint32_t s = static_cast<std::uint16_t>(~check);
  s += static_cast<std::uint16_t>(~before);
  s += after;
  s = (s & 0xffff) + (s >> 16);
  s = (s & 0xffff) + (s >> 16);
  return static_cast<std::uint16_t>(~s);
}

// The TCP checksum that `packet` should carry. `segment` is its parse; `packet` holds all of it.
std::uint16_t tcp_checksum(std::span<const std::byte> packet, const Segment& segment);

// Are the IPv4 header checksum and the TCP checksum right? False as well when `packet` does not hold the whole segment.
bool verify(std::span<const std::byte> packet, const Segment& segment);

// Whether a checksum is there to be looked at and wrong: TCP will drop the segment. False when `segment.bytes` were
// cut.
bool damaged(const Segment& segment);

// Write the IPv4 header checksum and the complete TCP checksum, whatever stood there. Returns false (nothing written)
// when `packet` does not hold the whole segment. Never for an arriving segment with a complete checksum: that would
// hide damage from TCP.
bool seal(std::span<std::byte> packet, const Segment& segment);

} // namespace tandem::wire
