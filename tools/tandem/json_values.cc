#include "tools/tandem/json_values.h"

#include "tools/tandem/table.h"

#include <cmath>

namespace tandem::cli
{

using nlohmann::json;

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
