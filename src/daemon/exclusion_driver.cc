#include "src/daemon/exclusion_driver.h"

#include "src/kernel/clock.h"
#include "src/kernel/mptcp/blackhole.h"
#include "src/kernel/socket_address.h"

#include <netdb.h>
#include <pwd.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <set>
#include <string_view>
#include <utility>

namespace tandem::daemon
{

namespace
{

using nlohmann::json;

// Name servers come a little later than the gateway.
constexpr auto first_pause = std::chrono::seconds { 10 };
constexpr auto names_age = std::chrono::minutes { 5 };  // until names are looked up again
constexpr auto answer_due = std::chrono::seconds { 5 }; // an answer that took longer was lost in a full mailbox
constexpr std::size_t most_cgroups = 1024;              // paths that are remembered
constexpr std::string_view looked_up = "its service is being looked up";
constexpr std::string_view kept_back = "MPTCP kept back by the kernel";
constexpr auto blackholes_age = std::chrono::milliseconds { 100 }; // until the kernel is asked for them again

std::vector<Address> addresses_of(const std::string& host)
{
  addrinfo hints {};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), nullptr, &hints, &found) != 0) return {};
  std::vector<Address> all {};
  for (const addrinfo* one = found; one != nullptr && all.size() < Exclusions::most_addresses; one = one->ai_next)
    if (const auto address = kernel::read_address(one->ai_addr)) all.push_back(*address);
  ::freeaddrinfo(found);
  return all;
}

std::optional<std::uint32_t> user_of(const std::string& name)
{
  passwd entry {};
  passwd* found = nullptr;
  std::vector<char> buffer(16384);
  if (::getpwnam_r(name.c_str(), &entry, buffer.data(), buffer.size(), &found) != 0 || found == nullptr) return {};
  return found->pw_uid;
}

// What tells one network from another, as far as addresses do.
bool same_network(const links::LinkInfo& a, const links::LinkInfo& b)
{
  return a.ifindex == b.ifindex && a.addresses == b.addresses && a.gateway_v4 == b.gateway_v4
         && a.gateway_v6 == b.gateway_v6;
}

} // namespace

ResolvedNames look_up_names(const std::vector<std::string>& hosts, const std::vector<std::string>& users)
{
  ResolvedNames found {};
  for (const std::string& host : hosts)
    found.hosts[host] = addresses_of(host);
  for (const std::string& user : users)
    if (const auto number = user_of(user)) found.users[user] = *number;
  return found;
}

ExclusionDriver::ExclusionDriver(chain::Chain& chain, ChainInputs& inputs,
                                 std::function<void(std::function<void()>)> later, std::function<void()> changed,
                                 Host host)
    : chain_ { chain }, inputs_ { inputs }, later_ { std::move(later) }, changed_ { std::move(changed) }, host_ {
        std::move(host)
      }
{
}

void ExclusionDriver::assign(const std::vector<Exclusion>& all, Tick now)
{
  Exclusions fresh { all };
  if (fresh.all() == known_.all()) return;
  fresh.inherit(known_);
  known_ = std::move(fresh);
  judge_all(now);
  changed_();
  outdated();
  find_names_when_due(now);
}

// Of the exclusions the first that holds, in the order of what it costs to know.
std::string ExclusionDriver::excluded(const FlowView& flow)
{
  if (flow.link != Link::wifi) return {};
  const Exclusion* found = known_.of_peer(flow.key.remote);
  if (found == nullptr && (known_.asks_user() || known_.asks_cgroup()))
    if (const auto owner = host_.owner_of(flow.key))
    {
      found = known_.of_user(owner->user);
      if (found == nullptr && known_.asks_cgroup() && owner->cgroup != 0)
      {
        const auto path = cgroups_.find(owner->cgroup);
        if (path == cgroups_.end()) find_cgroup(owner->cgroup);
        // Until it is known nothing is done to the flow either.
        if (path == cgroups_.end() || !path->second) return std::string { looked_up };
        found = known_.of_cgroup(*path->second);
      }
    }
  return found == nullptr ? std::string {} : found->text();
}

std::string ExclusionDriver::why_tunnelled(const FlowView& flow) const
{
  return flow.link == Link::wifi ? host_.tunnel(flow.key) : std::string {};
}

// An application that asks for MPTCP while the kernel keeps it back has a socket of MPTCP's over plain TCP, as behind a
// server that refuses (docs/decisions/0037), but nothing on the wire tells.
std::string ExclusionDriver::why_kept_back(const FlowView& flow, Tick now)
{
  if (flow.link != Link::wifi || flow.mptcp || flow.mptcp_refused) return {};
  if (now - blackholes_at_ > blackholes_age)
  {
    blackholes_at_ = now;
    blackholes_ = kernel::mptcp_blackholes() > 0;
  }
  if (!blackholes_) return {};
  const auto owner = host_.owner_of(flow.key);
  return owner && owner->mptcp ? std::string { kept_back } : std::string {};
}

// A tunnel promises more than an exclusion asks for.
void ExclusionDriver::judge(flow::Flow& flow, Tick now)
{
  if (flow.closed) return;
  std::string why = why_tunnelled(flow.view);
  if (why.empty())
    tunnelled_.erase(flow.view.id);
  else
    tunnelled_.insert(flow.view.id);
  if (why.empty()) why = excluded(flow.view);
  if (why.empty()) why = why_kept_back(flow.view, now);
  put(flow, std::move(why), now);
}

void ExclusionDriver::put(flow::Flow& flow, std::string why, Tick now)
{
  const bool alone = !why.empty(), was = chain::left_alone(flow);
  if (!alone)
    reasons_.erase(flow.view.id);
  else if (std::string& told = reasons_[flow.view.id]; told != why)
  {
    if (why != looked_up) ++flows_[why];
    told = std::move(why);
  }
  if (alone == was) return;
  const chain::Rest rest { .modules = alone ? chain::every_module : std::uint8_t { 0 },
                           .cell_path_failed = flow.view.cell_path_failed };
  chain_.rest(flow, rest, now);
  inputs_.add(now, trace::input::Rests { flow.view.key, { rest.modules, rest.watched, rest.cell_path_failed } });
}

void ExclusionDriver::began(const FlowKey& key, Tick now)
{
  if (flow::Flow* flow = chain_.table().find(key)) judge(*flow, now);
}

void ExclusionDriver::judge_all(Tick now)
{
  chain_.table().each([&](flow::Flow& flow) { judge(flow, now); });
}

// Whose a flow is costs a question each: it is asked again of none that stays where it is.
ExclusionDriver::Rerouted ExclusionDriver::routes_changed(Tick now)
{
  Rerouted changed {};
  chain_.table().each(
      [&](flow::Flow& flow)
      {
        const bool was = in_tunnel(flow.view.id);
        if (flow.closed || why_tunnelled(flow.view).empty() != was) return;
        judge(flow, now);
        (was ? changed.back : changed.into_tunnels) = true;
      });
  return changed;
}

void ExclusionDriver::find_cgroup(std::uint64_t id)
{
  if (cgroups_.size() >= most_cgroups) cgroups_.clear();
  cgroups_[id] = std::nullopt;
  cgroup_asked_ = kernel::now();
  background_.post(
      [this, id]() -> Background::Task
      {
        return [this, id, path = kernel::cgroup_path(id)]
        {
          later_(
              [this, id, path]
              {
                cgroups_[id] = path;
                judge_all(kernel::now());
                changed_();
              });
        };
      });
}

void ExclusionDriver::outdated()
{
  asked_at_.reset();
  names_pause_ = {};
}

void ExclusionDriver::links_changed(const links::LinkInfo& wifi)
{
  if (!same_network(wifi, std::exchange(place_, wifi))) outdated();
}

// One after the other: name servers that do not answer take longer than names stay known.
void ExclusionDriver::find_names_when_due(Tick now)
{
  const Duration wait = names_pause_ > Duration {} ? names_pause_ : names_age;
  if (known_.empty() || names_under_way_ || (asked_at_ && now - *asked_at_ <= wait)) return;
  asked_at_ = now;
  find_names();
}

void ExclusionDriver::find_names()
{
  const std::vector<std::string> hosts = known_.host_names(), users = known_.user_names();
  if (hosts.empty() && users.empty())
  {
    static_cast<void>(known_.resolved({}));
    return;
  }
  names_under_way_ = true;
  background_.post(
      [this, hosts, users, look_up = host_.look_up]() -> Background::Task
      {
        return [this, found = look_up(hosts, users)]
        {
          names_under_way_ = false; // here, not below: the mailbox may be full
          later_(
              [this, found]
              {
                const bool all = std::all_of(found.hosts.begin(), found.hosts.end(),
                                             [](const auto& host) { return !host.second.empty(); });
                names_pause_ = all ? Duration {} : std::clamp<Duration>(2 * names_pause_, first_pause, names_age);
                if (!known_.resolved(found)) return;
                judge_all(kernel::now());
                changed_();
              });
        };
      });
}

void ExclusionDriver::look(Tick now)
{
  find_names_when_due(now);
  if (now - cgroup_asked_ > answer_due && std::erase_if(cgroups_, [](const auto& one) { return !one.second; }) > 0)
    judge_all(now);
  // Flows that are gone.
  if (reasons_.size() > chain_.table().size() || reasons_.size() > 64)
  {
    std::set<std::uint64_t> there {};
    chain_.table().each([&](const flow::Flow& flow) { there.insert(flow.view.id); });
    std::erase_if(reasons_, [&](const auto& one) { return !there.contains(one.first); });
    std::erase_if(tunnelled_, [&](std::uint64_t id) { return !there.contains(id); });
  }
}

std::string ExclusionDriver::reason(std::uint64_t flow) const
{
  const auto found = reasons_.find(flow);
  return found == reasons_.end() ? std::string {} : found->second;
}

std::size_t ExclusionDriver::flows_now() const
{
  std::size_t count = 0;
  chain_.table().each([&](const flow::Flow& flow)
                      { count += !flow.closed && chain::left_alone(flow) && !in_tunnel(flow.view.id) ? 1 : 0; });
  return count;
}

std::size_t ExclusionDriver::in_tunnels_now() const
{
  std::size_t count = 0;
  chain_.table().each([&](const flow::Flow& flow) { count += !flow.closed && in_tunnel(flow.view.id) ? 1 : 0; });
  return count;
}

json ExclusionDriver::json() const
{
  nlohmann::json all = nlohmann::json::array();
  for (const Exclusion& one : known_.all())
  {
    const auto count = flows_.find(one.text());
    std::string problem = known_.problem(one);
    if (problem.empty() && one.kind == Exclusion::Kind::ssid) problem = host_.network_unknown();
    all.push_back({ { "kind", name(one.kind) },
                    { "what", one.what },
                    { "flows", count == flows_.end() ? 0 : count->second },
                    { "problem", std::move(problem) } });
  }
  return all;
}

} // namespace tandem::daemon
