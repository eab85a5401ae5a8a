#include "src/feeder/frame.h"

#include <algorithm>

namespace tandem::feeder
{

namespace
{

std::uint64_t little_endian(std::span<const std::byte> bytes)
{
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

// Size and alignment of radiotap's first fields, in the order of their bits; only those up to the signal matter.
struct Field
{
  std::size_t size;
  std::size_t align;
};
constexpr std::array<Field, 6> fields { { { 8, 8 }, { 1, 1 }, { 1, 1 }, { 4, 2 }, { 2, 2 }, { 1, 1 } } };
enum : std::size_t
{
  tsft,
  flags,
  rate,
  channel,
  hopping,
  signal,
};

Mac mac_at(std::span<const std::byte> bytes, std::size_t at)
{
  Mac mac {};
  for (std::size_t i = 0; i < mac.size(); ++i)
    mac[i] = std::to_integer<std::uint8_t>(bytes[at + i]);
  return mac;
}

} // namespace

std::optional<Frame> parse_frame(std::span<const std::byte> record)
{
  constexpr std::size_t fixed = 8;
  if (record.size() < fixed || record[0] != std::byte { 0 }) return {};
  const auto length = static_cast<std::size_t>(little_endian(record.subspan(2, 2)));
  if (length < fixed || length > record.size()) return {};
  const std::uint64_t present = little_endian(record.subspan(4, 4));
  std::size_t at = fixed;
  // Bit 31: one more word of bits follows.
  for (std::uint64_t word = present; (word >> 31 & 1) != 0; at += 4)
  {
    if (at + 4 > length) return {};
    word = little_endian(record.subspan(at, 4));
  }
  Frame frame {};
  for (std::size_t i = 0; i < fields.size(); ++i)
  {
    if ((present >> i & 1) == 0) continue;
    at = (at + fields[i].align - 1) / fields[i].align * fields[i].align;
    if (at + fields[i].size > length) return {};
    const std::uint64_t value = little_endian(record.subspan(at, fields[i].size));
    if (i == tsft) frame.sent = value;
    if (i == flags) frame.damaged = (value & 0x40) != 0;
    if (i == signal) frame.signal = static_cast<float>(static_cast<std::int8_t>(value));
    at += fields[i].size;
  }

  const auto header = record.subspan(length);
  constexpr std::size_t shortest = 10; // frame control, duration, receiver
  if (header.size() < shortest) return {};
  const auto control = little_endian(header.first(2));
  const auto type = control >> 2 & 3;
  const auto subtype = control >> 4 & 15;
  frame.to_ap = (control & 0x0100) != 0;
  frame.from_ap = (control & 0x0200) != 0;
  frame.receiver = mac_at(header, 4);
  const bool with_transmitter = header.size() >= 16 && !(type == 1 && (subtype == 12 || subtype == 13)); // CTS, ACK
  if (with_transmitter) frame.transmitter = mac_at(header, 10);
  constexpr std::size_t with_sequence = 24;
  if (type != 1 && header.size() >= with_sequence)
    frame.sequence = static_cast<std::uint16_t>(little_endian(header.subspan(22, 2)) >> 4);
  if (type == 2)
    frame.kind = Frame::Kind::data;
  else if (type == 1 && (subtype == 13 || subtype == 9)) // ACK, block ACK
    frame.kind = Frame::Kind::acknowledgement;
  else if (type == 0 && subtype == 8)
    frame.kind = Frame::Kind::beacon;
  else if (type == 0 && (subtype == 12 || subtype == 10))
    frame.kind = Frame::Kind::goodbye;
  return frame;
}

} // namespace tandem::feeder
