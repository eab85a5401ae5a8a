// TCP sequence numbers and timestamps: 32 bits that wrap, ordered by serial-number arithmetic (RFC 9293 3.4, RFC
// 7323 5.2).
#pragma once

#include <compare>
#include <cstdint>

namespace tandem
{

// A sequence number. There is no operator<: order only has a meaning within 2^31, so the comparisons are spelled out.
struct Seq
{
  std::uint32_t raw = 0;

  constexpr bool operator==(const Seq&) const = default;
  constexpr bool after(Seq other) const { return static_cast<std::int32_t>(raw - other.raw) > 0; }
  constexpr bool before(Seq other) const { return other.after(*this); }
  constexpr bool at_or_after(Seq other) const { return !before(other); }
  constexpr bool at_or_before(Seq other) const { return !after(other); }
  constexpr Seq operator+(std::uint32_t bytes) const { return { raw + bytes }; }
  constexpr Seq operator-(std::uint32_t bytes) const { return { raw - bytes }; }
  // Bytes from `other` up to this one; negative when this one is the earlier.
  constexpr std::int32_t operator-(Seq other) const { return static_cast<std::int32_t>(raw - other.raw); }
};

constexpr Seq later(Seq a, Seq b)
{
  return a.after(b) ? a : b;
}
constexpr Seq earlier(Seq a, Seq b)
{
  return a.before(b) ? a : b;
}

// A TSval / TSecr clock value. The same arithmetic, another type: a timestamp is never compared with a sequence number.
struct TsClock
{
  std::uint32_t raw = 0;

  constexpr bool operator==(const TsClock&) const = default;
  constexpr bool after(TsClock other) const { return static_cast<std::int32_t>(raw - other.raw) > 0; }
  constexpr bool before(TsClock other) const { return other.after(*this); }
  constexpr bool at_or_after(TsClock other) const { return !before(other); }
  constexpr bool at_or_before(TsClock other) const { return !after(other); }
  constexpr TsClock operator+(std::uint32_t ticks) const { return { raw + ticks }; }
  constexpr TsClock operator-(std::uint32_t ticks) const { return { raw - ticks }; }
  constexpr std::int32_t operator-(TsClock other) const { return static_cast<std::int32_t>(raw - other.raw); }
};

} // namespace tandem
