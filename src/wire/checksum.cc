#include "src/wire/checksum.h"

#include "src/wire/bytes.h"
#include "src/wire/layout.h"

#include <bit>
#include <cstring>

namespace tandem::wire
{
namespace
{

constexpr std::uint16_t fold(std::uint64_t total)
{
  while (total >> 16 != 0)
    total = (total & 0xffff) + (total >> 16);
  return static_cast<std::uint16_t>(total);
}

constexpr std::uint16_t from_native(std::uint16_t value)
{
  if constexpr (std::endian::native == std::endian::little) return static_cast<std::uint16_t>(value << 8 | value >> 8);
  return value;
}

std::size_t whole_length(const Segment& segment)
{
  return std::size_t { segment.ip_header_length } + segment.tcp_header_length + segment.payload_length;
}

bool holds(std::span<const std::byte> packet, const Segment& segment)
{
  return segment.ip_header_length >= layout::ipv4_header && segment.tcp_header_length >= layout::tcp_header
         && packet.size() >= whole_length(segment);
}

std::size_t ipv4_header_length(std::span<const std::byte> packet)
{
  return std::size_t { 4 } * (load8(packet, 0) & 0x0f);
}

} // namespace

std::uint16_t sum(std::span<const std::byte> bytes, std::uint16_t initial)
{
  // Native-endian 32-bit words in a 64-bit accumulator: no carry can be lost below 2^32 words, and the byte order of a
  // one's complement sum can be put right at the end (RFC 1071 2(B)).
  std::uint64_t total = 0;
  const std::byte* at = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 8; left -= 8, at += 8)
  {
    std::uint64_t words = 0;
    std::memcpy(&words, at, 8);
    total += (words & 0xffffffff) + (words >> 32);
  }
  std::uint64_t tail = 0;
  if (left != 0) std::memcpy(&tail, at, left);
  total += (tail & 0xffffffff) + (tail >> 32);
  return fold(std::uint64_t { from_native(fold(total)) } + initial);
}

std::uint16_t checksum(std::span<const std::byte> bytes, std::uint16_t initial)
{
  return static_cast<std::uint16_t>(~sum(bytes, initial));
}

std::uint16_t pseudo_header_sum(const Address& a, const Address& b, std::uint8_t protocol, std::uint32_t length)
{
  const std::size_t size = a.v6 ? 16 : 4;
  std::uint16_t total = sum(std::as_bytes(std::span { a.bytes }).first(size));
  total = sum(std::as_bytes(std::span { b.bytes }).first(size), total);
  return fold(std::uint64_t { total } + protocol + (length >> 16) + (length & 0xffff));
}

std::uint16_t tcp_checksum(std::span<const std::byte> packet, const Segment& segment)
{
  const auto tcp = packet.subspan(segment.ip_header_length, segment.tcp_header_length + segment.payload_length);
  const auto pseudo = pseudo_header_sum(segment.key.local, segment.key.remote, layout::protocol::tcp,
                                        static_cast<std::uint32_t>(tcp.size()));
  const std::uint16_t before = sum(tcp.first(layout::tcp_checksum), pseudo);
  return checksum(tcp.subspan(layout::tcp_checksum + 2), before);
}

bool verify(std::span<const std::byte> packet, const Segment& segment)
{
  if (!holds(packet, segment)) return false;
  if (!segment.key.local.v6 && sum(packet.first(ipv4_header_length(packet))) != 0xffff) return false;
  return load16(packet, segment.ip_header_length + layout::tcp_checksum) == tcp_checksum(packet, segment);
}

bool damaged(const Segment& segment)
{
  if (!holds(segment.bytes, segment)) return false;
  if (!segment.key.local.v6 && sum(segment.bytes.first(ipv4_header_length(segment.bytes))) != 0xffff) return true;
  // By the sum, which takes both ways of writing zero.
  const auto tcp = segment.bytes.subspan(segment.ip_header_length);
  const auto pseudo = pseudo_header_sum(segment.key.local, segment.key.remote, layout::protocol::tcp,
                                        static_cast<std::uint32_t>(tcp.size()));
  return sum(tcp, pseudo) != 0xffff;
}

bool seal(std::span<std::byte> packet, const Segment& segment)
{
  if (!holds(packet, segment)) return false;
  if (!segment.key.local.v6)
  {
    store16(packet, layout::ipv4_checksum, 0);
    store16(packet, layout::ipv4_checksum, checksum(packet.first(ipv4_header_length(packet))));
  }
  store16(packet, segment.ip_header_length + layout::tcp_checksum, tcp_checksum(packet, segment));
  return true;
}

} // namespace tandem::wire
