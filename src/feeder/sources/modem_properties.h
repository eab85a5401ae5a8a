// One modem as ModemManager describes it: D-Bus properties -> what is reported of it.
#pragma once

#include "src/feeder/radio/report.h"
#include "src/feeder/sources/modem_values.h"
#include "src/kernel/message_bus.h"

#include <tandem/units.h>

#include <cstdint>
#include <map>
#include <optional>
#include <string>

namespace tandem::feeder
{

inline const std::string modem_interface = "org.freedesktop.ModemManager1.Modem";
inline const std::string signal_interface = "org.freedesktop.ModemManager1.Modem.Signal";

using Properties = std::map<std::string, sdbus::Variant>;

struct Modem
{
  std::optional<std::int64_t> state {};
  std::uint64_t technologies = 0;
  std::optional<float> quality {};
  CellSignals signals {};
  bool measures = false; // it has the interface Signal
  std::int64_t rate = 0; // of its measurements, in seconds; 0: none
  bool asked = false;    // we have set the rate up
  bool asking = false;
  std::optional<Tick> refused {};
  std::string refusal {};
  bool dirty = true;

  // Takes over what is known of one interface, Modem or Modem.Signal; `odd` counts values that make no sense.
  void take(const std::string& interface, const Properties& properties, std::uint64_t& odd);
  ModemStats stats(const std::string& path) const;
};

} // namespace tandem::feeder
