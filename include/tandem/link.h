// The ways to the Internet, by the role they play rather than by device name.
#pragma once

#include <tandem/units.h>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tandem
{

// What a link is for.
enum class LinkRole : std::uint8_t
{
  wifi,
  cell,
  other,
};

// A link by its role; the first of each role has a name here. This laptop may have more Wi-Fi links, each at an access
// point of its own: wifi_link(1) and so on. Only modules with Interest::every_link hear of their flows, as copies.
enum class Link : std::uint8_t
{
  wifi,  // the link downloads arrive on
  cell,  // the second way
  other, // anything else: never touched. Its LinkState is present while there are Wi-Fi links beyond most_wifi
};

constexpr std::size_t most_wifi = 8;
constexpr std::size_t link_count = 2 + most_wifi; // with cell and other

// The Wi-Fi link of this number, 0 to most_wifi - 1.
constexpr Link wifi_link(std::size_t number)
{
  return number == 0 ? Link::wifi : static_cast<Link>(static_cast<std::size_t>(Link::other) + number);
}

// The other way round, of a Wi-Fi link.
constexpr std::size_t wifi_number(Link link)
{
  return link == Link::wifi ? 0 : static_cast<std::size_t>(link) - static_cast<std::size_t>(Link::other);
}

// Of a number that is no link's: other.
constexpr LinkRole role(Link link)
{
  if (link == Link::cell) return LinkRole::cell;
  return link == Link::other || static_cast<std::size_t>(link) >= link_count ? LinkRole::other : LinkRole::wifi;
}

// Every link, in the order of arrays that have an element for each.
constexpr std::array<Link, link_count> all_links = []
{
  std::array<Link, link_count> all {};
  for (std::size_t i = 0; i < all.size(); ++i)
    all[i] = static_cast<Link>(i);
  return all;
}();

namespace detail
{
static_assert(most_wifi <= 9, "names end in one digit");
constexpr auto further_wifi_names = []
{
  std::array<std::array<char, 5>, most_wifi - 1> names {};
  for (std::size_t i = 0; i < names.size(); ++i)
    names[i] = { 'w', 'i', 'f', 'i', static_cast<char>('2' + i) };
  return names;
}();
} // namespace detail

// "wifi", "cell", "other", and of the further Wi-Fi links "wifi2" .. "wifi8".
constexpr std::string_view name(Link link)
{
  if (static_cast<std::size_t>(link) >= link_count) return "?";
  switch (role(link))
  {
  case LinkRole::cell:
    return "cell";
  case LinkRole::other:
    return "other";
  case LinkRole::wifi:
    break;
  }
  if (link == Link::wifi) return "wifi";
  const auto& further = detail::further_wifi_names[wifi_number(link) - 1];
  return { further.data(), further.size() };
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
  // Share of time that what this host receives takes, by packet_time: for links whose driver does not tell `busy`.
  std::optional<float> received {};
  // dBm, of the strongest other access point of the same network that a scan has found lately: where the card may go.
  std::optional<float> candidate {};
};

// The newest frames for this host that the radio heard with a bad check sequence: wireless losses, without those
// that a retry made good.
struct DamageLog
{
  std::array<Tick, 128> at {}; // a ring
  std::uint64_t count = 0;     // in all
  bool listening = false;      // a source of frames is at work; without one nothing means nothing

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
