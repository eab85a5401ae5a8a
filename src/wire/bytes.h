// Big-endian loads and stores on byte spans. Inner header of src/wire and its callers; the caller has checked the
// bounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::wire
{

constexpr std::uint8_t load8(std::span<const std::byte> bytes, std::size_t at)
{
  return std::to_integer<std::uint8_t>(bytes[at]);
}

constexpr std::uint16_t load16(std::span<const std::byte> bytes, std::size_t at)
{
  return static_cast<std::uint16_t>(load8(bytes, at) << 8 | load8(bytes, at + 1));
}

constexpr std::uint32_t load32(std::span<const std::byte> bytes, std::size_t at)
{
  return static_cast<std::uint32_t>(load16(bytes, at)) << 16 | load16(bytes, at + 2);
}

constexpr void store8(std::span<std::byte> bytes, std::size_t at, std::uint8_t value)
{
  bytes[at] = std::byte { value };
}

constexpr void store16(std::span<std::byte> bytes, std::size_t at, std::uint16_t value)
{
  store8(bytes, at, static_cast<std::uint8_t>(value >> 8));
  store8(bytes, at + 1, static_cast<std::uint8_t>(value & 0xff));
}

constexpr void store32(std::span<std::byte> bytes, std::size_t at, std::uint32_t value)
{
  store16(bytes, at, static_cast<std::uint16_t>(value >> 16));
  store16(bytes, at + 2, static_cast<std::uint16_t>(value & 0xffff));
}

} // namespace tandem::wire
