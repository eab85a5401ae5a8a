#include "tools/tandem/exclude_view.h"

#include "tools/tandem/json_values.h"

#include <utility>

namespace tandem::cli
{

using nlohmann::json;

std::string show_exclusions(const json& exclusions, const Style& style)
{
  std::string out {};
  if (const std::string problem = words_of(exclusions, "problem"); !problem.empty())
    out += style(Tone::warning, problem) + '\n';
  Table table { { "EXCLUDED", "", "BY", ">FLOWS", "IN FORCE" } };
  for (const json& one : list(exclusions, "exclusions"))
  {
    const std::string problem = words_of(one, "problem");
    Table::Cell state { problem.empty() ? "yes" : "no: " + problem, problem.empty() ? Tone::good : Tone::warning };
    table.add({ words_of(one, "kind"), words_of(one, "what"), words_of(one, "from"), fixed(number(one, "flows"), 0),
                std::move(state) });
  }
  return out + (table.empty() ? "nothing is excluded\n" : table.text(style));
}

std::string excluded_line(const json& excluded, const Style& style)
{
  std::string out {}, problems {};
  for (const json& one : list(excluded, "exclusions"))
  {
    const std::string what = words_of(one, "kind") + " " + words_of(one, "what");
    out += (out.empty() ? "" : ", ") + what;
    if (const std::string problem = words_of(one, "problem"); !problem.empty())
      problems += "\n" + style(Tone::warning, what + ": " + problem);
  }
  if (out.empty()) return {};
  return "\nexcluded " + out + "; " + fixed(number(excluded, "flows"), 0) + " flows now" + problems;
}

std::string tunnels_line(const json& tunnels)
{
  constexpr int most = 3;
  std::string out {}, into {};
  int count = 0;
  for (const json& one : list(tunnels, "routes"))
  {
    if (++count > most) continue;
    const std::string tunnel = words_of(one, "into");
    out += (count == 1 ? "" : ", ") + (tunnel == into ? "" : tunnel + ": ") + words_of(one, "to");
    into = tunnel;
  }
  if (out.empty()) return {};
  if (count > most) out += " and " + std::to_string(count - most) + " more";
  return "\ntunnels  " + out + "; " + fixed(number(tunnels, "flows"), 0) + " flows left alone now";
}

} // namespace tandem::cli
