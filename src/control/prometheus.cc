#include "src/control/prometheus.h"

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <vector>

namespace tandem::control
{
namespace
{

bool is_name(std::string_view name, bool colon_allowed)
{
  if (name.empty() || (name[0] >= '0' && name[0] <= '9')) return false;
  for (const char c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_'
          || (colon_allowed && c == ':')))
      return false;
  return true;
}

std::string escaped(std::string_view text, bool in_quotes)
{
  std::string out;
  for (const char c : text)
  {
    if (c == '\\')
      out += "\\\\";
    else if (c == '\n')
      out += "\\n";
    else if (c == '"' && in_quotes)
      out += "\\\"";
    else
      out += c;
  }
  return out;
}

std::string number(const nlohmann::json& value)
{
  if (value.is_number_integer()) return value.dump();
  std::array<char, 64> buffer {};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value.get<double>());
  return { buffer.data(), result.ptr };
}

std::string text_of(const nlohmann::json& value)
{
  return value.is_string() ? value.get<std::string>()
                           : value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string sample(const std::string& name, const nlohmann::json& metric)
{
  std::string line = name;
  if (const auto labels = metric.find("labels"); labels != metric.end() && labels->is_object() && !labels->empty())
  {
    line += '{';
    bool first = true;
    for (const auto& [key, value] : labels->items())
    {
      if (!is_name(key, false)) continue;
      line += (first ? "" : ",") + key + "=\"" + escaped(text_of(value), true) + '"';
      first = false;
    }
    line += '}';
  }
  return line + ' ' + number(metric["value"]) + '\n';
}

} // namespace

std::string prometheus_text(const nlohmann::json& metrics)
{
  struct Family
  {
    std::string name;
    std::string head;
    std::string samples;
  };
  std::vector<Family> families; // in the order of first appearance; there are some dozens at most
  if (!metrics.is_array()) return {};
  for (const nlohmann::json& metric : metrics)
  {
    if (!metric.is_object() || !metric.contains("name") || !metric["name"].is_string()) continue;
    const auto name = metric["name"].get<std::string>();
    if (!is_name(name, true) || !metric.contains("value") || !metric["value"].is_number()
        || !std::isfinite(metric["value"].get<double>()))
      continue;
    auto family = families.begin();
    while (family != families.end() && family->name != name)
      ++family;
    if (family == families.end())
    {
      const std::string type = metric.value("type", "untyped");
      const bool known = type == "counter" || type == "gauge";
      families.push_back({ name,
                           "# HELP " + name + ' ' + escaped(metric.value("help", ""), false) + "\n# TYPE " + name + ' '
                               + (known ? type : "untyped") + '\n',
                           "" });
      family = families.end() - 1;
    }
    family->samples += sample(name, metric);
  }
  std::string out;
  for (const Family& family : families)
    out += family.head + family.samples;
  return out;
}

} // namespace tandem::control
