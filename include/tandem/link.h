// The ways to the Internet, by the role they play rather than by device name.
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
  // More stations of this laptop, each at an access point of its own. Only modules with Interest::every_link hear of
  // their flows, as copies.
  wifi_2,
  wifi_3,
  wifi_4,
  wifi_5,
  wifi_6,
  wifi_7,
  wifi_8,
};

constexpr std::size_t link_count = 10;
constexpr std::size_t most_wifi = 8; // wifi and wifi_2 .. wifi_8

// The laptop's Wi-Fi links by number, 0 to most_wifi - 1.
constexpr Link wifi_link(std::size_t number)
{
  return number == 0 ? Link::wifi : static_cast<Link>(static_cast<std::size_t>(Link::wifi_2) + number - 1);
}

// The other way round, of a Wi-Fi link.
constexpr std::size_t wifi_number(Link link)
{
  return link == Link::wifi ? 0 : static_cast<std::size_t>(link) - static_cast<std::size_t>(Link::wifi_2) + 1;
}

constexpr bool is_wifi(Link link)
{
  return link == Link::wifi || link >= Link::wifi_2;
}

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
  case Link::wifi_2:
    return "wifi2";
  case Link::wifi_3:
    return "wifi3";
  case Link::wifi_4:
    return "wifi4";
  case Link::wifi_5:
    return "wifi5";
  case Link::wifi_6:
    return "wifi6";
  case Link::wifi_7:
    return "wifi7";
  case Link::wifi_8:
    return "wifi8";
  }
  return "?";
}

// What the radio tells of the access point that a link is associated with (src/feeder/radio/estimator.h).
struct RadioState
{
  std::optional<Duration> packet_time {}; // mean time to deliver one full packet if we were alone
  std::optional<float> delivery {};       // probability that an attempt arrives
  std::optional<float> signal {};         // dBm
  float confidence = 0;                   // of the first two, 0 .. 1
  std::uint32_t frequency = 0;            // MHz; 0 = not known. Links of one frequency share their air
  std::optional<float> busy {};           // share of time in which the channel is in use, by anybody, us included
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
