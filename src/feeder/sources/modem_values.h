// ModemManager's numbers in plain words. Pure. Source: ModemManager 1.20, ModemManager-enums.h and the D-Bus
// interfaces org.freedesktop.ModemManager1.Modem and .Modem.Signal.
#pragma once

#include "src/feeder/radio/report.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tandem::feeder
{

// MMModemState: "connected", ...; nothing for unknown and for numbers that are none.
std::optional<std::string> modem_state(std::int64_t state);
// MMModemAccessTechnology, bits: "lte", or several joined by "+"; nothing for unknown.
std::optional<std::string> modem_technology(std::uint64_t bits);
// A signal value in dBm or dB. Absent: ModemManager's mark for unknown (-DBL_MAX), what is not finite, and what no
// radio can measure (beyond 300 either way).
std::optional<float> modem_decibel(double value);

// The dictionaries of Modem.Signal, by technology.
struct CellSignal
{
  std::optional<float> rssi {}, rsrp {}, rsrq {}, snr {};

  bool any() const { return rssi || rsrp || rsrq || snr; }
  bool operator==(const CellSignal&) const = default;
};
enum class Cell : std::uint8_t
{
  nr5g,
  lte,
  umts,
  gsm,
};
using CellSignals = std::map<Cell, CellSignal>;

// Puts the values of one technology into the report, never a mixture: of those in use (`bits`, 0: unknown) the newest
// generation that has any.
void choose_signal(const CellSignals& signals, std::uint64_t bits, ModemStats& stats);

} // namespace tandem::feeder
