#include "src/daemon/link_requests.h"

#include "src/wire/text.h"

#include <algorithm>
#include <cmath>

namespace tandem::daemon
{

namespace
{

// Two hotspots may give the same address, and the path manager has one endpoint for it. It goes to the first link that
// has it, but where one of them is barred, to that one: then there is none.
void name_each_once(std::vector<kernel::SteeringPath>& paths, const std::set<std::string>& barred)
{
  std::set<std::string> named {};
  for (const bool turn : { true, false })
    for (kernel::SteeringPath& path : paths)
      if (barred.contains(path.interface) == turn)
        for (auto* all : { &path.addresses, &path.deprecated })
          std::erase_if(*all, [&](const std::string& address) { return !named.insert(address).second; });
}

} // namespace

void LinkRequests::take(const LinkRequest& request, std::uint8_t slot, std::string_view why)
{
  const auto link = static_cast<std::size_t>(request.link);
  if (request.link == Link::other || link >= links_.size() || index(request.kind) >= kinds
      || !std::isfinite(request.value))
    return;
  const double value =
      request.kind == RequestKind::ce_rate ? std::clamp(request.value, 0.0, 1.0) : (request.value != 0 ? 1.0 : 0.0);
  links_[link].requests[index(request.kind)] = Standing { value, slot, why };
}

void LinkRequests::lapse(std::uint8_t slot)
{
  for (OfLink& link : links_)
  {
    for (auto& standing : link.requests)
      if (standing && standing->slot == slot) standing.reset();
    if (!link.requests[index(RequestKind::ce_rate)]) link.rate = 0;
  }
}

void LinkRequests::gone(Link link)
{
  links_[static_cast<std::size_t>(link)].rate = 0;
}

void LinkRequests::suspend(std::uint8_t slot, bool suspended)
{
  const std::uint32_t bit = 1u << slot;
  suspended_ = suspended ? suspended_ | bit : suspended_ & ~bit;
}

bool LinkRequests::any(std::uint8_t slot) const
{
  return std::any_of(links_.begin(), links_.end(),
                     [&](const OfLink& link)
                     {
                       return std::any_of(link.requests.begin(), link.requests.end(),
                                          [&](const auto& standing) { return standing && standing->slot == slot; });
                     });
}

std::optional<LinkRequests::Standing> LinkRequests::standing(const OfLink& link, RequestKind kind) const
{
  const auto& request = link.requests[index(kind)];
  return request && (suspended_ >> request->slot & 1) == 0 ? request : std::nullopt;
}

double LinkRequests::wanted_rate(const OfLink& link) const
{
  const auto request = standing(link, RequestKind::ce_rate);
  return request ? request->value : 0;
}

void LinkRequests::advance(Tick now)
{
  if (now - stepped_ < settings_.step) return;
  // After a pause there is one step, however long it was: the rule has not changed meanwhile.
  stepped_ = now;
  for (OfLink& link : links_)
  {
    const double wanted = wanted_rate(link);
    link.rate += std::clamp(wanted - link.rate, -settings_.rate_step, settings_.rate_step);
    if (std::abs(wanted - link.rate) < 1e-9) link.rate = wanted;
  }
}

bool LinkRequests::settled() const
{
  return std::all_of(links_.begin(), links_.end(), [&](const OfLink& link) { return link.rate == wanted_rate(link); });
}

bool LinkRequests::barred(Link link, CellUse cell) const
{
  if (link != Link::cell) return false;
  const bool requested =
      standing(at(link), RequestKind::mptcp_backup) || standing(at(link), RequestKind::mptcp_endpoint);
  return cell == CellUse::denied || (cell == CellUse::spent && requested);
}

std::optional<kernel::SteeringPath> LinkRequests::path_of(Link link, const links::LinkInfo& info, bool closed,
                                                          bool away) const
{
  const auto backup = standing(at(link), RequestKind::mptcp_backup);
  const auto endpoint = standing(at(link), RequestKind::mptcp_endpoint);
  if (!settings_.setup && !backup && !endpoint) return {};
  kernel::SteeringPath path { .interface = info.interface };
  for (const Address& address : info.sources)
    if (path.addresses.size() < kernel::most_path_addresses) path.addresses.push_back(wire::to_string(address));
  for (const Address& address : info.deprecated)
    if (path.deprecated.size() < kernel::most_path_addresses) path.deprecated.push_back(wire::to_string(address));
  path.endpoint = !closed && (!endpoint || endpoint->value != 0);
  // What the user pays for by the byte is a last resort, unless a module knows better.
  path.backup_stays = link == Link::cell && settings_.setup;
  path.backup = closed || away || (backup ? backup->value != 0 : path.backup_stays);
  return path;
}

kernel::SteeringPlan LinkRequests::plan(const links::LinkTable& table, CellUse cell,
                                        const std::set<std::string>& away) const
{
  kernel::SteeringPlan plan {};
  std::set<std::string> closed {};
  for (const Link link : all_links)
  {
    const links::LinkInfo& info = table[link];
    const OfLink& its = at(link);
    if (link == Link::other || !info.present()) continue;
    if (its.rate > 0) plan.ce.push_back({ info.interface, its.rate });
    if (barred(link, cell)) closed.insert(info.interface);
    if (auto one = path_of(link, info, closed.contains(info.interface), away.contains(info.interface)))
      plan.paths.push_back(std::move(*one));
  }
  name_each_once(plan.paths, closed);
  // An empty plan is the one that takes everything back.
  if (plan.ce.empty() && plan.paths.empty()) return {};
  plan.setup = settings_.setup;
  plan.foreign = settings_.foreign;
  return plan;
}

} // namespace tandem::daemon
