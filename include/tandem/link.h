// The two ways to the Internet, by the role they play rather than by device name.
#pragma once

#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem
{

enum class Link : std::uint8_t
{
  wifi,  // the link downloads arrive on
  cell,  // the second way
  other, // anything else: never touched
};

constexpr std::size_t link_count = 3;

constexpr std::string_view name(Link link)
{
  switch (link)
  {
  case Link::wifi:
    return "wifi";
  case Link::cell:
    return "cell";
  case Link::other:
    return "other";
  }
  return "?";
}

// What the radio tells of the access point that a link is associated with (src/feeder/estimator.h).
struct RadioState
{
  std::optional<Duration> packet_time {}; // mean time to deliver one full packet if we were alone
  std::optional<float> delivery {};       // probability that an attempt arrives
  std::optional<float> signal {};         // dBm
  float confidence = 0;                   // of the first two, 0 .. 1
};

// The newest frames for this host that the radio heard with a bad check sequence: losses of the air, without those
// that a retry made good.
struct DamageLog
{
  std::array<Tick, 128> at {}; // a ring
  std::uint64_t count = 0;     // in all
  bool listening = false;      // a source of frames says so now; without one nothing means nothing

  void add(Tick when) { at[count++ % at.size()] = when; }
  // It was repeated and arrived whole.
  void take_back(Tick when)
  {
    for (Tick& one : at)
      if (one == when) one = Tick {};
  }
  // How many of the newest were heard in [from, to].
  constexpr unsigned between(Tick from, Tick to) const
  {
    unsigned heard = 0;
    for (std::size_t i = 0; i < at.size() && i < count; ++i)
      heard += at[i] != Tick {} && at[i] >= from && at[i] <= to ? 1 : 0;
    return heard;
  }
};

} // namespace tandem
