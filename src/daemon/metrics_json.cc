#include "src/daemon/metrics_json.h"

#include <string>
#include <utility>

namespace tandem::daemon
{

namespace
{

using nlohmann::json;

struct Metrics
{
  void add(std::string name, std::string help, std::string type, const json& value, json labels = json::object())
  {
    all.push_back({ { "name", std::move(name) },
                    { "help", std::move(help) },
                    { "type", std::move(type) },
                    { "value", value },
                    { "labels", std::move(labels) } });
  }
  json all = json::array();
};

void add_datapath(Metrics& list, const json& status)
{
  for (const auto& [key, value] : status["datapath"].items())
  {
    const bool gauge = key == "waiting" || key == "observe_one_in" || key == "bypassed";
    list.add("tandem_datapath_" + key + (gauge ? "" : "_total"),
             "As datapath." + key + " of the status (docs/control-api.md)", gauge ? "gauge" : "counter",
             value.is_boolean() ? json(value.get<bool>() ? 1 : 0) : value);
  }
  for (const auto& [reason, count] : status["faults"].items())
    list.add("tandem_faults_total", "Packets passed untouched because they could not be worked on", "counter", count,
             { { "reason", reason } });
}

void add_fetching(Metrics& list, const json& fetch)
{
  for (const auto& [key, help] : { std::pair { "asked", "Pieces of downloads that were asked for a second time" },
                                   std::pair { "brought", "Of these, that came and were right" },
                                   std::pair { "fills", "Segments handed to the local TCP" },
                                   std::pair { "differed", "Pieces that differed from what had arrived" } })
    list.add("tandem_fetch_" + std::string { key } + "_total", help, "counter", fetch[key]);
}

void add_links(Metrics& list, const json& links)
{
  for (const auto& [link, state] : links.items())
    list.add("tandem_link_up", "Whether the link is up: carrier, and no blackout", "gauge",
             state["up"].get<bool>() ? 1 : 0, { { "link", link } });
  for (const auto& [link, state] : links.items())
  {
    const json labels = { { "link", link } };
    if (state.contains("observed"))
      list.add("tandem_link_observed_total", "Copies of packets taken of the link", "counter", state["observed"],
               labels);
    if (!state.contains("steering")) continue;
    const json& steered = state["steering"];
    if (steered.contains("ce_rate"))
      list.add("tandem_ce_mark_ratio", "Share of ECN-capable MPTCP packets arriving by the link that get CE", "gauge",
               steered["ce_rate"], labels);
    if (steered.contains("backup_requested"))
      list.add("tandem_mptcp_backup_requested", "Whether the link's subflows are requested to be backup", "gauge",
               steered["backup_requested"]["value"], labels);
  }
}

void add_steering(Metrics& list, const json& steering)
{
  list.add("tandem_mptcp_endpoints", "Endpoints of the kernel's path manager, as of the last plan", "gauge",
           steering["endpoints"].size());
  for (const auto& [key, help] :
       { std::pair { "plans", "Steering plans carried out" }, std::pair { "ce_changes", "Changes of a share of marks" },
         std::pair { "flag_changes", "Changes of an endpoint's backup flag" },
         std::pair { "endpoints_added", "Endpoints made" }, std::pair { "endpoints_deleted", "Endpoints taken away" } })
    list.add("tandem_steering_" + std::string { key } + "_total", help, "counter", steering[key]);
}

void add_placement(Metrics& list, const json& placement)
{
  list.add("tandem_placement_in_force", "Whether new connections are given to the links in turns", "gauge",
           placement["in_force"].get<bool>() ? 1 : 0);
  for (const auto& [link, of] : placement["links"].items())
  {
    const json labels = { { "link", link } };
    list.add("tandem_placement_share_ratio", "Share of new connections that the link gets", "gauge", of["share"],
             labels);
    list.add("tandem_placement_connections_total", "Connections that were given to the link", "counter",
             of["connections"], labels);
    list.add("tandem_placement_alive", "Of these, that live", "gauge", of["alive"], labels);
    if (of.contains("bytes_in"))
      list.add("tandem_placement_bytes_in_total", "Bytes that arrived on connections placed away from home", "counter",
               of["bytes_in"], labels);
  }
}

void add_roaming(Metrics& list, const json& roaming)
{
  for (const auto& [key, help] :
       { std::pair { "asked", "Roams that modules had wpa_supplicant asked for" },
         std::pair { "moved", "Of these, that the card went" },
         std::pair { "worse", "Of these, that made it no better" },
         std::pair { "failed", "Roams that wpa_supplicant refused, or that did not come about" },
         std::pair { "stayed", "Requests for a roam with a reason against it" } })
    list.add("tandem_roams_" + std::string { key } + "_total", help, "counter", roaming[key]);
}

void add_blackouts(Metrics& list, const json& blackout)
{
  for (const auto& [cause, count] : blackout["verdicts"].items())
    list.add("tandem_blackouts_total", "Verdicts that Wi-Fi is down, by cause", "counter", count,
             { { "cause", cause } });
  for (const auto& [key, help] :
       { std::pair { "false_alarms", "Such verdicts that the link contradicted at once" },
         std::pair { "learned", "Such contradictions from which it was learned what this link does alive" },
         std::pair { "held_back", "Verdicts that waited because a live link may be so silent" },
         std::pair { "suspicions", "Silences of a busy link that were looked into" },
         std::pair { "cleared_by_probe", "Suspicions that an answer cleared" },
         std::pair { "cleared_by_traffic", "Suspicions that arriving traffic cleared" },
         std::pair { "undecided", "Suspicions given up without a verdict" },
         std::pair { "unanswered", "Silences of a link that was not busy, on which this host sent" },
         std::pair { "unprovable", "Silences of a busy link whose gateway answers no probe" },
         std::pair { "probes_sent", "Probes to the Wi-Fi gateway" }, std::pair { "probes_answered", "Their answers" },
         std::pair { "radio_stale", "Times the radio source was silent while packets arrived" },
         std::pair { "deauthentications", "Deauthentications that the radio heard, which are no verdict" },
         std::pair { "link_ups_held", "Ends of blackouts that modules were told late, because the link flapped" } })
    list.add("tandem_blackout_" + std::string { key } + "_total", help, "counter", blackout[key]);
}

void add_risk(Metrics& list, const json& risk)
{
  list.add("tandem_blackout_risk", "Whether a blackout is predicted or announced", "gauge",
           risk["at_risk"].get<bool>() ? 1 : 0);
  for (const char* outcome : { "hits", "misses" })
    list.add("tandem_blackout_predictions_total", "Predicted blackouts, by whether they came", "counter", risk[outcome],
             { { "outcome", outcome } });
}

void add_radio(Metrics& list, const json& radio)
{
  for (const json& source : radio.value("sources", json::array()))
  {
    const json labels = { { "source", source["name"] } };
    list.add("tandem_radio_reports_total", "Reports of a source of driver statistics", "counter", source["reports"],
             labels);
    list.add("tandem_radio_skipped_total", "Records of it that could not be used, or were too many", "counter",
             source["skipped"].get<std::uint64_t>() + source["limited"].get<std::uint64_t>(), labels);
    list.add("tandem_radio_stale_total", "Times it fell silent", "counter", source["stale"], labels);
  }
  for (const json& ap : radio.value("aps", json::array()))
  {
    if (!ap["associated"].get<bool>() || !ap["fresh"].get<bool>()) continue;
    const json labels = { { "ap", ap["ap"] } };
    if (ap.contains("delivery"))
      list.add("tandem_ap_delivery_ratio", "Share of the access point's attempts that arrive", "gauge", ap["delivery"],
               labels);
    if (ap.contains("packet_time_us"))
      list.add("tandem_ap_packet_time_seconds", "Mean time to deliver one full packet if we were alone", "gauge",
               ap["packet_time_us"].get<double>() * 1e-6, labels);
  }
}

// What is not known is left out.
void add_gain(Metrics& list, const json& evidence, const json& labels)
{
  if (evidence.contains("not_compared")) return;
  for (const auto& [key, help] : { std::pair { "gain", "What the module gains here, as a share of goodput" },
                                   std::pair { "low", "Lower end of its 95 % interval" },
                                   std::pair { "high", "Upper end of its 95 % interval" } })
    if (evidence[key].is_number())
      list.add("tandem_module_gain_" + (key == std::string { "gain" } ? "" : std::string { key } + "_") + "ratio", help,
               "gauge", evidence[key], labels);
  list.add("tandem_module_comparisons_total", "Stretches with and without the module that were compared here",
           "counter", evidence["comparisons"], labels);
  list.add("tandem_module_resting", "Whether the module rests here, because it harms", "gauge",
           evidence["standing"] == "resting" ? 1 : 0, labels);
}

void add_modules(Metrics& list, const json& modules)
{
  for (const json& module : modules)
  {
    const json labels = { { "module", module["name"] } };
    list.add("tandem_module_enabled", "Whether the module is switched on", "gauge",
             module["enabled"].get<bool>() ? 1 : 0, labels);
    list.add("tandem_module_flows", "Flows the module has state on", "gauge", module["flows"], labels);
    list.add("tandem_module_faults_total", "Exceptions and overlong calls", "counter", module["faults"], labels);
    list.add("tandem_module_excluded_total", "Times the module was taken out of a flow", "counter", module["excluded"],
             labels);
    list.add("tandem_module_cell_bytes_total", "Bytes that the module put on the cellular link", "counter",
             module["cell_bytes"], labels);
    list.add("tandem_module_conflicts_total", "Plans that what another module did stood against", "counter",
             module["conflicts"], labels);
    if (module.contains("evidence")) add_gain(list, module["evidence"], labels);
    for (const auto& [why, count] : module["decisions"].items())
      list.add("tandem_decisions_total", "Decisions by reason", "counter", count,
               { { "module", module["name"] }, { "why", why } });
  }
}

} // namespace

json metrics_json(const json& status, const json& radio)
{
  Metrics list {};
  list.add("tandem_uptime_seconds", "Seconds since the daemon started", "gauge", status["uptime_s"]);
  add_datapath(list, status);
  list.add("tandem_flows", "Flows in the table", "gauge", status["flows"]["count"]);
  list.add("tandem_flows_refused_total", "Flows for which the table had no room", "counter",
           status["flows"]["refused"]);
  list.add("tandem_keeper_suspensions_total", "Times the packet loop stood still and rules were lifted", "counter",
           status["keeper"]["suspensions"]);
  list.add("tandem_keeper_restored_total", "Times rules that others took away were put back", "counter",
           status["keeper"]["restored"]);
  add_fetching(list, status["fetch"]);
  add_links(list, status["links"]);
  add_steering(list, status["steering"]);
  add_placement(list, status["placement"]);
  add_blackouts(list, status["links"]["wifi"]["blackout"]);
  add_risk(list, status["links"]["wifi"]["risk"]);
  add_radio(list, radio);
  if (status.contains("roaming")) add_roaming(list, status["roaming"]);
  add_modules(list, status["modules"]);
  if (status.contains("evidence"))
    for (const auto& [outcome, count] : status["evidence"]["comparisons"].items())
      list.add("tandem_comparisons_total", "Comparisons with and without modules", "counter", count,
               { { "outcome", outcome } });
  return std::move(list.all);
}

} // namespace tandem::daemon
