// Captured frames for tests, byte by byte.
#pragma once

#include "src/feeder/radio/frame.h"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tandem::feeder
{

inline constexpr Mac own { 2, 0, 0, 0, 1, 1 };
inline constexpr Mac ap { 2, 0, 0, 0, 2, 1 };
inline constexpr Mac ap2 { 2, 0, 0, 0, 2, 2 };
inline constexpr Mac neighbour { 2, 0, 0, 0, 7, 1 };

class Capture
{
public:
  std::vector<std::byte> bytes {};

  Capture& u8(std::uint64_t v) { return put(v, 1); }
  Capture& u16(std::uint64_t v) { return put(v, 2); }
  Capture& u32(std::uint64_t v) { return put(v, 4); }
  Capture& u64(std::uint64_t v) { return put(v, 8); }
  Capture& mac(const Mac& m)
  {
    for (const auto b : m)
      u8(b);
    return *this;
  }
  Capture& add(const std::vector<std::byte>& more)
  {
    bytes.insert(bytes.end(), more.begin(), more.end());
    return *this;
  }

private:
  Capture& put(std::uint64_t v, int size)
  {
    for (int i = 0; i < size; ++i)
      bytes.push_back(static_cast<std::byte>(v >> (8 * i) & 0xff));
    return *this;
  }
};

struct Spec
{
  std::uint16_t control = 0x0008; // frame control: data
  Mac to = own;
  Mac from = ap;
  bool with_from = true;
  bool damaged = false;
  std::int8_t signal = -50;
  std::uint64_t sent = 1000;
  std::uint16_t sequence = 0;
};

// radiotap with TSFT, flags, rate, channel and signal; then the 802.11 header.
inline std::vector<std::byte> record(const Spec& s)
{
  Capture c {};
  c.u8(0).u8(0).u16(8 + 8 + 1 + 1 + 4 + 1 + 1).u32(0b101111).u64(s.sent).u8(s.damaged ? 0x40 : 0).u8(108);
  c.u16(2412).u16(0x00c0).u8(static_cast<std::uint8_t>(s.signal)).u8(0);
  c.u16(s.control).u16(44).mac(s.to);
  if (s.with_from) c.mac(s.from).mac(ap).u16(static_cast<std::uint64_t>(s.sequence) << 4);
  return c.bytes;
}

inline constexpr std::uint16_t down = 0x0208, upward = 0x0108, ack_frame = 0x00d4, beacon_frame = 0x0080,
                               deauthentication = 0x00c0;

} // namespace tandem::feeder
