// What sources of driver statistics can say. What a driver lacks is absent, never zero. Plain values.
#pragma once

#include "src/feeder/radio/frame.h"

#include <tandem/units.h>

#include <cstdint>
#include <optional>
#include <string>
#include <variant>

namespace tandem::feeder
{

// What the driver counts about our access point (nl80211 GET_STATION). Counters run from the association on, some wrap
// at 2^32; who reads them takes differences.
struct StationStats
{
  Mac ap {};
  std::optional<float> signal {};         // dBm, of the latest frame
  std::optional<float> signal_average {}; // dBm
  std::optional<Duration> inactive {};    // since the latest frame of the access point
  std::optional<double> rx_mbps {};       // PHY rate of the latest data frame
  std::optional<double> tx_mbps {};
  std::optional<std::uint8_t> rx_mcs {}; // HT (with the streams: 0 .. 31), VHT or HE index
  std::optional<std::uint8_t> tx_mcs {};
  std::optional<std::uint8_t> rx_streams {};
  std::optional<std::uint64_t> rx_bytes {};
  std::optional<std::uint64_t> tx_bytes {};
  std::optional<std::uint32_t> rx_packets {};
  std::optional<std::uint32_t> tx_packets {};
  std::optional<std::uint32_t> tx_retries {};
  std::optional<std::uint32_t> tx_failed {};
  std::optional<std::uint32_t> beacon_loss {}; // times that several beacons in a row were missed
  std::optional<std::uint64_t> beacons {};     // received
  std::optional<Duration> rx_duration {};      // air time of what was received from it
  std::optional<Duration> beacon_interval {};

  bool operator==(const StationStats&) const = default;
};

// How busy a channel is (nl80211 GET_SURVEY). Times run from an arbitrary start.
struct Survey
{
  unsigned frequency = 0; // MHz
  bool in_use = false;
  std::optional<float> noise {}; // dBm
  std::optional<Duration> active {};
  std::optional<Duration> busy {};
  std::optional<Duration> receiving {};
  std::optional<Duration> sending {};

  bool operator==(const Survey&) const = default;
};

// Something happened to the association (nl80211 multicast groups mlme and scan, CQM).
struct WifiChange
{
  enum class Kind : std::uint8_t
  {
    connected,
    roamed,
    disconnected,
    signal_low,  // fell below the CQM threshold
    signal_high, // rose above it
    beacon_loss, // beacons are missing; the driver has not given up yet
    packet_loss, // so many frames of ours in a row were not acknowledged
  };
  Kind kind = Kind::disconnected;
  std::optional<Mac> ap {};
  std::optional<std::uint16_t> reason {}; // IEEE 802.11-2016 table 9-45
  std::optional<bool> by_ap {};           // disconnected: by the access point, not by us
  std::optional<float> signal {};         // dBm
  std::optional<unsigned> packets {};     // packet_loss

  bool operator==(const WifiChange&) const = default;
};

// An access point that a scan has found (nl80211 GET_SCAN).
struct Candidate
{
  Mac ap {};
  std::string ssid; // may hold any bytes; empty when hidden
  unsigned frequency = 0;
  std::optional<float> signal {};
  std::optional<Duration> age {};
  bool associated = false;

  bool operator==(const Candidate&) const = default;
};

// The cellular modem (ModemManager).
struct ModemStats
{
  std::string modem;                        // its object path
  std::optional<std::string> state {};      // "connected", "registered", ... ; absent when it has gone
  std::optional<std::string> technology {}; // "lte", "5gnr", "umts", ...; several joined by "+"
  std::optional<float> rssi {};             // dBm
  std::optional<float> rsrp {};             // dBm
  std::optional<float> rsrq {};             // dB
  std::optional<float> snr {};              // dB
  std::optional<float> quality {};          // 0 .. 1
  bool gone = false;

  bool operator==(const ModemStats&) const = default;
};

// An interface changed (rtnetlink).
struct InterfaceChange
{
  std::string interface;
  int ifindex = 0;
  bool up = false;      // administratively
  bool carrier = false; // IFF_LOWER_UP
  bool gone = false;

  bool operator==(const InterfaceChange&) const = default;
};

struct Report
{
  Tick at {}; // when it happened, as well as the source knows
  std::variant<Frame, StationStats, Survey, WifiChange, Candidate, ModemStats, InterfaceChange> what {};
};

} // namespace tandem::feeder
