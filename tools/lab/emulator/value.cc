#include "tools/lab/emulator/value.h"

#include "src/control/literal.h"
#include "src/control/nearest.h"

#include <algorithm>
#include <sstream>

namespace tandem::lab
{

namespace
{

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

std::string plain(double number)
{
  std::ostringstream out;
  out << number;
  return out.str();
}

} // namespace

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
  const bool negative = node_.is_string() && string && string->starts_with('-');
  const auto result =
      node_.is_string() && string ? parse_duration(std::string_view { *string }.substr(negative)) : std::nullopt;
  if (!result) refuse(allowed);
  if (negative || *result < least || *result > most)
    refuse("a time from " + plain(milliseconds(least)) + "ms to " + plain(milliseconds(most)) + "ms is allowed");
  return *result;
}

Rate Value::rate() const
{
  static constexpr std::string_view allowed =
      "a rate above 0 with its unit is allowed, like \"5Mbit\" (bit, kbit, Mbit, Gbit)";
  const auto string = node_.value<std::string>();
  const auto result = node_.is_string() && string ? parse_rate(*string) : std::nullopt;
  if (!result || result->bits_per_second <= 0 || result->bits_per_second > 1e12) refuse(allowed);
  return *result;
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
  if (node_.is_string())
    if (const auto result = parse_bytes(*node_.value<std::string>())) return *result;
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
