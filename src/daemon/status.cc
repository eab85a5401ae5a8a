#include "src/daemon/status.h"

#include "src/daemon/network_text.h"
#include "src/daemon/status_json.h"
#include "src/daemon/version.h"
#include "src/kernel/clock.h"

#include <unistd.h>

#include <utility>

namespace tandem::daemon
{

namespace
{

using nlohmann::json;

json all_steering_json(const StatusSources& from)
{
  return steering_json(from.keeper.state().steering, from.config.mptcp.setup, from.config.mptcp.foreign);
}

// Adds what is requested of the link and what is in force to its JSON, when there is any.
void add_steering(json& all, Link link, const StatusSources& from)
{
  json steered = link_steering_json(link, from.links[link].interface, from.steering.requests(), from.chain,
                                    from.keeper.state().steering);
  if (!steered.empty()) all["steering"] = std::move(steered);
}

json link_status_json(Link link, const StatusSources& from)
{
  json all = link_json(from.links[link], from.chain.link_states()[static_cast<std::size_t>(link)]);
  if (const std::string& below = from.links.lower(link).interface; below != from.links[link].interface)
    all["lower"] = below;
  if (link == Link::wifi) all["why"] = from.roles.wifi_why;
  if (link == Link::cell)
  {
    all["why"] = from.roles.cell_why;
    all["denied"] = from.cell_denied;
    const auto told = [](std::optional<bool> one) { return one ? json(*one) : json(nullptr); };
    all.update({ { "metered", told(from.cell_cost.metered) }, { "roaming", told(from.cell_cost.roaming) } });
  }
  add_steering(all, link, from);
  if (from.observers.observing(link))
    all.update({ { "observed", from.observers.seen(link) }, { "observe_one_in", from.observers.one_in(link) } });
  if (link == Link::wifi) all.update(from.watch.json());
  return all;
}

json datapath_json(const StatusSources& from)
{
  json all = counters_json(from.datapath.counters());
  const kernel::QueueStats& queue = from.queue.stats();
  const auto in_kernel = from.queue.kernel_stats();
  all.update({ { "observe_one_in", from.observers.one_in(Link::wifi) },
               { "bypassed", from.bypassed },
               { "requests", from.steering.taken() },
               { "mid_flow", from.chain.stats().mid_flow },
               { "unacceptable", from.chain.stats().unacceptable },
               { "less_withheld", from.chain.stats().less_withheld },
               { "kept_in_order", from.chain.stats().kept_in_order },
               { "own_way_told", from.chain.stats().own_way_told },
               { "own_syns", from.chain.stats().own_syns },
               { "own_kicks", from.chain.stats().own_kicks },
               { "let_go", from.chain.stats().let_go },
               { "cell_bytes", from.chain.stats().cell_bytes },
               { "private_peers", from.chain.stats().private_peers },
               { "excluded", from.chain.stats().excluded },
               { "hands_off", from.times_off },
               { "sleeps", from.sleeps },
               { "waiting", in_kernel ? in_kernel->waiting : 0 },
               { "queue_drops", in_kernel ? in_kernel->queue_drops : 0 },
               { "user_drops", in_kernel ? in_kernel->user_drops : 0 },
               { "overruns", queue.overruns },
               { "truncated", queue.truncated },
               { "late_verdicts", queue.late_verdicts },
               { "verdict_errors", queue.verdict_errors },
               { "verdict_messages", queue.verdict_messages } });
  return all;
}

json tunnels_json(const StatusSources& from)
{
  json routes = json::array();
  for (const links::Routing::Aside& one : from.aside)
    routes.push_back({ { "into", one.tunnel }, { "to", prefix_text(one.to) } });
  return { { "routes", std::move(routes) }, { "flows", from.exclusions.in_tunnels_now() } };
}

json fetch_json(const StatusSources& from)
{
  const chain::Chain::Stats& asked = from.chain.stats();
  const fetch::ServiceStats service = from.fetching.stats();
  return { { "running", from.fetching.running() },
           { "loaded", from.fetching.loaded() },
           { "why", from.fetching.why() },
           { "asked", asked.fetches },
           { "brought", asked.fetched },
           { "fills", asked.fills },
           { "held_bytes", from.fetching.store().held_bytes() },
           { "under_way", from.fetching.store().under_way() },
           { "connections", service.connections },
           { "downloads", service.downloads },
           { "copies_lost", service.tap_drops },
           { "differed", service.differed } };
}

} // namespace

// With what each gains here, as long as that is measured.
json all_modules_json(const StatusSources& from)
{
  json all = modules_json(from.chain, from.rules);
  for (std::size_t i = 0; i < all.size(); ++i)
    if (json gain = from.evidence.module_json(i, kernel::now()); !gain.is_null()) all[i]["evidence"] = std::move(gain);
  return all;
}

// Of uploads, by the pace of their sockets.
json pacing_json(const StatusSources& from)
{
  json all = from.keeper.state().pacing;
  all.update({ { "asked", from.pacing.asked() },
               { "not_found", from.pacing.not_found() },
               { "too_many", from.pacing.too_many() } });
  return all;
}

json status_json(const StatusSources& from)
{
  const kernel::KeeperState& keeper = from.keeper.state();
  return {
    { "version", version },
    { "pid", ::getpid() },
    { "uptime_s", seconds(from.uptime) },
    { "backend", { { "name", keeper.backend }, { "why", keeper.why } } },
    { "hands_off", from.hands_off },
    { "profile", profile_json(from.settings.profiles(), from.settings.profile(), from.network.name()) },
    { "rules", rules_json(from.rules) },
    { "links", each_link_json(from.links, [&from](Link link) { return link_status_json(link, from); }) },
    { "steering", all_steering_json(from) },
    { "placement", from.placement.json(from.config.placement, keeper.placement) },
    { "pacing", pacing_json(from) },
    { "datapath", datapath_json(from) },
    { "fetch", fetch_json(from) },
    { "faults", faults_json(from.datapath.counters()) },
    { "keeper", keeper_json(keeper, from.keeper.pid()) },
    { "flows", flow_table_json(from.chain.table()) },
    { "excluded", { { "exclusions", from.exclusions.json() }, { "flows", from.exclusions.flows_now() } } },
    { "tunnels", tunnels_json(from) },
    { "problems", from.problems },
    { "evidence", from.evidence.here_json() },
    { "modules", all_modules_json(from) },
  };
}

json links_json(const StatusSources& from)
{
  json all = each_link_json(from.links,
                            [&from](Link link) -> json
                            {
                              json one = link == Link::wifi   ? from.watch.sources_json()
                                         : link == Link::cell ? json { { "modems", from.watch.modems_json() } }
                                                              : from.more_radio.at(link).sources_json();
                              one["interface"] = from.links[link].interface;
                              add_steering(one, link, from);
                              return one;
                            });
  all["steering"] = all_steering_json(from);
  return all;
}

} // namespace tandem::daemon
