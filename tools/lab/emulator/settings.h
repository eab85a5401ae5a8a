// The keys of [wifi], [cell] and [wan]: one table each, used for profiles, scenarios, --set, the control socket and the
// timeline.
#pragma once

#include "tools/lab/emulator/value.h"
#include "tools/lab/medium/air.h"
#include "tools/lab/medium/pipe.h"

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tandem::lab
{

struct WifiSettings
{
  std::string profile = "wifi-g";
  medium::AirConfig air {};
  medium::HiddenSettings hidden {}; // an interferer at the client that the access points do not sense
  bool ack_free = false;            // uplink pure TCP ACKs take no air
  bool survey = true;               // whoever listens to the frames is told how busy the channel is, too
  // standard = "pipe": two links with exact numbers in place of the channel access. Queue lengths, losses, delay and
  // jitter are those of `air`; only the beacons are still its.
  bool pipe = false;
  Rate rate_down {}, rate_up {};
  std::uint64_t queue_bytes = 0; // of the access point; 0 = no limit in bytes
  medium::Aqm aqm {};            // of the access point
  // What the router behind the access points does, carried out outside of the emulator, with the kernel's netfilter.
  int firewall = 0; // none, drop, reject
  bool nat = false;
};

// One direction of a Wi-Fi that is a pipe.
medium::PipeConfig wifi_pipe(const WifiSettings& wifi, bool down);

// A link with two directions: down is towards the client.
struct PipePair
{
  medium::PipeConfig down {};
  medium::PipeConfig up {};
};

struct CellSettings
{
  std::string profile = "lte";
  bool enabled = true;
  bool nat = false;           // carried out outside of the emulator, with the kernel's netfilter
  bool source_filter = false; // likewise
  PipePair pipes {};
};

// One key: how a value is taken over, how it is copied back from another settings object (to end a timeline event), and
// whether it may change while the air is up.
template <typename Settings>
struct Key
{
  std::string_view name;
  void (*set)(Settings&, const Value&);
  void (*copy)(Settings& to, const Settings& from);
  bool live;
};

const std::vector<Key<WifiSettings>>& wifi_keys();
const std::vector<Key<CellSettings>>& cell_keys();
const std::vector<Key<PipePair>>& pipe_keys();

template <typename Settings>
const Key<Settings>* find_key(const std::vector<Key<Settings>>& keys, std::string_view name)
{
  for (const auto& key : keys)
    if (key.name == name) return &key;
  return nullptr;
}

template <typename Settings>
std::vector<std::string_view> names(const std::vector<Key<Settings>>& keys)
{
  std::vector<std::string_view> result;
  for (const auto& key : keys)
    result.push_back(key.name);
  return result;
}

// "54", "54Mbit" or "minstrel" (empty result). Throws BadInput with the rates of the standard.
std::optional<unsigned> wifi_rate(const medium::Phy& phy, const Value& value);

} // namespace tandem::lab
