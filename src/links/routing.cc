#include "src/links/routing.h"

#include "src/kernel/socket_address.h"

#include <linux/if_arp.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <string_view>

namespace tandem::links
{

namespace
{

// The share of the Internet that a network is: of 0.0.0.0/0, or of 2000::/3, all that is given out of IPv6.
double share(const Network& network)
{
  if (!network.address.v6) return std::exp2(-static_cast<double>(network.prefix));
  constexpr unsigned given_out = 3;
  const Network all = network_of({ .bytes = { 0x20 }, .v6 = true }, given_out);
  if (network.prefix <= given_out) return network.contains(all.address) ? 1 : 0;
  return all.contains(network.address) ? std::exp2(-static_cast<double>(network.prefix - given_out)) : 0;
}

enum class Match : std::uint8_t
{
  no,
  maybe,
  yes,
};

// `from`, `to`: whether the packets in question may be ones that the rule's networks hold.
Match match(const RuleEntry& rule, bool from, bool to)
{
  const bool mark = (rule.mark & rule.mask) == 0; // what has no mark
  const bool fits = !rule.elsewhere && mark && from && to;
  if (fits && rule.some) return Match::maybe;
  return fits != rule.invert ? Match::yes : Match::no;
}

// Whether packets with one of the source addresses `own` may be ones that the rule is for.
bool from_one_of(const RuleEntry& rule, const std::vector<Address>& own)
{
  return rule.from.prefix == 0
         || std::any_of(own.begin(), own.end(), [&](const Address& a) { return rule.from.contains(a); });
}

bool holds(const Network& network, const Address& address)
{
  return network.prefix == 0 || network.contains(address);
}

constexpr std::uint32_t null_metric = std::numeric_limits<std::uint32_t>::max(); // the kernel's own "no route"

// What never leaves a link: every interface has routes for it.
bool stays_on_link(const Network& network)
{
  const std::uint8_t first = network.address.bytes[0];
  return kernel::is_link_local(network.address) || (network.address.v6 ? first == 0xff : first >= 224);
}

} // namespace

bool is_tunnel(const kernel::InterfaceNotification& interface)
{
  // What carries frames or a modem's packets as they are.
  constexpr std::array<std::string_view, 20> plain { "bond",   "bridge", "hsr",    "ifb",     "ipoib",
                                                     "ipvlan", "ipvtap", "macsec", "macvlan", "macvtap",
                                                     "netkit", "rmnet",  "team",   "veth",    "virt_wifi",
                                                     "vlan",   "vrf",    "wwan",   "dsa",     "batadv" };
  if (!interface.kind.empty()) return std::find(plain.begin(), plain.end(), interface.kind) == plain.end();
  constexpr std::array<unsigned, 6> tunnels { ARPHRD_PPP, ARPHRD_TUNNEL, ARPHRD_TUNNEL6,
                                              ARPHRD_SIT, ARPHRD_IPGRE,  ARPHRD_IP6GRE };
  return std::find(tunnels.begin(), tunnels.end(), interface.hardware) != tunnels.end();
}

void Routing::add(const kernel::InterfaceNotification& interface)
{
  if (!is_tunnel(interface)) return;
  const std::string kind = interface.kind.empty() ? "tunnel" : interface.kind;
  tunnels_[interface.ifindex] = { interface.name, interface.name + " (" + kind + ")" };
}

const std::string* Routing::tunnel_of(int ifindex, const std::vector<std::string>& roles) const
{
  const auto found = tunnels_.find(ifindex);
  if (found == tunnels_.end()) return nullptr;
  const bool has_role = std::find(roles.begin(), roles.end(), found->second.name) != roles.end();
  return has_role ? nullptr : &found->second.text;
}

// Of routes to the same network.
bool Routing::better(const RouteEntry& one, const RouteEntry* than, const std::vector<std::string>& roles) const
{
  return than == nullptr || one.metric < than->metric
         || (one.metric == than->metric && tunnel_of(one.ifindex, roles) != nullptr);
}

// What a rule's table says of most of the Internet.
Routing::Outlook Routing::default_in(const RuleEntry& rule, const std::vector<std::string>& roles) const
{
  constexpr double most = 0.5;
  double tunnelled = 0, refused = 0;
  const std::string* tunnel = nullptr;
  const RouteEntry* best = nullptr;
  for (const RouteEntry& route : routes_)
  {
    if (route.v6 != rule.v6 || route.table != rule.table) continue;
    if (rule.suppress_below && route.to.prefix <= *rule.suppress_below) continue;
    if (route.to.prefix == 0)
    {
      if (route.refused && route.metric == null_metric) continue;
      if (better(route, best, roles)) best = &route;
    }
    else if (route.refused)
      refused += share(route.to);
    else if (const std::string* into = tunnel_of(route.ifindex, roles))
    {
      tunnelled += share(route.to);
      tunnel = into;
    }
  }
  // The longer prefix wins over any default route.
  if (tunnelled >= most) return { Way::tunnel, *tunnel };
  if (refused >= most) return { Way::refused };
  if (best == nullptr) return {};
  if (best->refused) return { Way::refused };
  const std::string* into = tunnel_of(best->ifindex, roles);
  return into != nullptr ? Outlook { Way::tunnel, *into } : Outlook { Way::clear };
}

// What a rule's table says of one peer: the longest prefix, of those the lowest metric.
Routing::Outlook Routing::found_in(const RuleEntry& rule, const Address& peer,
                                   const std::vector<std::string>& roles) const
{
  const RouteEntry* best = nullptr;
  for (const RouteEntry& route : routes_)
  {
    if (route.v6 != rule.v6 || route.table != rule.table || !holds(route.to, peer)) continue;
    if (route.to.prefix == 0 && route.refused && route.metric == null_metric) continue;
    if (best != nullptr && route.to.prefix < best->to.prefix) continue;
    if (best == nullptr || route.to.prefix > best->to.prefix || better(route, best, roles)) best = &route;
  }
  if (best == nullptr || (rule.suppress_below && best->to.prefix <= *rule.suppress_below)) return {};
  if (best->refused) return { Way::refused };
  const std::string* into = tunnel_of(best->ifindex, roles);
  return into != nullptr ? Outlook { Way::tunnel, *into } : Outlook { Way::clear };
}

// As the kernel walks the rules. `fits` says whether one matches, `look` what its table says.
template <class Fits, class Look>
Routing::Outlook Routing::walk(bool v6, Fits fits, Look look) const
{
  std::uint32_t from = 0; // behind a goto
  for (const RuleEntry& rule : rules_)
  {
    if (rule.v6 != v6 || rule.priority < from) continue;
    const Match found = fits(rule);
    if (found == Match::no) continue;
    const bool sure = found == Match::yes;
    if (rule.action == RuleEntry::Action::refuse && sure) return { Way::refused };
    if (rule.action == RuleEntry::Action::go_to && sure) from = rule.target;
    if (rule.action != RuleEntry::Action::lookup) continue;
    const Outlook there = look(rule);
    // That some flows may go into a tunnel is enough.
    if (there.way == Way::tunnel || (sure && there.way != Way::none)) return there;
  }
  return {};
}

Routing::Outlook Routing::outlook(bool v6, const std::vector<Address>& own, const std::vector<std::string>& roles) const
{
  std::vector<Address> sources {};
  std::copy_if(own.begin(), own.end(), std::back_inserter(sources), [&](const Address& a) { return a.v6 == v6; });
  return walk(
      // A rule for some destinations only says nothing of most of the Internet.
      v6, [&](const RuleEntry& rule) { return match(rule, from_one_of(rule, sources), rule.to.prefix == 0); },
      [&](const RuleEntry& rule) { return default_in(rule, roles); });
}

Routing::Outlook Routing::outlook(const Address& local, const Address& peer,
                                  const std::vector<std::string>& roles) const
{
  return walk(
      peer.v6, [&](const RuleEntry& rule) { return match(rule, holds(rule.from, local), holds(rule.to, peer)); },
      [&](const RuleEntry& rule) { return found_in(rule, peer, roles); });
}

std::vector<Routing::Aside> Routing::aside(const std::vector<Address>& own, const std::vector<std::string>& roles) const
{
  std::vector<Aside> all {};
  const auto add = [&](const std::string& tunnel, const Network& to)
  {
    const Aside one { tunnel, to };
    if (!stays_on_link(to) && std::find(all.begin(), all.end(), one) == all.end()) all.push_back(one);
  };
  for (const RuleEntry& rule : rules_)
  {
    if (rule.action != RuleEntry::Action::lookup || match(rule, from_one_of(rule, own), true) == Match::no) continue;
    for (const RouteEntry& route : routes_)
    {
      const std::string* into = tunnel_of(route.ifindex, roles);
      if (into == nullptr || route.v6 != rule.v6 || route.table != rule.table || route.refused || route.to.prefix == 0)
        continue;
      const bool narrowed = !rule.invert && rule.to.prefix > route.to.prefix;
      if (narrowed ? holds(route.to, rule.to.address) : rule.invert || holds(rule.to, route.to.address))
        add(*into, narrowed ? rule.to : route.to);
    }
    // "ip rule add to PREFIX lookup TABLE", and the table's default route leads into a tunnel.
    if (rule.to.prefix == 0 || rule.invert) continue;
    if (const Outlook rest = default_in(rule, roles); rest.way == Way::tunnel) add(rest.tunnel, rule.to);
  }
  return all;
}

std::string hands_off(const Routing& routing, const std::vector<Address>& own, const std::vector<std::string>& roles)
{
  using Way = Routing::Way;
  bool refused = false, clear = false;
  for (const bool v6 : { false, true })
  {
    const Routing::Outlook outlook = routing.outlook(v6, own, roles);
    if (outlook.way == Way::tunnel) return "the default route leads into " + outlook.tunnel;
    refused = refused || outlook.way == Way::refused;
    clear = clear || outlook.way == Way::clear;
  }
  return refused && !clear ? "the routes of this host let nothing out" : "";
}

std::string hands_off(const Routing& routing, const Address& local, const Address& peer,
                      const std::vector<std::string>& roles)
{
  if (!routing.any_tunnel()) return {};
  const Routing::Outlook outlook = routing.outlook(local, peer, roles);
  return outlook.way == Routing::Way::tunnel ? "its route leads into " + outlook.tunnel : "";
}

} // namespace tandem::links
