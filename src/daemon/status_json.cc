#include "src/daemon/status_json.h"

#include "src/control/literal.h"
#include "src/daemon/config_value.h"
#include "src/wire/text.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string_view>
#include <utility>
#include <vector>

namespace tandem::daemon
{

namespace
{

using nlohmann::json;

// Kept apart, so that plain strings can be told from numbers by whoever reads the JSON.
class JsonFacts final : public Facts
{
public:
  void add(std::string_view key, std::string_view value) override { all[std::string { key }] = value; }
  void add(std::string_view key, double value, std::string_view unit) override
  {
    all[std::string { key } + (unit.empty() ? "" : " (" + std::string { unit } + ")")] = value;
  }
  json all = json::object();
};

// As `ss` writes it; empty when not known.
std::string token_text(std::uint32_t token)
{
  if (token == 0) return {};
  std::array<char, 16> buffer {};
  std::snprintf(buffer.data(), buffer.size(), "%08x", token);
  return buffer.data();
}

std::string type_name(KnobType type)
{
  switch (type)
  {
  case KnobType::integer:
    return "integer";
  case KnobType::real:
    return "real";
  case KnobType::boolean:
    return "boolean";
  case KnobType::duration:
    return "duration";
  case KnobType::choice:
    return "choice";
  }
  return "?";
}

json knob_json(const Module& module, const Knob& knob)
{
  json one = { { "name", knob.name },
               { "type", type_name(knob.type) },
               { "unit", knob.unit },
               { "minimum", knob.minimum },
               { "maximum", knob.maximum },
               { "default", format_knob(knob, knob.initial) },
               { "value", format_knob(knob, module.get(knob.name)) },
               { "help", knob.help } };
  if (knob.type != KnobType::choice) return one;
  one["choices"] = json::array();
  for (const std::string_view choice : knob.choices)
    one["choices"].push_back(choice);
  return one;
}

// What each module says of the flow on which it has begun.
json facts_json(chain::Chain& chain, const flow::Flow& flow)
{
  json all = json::object();
  for (std::size_t i = 0; i < chain.module_count(); ++i)
  {
    if ((flow.begun >> i & 1) == 0) continue;
    JsonFacts facts {};
    chain.module(i).describe(flow.view, std::as_const(chain).state(flow, i), facts);
    if ((flow.excluded >> i & 1) != 0) facts.all["excluded"] = "after a fault";
    all[std::string { chain.module(i).name() }] = std::move(facts.all);
  }
  return all;
}

json mptcp_json(const FlowView& view)
{
  json all = { { "token", token_text(view.mptcp_token) },
               { "joined", view.mptcp_joined },
               { "backup", view.mptcp_backup },
               { "address_id", view.mptcp_address_id } };
  if (view.mptcp_version) all["version"] = *view.mptcp_version;
  return all;
}

json flow_json(chain::Chain& chain, const flow::Flow& flow, Tick now)
{
  const FlowView& v = flow.view;
  json all = { { "id", v.id },
               { "local", wire::to_string(v.key.local, v.key.local_port) },
               { "remote", wire::to_string(v.key.remote, v.key.remote_port) },
               { "link", name(v.link) },
               { "ecn", v.ecn },
               { "acc_ecn", v.acc_ecn },
               { "age_s", seconds(now - v.first_seen) },
               { "idle_s", seconds(now - v.last_seen) },
               { "rtt_ms", milliseconds(v.rtt_smoothed) },
               { "rtt_min_ms", milliseconds(v.rtt_min) },
               { "rate_mbps", v.delivery_rate * 8e-6 },
               { "window_bytes", v.window_estimate },
               { "delivered_bytes", v.bytes_delivered },
               { "bypass", name(v.bypass) },
               { "closed", flow.closed },
               { "sender",
                 { { "kind", name(v.sender.kind) }, { "confidence", v.sender.confidence }, { "why", v.sender.why } } },
               { "content", name(v.content) },
               { "content_why", v.content_why },
               { "modules", facts_json(chain, flow) } };
  for (std::size_t i = 0; i < chain.module_count() && !chain::left_alone(flow); ++i)
    if ((flow.resting >> i & 1) != 0) all["rests"].push_back(chain.module(i).name());
  if (v.mptcp) all["mptcp"] = mptcp_json(v);
  if (const CellDenied why = cell_denial(v); why != CellDenied::no) all["cell_denied"] = name(why);
  return all;
}

// Of the kernel's path manager, as of the last plan.
json endpoints_json(const kernel::SteeringState& state)
{
  json all = json::array();
  for (const kernel::MptcpEndpoint& endpoint : state.endpoints)
    all.push_back({ { "address", endpoint.address },
                    { "id", endpoint.id },
                    { "interface", endpoint.interface },
                    { "own", endpoint.own },
                    { "subflow", endpoint.subflow() },
                    { "backup", endpoint.backup() } });
  return all;
}

} // namespace

json each_link_json(const links::LinkTable& links, const std::function<json(Link)>& of)
{
  json all = json::object();
  for (const Link link : all_links)
    if (link == Link::wifi || link == Link::cell || !links[link].interface.empty())
      all[std::string { name(link) }] = of(link);
  return all;
}

json link_json(const links::LinkInfo& info, const LinkState& state)
{
  json addresses = json::array();
  for (const Address& address : info.addresses)
    addresses.push_back(wire::to_string(address));
  json all {
    { "interface", info.interface }, { "present", info.present() },  { "up", state.up },  { "carrier", info.up },
    { "route", state.route },        { "route_v6", state.route_v6 }, { "mtu", info.mtu }, { "addresses", addresses },
    { "bytes_out", state.bytes_out }
  };
  if (const auto& radio = state.radio)
  {
    json known { { "confidence", radio->confidence } };
    if (radio->packet_time) known["packet_time_us"] = milliseconds(*radio->packet_time) * 1e3;
    if (radio->delivery) known["delivery"] = *radio->delivery;
    if (radio->signal) known["signal_dbm"] = *radio->signal;
    if (radio->candidate) known["candidate_dbm"] = *radio->candidate;
    if (radio->frequency != 0) known["frequency_mhz"] = radio->frequency;
    all["radio"] = std::move(known);
  }
  return all;
}

json link_steering_json(Link link, const std::string& interface, const LinkRequests& requests, chain::Chain& chain,
                        const kernel::SteeringState& state)
{
  json all = json::object();
  const auto put = [&](RequestKind kind, const char* key)
  {
    const auto request = requests.of(link, kind);
    if (!request) return;
    all[key] = { { "value", request->value }, { "by", chain.module(request->slot).name() }, { "why", request->why } };
  };
  put(RequestKind::ce_rate, "ce_rate_requested");
  put(RequestKind::mptcp_backup, "backup_requested");
  put(RequestKind::mptcp_endpoint, "endpoint_requested");
  put(RequestKind::roam, "roam_requested");
  for (const kernel::CeRule& rule : state.ce)
    if (rule.interface == interface) all["ce_rate"] = rule.rate;
  if (all.contains("ce_rate_requested") && !all.contains("ce_rate")) all["ce_rate"] = 0.0;
  return all;
}

json steering_json(const kernel::SteeringState& state, bool setup, bool foreign)
{
  json all = state;
  all.erase("ce"); // shown with each link
  all.update({ { "setup", setup }, { "foreign", foreign }, { "endpoints", endpoints_json(state) } });
  return all;
}

json flows_json(chain::Chain& chain, Tick now)
{
  constexpr std::size_t most = 1000;
  std::vector<flow::Flow*> told {};
  chain.table().each([&](flow::Flow& flow) { told.push_back(&flow); });
  if (told.size() > most)
  {
    // Whoever opens connections by the hundred must not hide those that carry something.
    const auto rank = [](const flow::Flow* flow) {
      return std::pair { flow->view.bytes_delivered + flow->view.bytes_sent > 0, flow->view.last_seen };
    };
    std::nth_element(told.begin(), told.begin() + most, told.end(),
                     [&](const flow::Flow* a, const flow::Flow* b) { return rank(a) > rank(b); });
    told.resize(most);
  }
  json all = json::array();
  for (const flow::Flow* flow : told)
    all.push_back(flow_json(chain, *flow, now));
  return all;
}

json flow_table_json(const flow::Table& table)
{
  return { { "count", table.size() },        { "capacity", table.capacity() },
           { "refused", table.refused() },   { "bytes_each", table.bytes_per_flow() },
           { "with_state", table.states() }, { "state_bytes_each", table.bytes_per_state() } };
}

json rules_json(const RulesStatus& rules)
{
  return { { "in_force", rules.in_force }, { "in_force_why", rules.why }, { "retry_s", seconds(rules.retry) } };
}

json module_json(chain::Chain& chain, std::size_t i, const RulesStatus& rules)
{
  const Module& module = chain.module(i);
  // A module that decides nothing about packets needs no rule.
  const bool waits = chain.enabled(i) && module.interest().decide != 0 && !rules.in_force;
  const auto& stats = chain.stats(i);
  json decisions = json::object();
  for (const chain::ReasonCount& reason : stats.reasons)
    if (!reason.why.empty()) decisions[std::string { reason.why }] = reason.count;
  json violations = json::object();
  for (std::size_t v = 1; v < stats.violations.size(); ++v)
    if (stats.violations[v] != 0)
      violations[std::string { chain::name(static_cast<chain::Violation>(v)) }] = stats.violations[v];
  json knobs = json::array();
  for (const Knob& knob : module.knobs())
    knobs.push_back(knob_json(module, knob));
  JsonFacts report {};
  if (chain.enabled(i)) module.report(report);
  return { { "name", module.name() },
           { "summary", module.summary() },
           { "enabled", chain.enabled(i) },
           { "in_force", chain.enabled(i) && !waits },
           { "in_force_why", waits ? rules.why : std::string {} },
           { "flows", stats.flows },
           { "faults", stats.faults },
           { "excluded", stats.excluded },
           { "cell_bytes", stats.cell_bytes },
           { "conflicts", stats.conflicts },
           { "violations", violations },
           { "report", report.all },
           { "decisions", decisions },
           { "knobs", std::move(knobs) } };
}

json modules_json(chain::Chain& chain, const RulesStatus& rules)
{
  json all = json::array();
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    all.push_back(module_json(chain, i, rules));
  return all;
}

std::string manual_text(const Module& module)
{
  std::string text = "# " + std::string { module.name() } + "\n\n" + std::string { module.summary() } + "\n\n"
                     + std::string { module.manual() }
                     + "\n\n## Knobs\n\n| knob | unit | range | default | meaning |\n|---|---|---|---|---|\n";
  for (const Knob& knob : module.knobs())
  {
    std::string range = format_knob(knob, knob.minimum) + " to " + format_knob(knob, knob.maximum);
    if (knob.type == KnobType::choice)
    {
      range.clear();
      for (const std::string_view choice : knob.choices)
        range += (range.empty() ? "" : ", ") + std::string { choice };
    }
    text += "| `" + std::string { knob.name } + "` | " + std::string { knob.unit } + " | " + range + " | "
            + format_knob(knob, knob.initial) + " | " + std::string { knob.help } + " |\n";
  }
  return text;
}

json profile_json(const std::vector<Profile>& all, const std::string& held, const std::string& network)
{
  json known = json::array();
  for (const Profile& one : all)
    known.push_back({ { "name", one.name }, { "ssid", one.ssids } });
  const Profile* profile = find_profile(all, held);
  const std::string where =
      network.empty() ? "no Wi-Fi network is known" : "the Wi-Fi network is " + in_quotes(network);
  return { { "name", held },
           { "why",
             all.empty() ? "" : where + (profile == nullptr && !network.empty() ? ", which is in no profile" : "") },
           { "from", profile == nullptr ? "" : profile->where.text() },
           { "sets", profile == nullptr ? std::vector<std::string> {} : profile->texts() },
           { "profiles", std::move(known) } };
}

json counters_json(const Datapath::Counters& counters)
{
  return { { "queued", counters.queued },
           { "passed", counters.passed },
           { "edited", counters.edited },
           { "rerouted", counters.rerouted },
           { "dropped", counters.dropped },
           { "injected", counters.injected },
           { "observed", counters.observed },
           { "injected_failed", counters.inject_failed },
           { "reroute_failed", counters.reroute_failed },
           { "cell_filtered", counters.cell_filtered },
           { "not_wifi", counters.not_wifi },
           { "damaged", counters.damaged } };
}

json faults_json(const Datapath::Counters& counters)
{
  json all = json::object();
  for (std::size_t i = 1; i < counters.faults.size(); ++i)
    if (counters.faults[i] != 0) all[std::string { wire::name(static_cast<wire::ParseFault>(i)) }] = counters.faults[i];
  for (std::size_t i = 1; i < counters.edit_faults.size(); ++i)
    if (counters.edit_faults[i] != 0)
      all["edit: " + std::string { wire::name(static_cast<wire::EditFault>(i)) }] = counters.edit_faults[i];
  return all;
}

json keeper_json(const kernel::KeeperState& keeper, int pid)
{
  return { { "state", kernel::name(keeper.phase) }, { "pid", pid },
           { "suspensions", keeper.suspensions },   { "suspended_s", seconds(keeper.suspended_total) },
           { "restored", keeper.restored },         { "last_error", keeper.last_error } };
}

} // namespace tandem::daemon
