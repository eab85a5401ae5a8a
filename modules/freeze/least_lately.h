// The least of a measure over the running span and the last one. Part of a flow's state; pure.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace tandem::freeze
{

// What is remembered is between one span and two of them old; over a longer pause nothing is.
template <class Measure>
struct LeastLately
{
  static constexpr Measure none = std::numeric_limits<Measure>::max();
  // CoDel's interval (RFC 8289 4.2), the longest usual round trip: ms.
  static constexpr std::uint32_t span = 100;

  std::uint32_t turn = 0; // when this span began, ms
  Measure now = none, before = none;

  void restart(std::uint32_t clock)
  {
    turn = clock;
    now = before = none;
  }
  // Begins the next span where it is time for it; true when it did.
  bool turns(std::uint32_t clock)
  {
    const std::uint32_t lasted = clock - turn;
    if (lasted < span) return false;
    before = lasted < 2 * span ? now : none;
    now = none;
    turn = clock;
    return true;
  }
  void take(Measure one) { now = std::min(now, one); }
  Measure least() const { return std::min(now, before); }
};

} // namespace tandem::freeze
