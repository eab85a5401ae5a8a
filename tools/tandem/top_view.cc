#include "tools/tandem/top_view.h"

#include "src/control/literal.h"
#include "tools/tandem/columns.h"
#include "tools/tandem/json_values.h"
#include "tools/tandem/links_view.h"
#include "tools/tandem/networks_view.h"
#include "tools/tandem/show.h"

#include <algorithm>
#include <cmath>
#include <sstream>
#include <utility>

namespace tandem::cli
{
namespace
{

using nlohmann::json;

// What the counter has grown by, per second; nothing at the first look, or when it was set back.
std::optional<double> per_second(std::map<std::string, double>& before, const std::string& key, double now,
                                 double seconds)
{
  const auto [known, fresh] = before.try_emplace(key, now);
  const double grown = now - std::exchange(known->second, now);
  return fresh || grown < 0 || seconds <= 0 ? std::nullopt : std::optional { grown / seconds };
}

std::string rate_words(std::optional<double> rate)
{
  return rate ? fixed(*rate, *rate > 0 && *rate < 10 ? 1 : 0) : "-";
}

// What a module does for a flow, in a word or two.
std::string doing(const json& flow)
{
  if (const std::string bypass = words_of(flow, "bypass"); !bypass.empty() && bypass != "none")
    return "left alone: " + bypass;
  if (const std::string excluded = words_of(flow, "excluded"); !excluded.empty()) return "left alone: " + excluded;
  std::string all;
  for (const auto& [name, facts] : part(flow, "modules").items())
  {
    std::string why = words_of(facts, "why");
    if (why.empty()) why = words_of(facts, "state");
    if (why.empty()) continue;
    if (!why.starts_with(name + ": ")) why = name + ": " + why;
    all += (all.empty() ? "" : "; ") + printable(why);
  }
  return all.empty() ? "-" : all;
}

} // namespace

std::string cut(const std::string& line, std::size_t columns)
{
  std::string out;
  std::size_t taken = 0;
  bool coloured = false;
  for (std::size_t i = 0; i < line.size();)
  {
    std::size_t length = 1;
    if (line[i] == '\x1b')
    {
      const std::size_t end = line.find('m', i);
      length = end == std::string::npos ? line.size() - i : end - i + 1;
      coloured = line.compare(i, length, "\x1b[0m") != 0;
    }
    else
    {
      const Letter letter = first_letter(std::string_view { line }.substr(i));
      length = letter.bytes;
      taken += letter.columns;
      if (taken > columns) return coloured ? out + "\x1b[0m" : out;
    }
    out += line.substr(i, length);
    i += length;
  }
  return out;
}

bool TopView::enabled(const std::string& module) const
{
  const auto found = enabled_.find(module);
  return found != enabled_.end() && found->second;
}

std::string TopView::links_text(const json& links, double seconds, const Style& style)
{
  Table table { { "LINK", "INTERFACE", "STATE", ">SIGNAL", ">PACKET TIME", ">SENT BY TANDEM", ">PER SECOND" } };
  for (const auto& [name, link] : links.items())
  {
    const json& radio = member(link, "radio");
    const auto signal = value_of(radio, "signal_dbm"), time = value_of(radio, "packet_time_us");
    const std::string interface = words_of(link, "interface");
    const bool up = member(link, "up") == json(true), carrier = member(link, "carrier") == json(true);
    const Table::Cell state = member(link, "present") != json(true) ? Table::Cell { "absent", Tone::faint }
                              : up                                  ? Table::Cell { "up", Tone::good }
                                   : Table::Cell { carrier ? "blackout" : "down", Tone::bad };
    const auto rate = per_second(before_, "bytes of " + name, number(link, "bytes_out"), seconds);
    table.add({ name, interface.empty() ? "none" : interface, state, signal ? fixed(*signal, 0) + " dBm" : "-",
                time ? fixed(*time * 1e-3, 2) + " ms" : "-", bytes_of(number(link, "bytes_out")),
                rate ? bytes_of(*rate) : "-" });
  }
  return table.text(style);
}

std::string TopView::modules_text(const json& modules, double seconds, const Style& style)
{
  modules_.clear();
  Table table { { "KEY", "MODULE", "STATE", ">FLOWS", "GAIN HERE (95 %)", ">DECISIONS/S", "MOSTLY, JUST NOW" } };
  for (const json& module : modules)
  {
    const std::string name = words_of(module, "name");
    modules_.push_back(name);
    enabled_[name] = member(module, "enabled") == json(true);
    std::optional<double> all;
    std::pair<double, std::string> most { 0, "-" };
    for (const auto& [why, count] : part(module, "decisions").items())
      if (const auto rate =
              count.is_number() ? per_second(before_, name + '\n' + why, count.get<double>(), seconds) : std::nullopt)
      {
        all = all.value_or(0) + *rate;
        if (*rate > most.first) most = { *rate, printable(why) };
      }
    const std::string missing = not_in_force(module), standing = standing_words(member(module, "evidence"));
    const Table::Cell state = !enabled_[name]     ? Table::Cell { "off", Tone::faint }
                              : !missing.empty()  ? Table::Cell { "on, not yet in force", Tone::warning }
                              : !standing.empty() ? Table::Cell { "on, " + standing, Tone::warning }
                                                  : Table::Cell { "on", Tone::good };
    const json& evidence = member(module, "evidence");
    table.add({ std::to_string(modules_.size()), name, state, fixed(number(module, "flows"), 0),
                evidence.is_object() ? gain_words(evidence) : "-", rate_words(all), most.second });
  }
  return table.text(style);
}

std::string TopView::flows_text(const json& flows, const Style& style)
{
  std::vector<const json*> order;
  for (const json& flow : flows)
    if (number(flow, "rate_mbps") > 0) order.push_back(&flow);
  std::stable_sort(order.begin(), order.end(),
                   [](const json* a, const json* b) { return number(*a, "rate_mbps") > number(*b, "rate_mbps"); });
  Table table { { "SERVER", "LINK", ">RATE", ">RTT", ">QUEUED", ">DELIVERED", "SENDER", "WHAT IS DONE" } };
  for (const json* flow : order)
  {
    const double rtt = number(*flow, "rtt_ms");
    const std::string kind = words_of(member(*flow, "sender"), "kind");
    table.add({ words_of(*flow, "remote"), words_of(*flow, "link"), format_rate({ number(*flow, "rate_mbps") * 1e6 }),
                rtt > 0 ? fixed(rtt, 0) + " ms" : "-",
                rtt > 0 ? fixed(std::max(0.0, rtt - number(*flow, "rtt_min_ms")), 0) + " ms" : "-",
                bytes_of(number(*flow, "delivered_bytes")), kind.empty() ? "-" : kind, doing(*flow) });
  }
  return table.empty() ? "no flow delivers anything now\n" : table.text(style);
}

std::string TopView::show(const json& status, const json& flows, double seconds, std::size_t rows, std::size_t columns,
                          const Style& style)
{
  double now = 0;
  for (const json& flow : flows)
    now += number(flow, "rate_mbps");
  goodput_.emplace_back(now);
  if (goodput_.size() > kept) goodput_.pop_front();

  const json& table = member(status, "flows");
  std::string all = style(Tone::strong, "tandemd " + words_of(status, "version")) + ", up "
                    + duration_of(number(status, "uptime_s")) + ", " + fixed(number(table, "count"), 0) + " flows, "
                    + format_rate({ now * 1e6 }) + "  " + sparkline(goodput_, style) + "\n";
  // Modules that are on do nothing then.
  if (const std::string off = words_of(status, "hands_off"); !off.empty())
    all += style(Tone::warning, "hands off all flows: " + off) + '\n';
  all += '\n';
  all += links_text(part(status, "links"), seconds, style) + '\n';
  all += modules_text(list(status, "modules"), seconds, style) + '\n';
  all += flows.is_array() ? flows_text(flows, style) : "";

  std::string out;
  std::istringstream lines { all };
  std::size_t shown = 0;
  for (std::string line; shown < rows && std::getline(lines, line); ++shown)
    out += (shown == 0 ? "" : "\n") + cut(line, columns);
  return out;
}

} // namespace tandem::cli
