#include "tools/tandem/why_view.h"

#include "src/control/literal.h"
#include "tools/tandem/json_values.h"
#include "tools/tandem/networks_view.h"
#include "tools/tandem/show.h"

#include <algorithm>
#include <cmath>

namespace tandem::cli
{
namespace
{

using nlohmann::json;

// "192.0.2.1:443" and "[2001:db8::1]:443".
std::pair<std::string, std::string> address_and_port(const std::string& endpoint)
{
  const std::size_t colon = endpoint.rfind(':');
  if (colon == std::string::npos) return { endpoint, {} };
  std::string address = endpoint.substr(0, colon);
  if (address.size() > 1 && address.front() == '[' && address.back() == ']')
    address = address.substr(1, address.size() - 2);
  return { address, endpoint.substr(colon + 1) };
}

// Reasons begin with the name of who gave them.
std::string without_name(const std::string& why, const std::string& name)
{
  const std::string prefix = name + ": ";
  return why.starts_with(prefix) ? why.substr(prefix.size()) : why;
}

std::string heading(const json& flow, const Style& style)
{
  std::string line = style(Tone::strong, words_of(flow, "remote")) + " from " + words_of(flow, "local") + " by "
                     + words_of(flow, "link") + ", open for "
                     + format_duration(from_seconds(std::clamp(number(flow, "age_s"), 0.0, 1e9))) + ", "
                     + fixed(number(flow, "rate_mbps"), 1) + " Mb/s";
  if (const double rtt = number(flow, "rtt_ms"); rtt > 0)
    line += ", round trip " + fixed(rtt, 0) + " ms, of it " + fixed(std::max(0.0, rtt - number(flow, "rtt_min_ms")), 0)
            + " ms in queues";
  return line + '\n';
}

std::string sender_line(const json& sender)
{
  const std::string kind = words_of(sender, "kind"), why = words_of(sender, "why");
  if (kind.empty()) return {};
  const double confidence = number(sender, "confidence");
  return "  sender: " + kind + (confidence > 0 ? ", " + fixed(confidence, 0) + " % sure" : "")
         + (why.empty() ? "" : ": " + why) + '\n';
}

// Shares are small: a mark on one packet of 200 is not none.
std::string figure(double value)
{
  const double size = std::fabs(value);
  if (value == std::floor(value) || size >= 100) return fixed(value, 0);
  std::string text = fixed(value, size >= 1 ? 1 : size >= 0.1 ? 2 : 4);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string facts_line(const json& facts)
{
  std::string line;
  for (const auto& [fact, value] : facts.items())
  {
    if (fact == "why" || fact == "state" || fact == "phase") continue;
    std::string shown = value.is_string() ? printable(value.get<std::string>()) : "";
    if (value.is_number()) shown = figure(value.get<double>());
    if (!shown.empty()) line += (line.empty() ? "" : ", ") + printable(fact) + ' ' + shown;
  }
  return line.empty() ? "" : "      " + line + '\n';
}

// What a module says of the flow: its latest reason first.
std::string module_lines(const json& module, const json& flow, const Style& style)
{
  const std::string name = words_of(module, "name");
  const json& facts = member(member(flow, "modules"), name.c_str());
  const json& rests = member(flow, "rests");
  std::string what;
  Tone tone = Tone::plain;
  if (member(module, "enabled") != json(true))
  {
    what = "off";
    tone = Tone::faint;
  }
  else if (const std::string missing = not_in_force(module); !missing.empty())
  {
    what = "on, not yet in force: " + missing;
    tone = Tone::warning;
  }
  else if (rests.is_array() && std::find(rests.begin(), rests.end(), json(name)) != rests.end())
  {
    const std::string standing = standing_words(member(module, "evidence"));
    what = "left out of this flow now: " + (standing.empty() ? "it is compared with and without" : standing);
    tone = Tone::warning;
  }
  else if (!facts.is_object())
    what = "has had nothing to do here yet";
  else
  {
    const std::string phase = words_of(facts, "phase");
    std::string why = words_of(facts, "why");
    if (why.empty()) why = words_of(facts, "state");
    why = without_name(why, name);
    what = phase.empty() || phase == why ? why : why.empty() ? phase : phase + ": " + why;
    if (what.empty()) what = "looks on";
  }
  std::string out = "  " + style(Tone::strong, name) + ' ' + style(tone, what) + '\n';
  if (facts.is_object()) out += facts_line(facts);
  if (const json& evidence = member(module, "evidence"); evidence.is_object())
    if (const std::string gain = gain_words(evidence); !gain.empty() && gain != "-")
      out += "      gain on this network: " + gain + '\n';
  return out;
}

} // namespace

std::vector<json> flows_to(const Peer& peer, const json& flows)
{
  std::vector<json> found;
  for (const json& flow : flows)
  {
    const auto [address, port] = address_and_port(words_of(flow, "remote"));
    if (peer.port != 0 && port != std::to_string(peer.port)) continue;
    if (std::find(peer.addresses.begin(), peer.addresses.end(), address) != peer.addresses.end()) found.push_back(flow);
  }
  std::stable_sort(found.begin(), found.end(),
                   [](const json& a, const json& b) { return number(a, "rate_mbps") > number(b, "rate_mbps"); });
  return found;
}

std::string explain_flows(const std::vector<json>& flows, const json& modules, const Style& style)
{
  std::string out;
  for (const json& flow : flows)
  {
    if (!out.empty()) out += '\n';
    out += heading(flow, style);
    if (member(flow, "closed") == json(true)) out += "  it is closed\n";
    if (const std::string bypass = words_of(flow, "bypass"); !bypass.empty() && bypass != "none")
    {
      out += "  " + style(Tone::warning, "left alone by every module: " + bypass) + '\n';
      continue;
    }
    if (const std::string excluded = words_of(flow, "excluded"); !excluded.empty())
    {
      out += "  " + style(Tone::warning, "left alone by every module, excluded: " + excluded) + '\n';
      continue;
    }
    out += sender_line(member(flow, "sender"));
    for (const json& module : modules)
      out += module_lines(module, flow, style);
  }
  return out;
}

} // namespace tandem::cli
