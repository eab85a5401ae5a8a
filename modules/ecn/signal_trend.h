// The signal of an access point as it is to be expected now: what the radio tells is a mean over the last beacons, so
// it is behind while somebody walks. Pure.
#pragma once

#include <tandem/units.h>

#include <array>
#include <cstddef>
#include <optional>

namespace tandem::ecn
{

class SignalTrend
{
public:
  // With every look; empty: nothing is heard.
  void look(std::optional<float> dbm, Tick now);
  // dBm; what was told last, and what it has moved in the last seconds carried on, by 3 dB at most: a signal that jumps
  // does not go on jumping. Empty when nothing is heard.
  std::optional<float> now() const;
  std::optional<float> told() const { return newest_; }

private:
  struct Told
  {
    float dbm = 0;
    Tick at {};
  };
  std::array<Told, 5> told_ {}; // a ring, every half second at most
  std::size_t count_ = 0;
  std::optional<float> newest_ {};
  Tick at_ {};
};

} // namespace tandem::ecn
