#include "tools/tandem/show.h"

#include "src/control/literal.h"
#include "tools/tandem/exclude_view.h"
#include "tools/tandem/json_values.h"
#include "tools/tandem/networks_view.h"
#include "tools/tandem/placement_view.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

namespace tandem::cli
{
namespace
{

using nlohmann::json;

// Numbers as people write them; "-" for what is not there.
std::string text(const json& value)
{
  if (value.is_null()) return "-";
  if (value.is_string()) return printable(value.get<std::string>());
  if (value.is_boolean()) return value.get<bool>() ? "yes" : "no";
  if (value.is_number_float())
  {
    // Modules tell bytes as these, too: all of their digits, and never powers of ten.
    const double number = value;
    if (number == std::floor(number) && std::fabs(number) < 1e15) return fixed(number, 0);
    std::array<char, 400> buffer {};
    std::snprintf(buffer.data(), buffer.size(), std::fabs(number) < 9999.5 ? "%.4g" : "%.0f", number);
    return buffer.data();
  }
  if (value.is_array())
  {
    std::string all;
    for (const json& element : value)
      all += (all.empty() ? "" : ", ") + text(element);
    return all.empty() ? "-" : all;
  }
  return printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string text(const json& object, const char* key)
{
  return text(member(object, key));
}

bool truth(const json& object, const char* key)
{
  const json& value = member(object, key);
  return value.is_boolean() && value.get<bool>();
}

// {why: count}, the most frequent first.
std::vector<std::pair<std::string, double>> ranked(const json& counts)
{
  std::vector<std::pair<std::string, double>> all;
  if (counts.is_object())
    for (const auto& [why, count] : counts.items())
      if (count.is_number()) all.emplace_back(printable(why), count.get<double>());
  std::stable_sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  return all;
}

} // namespace

std::string not_in_force(const json& module)
{
  const json& in_force = member(module, "in_force");
  if (!truth(module, "enabled") || !in_force.is_boolean() || in_force.get<bool>()) return {};
  const std::string why = text(module, "in_force_why");
  return why.empty() || why == "-" ? "the rules are being loaded" : why;
}

namespace
{

Table::Cell on_off(const json& module)
{
  if (!not_in_force(module).empty()) return { "on, not yet in force", Tone::warning };
  return truth(module, "enabled") ? Table::Cell { "on", Tone::good } : Table::Cell { "off", Tone::faint };
}

std::string links_table(const json& links, const Style& style)
{
  // Seldom there: only then it has a column.
  const bool steered =
      std::any_of(links.begin(), links.end(), [](const json& link) { return link.contains("steering"); });
  std::vector<std::string> headings { "LINK", "INTERFACE", "STATE", "ROUTE", ">MTU", ">SENT BY TANDEM", "ADDRESSES" };
  if (steered) headings.emplace_back("STEERED");
  Table table { headings };
  for (const auto& [name, link] : links.items())
  {
    const bool present = truth(link, "present");
    const bool up = present && truth(link, "up");
    std::string interface = text(link, "interface");
    if (interface.empty()) interface = "none";
    std::string route = member(link, "route").is_null() ? "-" : truth(link, "route") ? "IPv4" : "";
    if (truth(link, "route_v6")) route += route.empty() ? "IPv6" : " IPv6";
    std::vector<Table::Cell> cells { name,
                                     interface,
                                     !present ? Table::Cell { "absent", Tone::bad }
                                     : up     ? Table::Cell { "up", Tone::good }
                                          : Table::Cell { truth(link, "carrier") ? "blackout" : "down", Tone::warning },
                                     route.empty() ? "none" : route,
                                     text(link, "mtu"),
                                     bytes_of(number(link, "bytes_out")),
                                     text(link, "addresses") };
    if (steered) cells.emplace_back(steering_words(member(link, "steering")));
    table.add(std::move(cells));
  }
  std::string out = table.text(style);
  const auto say = [&](const char* key, const char* between, Tone tone)
  {
    for (const auto& [name, link] : links.items())
      if (const std::string words = text(link, key); !member(link, key).is_null() && !words.empty())
        out += style(tone, printable(name) + between + printable(words)) + "\n";
  };
  say("denied", " is not used by Tandem: ", Tone::warning);
  say("why", ": ", Tone::faint);
  return out;
}

// Counters that are zero only take room; the first four always show that packets are looked at.
std::string counters_line(const json& counters)
{
  std::string line;
  if (counters.is_object())
    for (const auto& [name, count] : counters.items())
    {
      const bool always = name == "queued" || name == "passed" || name == "edited" || name == "queue_drops";
      if (!always && count.is_number() && count.get<double>() == 0) continue;
      std::string words = name;
      std::replace(words.begin(), words.end(), '_', ' ');
      line += (line.empty() ? "" : ", ") + printable(words) + ' ' + text(count);
    }
  return line;
}

// Bytes fetched a second time; nothing while nobody wants them.
std::string fetch_line(const json& fetch, const Style& style)
{
  if (!fetch.is_object()) return {};
  const std::string why = text(fetch, "why");
  if (member(fetch, "running") == json(true))
    return "fetching " + text(fetch, "asked") + " pieces asked for, " + text(fetch, "brought") + " brought\n";
  return why == "-" || why.empty() || why == "no module wants it"
             ? ""
             : "fetching " + style(Tone::warning, "off: " + why) + '\n';
}

// Nothing without profiles.
std::string profile_line(const json& profile)
{
  const json& all = member(profile, "profiles");
  if (!all.is_array() || all.empty()) return {};
  const std::string name = text(profile, "name"), why = text(profile, "why");
  if (name.empty()) return "profile none: " + why + '\n';
  return "profile " + name + ": " + why + "; " + text(profile, "from") + " sets " + text(profile, "sets") + '\n';
}

// Roams that modules asked for; nothing while none did.
std::string roaming_line(const json& roaming)
{
  const std::string last = text(roaming, "last");
  if (!roaming.is_object() || last == "-" || last.empty()) return {};
  return "roaming  " + text(roaming, "asked") + " asked for, " + text(roaming, "moved") + " done, "
         + text(roaming, "failed") + " failed; last: " + printable(last) + '\n';
}

} // namespace

std::string steering_words(const json& steering)
{
  if (!steering.is_object()) return "-";
  std::string words;
  const auto add = [&](const std::string& more) { words += (words.empty() ? "" : ", ") + more; };
  if (const double requested = number(member(steering, "ce_rate_requested"), "value"),
      now = number(steering, "ce_rate");
      now > 0 || requested > 0)
    add("CE " + fixed(now * 100, 1) + " %"
        + (std::fabs(requested - now) > 1e-5 ? " on the way to " + fixed(requested * 100, 1) + " %" : ""));
  if (number(member(steering, "backup_requested"), "value") > 0) add("backup");
  if (const json& endpoint = member(steering, "endpoint_requested");
      endpoint.is_object() && number(endpoint, "value") == 0)
    add("endpoint taken away");
  if (number(member(steering, "roam_requested"), "value") > 0) add("roam");
  if (words.empty()) return "not now";
  for (const char* request : { "ce_rate_requested", "backup_requested", "endpoint_requested", "roam_requested" })
    if (const json& one = member(steering, request); one.is_object()) return words + " (" + text(one, "why") + ")";
  return words;
}

std::string show_steering(const json& steering, const Style& style)
{
  std::string out;
  Table table { { "MPTCP ENDPOINT", ">ID", "INTERFACE", "MADE BY", "FLAGS" } };
  if (const json& endpoints = member(steering, "endpoints"); endpoints.is_array())
    for (const json& one : endpoints)
    {
      std::string flags = truth(one, "subflow") ? "subflow" : "";
      if (truth(one, "backup")) flags += flags.empty() ? "backup" : " backup";
      const std::string interface = text(one, "interface");
      table.add({ text(one, "address"), text(one, "id"), interface.empty() ? "-" : interface,
                  truth(one, "own") ? "Tandem" : "others", flags.empty() ? "-" : flags });
    }
  if (!table.empty()) out += table.text(style);
  if (const std::string why = text(steering, "mptcp_why"); why != "-" && !why.empty())
    out += style(Tone::warning, "MPTCP is not steered: " + why) + '\n';
  const std::string ce_why = text(steering, "ce_why"), backend = text(steering, "ce_backend");
  if ((backend == "-" || backend.empty()) && ce_why != "-" && !ce_why.empty())
    out += style(Tone::warning, "no CE marks: " + ce_why) + '\n';
  if (const json& refused = member(steering, "refused"); refused.is_array())
    for (const json& one : refused)
      out += style(Tone::warning, "not done: " + text(one, "what") + ": " + text(one, "why")) + '\n';
  if (const std::string fault = text(steering, "last_error"); fault != "-" && !fault.empty())
    out += style(Tone::bad, "steering: " + fault) + '\n';
  return out;
}

std::string show_status(const json& status, const Style& style)
{
  std::string out = style(Tone::strong, "tandemd " + text(status, "version")) + ", process " + text(status, "pid")
                    + ", up " + duration_of(number(status, "uptime_s")) + '\n';
  const json& backend = member(status, "backend");
  const std::string why = text(backend, "why");
  out += "rules by " + text(backend, "name") + (why == "-" || why.empty() ? "" : ": " + why) + '\n';
  if (const json& rules = member(status, "rules"); member(rules, "in_force").is_boolean() && !truth(rules, "in_force"))
  {
    const std::string fault = text(rules, "in_force_why");
    const bool known = fault != "-" && !fault.empty();
    out += style(Tone::warning, "not yet in force: " + (known ? fault : "the rules are being loaded"));
    if (const double wait = number(rules, "retry_s"); wait > 0) out += ", tried again in " + fixed(wait, 0) + " s";
    out += '\n';
  }

  if (const std::string off = text(status, "hands_off"); off != "-" && !off.empty())
    out += style(Tone::warning, "hands off all flows: " + printable(off)) + '\n';

  out += profile_line(member(status, "profile"));

  const json& keeper = member(status, "keeper");
  if (keeper.is_object())
  {
    const std::string state = text(keeper, "state");
    const bool well = state == "armed" || state == "idle";
    out += "keeper " + style(well ? Tone::plain : Tone::bad, state);
    if (number(keeper, "suspensions") > 0)
      out += ", stood in " + text(keeper, "suspensions") + " times for " + duration_of(number(keeper, "suspended_s"));
    if (const std::string fault = text(keeper, "last_error"); fault != "-" && !fault.empty())
      out += ", " + style(Tone::bad, fault);
    out += '\n';
  }
  if (member(status, "links").is_object()) out += '\n' + links_table(member(status, "links"), style);
  if (const json& pacing = member(status, "pacing"); number(pacing, "paced") > 0)
    out += "\nuploads: " + text(pacing, "paced") + " paced, by " + text(pacing, "how") + "\n";
  else if (number(pacing, "asked") > 0)
  {
    for (const char* reason : { "why", "last_error" })
      if (const std::string unpaced = text(pacing, reason); unpaced != "-" && !unpaced.empty())
        out += '\n' + style(Tone::warning, "uploads are not paced: " + unpaced) + '\n';
  }
  if (const std::string steering = show_steering(member(status, "steering"), style); !steering.empty())
    out += '\n' + steering;
  if (const std::string placement = show_placement(member(status, "placement"), style); !placement.empty())
    out += '\n' + placement;
  if (member(status, "modules").is_array()) out += '\n' + show_modules(member(status, "modules"), style);

  const json& flows = member(status, "flows");
  out += "\nflows    " + text(flows, "count") + " of " + text(flows, "capacity");
  if (number(flows, "refused") > 0)
    out += ", " + style(Tone::warning, text(flows, "refused") + " new ones passed untouched: the table was full");
  out += excluded_line(member(status, "excluded"), style) + tunnels_line(member(status, "tunnels"));
  out += "\npackets  " + counters_line(member(status, "datapath")) + '\n' + evidence_line(member(status, "evidence"))
         + fetch_line(member(status, "fetch"), style) + roaming_line(member(status, "roaming"));
  if (const auto faults = ranked(member(status, "faults")); !faults.empty())
  {
    out += "passed untouched because of:";
    for (const auto& [name, count] : faults)
      out += " " + name + " " + fixed(count, 0) + (&name == &faults.back().first ? "" : ",");
    out += '\n';
  }
  if (const json& problems = member(status, "problems"); problems.is_array())
    for (const json& problem : problems)
      out += style(Tone::warning, "not loaded: " + text(problem)) + '\n';
  return out;
}

namespace
{

// What a module says of what it decides for links: "promise held; R0 (Mb/s) 18; ...".
std::string report_words(const json& report)
{
  std::string out;
  if (report.is_object())
    for (const auto& [fact, value] : report.items())
      out += (out.empty() ? "" : "; ") + printable(fact) + " " + text(value);
  return out;
}

} // namespace

std::string show_modules(const json& modules, const Style& style)
{
  // Without comparisons nothing is known of gains, nor asked.
  const bool compared = modules.is_array()
                        && std::any_of(modules.begin(), modules.end(),
                                       [](const json& module) { return member(module, "evidence").is_object(); });
  std::vector<std::string> headings { "MODULE", "STATE", ">FLOWS", ">FAULTS" };
  if (compared) headings.emplace_back("GAIN HERE (95 %)");
  headings.emplace_back("MOST FREQUENT DECISION");
  Table table { headings };
  if (modules.is_array())
    for (const json& module : modules)
    {
      const auto decisions = ranked(member(module, "decisions"));
      Table::Cell state = on_off(module);
      const std::string standing = standing_words(member(module, "evidence"));
      if (truth(module, "enabled") && !standing.empty()) state = { "on, " + standing, Tone::warning };
      std::vector<Table::Cell> cells { text(module, "name"),
                                       state,
                                       text(module, "flows"),
                                       { text(module, "faults"),
                                         number(module, "faults") > 0 ? Tone::bad : Tone::plain } };
      if (compared) cells.emplace_back(gain_words(member(module, "evidence")));
      cells.emplace_back(decisions.empty() ? "-" : fixed(decisions[0].second, 0) + " x " + decisions[0].first);
      table.add(std::move(cells));
    }
  if (table.empty()) return "no module is loaded; see daemon.module_dir in tandem.toml(5)\n";
  std::string out = table.text(style);
  if (modules.is_array())
    for (const json& module : modules)
      if (const std::string words = report_words(member(module, "report")); !words.empty())
        out += text(module, "name") + ": " + words + '\n';
  return out;
}

namespace
{

// " (saved)": who says so. Nothing for what nobody changed, or a daemon that does not tell.
std::string from_words(const json& setting)
{
  const std::string from = words_of(setting, "from");
  return from.empty() || from == "built-in" ? "" : " (" + from + ")";
}

} // namespace

std::string show_module(const json& module, const Style& style)
{
  const Table::Cell state = on_off(module);
  const std::string missing = not_in_force(module);
  std::string out = style(Tone::strong, text(module, "name")) + " is " + style(state.tone, state.text)
                    + (missing.empty() ? "" : ": " + missing) + from_words(module) + "\n" + text(module, "summary")
                    + "\n";
  Table knobs { { "KNOB", ">VALUE", "UNIT", ">DEFAULT", "MEANING" } };
  if (const json& all = member(module, "knobs"); all.is_array())
    for (const json& knob : all)
    {
      const bool changed = text(knob, "value") != text(knob, "default");
      std::string meaning = text(knob, "help");
      if (member(knob, "choices").is_array()) meaning += " (" + text(knob, "choices") + ")";
      meaning += from_words(knob);
      const std::string unit = text(knob, "unit");
      knobs.add({ text(knob, "name"),
                  { text(knob, "value"), changed ? Tone::strong : Tone::plain },
                  unit,
                  text(knob, "default"),
                  meaning });
    }
  if (!knobs.empty()) out += '\n' + knobs.text(style);
  Table decisions { { ">TIMES", "DECISION" } };
  for (const auto& [why, count] : ranked(member(module, "decisions")))
    decisions.add({ fixed(count, 0), why });
  if (!decisions.empty()) out += '\n' + decisions.text(style);
  Table violations { { ">TIMES", "STOPPED BY THE GUARD" } };
  for (const auto& [why, count] : ranked(member(module, "violations")))
    violations.add({ fixed(count, 0), { why, Tone::bad } });
  if (!violations.empty()) out += '\n' + violations.text(style);
  return out;
}

namespace
{

// The same token: subflows of one connection.
std::string mptcp_words(const json& mptcp)
{
  if (!mptcp.is_object()) return "-";
  const std::string token = text(mptcp, "token");
  std::string words = token.empty() || token == "-" ? "token not known" : token;
  if (truth(mptcp, "joined")) words += " joined";
  if (truth(mptcp, "backup")) words += " backup";
  return words;
}

std::string sender_words(const json& sender)
{
  if (!sender.is_object()) return "-";
  const double confidence = number(sender, "confidence");
  return text(sender, "kind") + (confidence > 0 ? ' ' + fixed(confidence, 0) + " %: " : ": ") + text(sender, "why");
}

} // namespace

std::string show_flows(const json& flows, const Style& style)
{
  if (!flows.is_array() || flows.empty()) return "no flows\n";
  std::vector<const json*> order;
  for (const json& flow : flows)
    order.push_back(&flow);
  std::stable_sort(order.begin(), order.end(),
                   [](const json* a, const json* b) { return number(*a, "rate_mbps") > number(*b, "rate_mbps"); });

  const bool multipath =
      std::any_of(flows.begin(), flows.end(), [](const json& flow) { return member(flow, "mptcp").is_object(); });
  std::vector<std::string> headings { ">ID",  "LOCAL",    "REMOTE", "LINK",      ">AGE",
                                      ">RTT", ">MIN RTT", ">RATE",  ">DELIVERED" };
  if (multipath) headings.emplace_back("MPTCP");
  headings.emplace_back("ECN");
  headings.emplace_back("SENDER");
  headings.emplace_back("WHAT IS DONE");
  Table table { headings };
  for (const json* flow : order)
  {
    std::string done;
    if (const json& modules = member(*flow, "modules"); modules.is_object())
      for (const auto& [name, facts] : modules.items())
      {
        done += (done.empty() ? "" : "; ") + name + ":";
        if (facts.is_object())
          for (const auto& [fact, value] : facts.items())
            done += ' ' + fact + ' ' + text(value);
      }
    if (const json& rests = member(*flow, "rests"); rests.is_array())
      done += (done.empty() ? "" : "; ") + std::string { "not now: " } + text(rests);
    const std::string bypass = text(*flow, "bypass"), excluded = words_of(*flow, "excluded");
    const bool bypassed = (bypass != "none" && bypass != "-") || !excluded.empty();
    if (bypassed) done = excluded.empty() ? "bypassed: " + bypass : "excluded: " + excluded;
    const auto rtt = [&](const char* key)
    {
      const double value = number(*flow, key);
      return value > 0 ? duration_of(value / 1e3) : "-";
    };
    std::vector<Table::Cell> cells { text(*flow, "id"),
                                     text(*flow, "local"),
                                     text(*flow, "remote"),
                                     text(*flow, "link"),
                                     duration_of(number(*flow, "age_s")),
                                     rtt("rtt_ms"),
                                     rtt("rtt_min_ms"),
                                     format_rate({ number(*flow, "rate_mbps") * 1e6 }),
                                     bytes_of(number(*flow, "delivered_bytes")) };
    if (multipath) cells.emplace_back(mptcp_words(member(*flow, "mptcp")));
    cells.emplace_back(truth(*flow, "acc_ecn") ? "accurate" : truth(*flow, "ecn") ? "classic" : "-");
    cells.emplace_back(sender_words(member(*flow, "sender")));
    cells.emplace_back(done, bypassed ? Tone::warning : Tone::plain);
    table.add(std::move(cells));
  }
  return table.text(style);
}

namespace
{

// Which source tells what. An absent field is no fault: drivers differ.
std::string show_radio(const json& radio, const Style& style)
{
  Table table { { "SOURCE", "FIELD", "", "WHY" } };
  for (const json& row : radio)
  {
    const std::string there = text(row, "there");
    const Tone tone = there == "yes" ? Tone::good : there == "absent" ? Tone::warning : Tone::faint;
    table.add({ text(row, "source"), text(row, "field"), { there, tone }, text(row, "why") });
  }
  return table.text(style);
}

} // namespace

std::string show_doctor(const json& doctor, const Style& style)
{
  Table table { { "", "CHECK", "FOUND" } };
  std::string remedies;
  if (const json& checks = member(doctor, "checks"); checks.is_array())
    for (const json& check : checks)
    {
      const std::string health = text(check, "health");
      const Tone tone = health == "ok"     ? Tone::good
                        : health == "warn" ? Tone::warning
                        : health == "fail" ? Tone::bad
                                           : Tone::faint;
      table.add({ { health, tone }, text(check, "name"), text(check, "found") });
      if (const std::string remedy = text(check, "remedy"); remedy != "-" && !remedy.empty())
        remedies += style(tone, text(check, "name")) + ": " + remedy + '\n';
    }
  std::string out = table.text(style);
  if (!remedies.empty()) out += "\nWhat to do:\n" + remedies;
  if (const json& radio = member(doctor, "radio"); radio.is_array() && !radio.empty())
    out += "\nWhat the radio tells:\n" + show_radio(radio, style);
  const std::string health = text(doctor, "health");
  out += health == "ok"     ? "\nTandem can work here.\n"
         : health == "warn" ? "\nTandem can work here, with the warnings above.\n"
                            : "\nTandem cannot work here as it is.\n";
  return out;
}

} // namespace tandem::cli
