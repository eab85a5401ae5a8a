// What one module gains in one place, and what follows: it acts, rests, or is tried again.
#pragma once

#include "src/evidence/sequence.h"

#include <cstdint>
#include <string_view>

namespace tandem::evidence
{

// Seconds of the wall clock (CLOCK_REALTIME). It may be set back or forth at any time, so what was noted is clamped to
// what is possible before it is used.
using WallTime = std::int64_t;

enum class Standing : std::uint8_t
{
  acting,  // as long as nothing speaks against it
  resting, // the interval says that it harms
  trial,   // its rest is over: it acts in comparisons alone, until it is known to do no harm
};

constexpr std::string_view name(Standing standing)
{
  switch (standing)
  {
  case Standing::acting:
    return "acting";
  case Standing::resting:
    return "resting";
  case Standing::trial:
    return "trial";
  }
  return "?";
}

struct Tally
{
  // A harm that matters: a hundredth of the goodput.
  static constexpr double margin = 0.01;
  static constexpr WallTime first_rest = 15 * 60;
  static constexpr WallTime longest_rest = 7 * 24 * 3600;
  // What was found so long ago is no evidence any more: access points are replaced, networks filled.
  static constexpr WallTime lasts = 30 * 24 * 3600;
  // Comparisons from which a place speaks for itself, and after which a sequence begins anew, so that what was true
  // once does not outweigh what is true now.
  static constexpr std::uint32_t enough = 8;
  static constexpr std::uint32_t longest = 4000;

  Sequence gains {};
  Standing standing = Standing::acting;
  std::uint8_t failures = 0; // rests in a row
  WallTime until = 0;        // while resting
  WallTime used = 0;

  // Brings it to `now`: a rest may be over, old evidence forgotten, a noted time impossible.
  void refresh(WallTime now);
  // A comparison has ended. True when the standing is another one.
  bool add(double difference, double weight, WallTime now);
  // Puts it to rest, for longer each time.
  void rest(WallTime now);

  bool harms() const;
  bool harmless() const; // surely so
  // How much of the usual share of comparisons is worth spending here: less once certain, more while harm is likely.
  double urgency() const;

  bool operator==(const Tally& other) const
  {
    return gains.sums() == other.gains.sums() && standing == other.standing && failures == other.failures
           && until == other.until && used == other.used;
  }
};

} // namespace tandem::evidence
