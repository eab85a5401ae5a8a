// The TSval of a flow is one resource with one owner at a time.
#pragma once

#include <tandem/seq.h>

#include <cstdint>

namespace tandem
{

// TSvals of a flow that only the segments of one module by another link carry, so that the server's echo of one tells
// by which way it came (RFC 7323 4.3, docs/decisions/0003). The chain grants one reservation a flow, shows it in
// FlowView::ts_reserved and lowers the TSval of everything else that leaves to one that is free.
struct TsReservation
{
  enum class What : std::uint8_t
  {
    none,
    onward, // `from` and every younger one
    odd,    // every odd one from `from` on
  };
  What what = What::none;
  TsClock from {};

  bool operator==(const TsReservation&) const = default;
  constexpr bool holds(TsClock value) const
  {
    return what != What::none && value.at_or_after(from) && (what == What::onward || (value.raw & 1u) != 0);
  }
  // The youngest TSval up to `value` that everybody may send.
  constexpr TsClock free(TsClock value) const
  {
    if (!holds(value)) return value;
    return what == What::onward ? from - 1 : value - 1;
  }
};

} // namespace tandem
