// A scenario file: the air, the links, the servers, and what happens to them when. Schema: docs/lab-scenarios.md.
#pragma once

#include "tools/lab/emulator/settings.h"

#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace tandem::lab
{

struct ApSettings
{
  std::string name;
  unsigned channel = 1;
  double signal_dbm = -50; // as the client hears it
  // The client's Wi-Fi interface that begins at this access point: 0 = wlan0. Empty: one may come by in a handoff.
  std::optional<std::size_t> interface {
  };
  std::optional<unsigned> rate {}; // of the client's frames here, both ways; index into the rates of the standard
  double frame_error = 0;          // likewise, on top of [wifi]'s
  // Of the wire between the access point and the WAN; set outside of the emulator. Empty: no limit.
  std::optional<Rate> uplink {};
  unsigned uplink_queue = 100; // packets, drop-tail
  unsigned uplink_flows = 0;   // downloads of others behind this access point, who do not use its air
};

// Most Wi-Fi interfaces that the client can have.
constexpr std::size_t most_interfaces = 8;

// Background traffic of one more station.
struct BackgroundSettings
{
  std::string name;
  std::size_t ap = 0;
  medium::Traffic direction = medium::Traffic::down;
  std::optional<Rate> load {}; // empty = saturated
  std::uint32_t size = 1464;   // UDP payload bytes
  double signal_dbm = -50;
};

struct ServerSettings
{
  std::string name;
  std::string congestion = "cubic"; // set outside of the emulator
  PipePair pipes {};
};

// --- what a timeline entry does ---

enum class Section : std::uint8_t
{
  wifi,
  cell,
  wan,
};

// Another value for a key, until `for` is over (then the scenario's own value is back) or for good.
struct ChangeEvent
{
  Section section = Section::wifi;
  std::string key;
  std::optional<std::size_t> server {}; // wan: one server's pipe; empty = all
  WifiSettings wifi {};                 // the new value sits in the one that `section` names
  PipePair pipes {};
};

struct BlackoutEvent
{
  medium::Blackout mode = medium::Blackout::drop;
  bool carrier_down = false;
  // Of the interfaces that are at this access point, or of this one wherever it is; both empty: all of the client.
  std::optional<std::size_t> ap {};
  std::optional<std::size_t> interface {
  };
};

struct SignalEvent
{
  std::size_t ap = 0;
  std::vector<std::pair<Duration, double>> points; // after the event's time
};

struct HandoffEvent
{
  std::size_t interface = 0;
  std::size_t ap = 0;
  Duration gap {};
  bool forward = false; // the old access point hands its queue on
  // Of this interface's frames there, in place of the access point's own.
  std::optional<unsigned> rate {};
  std::optional<double> frame_error {};
};

struct CellDownEvent
{
  bool hold = false;
  bool carrier_down = false;
};

// Carried out by whoever listens to the control socket (the kernel's netfilter in the gateway): only announced here.
struct AnnouncedEvent
{
  bool value = true;
};

struct Event
{
  Duration at {};
  std::optional<Duration> every {};
  std::optional<Duration> lasts {}; // `for`
  std::string what;
  std::variant<ChangeEvent, BlackoutEvent, SignalEvent, HandoffEvent, CellDownEvent, AnnouncedEvent> action {};
};

struct Scenario
{
  std::string name = "unnamed";
  std::string summary;
  Duration duration = std::chrono::seconds { 60 };
  std::uint64_t seed = 1;
  WifiSettings wifi {};
  CellSettings cell {};
  PipePair wan {};
  std::vector<ApSettings> aps;
  std::vector<BackgroundSettings> stations;
  std::vector<ServerSettings> servers;
  std::vector<Event> timeline; // in order of `at`
  // The access point at which each Wi-Fi interface of the client begins, by the interface's number.
  std::vector<std::size_t> interfaces { 0 };
  bool mptcp = false; // the client's kernel gets an MPTCP endpoint for each of them; set up outside of the emulator
};

} // namespace tandem::lab
