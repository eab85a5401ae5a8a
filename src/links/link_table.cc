#include "src/links/link_table.h"

#include <algorithm>
#include <optional>
#include <set>
#include <stdexcept>
#include <utility>

namespace tandem::links
{

std::vector<Address> sources_to_internet(const LinkInfo& link)
{
  std::vector<Address> all = link.sources;
  all.insert(all.end(), link.deprecated.begin(), link.deprecated.end());
  std::stable_partition(all.begin(), all.end(), [](const Address& a) { return !a.v6 || !is_private(a); });
  return all;
}

LinkTable::LinkTable(std::string wifi, std::string cell, const std::vector<std::string>& more_wifi)
{
  assign(std::move(wifi), std::move(cell), more_wifi, {});
}

bool LinkTable::assign(std::string wifi, std::string cell, const std::vector<std::string>& more_wifi, Tick now,
                       LowerInterfaces lower)
{
  if (more_wifi.size() >= most_wifi)
    throw std::length_error { "at most " + std::to_string(most_wifi) + " Wi-Fi interfaces can be used, not "
                              + std::to_string(more_wifi.size() + 1) };
  std::array<std::string, link_count> names {};
  for (std::size_t i = 0; i < more_wifi.size(); ++i)
    names[static_cast<std::size_t>(wifi_link(i + 1))] = more_wifi[i];
  names[static_cast<std::size_t>(Link::wifi)] = std::move(wifi);
  names[static_cast<std::size_t>(Link::cell)] = std::move(cell);
  std::array<std::string, link_count> below {};
  below[static_cast<std::size_t>(Link::wifi)] = std::move(lower.wifi);
  below[static_cast<std::size_t>(Link::cell)] = std::move(lower.cell);
  bool changed = false;
  const auto take = [&](LinkInfo& info, std::string& name)
  {
    if (info.interface == name) return;
    info = { .interface = std::move(name) };
    changed = true;
  };
  for (std::size_t i = 0; i < link_count; ++i)
  {
    take(roles_[i], names[i]);
    take(lower_[i], below[i]);
  }
  return refresh(now) || changed;
}

std::vector<PresentInterface> LinkTable::present() const
{
  std::vector<PresentInterface> all {};
  for (const auto& [ifindex, one] : present_)
    all.push_back(one);
  return all;
}

bool LinkTable::apply(const InterfaceNotification& notification, Tick now)
{
  // The wireless extensions tell every scan by an RTM_NEWLINK with a name and nothing else.
  if (!notification.gone && notification.mtu == 0 && known_.contains(notification.ifindex)) return false;
  if (notification.gone)
    known_.erase(notification.ifindex);
  else
  {
    Known& known = known_[notification.ifindex];
    known.interface = notification;
    // The kernel drops the routes of an interface that goes down without a message for each.
    if (!notification.admin_up) known.routes.clear();
  }
  return refresh(now);
}

bool LinkTable::apply(const AddressNotification& notification, Tick now)
{
  // An address of an interface that is not known (yet): a complete dump starts with the interfaces, so it is being
  // removed.
  auto found = known_.find(notification.ifindex);
  if (found == known_.end()) return false;
  auto& addresses = found->second.addresses;
  const auto held = std::find_if(addresses.begin(), addresses.end(),
                                 [&](const Held& one) { return one.address == notification.address; });
  const Held told { .address = notification.address,
                    .on_link = notification.on_link,
                    .deprecated = notification.deprecated,
                    .temporary = notification.temporary };
  if (notification.gone || !notification.global || !notification.usable)
  {
    if (held != addresses.end()) addresses.erase(held);
  }
  else if (held == addresses.end())
    addresses.push_back(told);
  else
    *held = told; // in its place: every router advertisement tells each IPv6 address again
  return refresh(now);
}

bool LinkTable::apply(const DefaultRouteNotification& notification, Tick now)
{
  auto found = known_.find(notification.ifindex);
  if (found == known_.end()) return false;
  auto& routes = found->second.routes;
  std::erase_if(
      routes, [&](const DefaultRouteNotification& r)
      { return r.v6 == notification.v6 && r.metric == notification.metric && r.gateway == notification.gateway; });
  if (!notification.gone) routes.push_back(notification);
  return refresh(now);
}

void LinkTable::begin_dump()
{
  known_.clear();
  dumping_ = true;
}

bool LinkTable::finish_dump(Tick now)
{
  dumping_ = false;
  return refresh(now);
}

bool LinkTable::Known::is_source(const Held& held) const
{
  if (!held.address.v6) return true;
  if (held.deprecated || held.temporary) return !held.deprecated;
  const Network network = network_of(held.address, 64);
  return std::none_of(addresses.begin(), addresses.end(),
                      [&](const Held& other)
                      { return other.temporary && !other.deprecated && network.contains(other.address); });
}

LinkInfo LinkTable::derive(const std::string& name) const
{
  LinkInfo info;
  info.interface = name;
  if (name.empty()) return info;
  for (const auto& [ifindex, known] : known_)
  {
    if (known.interface.name != name) continue;
    info.ifindex = ifindex;
    info.up = known.interface.admin_up && known.interface.running;
    info.point_to_point = known.interface.point_to_point;
    info.mtu = known.interface.mtu;
    for (const Held& held : known.addresses)
    {
      info.addresses.push_back(held.address);
      if (known.is_source(held)) info.sources.push_back(held.address);
      if (held.deprecated) info.deprecated.push_back(held.address);
      if (held.on_link.prefix > 0) info.on_link.push_back(held.on_link);
    }
    for (std::vector<Address>* all : { &info.addresses, &info.sources })
      std::stable_partition(all->begin(), all->end(), [](const Address& a) { return !a.v6; });
    for (bool v6 : { false, true })
    {
      const DefaultRouteNotification* best = nullptr;
      for (const auto& route : known.routes)
        if (route.v6 == v6 && (!best || route.metric < best->metric)) best = &route;
      (v6 ? info.default_v6 : info.default_v4) = best != nullptr;
      if (best) (v6 ? info.gateway_v6 : info.gateway_v4) = best->gateway;
    }
  }
  return info;
}

namespace
{

// As the policy route for what the tunnel sends sees it.
bool leads_out(const LinkInfo& link)
{
  return link.default_v4 || link.default_v6 || (link.point_to_point && link.present());
}

} // namespace

bool LinkTable::refresh(Tick now)
{
  if (dumping_) return false;
  std::erase_if(present_, [this](const auto& one) { return !known_.contains(one.first); });
  for (const auto& [ifindex, known] : known_)
  {
    const auto [entry, fresh] = present_.try_emplace(ifindex);
    PresentInterface& one = entry->second;
    one.name = known.interface.name;
    if (!fresh && one.useful == known.useful()) continue;
    one.useful = known.useful();
    one.since = now;
  }
  bool changed = false;
  for (std::size_t i = 0; i < link_count; ++i)
  {
    changed |= refresh(lower_[i], derive(lower_[i].interface), now);
    LinkInfo fresh = derive(roles_[i].interface);
    if (!lower_[i].interface.empty())
    {
      // Tunnels have a carrier always, and their routes most often in a table of their own (wg-quick).
      fresh.up = fresh.up && lower_[i].up;
      const auto has = [&](bool v6)
      { return std::any_of(fresh.addresses.begin(), fresh.addresses.end(), [&](auto& a) { return a.v6 == v6; }); };
      const bool out = static_cast<Link>(i) != Link::cell || leads_out(lower_[i]);
      fresh.default_v4 = out && has(false);
      fresh.default_v6 = out && has(true);
    }
    changed |= refresh(roles_[i], std::move(fresh), now);
  }
  std::string other = find_other_default();
  changed |= other != other_default_;
  other_default_ = std::move(other);
  return changed;
}

std::string LinkTable::find_other_default() const
{
  if (lower_[static_cast<std::size_t>(Link::wifi)].interface.empty()) return {};
  std::set<std::string> ours {};
  for (const Link link : { Link::wifi, Link::cell })
    ours.insert({ (*this)[link].interface, lower(link).interface });
  for (const bool v6 : { false, true })
  {
    std::optional<std::uint32_t> own {}, best {};
    std::string by {};
    for (const auto& [ifindex, known] : known_)
      for (const DefaultRouteNotification& route : known.routes)
      {
        if (route.v6 != v6) continue;
        const bool other = !ours.contains(known.interface.name);
        std::optional<std::uint32_t>& least = other ? best : own;
        if (least && route.metric >= *least) continue;
        least = route.metric;
        if (other) by = known.interface.name;
      }
    if (best && (!own || *best <= *own)) return by;
  }
  return {};
}

bool LinkTable::refresh(LinkInfo& info, LinkInfo fresh, Tick now)
{
  fresh.changed = fresh.up == info.up ? info.changed : now;
  if (fresh == info) return false;
  info = std::move(fresh);
  return true;
}

const LinkInfo& LinkTable::operator[](Link link) const
{
  return roles_[static_cast<std::size_t>(link)];
}

const LinkInfo& LinkTable::lower(Link link) const
{
  const LinkInfo& below = lower_[static_cast<std::size_t>(link)];
  return below.interface.empty() ? (*this)[link] : below;
}

Link LinkTable::owner(const Address& local) const
{
  for (std::size_t i = 0; i < link_count; ++i)
  {
    const auto& addresses = roles_[i].addresses;
    if (std::find(addresses.begin(), addresses.end(), local) != addresses.end()) return static_cast<Link>(i);
  }
  return Link::other;
}

Link LinkTable::of_ifindex(int ifindex) const
{
  if (ifindex == 0) return Link::other;
  for (std::size_t i = 0; i < link_count; ++i)
    if (roles_[i].ifindex == ifindex) return static_cast<Link>(i);
  return Link::other;
}

bool LinkTable::is_local_peer(Link link, const Address& peer) const
{
  return links::is_local_peer(peer, roles_[static_cast<std::size_t>(link)].on_link);
}

void LinkTable::fill(LinkStates& states) const
{
  for (std::size_t i = 0; i < link_count; ++i)
  {
    states[i].present = roles_[i].present();
    states[i].up = roles_[i].up;
    states[i].route = roles_[i].default_v4;
    states[i].route_v6 = roles_[i].default_v6;
    states[i].changed = roles_[i].changed;
    states[i].mtu = roles_[i].mtu;
  }
}

} // namespace tandem::links
