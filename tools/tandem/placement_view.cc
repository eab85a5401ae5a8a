#include "tools/tandem/placement_view.h"

#include "tools/tandem/json_values.h"

#include <string>
#include <vector>

namespace tandem::cli
{

using nlohmann::json;

std::string show_placement(const json& placement, const Style& style)
{
  const auto truth = [&](const char* key) { return member(placement, key) == json(true); };
  const bool on = truth("enabled");
  if (!on && !truth("kept")) return {};
  std::string out = "placement ";
  if (truth("in_force"))
    out += style(Tone::good, "on") + ": new connections go to the links in turns, those to one site "
           + (words_of(placement, "sites") == "keep" ? "to one link" : "too");
  else if (on)
    out += style(Tone::warning, "rests: " + words_of(placement, "why"));
  else
    out += "off; connections placed before end where they are";
  out += '\n';
  Table table { { "LINK", ">SHARE", ">PLACED", ">ALIVE", ">SEEN", "" } };
  for (const auto& [name, link] : part(placement, "links").items())
  {
    const double seen = number(link, "seen_mbps");
    table.add({ printable(name),
                fixed(100 * number(link, "share"), 0) + " %",
                fixed(number(link, "connections"), 0),
                fixed(number(link, "alive"), 0),
                seen > 0 ? fixed(seen, 1) + " Mb/s" : "-",
                { words_of(link, "why"), Tone::warning } });
  }
  if (!table.empty()) out += table.text(style);
  if (const std::string fault = words_of(placement, "last_error"); !fault.empty())
    out += style(Tone::bad, "placement: " + fault) + '\n';
  return out;
}

} // namespace tandem::cli
