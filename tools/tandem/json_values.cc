#include "tools/tandem/json_values.h"

#include "src/control/literal.h"
#include "tools/tandem/table.h"

#include <array>
#include <cmath>
#include <cstdio>

namespace tandem::cli
{

using nlohmann::json;

const json& member(const json& object, const char* key)
{
  static const json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(key);
  return found == object.end() ? nothing : *found;
}

const json& list(const json& object, const char* key)
{
  static const json none = json::array();
  const json& found = member(object, key);
  return found.is_array() ? found : none;
}

const json& part(const json& object, const char* key)
{
  static const json none = json::object();
  const json& found = member(object, key);
  return found.is_object() ? found : none;
}

double number(const json& object, const char* key)
{
  return value_of(object, key).value_or(0);
}

std::string fixed(double value, int digits)
{
  std::array<char, 64> buffer {};
  std::snprintf(buffer.data(), buffer.size(), "%.*f", digits, value);
  return buffer.data();
}

std::string duration_of(double in_seconds)
{
  return std::isfinite(in_seconds) && std::fabs(in_seconds) < 1e9 ? format_duration(from_seconds(in_seconds)) : "-";
}

std::string bytes_of(double count)
{
  return count >= 0 && count < 1e18 ? format_bytes(static_cast<std::uint64_t>(count)) : "-";
}

std::optional<double> value_of(const json& object, const char* key)
{
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  if (found == object.end() || !found->is_number()) return {};
  const double value = found->get<double>();
  return std::isfinite(value) ? std::optional { value } : std::nullopt;
}

std::string words_of(const json& object, const char* key)
{
  if (!object.is_object()) return {};
  const auto found = object.find(key);
  return found != object.end() && found->is_string() ? printable(found->get<std::string>()) : std::string {};
}

} // namespace tandem::cli
