#include "tools/lab/emulator/value.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <numeric>
#include <sstream>

namespace tandem::lab
{

namespace
{

struct Unit
{
  std::string_view name;
  double factor;
};

constexpr Unit duration_units[] = { { "ns", 1 },  { "us", 1e3 },   { "ms", 1e6 },
                                    { "s", 1e9 }, { "min", 60e9 }, { "h", 3600e9 } };
constexpr Unit rate_units[] = { { "bit", 1 }, { "kbit", 1e3 }, { "Mbit", 1e6 }, { "Gbit", 1e9 } };
constexpr Unit byte_units[] = { { "B", 1 }, { "kB", 1e3 }, { "MB", 1e6 }, { "KiB", 1024 }, { "MiB", 1048576 } };

template <std::size_t count>
double with_unit(std::string_view text, const Unit (&units)[count])
{
  double number = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc {} || !std::isfinite(number)) throw std::invalid_argument("no number");
  std::string_view unit(rest, static_cast<std::size_t>(text.data() + text.size() - rest));
  while (!unit.empty() && unit.front() == ' ')
    unit.remove_prefix(1);
  for (const Unit& known : units)
    if (known.name == unit) return number * known.factor;
  throw std::invalid_argument("no unit");
}

std::string shown(const toml::node& node)
{
  std::ostringstream out;
  node.visit(
      [&out](const auto& n)
      {
        if constexpr (toml::is_string<decltype(n)>)
          out << '"' << n.get() << '"';
        else if constexpr (toml::is_value<decltype(n)>)
          out << n;
        else if constexpr (toml::is_table<decltype(n)>)
          out << toml::toml_formatter { n };
        else
          out << toml::toml_formatter { n };
      });
  std::string text = out.str();
  std::replace(text.begin(), text.end(), '\n', ' ');
  if (text.size() > 80) text = text.substr(0, 77) + "...";
  return text;
}

std::size_t edit_distance(std::string_view a, std::string_view b)
{
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t { 0 });
  for (std::size_t i = 1; i <= a.size(); ++i)
  {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j)
    {
      const std::size_t above = row[j];
      row[j] = std::min({ above + 1, row[j - 1] + 1, diagonal + (a[i - 1] == b[j - 1] ? 0u : 1u) });
      diagonal = above;
    }
  }
  return row[b.size()];
}

std::string plain(double number)
{
  std::ostringstream out;
  out << number;
  return out.str();
}

} // namespace

Duration parse_duration(std::string_view text)
{
  return Duration { static_cast<std::int64_t>(std::llround(with_unit(text, duration_units))) };
}

Rate parse_rate(std::string_view text)
{
  return { with_unit(text, rate_units) };
}

std::uint64_t parse_bytes(std::string_view text)
{
  const double bytes = with_unit(text, byte_units);
  if (bytes < 0) throw std::invalid_argument("negative");
  return static_cast<std::uint64_t>(bytes);
}

std::string_view closest(std::string_view word, const std::vector<std::string_view>& known)
{
  std::string_view best;
  std::size_t least = std::max<std::size_t>(2, word.size() / 3) + 1;
  for (std::string_view candidate : known)
    if (const std::size_t d = edit_distance(word, candidate); d < least)
    {
      least = d;
      best = candidate;
    }
  return best;
}

std::string place(const toml::node& node)
{
  const auto& source = node.source();
  const std::string path = source.path ? *source.path : std::string("control");
  if (path.starts_with("--") || path == "control" || !source.begin) return path;
  return path + ":" + std::to_string(source.begin.line);
}

void unknown_key(const toml::node& node, std::string_view where, std::string_view key,
                 const std::vector<std::string_view>& known)
{
  std::string message = place(node) + ": " + std::string(where) + std::string(key) + ": unknown key; ";
  if (const auto suggestion = closest(key, known); !suggestion.empty())
    message += "did you mean " + std::string(suggestion) + "?";
  else
  {
    message += "allowed:";
    for (auto k : known)
      message += " " + std::string(k);
  }
  throw BadInput(message);
}

void Value::refuse(std::string_view allowed) const
{
  throw BadInput(place(node_) + ": " + key_ + " = " + shown(node_) + ": " + std::string(allowed));
}

Duration Value::duration(Duration least, Duration most) const
{
  static constexpr std::string_view allowed = "a time with its unit is allowed, like \"20ms\" (ns, us, ms, s, min, h)";
  const auto string = node_.value<std::string>();
  if (!node_.is_string() || !string) refuse(allowed);
  Duration result {};
  try
  {
    result = parse_duration(*string);
  }
  catch (const std::invalid_argument&)
  {
    refuse(allowed);
  }
  if (result < least || result > most)
    refuse("a time from " + plain(milliseconds(least)) + "ms to " + plain(milliseconds(most)) + "ms is allowed");
  return result;
}

Rate Value::rate() const
{
  static constexpr std::string_view allowed =
      "a rate above 0 with its unit is allowed, like \"5Mbit\" (bit, kbit, Mbit, Gbit)";
  const auto string = node_.value<std::string>();
  if (!node_.is_string() || !string) refuse(allowed);
  try
  {
    const Rate result = parse_rate(*string);
    if (result.bits_per_second > 0 && result.bits_per_second <= 1e12) return result;
  }
  catch (const std::invalid_argument&)
  {
  }
  refuse(allowed);
}

std::int64_t Value::integer(std::int64_t least, std::int64_t most) const
{
  if (node_.is_integer())
    if (const auto n = node_.value<std::int64_t>(); n && *n >= least && *n <= most) return *n;
  refuse("a whole number from " + std::to_string(least) + " to " + std::to_string(most) + " is allowed");
}

double Value::number(double least, double most) const
{
  if (node_.is_number())
    if (const auto n = node_.value<double>(); n && *n >= least && *n <= most) return *n;
  refuse("a number from " + plain(least) + " to " + plain(most) + " is allowed");
}

bool Value::boolean() const
{
  if (!node_.is_boolean()) refuse("true or false is allowed");
  return *node_.value<bool>();
}

std::string Value::text() const
{
  if (!node_.is_string()) refuse("a string is allowed");
  return *node_.value<std::string>();
}

std::size_t Value::choice(std::initializer_list<std::string_view> words) const
{
  const auto string = node_.is_string() ? node_.value<std::string>() : std::nullopt;
  std::size_t index = 0;
  std::string allowed;
  for (auto word : words)
  {
    if (string && *string == word) return index;
    allowed += (index == 0 ? "" : ", ") + std::string(1, '"') + std::string(word) + '"';
    ++index;
  }
  refuse("one of " + allowed + " is allowed");
}

std::uint64_t Value::bytes() const
{
  try
  {
    if (node_.is_string()) return parse_bytes(*node_.value<std::string>());
  }
  catch (const std::invalid_argument&)
  {
  }
  refuse("a size with its unit is allowed, like \"64KiB\" (B, kB, MB, KiB, MiB)");
}

medium::Gilbert Value::gilbert() const
{
  static constexpr std::string_view allowed = "a table { p = good to bad, r = bad to good, bad = loss in bad, good = "
                                              "loss in good } of probabilities from 0 to 1 is "
                                              "allowed; p and r are needed";
  const toml::table* table = node_.as_table();
  if (table == nullptr || !table->contains("p") || !table->contains("r")) refuse(allowed);
  medium::Gilbert result;
  for (const auto& [key, node] : *table)
  {
    const Value value(node, key_ + "." + std::string(key.str()));
    if (key == "p")
      result.p = value.probability();
    else if (key == "r")
      result.r = value.probability();
    else if (key == "bad")
      result.bad = value.probability();
    else if (key == "good")
      result.good = value.probability();
    else
      unknown_key(node, key_ + ".", key.str(), { "p", "r", "bad", "good" });
  }
  return result;
}

medium::HiddenSettings Value::hidden() const
{
  static constexpr std::string_view allowed =
      "a table { share = part of the time, 0 to 0.95, length = of a burst, fixed "
      "= true or false } is allowed; share is needed";
  const toml::table* table = node_.as_table();
  if (table == nullptr || !table->contains("share")) refuse(allowed);
  medium::HiddenSettings result;
  for (const auto& [key, node] : *table)
  {
    const Value value(node, key_ + "." + std::string(key.str()));
    if (key == "share")
      result.share = value.number(0, 0.95);
    else if (key == "length")
      result.length = value.duration(std::chrono::microseconds { 10 }, std::chrono::seconds { 10 });
    else if (key == "fixed")
      result.fixed = value.boolean();
    else
      unknown_key(node, key_ + ".", key.str(), { "share", "length", "fixed" });
  }
  return result;
}

std::vector<double> Value::numbers() const
{
  std::vector<double> result;
  if (const toml::array* array = node_.as_array())
    for (const auto& element : *array)
    {
      if (!element.is_number()) refuse("a list of numbers is allowed");
      result.push_back(*element.value<double>());
    }
  else
    refuse("a list of numbers is allowed");
  return result;
}

std::filesystem::path Value::path() const
{
  const std::filesystem::path given = text();
  const auto& source = node_.source();
  if (given.is_absolute() || !source.path || source.path->starts_with("--") || *source.path == "control") return given;
  return std::filesystem::path(*source.path).parent_path() / given;
}

} // namespace tandem::lab
