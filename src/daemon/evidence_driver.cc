#include "src/daemon/evidence_driver.h"

#include "src/chain/holds.h"
#include "src/evidence/text.h"
#include "src/kernel/clock.h"
#include "src/kernel/neighbour.h"
#include "src/wire/text.h"

#include <tandem/pure_ack.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>
#include <vector>

namespace tandem::daemon
{

namespace
{

using nlohmann::json;
using namespace std::chrono_literals;

evidence::Settings settings_of(const Config::Evidence& config, std::uint64_t seed)
{
  evidence::Settings settings { .share = config.share, .seed = config.seed != 0 ? config.seed : seed };
  if (config.stretch > Duration {}) settings.shortest = settings.longest = config.stretch;
  return settings;
}

std::vector<std::string> names_of(chain::Chain& chain)
{
  std::vector<std::string> names;
  for (std::size_t i = 0; i < chain.module_count(); ++i)
    names.emplace_back(chain.module(i).name());
  return names;
}

std::string prefix_text(const evidence::Prefix& prefix)
{
  if (prefix.bits == 0) return "all";
  Address address { .v6 = prefix.bits > 24 };
  std::copy(prefix.bytes.begin(), prefix.bytes.end(), address.bytes.begin());
  return wire::to_string(address) + "/" + std::to_string(prefix.bits);
}

// An effect as a share, 0.05 for +5 %; nothing when it may be anything.
json share_json(double effect)
{
  if (!(std::abs(effect) < evidence::Sequence::widest)) return {};
  return std::expm1(effect);
}

// Why a module is never compared flow by flow; empty: it is. Who compares links speaks of links, not of flows; who
// decides nothing changes nothing.
std::string_view never_compared(const Interest& interest)
{
  if (interest.every_link) return "it compares links itself";
  return interest.decide == 0 ? "it decides nothing about packets" : std::string_view {};
}

// As the next flow would find it: whose rest is over is on trial, though no flow has come yet that asked.
json tally_json(evidence::Tally tally, evidence::WallTime now)
{
  tally.refresh(now);
  const evidence::Interval interval = tally.gains.interval();
  json all { { "comparisons", tally.gains.count() },
             { "gain", tally.gains.count() > 0 ? share_json(tally.gains.mean()) : json() },
             { "low", share_json(interval.low) },
             { "high", share_json(interval.high) },
             { "standing", name(tally.standing) } };
  if (tally.standing == evidence::Standing::resting)
    all["rests_s"] = std::clamp<evidence::WallTime>(tally.until - now, 0, evidence::Tally::longest_rest);
  return all;
}

} // namespace

evidence::WallTime wall(Tick now)
{
  return std::chrono::duration_cast<std::chrono::seconds>(now.time_since_epoch() + kernel::realtime_offset()).count();
}

EvidenceDriver::EvidenceDriver(const Config::Evidence& config, std::uint64_t seed, chain::Chain& chain,
                               evidence::Memory memory, ChainInputs& inputs)
    : chain_ { chain }, inputs_ { inputs }, paths_ { config.paths }, controller_ { settings_of(config, seed),
                                                                                   names_of(chain), std::move(memory) },
      written_ { controller_.memory().changes() }, told_ { written_ }
{
}

void EvidenceDriver::place(const links::LinkInfo& wifi, const std::string& ssid, const evidence::CellSeen& cell,
                           Tick now)
{
  const auto& gateway = wifi.gateway_v4 ? wifi.gateway_v4 : wifi.gateway_v6;
  if (!remembers()) return;
  // Paths are the cellular link's, whatever is known of Wi-Fi.
  const std::string& name = cell_name_.of(cell);
  // Behind the interface, should it come back, there may be another telephone.
  if (name != cell_) controller_.memory().doubt_paths(cell_);
  cell_ = name;
  // Without a carrier there are no routes: most often it is the same network that comes back.
  if (!gateway && ssid.empty()) return;
  // The kernel may learn the hardware address of the gateway later than its address.
  const Duration pause = signs_.unique ? Duration { 30s } : Duration { 2s };
  const bool same = gateway == gateway_ && cell_ == controller_.here().cell;
  if (same && now - asked_at_ < pause && asked_at_ != Tick {} && (ssid.empty() || ssid == signs_.ssid)) return;
  asked_at_ = now;
  evidence::NetworkSigns signs { .ssid = ssid.empty() && same ? signs_.ssid : ssid };
  if (gateway) signs.gateway = kernel::neighbour_address(wifi.ifindex, *gateway);
  signs.unique = !signs.gateway.empty();
  if (gateway && !signs.unique) signs.gateway = wire::to_string(*gateway);
  signs_ = signs;
  gateway_ = gateway;
  controller_.move(signs_, cell_, wall(now));
}

// With what is compared flow by flow.
evidence::Surroundings EvidenceDriver::surroundings() const
{
  const LinkState& wifi = chain_.link_states()[static_cast<std::size_t>(Link::wifi)];
  evidence::Surroundings now {
    .up = wifi.up, .at_risk = wifi.at_risk, .changed = wifi.changed, .too_fast = faster_than_wifi(wifi)
  };
  for (std::size_t i = 0; i < chain_.module_count() && i < evidence::most_modules; ++i)
  {
    const Module& module = chain_.module(i);
    if (!chain_.enabled(i) || !never_compared(module.interest()).empty()) continue;
    now.comparable = static_cast<evidence::Modules>(now.comparable | 1u << i);
    if (module.carries_over()) now.carrying_over = static_cast<evidence::Modules>(now.carrying_over | 1u << i);
  }
  return now;
}

evidence::FlowSeen EvidenceDriver::seen(const flow::Flow& flow) const
{
  const FlowView& view = flow.view;
  const bool holds =
      std::any_of(flow.holds.begin(), flow.holds.end(),
                  [](const flow::Hold& hold) { return hold.withheld > 0 || hold.window != chain::any_window; });
  return { .id = view.id,
           .server = view.key.remote,
           .delivered = view.bytes_delivered,
           .last_seen = view.last_seen,
           .rtt = view.rtt_smoothed,
           .acting = static_cast<evidence::Modules>(flow.begun & ~flow.excluded),
           .needed = flow.watched || flow.quiet_until <= view.last_seen,
           .hole = view.holes,
           .engaged = holds || view.ts_reserved.what == TsReservation::What::onward,
           .closed = flow.closed,
           .unread = view.sent_any && view.scaled(view.last_window) < view.mss,
           .sent = view.bytes_sent };
}

chain::Rest EvidenceDriver::begin(const FlowView& view)
{
  if (!remembers() || view.link != Link::wifi) return {};
  const evidence::FlowSeen first { .id = view.id,
                                   .server = view.key.remote,
                                   .delivered = view.bytes_delivered,
                                   .last_seen = view.last_seen,
                                   .rtt = view.rtt_smoothed };
  const evidence::Now at { view.last_seen, wall(view.last_seen) };
  const evidence::Ruling ruling = controller_.begin(first, surroundings(), at);
  chain::Rest rest { ruling.rests, ruling.watched, path_failed(view.key.remote, at.wall) };
  rest.cell_path_known = path_known(view.key.local, view.key.remote, at.wall);
  if (rest.cell_path_known) inputs_.add(view.last_seen, trace::input::PathAnswer { *rest.cell_path_known });
  inputs_.add(view.last_seen, trace::input::RestAnswer { rest.modules, rest.watched, rest.cell_path_failed });
  return rest;
}

// Whether modules are compared or not. Switched off, nothing is remembered, not even within a run: each flow of an
// experiment stands for itself.
void EvidenceDriver::path_found(const chain::PathFound& found, Tick now)
{
  if (!paths_ || cell_.empty()) return;
  evidence::Memory& memory = controller_.memory();
  const evidence::Prefix prefix = evidence::prefix_of(found.server);
  if (found.path.is == CellPath::Is::doubted) return memory.doubt_path(cell_, prefix);
  memory.path_found(cell_, prefix, found.path.is == CellPath::Is::validated, wall(now));
  if (found.path.is == CellPath::Is::validated && found.path.added_delay)
    memory.path_known(path_seen(found.local, found.server, wall(now)), *found.path.added_delay);
}

evidence::PathSeen EvidenceDriver::path_seen(const Address& local, const Address& server, evidence::WallTime now) const
{
  return { .place = { controller_.here().network, cell_, evidence::prefix_of(server) },
           .source = evidence::prefix_of(local),
           .now = now };
}

bool EvidenceDriver::path_failed(const Address& server, evidence::WallTime now) const
{
  return paths_ && controller_.memory().path_failed(cell_, evidence::prefix_of(server), now);
}

std::optional<Duration> EvidenceDriver::path_known(const Address& local, const Address& server,
                                                   evidence::WallTime now) const
{
  if (!paths_) return {};
  return controller_.memory().known_path(path_seen(local, server, now));
}

// A source that is quiet for a while, as in a blackout, has not gone elsewhere.
void EvidenceDriver::link(bool up, int ifindex, const std::optional<feeder::Mac>& ap, Tick now)
{
  if (!paths_) return;
  if (ifindex != 0 && std::exchange(ifindex_, ifindex) != ifindex) ap_.clear();
  if (ap) ap_ = feeder::text(*ap);
  link_up_.see(up, access_point(), now);
}

// Where no radio tells, and no name of the network is known, it is the gateway, as for networks.
const std::string& EvidenceDriver::access_point() const
{
  static const std::string none {};
  if (!ap_.empty()) return ap_;
  return signs_.unique && signs_.ssid.empty() ? signs_.gateway : none;
}

void EvidenceDriver::frames_kept(const chain::FramesKept& found)
{
  if (paths_ && found.link == Link::wifi) link_up_.found(found.kept);
}

std::optional<bool> EvidenceDriver::keeps_frames(Tick now) const
{
  if (!paths_ || controller_.here().network == 0 || access_point().empty()) return {};
  return controller_.memory().keeps_frames(controller_.here().network, access_point(), wall(now));
}

void EvidenceDriver::look(Tick now)
{
  if (!remembers()) return;
  if (const std::optional<bool> kept = link_up_.due(now))
    controller_.memory().frames_kept(controller_.here().network, access_point(), *kept, wall(now));
  const evidence::Surroundings around = surroundings();
  const evidence::Now at { now, wall(now) };
  controller_.memory().sweep_paths(at.wall);
  chain_.table().each(
      [&](flow::Flow& flow)
      {
        if (!flow.rest_asked || chain::left_alone(flow) || flow.view.link != Link::wifi
            || flow.view.bypass != Bypass::none)
          return;
        const evidence::Ruling ruling = controller_.look(seen(flow), around, at);
        tell_paths(flow, at);
        if (ruling.rests == flow.resting && ruling.watched == flow.watched) return;
        const bool failed = flow.view.cell_path_failed;
        chain_.rest(flow, { ruling.rests, ruling.watched, failed }, now);
        inputs_.add(now, trace::input::Rests { flow.view.key, { ruling.rests, ruling.watched, failed } });
      });
  controller_.sweep(at);
}

// What other flows found since. Before anything else is told of the flow: a module that begins anew goes by it.
void EvidenceDriver::tell_paths(flow::Flow& flow, const evidence::Now& at)
{
  FlowView& view = flow.view;
  const bool failed = path_failed(view.key.remote, at.wall);
  const auto known = path_known(view.key.local, view.key.remote, at.wall);
  if (view.cell_path_failed != failed) inputs_.add(at.tick, trace::input::PathFailed { view.key, failed });
  if (view.cell_path_known != known) inputs_.add(at.tick, trace::input::PathKnown { view.key, known });
  view.cell_path_failed = failed;
  view.cell_path_known = known;
}

std::optional<std::string> EvidenceDriver::fresh_text()
{
  const evidence::Memory& memory = controller_.memory();
  if (memory.changes() == written_) return {};
  written_ = memory.changes();
  return evidence::to_text(memory);
}

bool EvidenceDriver::changed()
{
  const std::uint64_t before = std::exchange(told_, controller_.memory().changes());
  return before != told_;
}

std::size_t EvidenceDriver::forget(std::string_view name)
{
  const std::size_t forgotten = controller_.memory().forget(name);
  asked_at_ = {}; // this network may be among them
  return forgotten;
}

std::size_t EvidenceDriver::forget_all()
{
  asked_at_ = {};
  return controller_.memory().forget_all();
}

json EvidenceDriver::here_json() const
{
  const evidence::Memory& memory = controller_.memory();
  const evidence::Place here = controller_.here();
  std::string network;
  for (const evidence::Network& one : memory.networks())
    if (one.id == here.network) network = one.name();
  const auto& stats = controller_.stats();
  const auto& gone = memory.forgotten();
  return {
    { "share", controller_.settings().share },
    { "network", network },
    { "cell", here.cell },
    { "comparisons",
      { { "begun", stats.begun }, { "done", stats.done }, { "given_up", stats.given_up }, { "empty", stats.empty } } },
    { "rested", stats.rested },
    { "back", stats.back },
    { "networks", memory.networks().size() },
    { "places", memory.records().size() },
    { "forgotten",
      { { "networks", gone.networks },
        { "places", gone.records },
        { "paths", gone.paths },
        { "access_points", gone.access_points } } }
  };
}

json EvidenceDriver::module_json(std::size_t i, Tick now) const
{
  const evidence::Place here = controller_.here();
  if (!compares() || here.network == 0 || i >= controller_.modules().size()) return {};
  if (const std::string_view why = never_compared(chain_.module(i).interest()); !why.empty())
  {
    json none = tally_json({}, wall(now));
    none["not_compared"] = why;
    return none;
  }
  const evidence::Tally* tally = controller_.memory().find(here, controller_.modules()[i]);
  return tally_json(tally != nullptr ? *tally : evidence::Tally {}, wall(now));
}

// Paths that flows of this network go by without a validation of their own first.
json EvidenceDriver::known_json(std::uint32_t network, evidence::WallTime now) const
{
  json all = json::array();
  const auto& known = controller_.memory().known_paths();
  for (auto at = known.lower_bound({ network, {}, {} }); at != known.end() && at->first.network == network; ++at)
  {
    const auto& [place, path] = *at;
    if (!controller_.memory().known_path({ place, path.source, now })) continue;
    all.push_back({ { "cell", place.cell },
                    { "servers", prefix_text(place.prefix) },
                    { "added_delay_s", seconds(path.added_delay) },
                    { "validated_s", std::max<evidence::WallTime>(now - path.validated, 0) } });
  }
  return all;
}

// Its access points that keep the frames of a station that is away.
json EvidenceDriver::kept_json(std::uint32_t network, evidence::WallTime now) const
{
  json all = json::array();
  const auto& known = controller_.memory().access_points();
  for (auto at = known.lower_bound({ network, {} }); at != known.end() && at->first.first == network; ++at)
    if (at->second.keeps(now))
      all.push_back({ { "access_point", at->first.second },
                      { "blackouts", at->second.kept },
                      { "found_s", std::max<evidence::WallTime>(now - at->second.used, 0) } });
  return all;
}

// Paths by it that are not tried now; of others there is nothing to say.
json EvidenceDriver::cell_json(const std::string& cell, evidence::WallTime now) const
{
  evidence::WallTime used = 0;
  json paths = json::array();
  const auto& all = controller_.memory().paths();
  for (auto path = all.lower_bound({ cell, {} }); path != all.end() && path->first.first == cell; ++path)
  {
    const evidence::PathNote& note = path->second;
    used = std::max(used, note.used);
    if (const evidence::WallTime rests = note.rests(now); rests > 0)
      paths.push_back(
          { { "servers", prefix_text(path->first.second) }, { "failures", note.failures }, { "rests_s", rests } });
  }
  return { { "kind", "cellular" },
           { "name", cell },
           { "here", cell == cell_ },
           { "used_s", std::max<evidence::WallTime>(now - used, 0) },
           { "paths", std::move(paths) } };
}

json EvidenceDriver::networks_json(Tick now) const
{
  const evidence::WallTime at = wall(now);
  const evidence::Memory& memory = controller_.memory();
  json all = json::array();
  for (const evidence::Network& network : memory.networks())
  {
    json one { { "kind", "wifi" },
               { "name", network.name() },
               { "ssid", network.signs.ssid },
               { "gateway", network.signs.gateway },
               { "here", network.id == controller_.here().network },
               { "used_s", std::max<evidence::WallTime>(at - network.used, 0) },
               { "known_paths", known_json(network.id, at) },
               { "keep_frames", kept_json(network.id, at) },
               { "places", json::array() } };
    for (auto place = memory.records().lower_bound({ network.id, {}, {} });
         place != memory.records().end() && place->first.network == network.id; ++place)
    {
      json modules = json::object();
      for (const auto& [what, tally] : place->second.tallies)
        modules[what] = tally_json(tally, at);
      one["places"].push_back({ { "cell", place->first.cell },
                                { "servers", prefix_text(place->first.prefix) },
                                { "used_s", std::max<evidence::WallTime>(at - place->second.used, 0) },
                                { "modules", std::move(modules) } });
    }
    all.push_back(std::move(one));
  }
  for (const std::string& cell : memory.cells())
    all.push_back(cell_json(cell, at));
  return all;
}

} // namespace tandem::daemon
