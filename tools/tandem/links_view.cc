#include "tools/tandem/links_view.h"

#include "tools/tandem/json_values.h"
#include "tools/tandem/show.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>

namespace tandem::cli
{

namespace
{

using nlohmann::json;

constexpr const char* absent = "-";

bool is_true(const json& object, const char* key)
{
  const auto found = object.find(key);
  return found != object.end() && found->is_boolean() && found->get<bool>();
}

std::string reading(std::optional<double> value, int digits, const char* unit = "", double factor = 1)
{
  if (!value) return absent;
  std::array<char, 64> buffer {};
  std::snprintf(buffer.data(), buffer.size(), "%.*f%s", digits, *value * factor, unit);
  return buffer.data();
}

Tone tone_of_state(const std::string& state)
{
  if (state == "fresh") return Tone::good;
  return state == "closed" || state == "stale" ? Tone::bad : Tone::faint;
}

std::string rejected(const json& source)
{
  std::string text;
  for (const auto& [why, count] : part(source, "rejected").items())
    text += (text.empty() ? "" : ", ") + printable(why) + ' ' + count.dump();
  return text;
}

std::string sources_table(const json& wifi, const Style& style)
{
  Table table { { "SOURCE", "STATE", ">REPORTS", ">SKIPPED", ">AGE", "DISTRUSTED", "PROBLEM" } };
  for (const json& source : list(wifi, "sources"))
  {
    const std::string state = words_of(source, "state");
    const auto skipped = value_of(source, "skipped"), limited = value_of(source, "limited");
    table.add(
        { words_of(source, "name"),
          { state, tone_of_state(state) },
          reading(value_of(source, "reports"), 0),
          reading(skipped || limited ? std::optional { skipped.value_or(0) + limited.value_or(0) } : std::nullopt, 0),
          reading(value_of(source, "age_s"), 1, " s"),
          { rejected(source), Tone::warning },
          { words_of(source, "problem"), Tone::bad } });
  }
  if (table.empty()) return "no source of driver statistics is set (links.radio); see `tandem doctor`\n";
  return table.text(style);
}

std::string modems_table(const json& cell, const Style& style)
{
  Table table { { "MODEM", "STATE", "TECHNOLOGY", ">RSRP", ">RSRQ", ">SNR", ">RSSI" } };
  for (const json& modem : list(cell, "modems"))
  {
    const std::string state = words_of(modem, "state"), technology = words_of(modem, "technology");
    table.add({ words_of(modem, "modem"), state.empty() ? absent : state, technology.empty() ? absent : technology,
                reading(value_of(modem, "rsrp_dbm"), 0, " dBm"), reading(value_of(modem, "rsrq_db"), 0, " dB"),
                reading(value_of(modem, "snr_db"), 1, " dB"), reading(value_of(modem, "rssi_dbm"), 0, " dBm") });
  }
  return table.empty() ? std::string {} : '\n' + table.text(style);
}

} // namespace

std::string sparkline(const std::deque<std::optional<double>>& values, const Style& style)
{
  using Levels = std::array<const char*, 8>;
  constexpr Levels blocks { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" }, ascii { "_", ".", ":", "-", "=", "+", "*", "#" };
  const Levels& levels = style.utf8 ? blocks : ascii;
  double least = INFINITY, most = -INFINITY;
  for (const auto& value : values)
    if (value)
    {
      least = std::min(least, *value);
      most = std::max(most, *value);
    }
  std::string line;
  for (const auto& value : values)
  {
    if (!value)
    {
      line += ' ';
      continue;
    }
    const double height = most > least ? (*value - least) / (most - least) : 0;
    line += levels[static_cast<std::size_t>(std::lround(height * (levels.size() - 1)))];
  }
  return line;
}

std::string LinksView::past(const std::string& key, std::optional<double> value, const Style& style)
{
  History& history = history_[key];
  history.push_back(value);
  if (history.size() > kept) history.pop_front();
  return history.size() > 1 ? sparkline(history, style) : std::string {};
}

std::string LinksView::show_wifi(const std::string& link, const json& wifi, const Style& style)
{
  std::string out = sources_table(wifi, style);

  Table aps { { "ACCESS POINT", "NETWORK", ">T", "", ">DELIVERY", "", ">RATE", ">MCS", ">SIGNAL", "", ">BEACONS LOST",
                ">SURE", "FROM" } };
  for (const json& ap : list(wifi, "aps"))
  {
    const std::string name = words_of(ap, "ap"), basis = words_of(ap, "basis");
    const bool ours = is_true(ap, "associated");
    const auto time = value_of(ap, "packet_time_us"), delivery = value_of(ap, "delivery"),
               signal = value_of(ap, "signal_dbm");
    std::string from = basis == "none" ? absent : basis;
    if (is_true(ap, "hidden_terminal")) from += ", attempts fail together: hidden terminal?";
    if (ours && basis != "none" && !is_true(ap, "fresh")) from += ", stale";
    aps.add({ { name, ours ? Tone::strong : Tone::plain },
              words_of(ap, "ssid"),
              reading(time, 2, " ms", 1e-3),
              { past(link + name + " T", time, style), Tone::faint },
              reading(delivery, 0, " %", 100),
              { past(link + name + " p", delivery, style), Tone::faint },
              reading(value_of(ap, "mbps"), 1),
              reading(value_of(ap, "mcs"), 0),
              reading(signal, 0, " dBm"),
              { past(link + name + " s", signal, style), Tone::faint },
              reading(value_of(ap, "beacon_loss"), 0, " %", 100),
              reading(basis == "none" ? std::nullopt : value_of(ap, "confidence"), 0, " %", 100),
              { from, from == basis || from == absent ? Tone::plain : Tone::warning } });
  }
  if (!aps.empty()) out += '\n' + aps.text(style);

  Table found { { "HEARD OF BY SCANS", "NETWORK", ">SIGNAL", ">MHZ", ">AGE" } };
  for (const json& candidate : list(wifi, "candidates"))
    found.add({ words_of(candidate, "ap"), words_of(candidate, "ssid"),
                reading(value_of(candidate, "signal_dbm"), 0, " dBm"), reading(value_of(candidate, "frequency_mhz"), 0),
                reading(value_of(candidate, "age_s"), 1, " s") });
  if (!found.empty()) out += '\n' + found.text(style);

  Table channels { { ">CHANNEL MHZ", ">BUSY", ">NOISE" } };
  for (const json& survey : list(wifi, "surveys"))
  {
    if (!is_true(survey, "in_use")) continue;
    const auto active = value_of(survey, "active_ms"), busy = value_of(survey, "busy_ms");
    const std::string share = active && busy && *active > 0 ? reading(*busy / *active, 0, " %", 100) : absent;
    channels.add(
        { reading(value_of(survey, "frequency_mhz"), 0), share, reading(value_of(survey, "noise_dbm"), 0, " dBm") });
  }
  if (!channels.empty()) out += '\n' + channels.text(style);
  return out;
}

std::string LinksView::show(const json& links, const Style& style)
{
  std::vector<std::string> names;
  if (links.is_object())
    for (const auto& [name, link] : links.items())
      if (name.starts_with("wifi") && link.is_object()) names.push_back(name);
  std::string out;
  if (names.empty()) out = sources_table(part(links, "wifi"), style);
  for (const std::string& name : names)
  {
    const json& link = part(links, name.c_str());
    const json& steering = part(link, "steering");
    if (names.size() > 1 || !steering.empty())
    {
      out += (out.empty() ? "" : "\n") + style(Tone::strong, printable(name) + " " + words_of(link, "interface"));
      if (!steering.empty()) out += ": " + steering_words(steering);
      out += '\n';
    }
    out += show_wifi(name, link, style);
  }
  out += modems_table(part(links, "cell"), style);
  if (const std::string steering = show_steering(part(links, "steering"), style); !steering.empty())
    out += '\n' + steering;
  return out;
}

} // namespace tandem::cli
