#include "tools/tandem/aps_view.h"

#include "tools/tandem/json_values.h"

#include <utility>

namespace tandem::cli
{

using nlohmann::json;

namespace
{

std::string measured(const json& object, const char* key, const char* unit)
{
  const auto value = value_of(object, key);
  return value ? fixed(*value, 0) + unit : "-";
}

// Of the virtual station at this access point: its address, and what is still missing.
std::string station_words(const json& aps, const std::string& ap)
{
  for (const json& one : list(aps, "stations"))
  {
    if (words_of(one, "ap") != ap) continue;
    const std::string address = words_of(one, "address");
    if (address.empty()) return words_of(one, "state");
    return address + (one.value("endpoint", false) ? ", MPTCP endpoint" : ", no MPTCP endpoint yet");
  }
  return {};
}

// What the card does between channels; empty when it is on one.
std::string turns_words(const json& aps)
{
  const json& turns = part(aps, "turns");
  const std::string doing = words_of(turns, "doing");
  if (doing.empty()) return {};
  std::string out = "channels: " + doing;
  if (const auto best = value_of(turns, "best_mhz")) out += "; most came by " + fixed(*best, 0) + " MHz";
  std::string backups {};
  for (const json& one : list(turns, "backup"))
    if (one.is_string()) backups += (backups.empty() ? "" : ", ") + one.get<std::string>();
  if (!backups.empty()) out += "; backup: " + backups;
  out += "\n" + fixed(number(turns, "orders"), 0) + " orders to the card, " + fixed(number(turns, "late"), 0)
         + " late, " + fixed(number(turns, "failed"), 0) + " failed\n";
  if (const std::string problem = words_of(turns, "problem"); !problem.empty())
    out += "turns by subflows alone: " + problem + "\n";
  return out;
}

// At how many access points the card can be, and on how many channels.
std::string card_words(const json& card)
{
  const auto most = value_of(card, "stations");
  if (!most) return {};
  if (*most < 2) return "this card can be at one access point only\n";
  const double apart = number(card, "channels_apart"), then = number(card, "stations_apart");
  std::string out = "this card can be at " + fixed(*most, 0) + " access points, on ";
  if (apart < 2) return out + "one channel\n";
  if (then < *most) return out + "one channel, or at " + fixed(then, 0) + " on " + fixed(apart, 0) + " channels\n";
  return out + fixed(apart, 0) + " channels\n";
}

} // namespace

std::string show_aps(const json& aps, const Style& style)
{
  std::string out {};
  if (const std::string problem = words_of(aps, "problem"); !problem.empty())
    out += style(Tone::warning, problem) + '\n';
  Table table { { "ACCESS POINT", "SSID", ">CHANNEL", ">SIGNAL", ">HEARD", "INTERFACE", "WORTH IT" } };
  for (const json& one : list(aps, "access_points"))
  {
    const std::string ap = words_of(one, "ap"), interface = words_of(one, "interface");
    const std::string station = station_words(aps, ap);
    const bool worth = one.value("worth", false);
    std::string why = (worth ? "yes: " : "no: ") + (station.empty() ? words_of(one, "why") : station);
    const std::string name = words_of(one, "ssid");
    table.add({ ap, name.empty() ? "(hidden)" : name, fixed(number(one, "channel"), 0),
                measured(one, "signal_dbm", " dBm"),
                value_of(one, "age_s") ? duration_of(number(one, "age_s")) + " ago" : "-",
                interface.empty() ? "-" : interface,
                Table::Cell { std::move(why), interface.empty() ? Tone::plain : Tone::good } });
  }
  out += table.empty() ? "no access point is in range\n" : table.text(style);
  const double keep = number(aps, "keep");
  const bool several = aps.is_object() && aps.value("several_channels", false);
  out += keep >= 2
             ? "\nkept: up to " + fixed(keep, 0) + " access points of " + (several ? "several channels" : "one channel")
                   + (number(aps, "saved") == keep ? ", saved\n" : "\n")
             : "\nno virtual stations are kept; `tandem aps keep N` keeps the card at up to N access points\n";
  out += turns_words(aps) + card_words(part(aps, "card"));
  return out;
}

} // namespace tandem::cli
