// Numbers as 802.11 and radiotap write them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace tandem::feeder
{

// At most 8 bytes.
constexpr std::uint64_t little_endian(std::span<const std::byte> bytes)
{
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8 | std::to_integer<std::uint64_t>(bytes[i]);
  return value;
}

} // namespace tandem::feeder
