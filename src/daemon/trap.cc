#include "src/daemon/trap.h"

#include "src/control/literal.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

namespace tandem::daemon
{
namespace
{

enum class Unit : std::uint8_t
{
  duration,
  rate,
  dbm,
};

struct Quantity
{
  TrapOn on;
  std::string_view name;
  Unit unit;
};

constexpr std::array quantities {
  Quantity { TrapOn::flow_gap, "flow.gap", Unit::duration },
  Quantity { TrapOn::flow_rtt, "flow.rtt", Unit::duration },
  Quantity { TrapOn::flow_goodput, "flow.goodput", Unit::rate },
  Quantity { TrapOn::link_signal, "link.signal", Unit::dbm },
  Quantity { TrapOn::link_silence, "link.silence", Unit::duration },
  Quantity { TrapOn::link_down, "link.down", Unit::duration },
};

const Quantity& quantity(TrapOn on)
{
  return *std::find_if(quantities.begin(), quantities.end(), [on](const Quantity& one) { return one.on == on; });
}

std::string_view needed(Unit unit)
{
  switch (unit)
  {
  case Unit::duration:
    return "a duration such as 500ms is needed";
  case Unit::rate:
    return "a rate such as 2Mbit is needed";
  case Unit::dbm:
    return "a signal from -120 to 0 such as -75dBm is needed";
  }
  return "";
}

std::optional<double> value_of(std::string_view text, Unit unit)
{
  if (unit == Unit::duration)
  {
    const auto duration = parse_duration(text);
    return duration && *duration > Duration {} ? std::optional { seconds(*duration) } : std::nullopt;
  }
  if (unit == Unit::rate)
  {
    const auto rate = parse_rate(text);
    const double value = rate ? rate->bits_per_second : 0;
    return value > 0 ? std::optional { value } : std::nullopt;
  }
  if (text.ends_with("dBm")) text.remove_suffix(3);
  while (text.ends_with(' '))
    text.remove_suffix(1);
  double value = 0;
  const auto [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (fault != std::errc {} || end != text.data() + text.size() || !(value >= -120 && value <= 0)) return {};
  return value;
}

std::string wrong(std::string_view whole, std::size_t at, std::size_t length, std::string_view what)
{
  const std::string_view part = whole.substr(at, length);
  return "character " + std::to_string(at + 1) + ": "
         + (part.empty() ? std::string { "the trap ends here" } : "\"" + std::string { part } + "\"") + ": "
         + std::string { what };
}

} // namespace

std::string Trap::value_text(double value) const
{
  switch (quantity(on).unit)
  {
  case Unit::duration:
    return format_duration(from_seconds(std::max(value, 0.0)));
  case Unit::rate:
    return format_rate(Rate { std::round(std::max(value, 0.0)) });
  case Unit::dbm:
    break;
  }
  std::array<char, 32> text {};
  std::snprintf(text.data(), text.size(), "%g dBm", value);
  return text.data();
}

std::string Trap::text() const
{
  return std::string { quantity(on).name } + (above ? " > " : " < ") + value_text(threshold);
}

std::variant<Trap, std::string> parse_trap(std::string_view text)
{
  constexpr std::string_view blanks = " \t";
  const auto skip = [&](std::size_t from) { return std::min(text.find_first_not_of(blanks, from), text.size()); };
  const std::size_t name_at = skip(0);
  const std::size_t name_end = std::min(text.find_first_of(" \t<>=", name_at), text.size());
  const std::string_view word = text.substr(name_at, name_end - name_at);
  const auto found =
      std::find_if(quantities.begin(), quantities.end(), [word](const Quantity& one) { return one.name == word; });
  if (found == quantities.end())
  {
    std::string names {};
    for (const Quantity& one : quantities)
      names += (names.empty() ? "" : ", ") + std::string { one.name };
    return wrong(text, name_at, word.size(), "one of " + names + " is needed");
  }
  const std::size_t sign = skip(name_end);
  const std::size_t value_at = skip(std::min(sign + 1, text.size()));
  const char is = sign < text.size() ? text[sign] : ' ';
  if ((is != '>' && is != '<') || (value_at < text.size() && text[value_at] == '='))
    return wrong(text, sign, value_at < text.size() && text[value_at] == '=' ? value_at + 1 - sign : 1,
                 "> or < is needed");
  std::string_view value_text = text.substr(value_at);
  while (!value_text.empty() && blanks.find(value_text.back()) != std::string_view::npos)
    value_text.remove_suffix(1);
  const auto value = value_of(value_text, found->unit);
  if (!value) return wrong(text, value_at, value_text.size(), needed(found->unit));
  return Trap { .on = found->on, .above = is == '>', .threshold = *value };
}

} // namespace tandem::daemon
