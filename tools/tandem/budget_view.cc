#include "tools/tandem/budget_view.h"

#include "src/control/literal.h"
#include "tools/tandem/json_values.h"

#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace tandem::cli
{

namespace
{

using nlohmann::json;

std::string bytes(std::optional<double> count, const char* without)
{
  return count && *count >= 0 && *count < 1e18 ? format_bytes(static_cast<std::uint64_t>(*count)) : without;
}

} // namespace

std::string show_budget(const json& budget, const Style& style)
{
  static const std::vector<std::pair<const char*, const char*>> periods { { "today", "today" },
                                                                          { "month", "this month" },
                                                                          { "since_start", "since start" } };
  std::set<std::string> names {};
  for (const auto& [key, words] : periods)
    if (const json by = budget.value(key, json::object()).value("by", json::object()); by.is_object())
      for (const auto& [name, used] : by.items())
        names.insert(name);
  std::vector<std::string> headings { "CELLULAR", ">USED", ">LIMIT", ">LEFT" };
  for (const std::string& name : names)
    headings.push_back(">" + printable(name));
  Table table { std::move(headings) };
  for (const auto& [key, words] : periods)
  {
    const json period = budget.value(key, json::object());
    const auto left = value_of(period, "left_bytes");
    std::vector<Table::Cell> cells { words,
                                     bytes(value_of(period, "used_bytes"), "?"),
                                     bytes(value_of(period, "limit_bytes"), "none"),
                                     { bytes(left, "-"), left == 0 ? Tone::warning : Tone::plain } };
    for (const std::string& name : names)
      cells.emplace_back(bytes(value_of(period.value("by", json::object()), name.c_str()), "-"));
    table.add(std::move(cells));
  }
  std::string out = table.text(style);
  if (value_of(budget, "left_bytes") == 0)
    out += "the budget is spent: nothing of Tandem's goes by the cellular link\n";
  if (!budget.value("kept", true))
    out += "without a limit of a day or a month, what is spent is forgotten at the end\n";
  return out;
}

} // namespace tandem::cli
