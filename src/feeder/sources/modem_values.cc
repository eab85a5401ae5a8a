#include "src/feeder/sources/modem_values.h"

#include <array>
#include <cmath>

namespace tandem::feeder
{
namespace
{

constexpr double most_decibel = 300;

constexpr std::uint64_t any_technology = 0xffffffff;
constexpr std::array<std::pair<unsigned, std::string_view>, 18> technologies { { { 0, "pots" },
                                                                                 { 1, "gsm" },
                                                                                 { 2, "gsm-compact" },
                                                                                 { 3, "gprs" },
                                                                                 { 4, "edge" },
                                                                                 { 5, "umts" },
                                                                                 { 6, "hsdpa" },
                                                                                 { 7, "hsupa" },
                                                                                 { 8, "hspa" },
                                                                                 { 9, "hspa-plus" },
                                                                                 { 10, "1xrtt" },
                                                                                 { 11, "evdo0" },
                                                                                 { 12, "evdoa" },
                                                                                 { 13, "evdob" },
                                                                                 { 14, "lte" },
                                                                                 { 15, "5gnr" },
                                                                                 { 16, "lte-cat-m" },
                                                                                 { 17, "lte-nb-iot" } } };

constexpr std::uint64_t bit(unsigned number)
{
  return std::uint64_t { 1 } << number;
}

constexpr std::uint64_t bits_of(Cell cell)
{
  switch (cell)
  {
  case Cell::nr5g:
    return bit(15);
  case Cell::lte:
    return bit(14) | bit(16) | bit(17);
  case Cell::umts:
    return bit(5) | bit(6) | bit(7) | bit(8) | bit(9);
  case Cell::gsm:
    break;
  }
  return bit(1) | bit(2) | bit(3) | bit(4);
}

} // namespace

std::optional<std::string> modem_state(std::int64_t state)
{
  constexpr std::array<std::string_view, 13> names { "failed",    "unknown",    "initializing",  "locked",
                                                     "disabled",  "disabling",  "enabling",      "enabled",
                                                     "searching", "registered", "disconnecting", "connecting",
                                                     "connected" };
  constexpr std::int64_t first = -1, unknown = 0;
  if (state < first || state >= first + static_cast<std::int64_t>(names.size()) || state == unknown) return {};
  return std::string { names[static_cast<std::size_t>(state - first)] };
}

std::optional<std::string> modem_technology(std::uint64_t bits)
{
  if (bits == any_technology) return {};
  std::string all {};
  for (const auto& [number, name] : technologies)
    if ((bits & bit(number)) != 0) all += (all.empty() ? "" : "+") + std::string { name };
  return all.empty() ? std::nullopt : std::optional { all };
}

std::optional<float> modem_decibel(double value)
{
  if (!(std::abs(value) <= most_decibel)) return {};
  return static_cast<float>(value);
}

void choose_signal(const CellSignals& signals, std::uint64_t bits, ModemStats& stats)
{
  // The keys are in the order of preference.
  for (const auto& [cell, signal] : signals)
  {
    const bool in_use = bits == 0 || bits == any_technology || (bits & bits_of(cell)) != 0;
    if (!in_use || !signal.any()) continue;
    stats.rssi = signal.rssi;
    stats.rsrp = signal.rsrp;
    stats.rsrq = signal.rsrq;
    stats.snr = signal.snr;
    return;
  }
}

} // namespace tandem::feeder
