#include "src/feeder/sources/modem_properties.h"

#include <algorithm>

namespace tandem::feeder
{
namespace
{

// Reads values whatever type they come in; counts those that make no sense.
struct Values
{
  std::uint64_t& odd;

  std::optional<double> number(const sdbus::Variant& value) const
  {
    const std::string type = value.peekValueType();
    if (type == "d") return value.get<double>();
    if (type == "i") return value.get<std::int32_t>();
    if (type == "u") return value.get<std::uint32_t>();
    if (type == "x") return static_cast<double>(value.get<std::int64_t>());
    if (type == "t") return static_cast<double>(value.get<std::uint64_t>());
    if (type == "n") return value.get<std::int16_t>();
    if (type == "q") return value.get<std::uint16_t>();
    if (type == "y") return value.get<std::uint8_t>();
    ++odd;
    return {};
  }

  std::optional<std::int64_t> whole(const sdbus::Variant& value) const
  {
    const auto any = number(value);
    constexpr double end = 0x1p53;
    if (!any || !(*any > -end && *any < end)) return {};
    return static_cast<std::int64_t>(*any);
  }
};

std::optional<float> quality_of(const sdbus::Variant& value, std::uint64_t& odd)
{
  if (!value.containsValueOfType<sdbus::Struct<std::uint32_t, bool>>())
  {
    ++odd;
    return {};
  }
  const auto quality = value.get<sdbus::Struct<std::uint32_t, bool>>();
  // The second member: whether it was measured recently.
  if (!std::get<1>(quality) || std::get<0>(quality) > 100) return {};
  return static_cast<float>(std::get<0>(quality)) / 100;
}

CellSignal signal_of(const sdbus::Variant& value, std::uint64_t& odd)
{
  CellSignal signal {};
  if (!value.containsValueOfType<Properties>())
  {
    ++odd;
    return signal;
  }
  const Values values { odd };
  for (const auto& [name, one] : value.get<Properties>())
  {
    std::optional<float>* to = name == "rssi"   ? &signal.rssi
                               : name == "rsrp" ? &signal.rsrp
                               : name == "rsrq" ? &signal.rsrq
                               : name == "snr"  ? &signal.snr
                                                : nullptr;
    if (!to) continue;
    if (const auto number = values.number(one)) *to = modem_decibel(*number);
  }
  return signal;
}

} // namespace

void Modem::take(const std::string& interface, const Properties& properties, std::uint64_t& odd)
{
  const Values values { odd };
  if (interface == modem_interface)
  {
    for (const auto& [name, value] : properties)
      if (name == "State")
        state = values.whole(value);
      else if (name == "AccessTechnologies")
        technologies = static_cast<std::uint64_t>(std::max<std::int64_t>(0, values.whole(value).value_or(0)));
      else if (name == "SignalQuality")
        quality = quality_of(value, odd);
      else
        continue;
    dirty = true;
  }
  else if (interface == signal_interface)
  {
    static const std::map<std::string, Cell> cells {
      { "Nr5g", Cell::nr5g }, { "Lte", Cell::lte }, { "Umts", Cell::umts }, { "Gsm", Cell::gsm }
    };
    measures = true;
    for (const auto& [name, value] : properties)
      if (const auto cell = cells.find(name); cell != cells.end())
        signals[cell->second] = signal_of(value, odd);
      else if (name == "Rate")
        rate = values.whole(value).value_or(0);
    dirty = true;
  }
}

ModemStats Modem::stats(const std::string& path) const
{
  ModemStats s {};
  s.modem = path;
  if (state) s.state = modem_state(*state);
  s.technology = modem_technology(technologies);
  s.quality = quality;
  choose_signal(signals, technologies, s);
  return s;
}

} // namespace tandem::feeder
