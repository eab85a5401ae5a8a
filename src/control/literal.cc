#include "src/control/literal.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <span>

namespace tandem
{
namespace
{

struct Unit
{
  std::string_view name;
  double factor;
};

constexpr std::array duration_units { Unit { "ns", 1e-9 }, Unit { "us", 1e-6 }, Unit { "ms", 1e-3 }, Unit { "s", 1 },
                                      Unit { "min", 60 },  Unit { "h", 3600 },  Unit { "d", 86400 } };
constexpr std::array byte_units {
  Unit { "B", 1 },      Unit { "kB", 1e3 },       Unit { "MB", 1e6 },         Unit { "GB", 1e9 },
  Unit { "KiB", 1024 }, Unit { "MiB", 1048576. }, Unit { "GiB", 1073741824. }
};
constexpr std::array rate_units { Unit { "bit", 1 },      Unit { "kbit", 1e3 },   Unit { "Mbit", 1e6 },
                                  Unit { "Gbit", 1e9 },   Unit { "bit/s", 1 },    Unit { "kbit/s", 1e3 },
                                  Unit { "Mbit/s", 1e6 }, Unit { "Gbit/s", 1e9 }, Unit { "bps", 1 },
                                  Unit { "kbps", 1e3 },   Unit { "Mbps", 1e6 },   Unit { "Gbps", 1e9 } };

// 2^53: beyond it a double no longer counts bytes or nanoseconds one by one.
constexpr double exact_limit = 9007199254740992.;

std::string_view trimmed(std::string_view text)
{
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t'))
    text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t'))
    text.remove_suffix(1);
  return text;
}

struct Quantity
{
  double number = 0;
  std::string_view unit;
};

// A decimal number and what follows it. std::from_chars would also take "inf" and "nan": they have no first digit.
std::optional<Quantity> split(std::string_view text)
{
  text = trimmed(text);
  const std::size_t sign = !text.empty() && text.front() == '-' ? 1 : 0;
  if (text.size() <= sign || text[sign] < '0' || text[sign] > '9') return {};
  Quantity quantity;
  const auto [end, fault] =
      std::from_chars(text.data(), text.data() + text.size(), quantity.number, std::chars_format::general);
  if (fault != std::errc {} || !std::isfinite(quantity.number)) return {};
  quantity.unit = trimmed(text.substr(static_cast<std::size_t>(end - text.data())));
  return quantity;
}

// The number in base units; a bare one only when it is 0.
std::optional<double> in_base_units(std::string_view text, std::span<const Unit> units)
{
  const auto quantity = split(text);
  if (!quantity) return {};
  for (const Unit& unit : units)
    if (unit.name == quantity->unit) return quantity->number * unit.factor;
  if (quantity->unit.empty() && quantity->number == 0) return 0.;
  return {};
}

std::string printed(const char* format, double value)
{
  std::array<char, 48> buffer {};
  std::snprintf(buffer.data(), buffer.size(), format, value);
  return buffer.data();
}

// Three significant digits, never in powers of ten.
std::string three_digits(double value)
{
  const double size = std::fabs(value);
  std::string text = printed(size < 9.995 ? "%.2f" : size < 99.95 ? "%.1f" : "%.0f", value);
  if (text.find('.') != std::string::npos)
  {
    while (text.back() == '0')
      text.pop_back();
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

// The shortest decimal text that reads back as the same number.
std::string plain(double value)
{
  std::array<char, 400> buffer {};
  if (value == std::floor(value) && std::fabs(value) < exact_limit)
  {
    const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), static_cast<std::int64_t>(value));
    return { buffer.data(), result.ptr };
  }
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed);
  return { buffer.data(), result.ptr };
}

std::string allowed(const Knob& knob)
{
  switch (knob.type)
  {
  case KnobType::boolean:
    return "on or off is needed";
  case KnobType::choice:
  {
    std::string words = "one of ";
    for (std::size_t i = 0; i < knob.choices.size(); ++i)
      words += (i == 0 ? "" : ", ") + std::string { knob.choices[i] };
    return words + " is needed";
  }
  case KnobType::duration:
    return "a duration with its unit from " + format_knob(knob, knob.minimum) + " to " + format_knob(knob, knob.maximum)
           + " is needed";
  case KnobType::integer:
  case KnobType::real:
    break;
  }
  return std::string { knob.type == KnobType::integer ? "a whole number" : "a number" } + " from " + plain(knob.minimum)
         + " to " + plain(knob.maximum) + (knob.unit.empty() ? "" : " " + std::string { knob.unit }) + " is needed";
}

std::optional<double> knob_number(const Knob& knob, std::string_view text)
{
  switch (knob.type)
  {
  case KnobType::boolean:
    for (const std::string_view yes : { "on", "true", "yes", "1" })
      if (text == yes) return 1.;
    for (const std::string_view no : { "off", "false", "no", "0" })
      if (text == no) return 0.;
    return {};
  case KnobType::choice:
    for (std::size_t i = 0; i < knob.choices.size(); ++i)
      if (text == knob.choices[i]) return static_cast<double>(i);
    return {};
  case KnobType::duration:
    return in_base_units(text, duration_units);
  case KnobType::integer:
  case KnobType::real:
    break;
  }
  if (const auto quantity = split(text); quantity && (quantity->unit.empty() || quantity->unit == knob.unit))
    return quantity->number;
  if (knob.unit == "bytes") return in_base_units(text, byte_units);
  if (knob.unit == "bit/s") return in_base_units(text, rate_units);
  return {};
}

} // namespace

std::optional<Duration> parse_duration(std::string_view text)
{
  const auto value = in_base_units(text, duration_units);
  if (!value || *value < 0) return {};
  const double nanoseconds = std::round(*value * 1e9);
  if (nanoseconds > 9.2e18) return {};
  return Duration { static_cast<std::int64_t>(nanoseconds) };
}

std::optional<std::uint64_t> parse_bytes(std::string_view text)
{
  const auto value = in_base_units(text, byte_units);
  if (!value || *value < 0 || *value > exact_limit) return {};
  // 1.1kB is 1100.0000000000002 in binary; half a byte is a mistake.
  const double whole = std::round(*value);
  if (std::fabs(*value - whole) > 1e-6) return {};
  return static_cast<std::uint64_t>(whole);
}

std::optional<Rate> parse_rate(std::string_view text)
{
  const auto value = in_base_units(text, rate_units);
  if (!value || *value < 0) return {};
  return Rate { *value };
}

std::string format_duration(Duration duration)
{
  const double value = std::fabs(seconds(duration));
  const std::string sign = duration < Duration::zero() ? "-" : "";
  if (value == 0) return "0 s";
  if (value < 0.9995e-6) return sign + three_digits(value * 1e9) + " ns";
  if (value < 0.9995e-3) return sign + three_digits(value * 1e6) + " us";
  if (value < 0.9995) return sign + three_digits(value * 1e3) + " ms";
  if (value < 120) return sign + three_digits(value) + " s";
  if (value < 7200) return sign + three_digits(value / 60) + " min";
  if (value < 172800) return sign + three_digits(value / 3600) + " h";
  return sign + three_digits(value / 86400) + " d";
}

std::string format_bytes(std::uint64_t bytes)
{
  constexpr std::array binary { Unit { " GiB", 1073741824. }, Unit { " MiB", 1048576. }, Unit { " KiB", 1024 } };
  for (const Unit& unit : binary)
    if (const auto size = static_cast<std::uint64_t>(unit.factor); bytes >= size && bytes % size == 0)
      return std::to_string(bytes / size) + std::string { unit.name };
  const auto value = static_cast<double>(bytes);
  if (bytes < 1000) return std::to_string(bytes) + " B";
  if (value < 0.9995e6) return three_digits(value / 1e3) + " kB";
  if (value < 0.9995e9) return three_digits(value / 1e6) + " MB";
  return three_digits(value / 1e9) + " GB";
}

std::string format_rate(Rate rate)
{
  const double value = rate.bits_per_second;
  if (value < 999.5) return three_digits(value) + " bit/s";
  if (value < 0.9995e6) return three_digits(value / 1e3) + " kbit/s";
  if (value < 0.9995e9) return three_digits(value / 1e6) + " Mbit/s";
  return three_digits(value / 1e9) + " Gbit/s";
}

bool takes(const Knob& knob, double value)
{
  const auto within = [value](double least, double most) { return value >= least && value <= most; };
  const bool whole = value == std::floor(value);
  switch (knob.type)
  {
  case KnobType::boolean:
    return whole && within(0, 1);
  case KnobType::choice:
    return whole && within(0, static_cast<double>(knob.choices.size()) - 1);
  case KnobType::integer:
    return whole && within(knob.minimum, knob.maximum);
  case KnobType::duration:
  case KnobType::real:
    break;
  }
  return within(knob.minimum, knob.maximum);
}

std::variant<double, std::string> parse_knob(const Knob& knob, std::string_view text)
{
  const auto number = knob_number(knob, trimmed(text));
  if (!number || !takes(knob, *number)) return allowed(knob);
  return *number;
}

std::string format_knob(const Knob& knob, double value)
{
  switch (knob.type)
  {
  case KnobType::boolean:
    return value != 0 ? "on" : "off";
  case KnobType::choice:
    if (value >= 0 && value < static_cast<double>(knob.choices.size()))
      return std::string { knob.choices[static_cast<std::size_t>(value)] };
    return plain(value);
  case KnobType::duration:
  {
    const double size = std::fabs(value);
    const bool whole_milliseconds = std::fabs(value * 1e3 - std::round(value * 1e3)) < 1e-9;
    if (size == 0 || size >= 1) return plain(value) + "s";
    if (whole_milliseconds) return plain(std::round(value * 1e3)) + "ms";
    return size >= 1e-3 ? plain(value * 1e3) + "ms" : plain(value * 1e6) + "us";
  }
  case KnobType::integer:
  case KnobType::real:
    break;
  }
  return plain(value);
}

} // namespace tandem
