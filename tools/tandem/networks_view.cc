#include "tools/tandem/networks_view.h"

#include "src/control/literal.h"
#include "tools/tandem/json_values.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <optional>
#include <vector>

namespace tandem::cli
{

namespace
{

using nlohmann::json;

std::string percent(std::optional<double> share)
{
  if (!share) return "?";
  std::array<char, 64> buffer {};
  const double value = *share * 100;
  std::snprintf(buffer.data(), buffer.size(), std::fabs(value) < 9.95 ? "%+.1f" : "%+.0f", value);
  return buffer.data();
}

std::string ago(std::optional<double> in_seconds)
{
  return in_seconds && *in_seconds >= 0 && *in_seconds < 1e9 ? format_duration(from_seconds(*in_seconds)) : "-";
}

Tone tone_of(const json& evidence)
{
  if (words_of(evidence, "standing") == "resting") return Tone::warning;
  return value_of(evidence, "low").value_or(-1) > 0 ? Tone::good : Tone::plain;
}

Table::Cell name_of(const json& network)
{
  const bool here = member(network, "here") == true;
  return { words_of(network, "name") + (here ? " (here)" : ""), here ? Tone::strong : Tone::plain };
}

void add_places(Table& table, const json& network)
{
  const json& places = list(network, "places");
  if (places.empty()) table.add({ name_of(network), "-", "-", "-", "0", "-", "-", ago(value_of(network, "used_s")) });
  for (const json& place : places)
  {
    const std::string cell = words_of(place, "cell");
    for (const auto& [what, evidence] : part(place, "modules").items())
    {
      const std::string standing = standing_words(evidence);
      table.add({ name_of(network),
                  cell.empty() ? "none" : cell,
                  words_of(place, "servers"),
                  printable(what),
                  std::to_string(static_cast<long>(value_of(evidence, "comparisons").value_or(0))),
                  { gain_words(evidence), tone_of(evidence) },
                  standing.empty() ? "acts" : standing,
                  ago(value_of(place, "used_s")) });
    }
  }
}

std::string delay_words(std::optional<double> in_seconds)
{
  if (!in_seconds || std::fabs(*in_seconds) > 1e3) return "-";
  std::array<char, 64> buffer {};
  std::snprintf(buffer.data(), buffer.size(), "%+.0f ms", *in_seconds * 1e3);
  return buffer.data();
}

// Of a network: by which cellular link ACKs of its flows reach whom.
void add_known(Table& table, const json& network)
{
  for (const json& path : list(network, "known_paths"))
    table.add({ name_of(network),
                words_of(path, "cell"),
                { words_of(path, "servers"), Tone::good },
                delay_words(value_of(path, "added_delay_s")),
                ago(value_of(path, "validated_s")) });
}

// Of a network: which of its access points keep frames.
void add_access_points(Table& table, const json& network)
{
  for (const json& one : list(network, "keep_frames"))
    table.add({ name_of(network), words_of(one, "access_point"),
                std::to_string(static_cast<long>(number(one, "blackouts"))), ago(value_of(one, "found_s")) });
}

// Of a cellular link: by which no path is tried to whom.
void add_paths(Table& table, const json& cell)
{
  const std::string used = ago(value_of(cell, "used_s"));
  const json& paths = list(cell, "paths");
  if (paths.empty()) table.add({ name_of(cell), "none", "-", "-", used });
  for (const json& path : paths)
    table.add({ name_of(cell),
                { words_of(path, "servers"), Tone::warning },
                std::to_string(static_cast<long>(number(path, "failures"))),
                ago(value_of(path, "rests_s")),
                used });
}

} // namespace

std::string gain_words(const json& evidence)
{
  if (const std::string why = words_of(evidence, "not_compared"); !why.empty()) return "not compared: " + why;
  if (value_of(evidence, "comparisons").value_or(0) <= 0) return "not known yet";
  return percent(value_of(evidence, "gain")) + " % (" + percent(value_of(evidence, "low")) + " to "
         + percent(value_of(evidence, "high")) + ")";
}

std::string standing_words(const json& evidence)
{
  const std::string standing = words_of(evidence, "standing");
  if (standing == "resting") return "rests here for " + ago(value_of(evidence, "rests_s"));
  return standing == "trial" ? "on trial here" : "";
}

std::string evidence_line(const json& evidence)
{
  if (value_of(evidence, "share").value_or(0) <= 0) return {};
  const std::string network = words_of(evidence, "network"), cell = words_of(evidence, "cell");
  const json comparisons = evidence.value("comparisons", json::object());
  return "compared " + std::to_string(static_cast<long>(value_of(comparisons, "done").value_or(0))) + " times, "
         + (network.empty() ? "on no network that is known"
                            : "now on " + network + (cell.empty() ? "" : " with " + cell))
         + '\n';
}

std::string show_networks(const json& networks, const Style& style)
{
  if (!networks.is_array() || networks.empty()) return "nothing was learnt yet\n";
  std::vector<const json*> order;
  for (const json& one : networks)
    order.push_back(&one);
  std::stable_sort(order.begin(), order.end(),
                   [](const json* a, const json* b)
                   { return value_of(*a, "used_s").value_or(0) < value_of(*b, "used_s").value_or(0); });
  Table places { { "NETWORK", "CELLULAR", "SERVERS", "MODULES", ">COMPARED", "GAIN (95 %)", "STATE", ">USED BEFORE" } };
  Table known { { "NETWORK", "CELLULAR", "SERVERS REACHED", ">ADDED DELAY", ">VALIDATED BEFORE" } };
  Table access_points { { "NETWORK", "ACCESS POINT THAT KEEPS FRAMES", ">BLACKOUTS", ">FOUND BEFORE" } };
  Table paths { { "CELLULAR", "SERVERS NOT TRIED", ">FAILURES", ">TRIED AGAIN IN", ">USED BEFORE" } };
  for (const json* one : order)
  {
    if (words_of(*one, "kind") == "cellular")
    {
      add_paths(paths, *one);
      continue;
    }
    add_places(places, *one);
    add_known(known, *one);
    add_access_points(access_points, *one);
  }
  std::string text;
  for (const Table* table : { &places, &known, &access_points, &paths })
    if (!table->empty()) text += (text.empty() ? "" : "\n") + table->text(style);
  return text.empty() ? places.text(style) : text;
}

} // namespace tandem::cli
