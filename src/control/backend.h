// What the control API can ask of the running daemon. The control thread calls it; the engine answers from the packet
// thread.
#pragma once

#include <tandem/units.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <stdexcept>
#include <string>

namespace tandem::control
{

// A request that the daemon cannot carry out, in words for the user. Becomes an HTTP status and a CLI exit code.
class Refused : public std::runtime_error
{
public:
  enum class Kind
  {
    bad_request, // unknown module, knob or value: HTTP 400, exit code 2
    conflict,    // not possible now: HTTP 409, exit code 1
    busy,        // the packet thread did not answer in time: HTTP 503, exit code 1
  };
  Refused(Kind k, const std::string& what) : std::runtime_error { what }, kind { k } {}
  Kind kind;
};

// Which part of the flight recorder is wanted.
struct Part
{
  Duration last {};                      // its last so long only; zero: all
  std::optional<std::uint64_t> after {}; // leave out so many entries, counted from the daemon's first one
};

// Every call may be made from the control thread at any time, takes at most a second, and throws only Refused.
class Backend
{
public:
  virtual ~Backend() = default;

  // {version, pid, uptime_s, backend: {name, why}, links: {wifi: {...}, cell: {...}, wifi2: ...}, steering: {...},
  // datapath: {queued, passed,
  // edited, dropped, injected,
  //  observed, queue_drops, ...}, faults: {reason: count}, keeper: {...}, flows: {count, capacity, refused}, modules: [
  //  ... as modules() ]}
  virtual nlohmann::json status() = 0;
  // [{name, summary, enabled, faults, flows, decisions: {why: count}, knobs: [{name, type, unit, minimum, maximum,
  // default, value, help, choices?}]}]
  virtual nlohmann::json modules() = 0;
  // [{id, local, remote, link, age_s, rtt_ms, rtt_min_ms, rate_mbps, window_bytes, delivered_bytes, bypass, modules:
  // {name: {fact: value}}}]
  virtual nlohmann::json flows() = 0;
  // {wifi: {sources: [...], aps: [...], surveys: [...], candidates: [...]}, cell: {modems: [...]}, wifi2: as wifi, ...,
  // steering: {...}}: what the sources of driver statistics know. Asking opens them for a while.
  virtual nlohmann::json links() = 0;
  // The module's Markdown manual with its knobs.
  virtual std::string manual(const std::string& module) = 0;

  // `save`: over restarts, too. When it cannot be saved it holds for this run, and Refused says so.
  virtual void enable(const std::string& module, bool on, bool save) = 0;
  // `value` as the user typed it ("20", "1.5s", "yes", a choice); checked against the knob's range.
  virtual void set(const std::string& module, const std::string& knob, const std::string& value, bool save) = 0;
  // {file, problem, saved: [{name, value, saved_s, ignored, in_force: {value, from}, without: {value, from}}], run:
  // [{name, in_force, without}]}: what is saved and what was set for this run; `without`: what would be in force then.
  virtual nlohmann::json saved() = 0;
  // Forgets what is saved of "offload" (its switch) or "offload.window_mss"; [{name, in_force: {value, from}}].
  virtual nlohmann::json forget_saved(const std::string& name) = 0;
  virtual nlohmann::json forget_all_saved() = 0;
  // What is left alone: {file, problem, exclusions: [{kind, what, from, saved_s?, flows, problem}]}; `kind` is "to",
  // "user", "service" or "ssid".
  virtual nlohmann::json exclusions() = 0;
  // Leaves it alone from now on, over restarts, too; {kind, what} as it is written from then on.
  virtual nlohmann::json add_exclusion(const std::string& kind, const std::string& what) = 0;
  virtual nlohmann::json remove_exclusion(const std::string& kind, const std::string& what) = 0;
  // Takes a user's announcement on the Wi-Fi link: a blackout is near ("risk"), there ("down") or over ("up"). Counts
  // for `for_s` seconds, at most 60.
  virtual void announce(const std::string& what, double for_s) = 0;
  // Writes the flight recorder as pcapng; returns the bytes of the file.
  virtual std::string recording(const Part& wanted) = 0;
  // Numbers for Prometheus: [{name, help, type: "counter" | "gauge", value, labels: {..}}]; names carry the prefix
  // tandem_.
  virtual nlohmann::json metrics() = 0;
  // What was learnt of networks: [{kind: "wifi", name, ssid, gateway, here, used_s, places: [{cell, servers, used_s,
  // modules: {NAME: {comparisons, gain, low, high, standing, rests_s}}}]}], and of cellular links: [{kind: "cellular",
  // name, here, used_s, paths: [{servers, failures, rests_s}]}], paths that are not tried now
  virtual nlohmann::json networks() = 0;
  // Forgets what has this name; how many networks and cellular links that were.
  virtual std::size_t forget_network(const std::string& name) = 0;
  virtual std::size_t forget_networks() = 0;
  // What was put on the cellular link: {today: {by: {NAME: BYTES}, used_bytes, limit_bytes, left_bytes}, month:
  // likewise, since_start: likewise, left_bytes, kept}; a limit that there is none of is null.
  virtual nlohmann::json budget() = 0;
  // Access points in range, and those that are kept: {interface, keep, several_channels, saved, problem, card:
  // {stations, channels, stations_apart, channels_apart}, turns?: {doing, problem, backup, orders, late, failed,
  // longest_ms, best_mhz?}, access_points: [{ap, ssid, frequency_mhz, channel, signal_dbm?, age_s?, interface, worth,
  // why}], stations:
  // [{interface, ap, state, since_s, address?, endpoint}]}
  virtual nlohmann::json aps() = 0;
  // At how many the card is to be in all; 0: at that of its own alone. `several_channels`: also on others than its own,
  // as far as the card can. `save`: over restarts, too; 0 forgets then what
  // is saved. When it cannot be saved it holds for this run, and Refused says so.
  virtual void keep_aps(std::uint64_t most, bool several_channels, bool save) = 0;
  // Has wpa_supplicant look around; the list is fresh some seconds later.
  virtual void scan_aps() = 0;
  // Moves the card's own association to the access point "02:00:00:00:00:01".
  virtual void roam(const std::string& ap) = 0;
  // Thresholds at which the recording is kept: [{id, when, save, fired, saw?, ago_s?, file?, problem?}]
  virtual nlohmann::json traps() = 0;
  // As the user typed it, "flow.gap > 500ms"; its number.
  virtual std::uint64_t add_trap(const std::string& when, bool save) = 0;
  virtual void remove_trap(std::uint64_t id) = 0;
};

} // namespace tandem::control
