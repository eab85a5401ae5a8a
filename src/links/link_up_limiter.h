// Whether Wi-Fi is up for the modules: up as the blackout detector says, but for a link that flaps. Each link-up costs
// every download its resume ACKs, and a link that flaps, whoever makes it, would multiply them. So at most a few in a
// row and one a second on average are told at one access point; the next end of a blackout is told late, together with
// those that follow meanwhile. Pure.
//
// "Down" is told at once, and "up" late, not the other way round: then nobody takes a link that flaps for calm, flows
// keep to the steadier link, and the resume ACKs come when the link has stayed. Packets pass all the while; a window
// that was closed stays so for a second longer.
#pragma once

#include "src/feeder/radio/frame.h"
#include "src/feeder/radio/token_bucket.h"

#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

namespace tandem::links
{

class LinkUpLimiter
{
public:
  static constexpr double per_second = 1;
  static constexpr double burst = 4;

  // `up`: as the detector says; `ap`: as far as the radio tells. Call also at next().
  void take(bool up, const std::optional<feeder::Mac>& ap, Tick now);

  bool up() const { return up_; } // for modules
  Tick since() const { return since_; }
  // When a link-up that is held back is due, at the latest; Tick::max() when there is none.
  Tick next() const { return next_; }
  std::uint64_t held() const { return held_; } // ends of blackouts that were not told at once

private:
  struct Place
  {
    std::optional<feeder::Mac> ap {};
    feeder::TokenBucket gate { per_second, burst };
    Tick used {};
  };
  Place& place(const std::optional<feeder::Mac>& ap, Tick now);

  // The access points of late: another one, after a roam, has link-ups of its own. Their names are learned from frames,
  // which are forged, too: a new name takes the place of the one not used for longest, with the link-ups that are left
  // to it.
  std::array<Place, 4> places_ {};
  std::size_t current_ = 0;
  bool up_ = true;
  Tick since_ {};
  Tick next_ = Tick::max();
  std::uint64_t held_ = 0;
};

} // namespace tandem::links
