// The packet mark bits that Tandem uses. Only these bits are ever compared or set: other users of the mark (VPNs,
// containers) keep theirs.
#pragma once

#include <cstdint>

namespace tandem::kernel
{

// A value under a mask.
struct MarkBits
{
  std::uint32_t value = 0;
  std::uint32_t mask = 0;

  constexpr bool operator==(const MarkBits&) const = default;
  constexpr bool in(std::uint32_t mark) const { return (mark & mask) == value; }
  // `mark` with these bits set and all others kept.
  constexpr std::uint32_t on(std::uint32_t mark) const { return (mark & ~mask) | value; }
  constexpr std::uint32_t off(std::uint32_t mark) const { return mark & ~mask; }
};

// One bit each, free of the ranges of wg-quick (0xca6c), Tailscale (0xff0000), Docker and Kubernetes (0xc000).
struct Marks
{
  MarkBits by_cell { 0x1000'0000, 0x1000'0000 };  // the policy route sends it by the cell link
  MarkBits injected { 0x2000'0000, 0x2000'0000 }; // made by Tandem: no rule queues it
  MarkBits release { 0x4000'0000,
                     0x4000'0000 }; // this flow need not be queued any more (RulePlan::release_by_connmark)

  constexpr bool operator==(const Marks&) const = default;
  constexpr std::uint32_t mask() const { return by_cell.mask | injected.mask | release.mask; }
};

} // namespace tandem::kernel
