// What the kernel's Wi-Fi stack says in its netlink messages (linux/nl80211.h). Pure: bytes in, plain values out. A
// field that a driver left out, or that is too short to be what it should be, is absent.
#pragma once

#include "src/feeder/radio/report.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <variant>

namespace tandem::feeder::nl80211
{

// One message of the family nl80211.
struct Message
{
  std::uint8_t command = 0;                // NL80211_CMD_...
  std::optional<std::uint32_t> ifindex {}; // of the interface that it is about
  std::variant<std::monostate, StationStats, Survey, WifiChange, Candidate> what {};
};

// `bytes`: one netlink message from its header on, aligned to 4 bytes. Nothing when it is cut short or contradicts
// itself. A connection attempt that failed is a message that says nothing.
std::optional<Message> decode(std::span<const std::byte> bytes);

// An interface, of NL80211_CMD_NEW_INTERFACE.
struct Interface
{
  std::string name;
  std::uint32_t ifindex = 0;
  std::uint32_t wiphy = 0;
  std::uint32_t type = 0; // NL80211_IFTYPE_...
  std::optional<Mac> mac {};
  std::string ssid {}; // of the network it is in; empty: in none, or the driver does not say

  bool is_client() const; // of an access point; not one itself, and no monitor
};
std::optional<Interface> decode_interface(std::span<const std::byte> bytes);

// What a radio is able to do. It comes in several messages (NL80211_CMD_NEW_WIPHY), which add up.
struct Wiphy
{
  std::string name {};
  std::optional<bool> monitor {};          // can be a monitor
  std::optional<bool> software_monitor {}; // beside any other use
  std::optional<bool> cqm_list {};         // several RSSI thresholds, which the driver can only offer with one, too
  // At how many access points it can be at the same time, and then on how many channels. Absent: the driver says
  // nothing of several interfaces, which means one.
  std::optional<std::uint32_t> stations {};
  std::optional<std::uint32_t> channels {};
  // The same of the combination that has most stations on two channels or more. Absent: there is none.
  std::optional<std::uint32_t> stations_apart {};
  std::optional<std::uint32_t> channels_apart {};

  void take(std::span<const std::byte> bytes);
};

} // namespace tandem::feeder::nl80211
