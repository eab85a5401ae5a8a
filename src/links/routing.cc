#include "src/links/routing.h"

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

Match match(const RuleEntry& rule, const std::vector<Address>& own)
{
  if (rule.elsewhere) return Match::no;
  const bool mark = (0 & rule.mask) == rule.mark; // what has no mark
  const bool from = rule.from.prefix == 0
                    || std::any_of(own.begin(), own.end(), [&](const Address& a) { return rule.from.contains(a); });
  if (mark && from && rule.some) return Match::maybe;
  return (mark && from) != rule.invert ? Match::yes : Match::no;
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

// What a rule's table says of most of the Internet.
Routing::Outlook Routing::default_in(const RuleEntry& rule, const std::vector<std::string>& roles) const
{
  constexpr std::uint32_t null_metric = std::numeric_limits<std::uint32_t>::max(); // the kernel's own "no route"
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
      const bool better = best == nullptr || route.metric < best->metric
                          || (route.metric == best->metric && tunnel_of(route.ifindex, roles) != nullptr);
      if (better) best = &route;
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

Routing::Outlook Routing::outlook(bool v6, const std::vector<Address>& own, const std::vector<std::string>& roles) const
{
  std::vector<Address> sources {};
  std::copy_if(own.begin(), own.end(), std::back_inserter(sources), [&](const Address& a) { return a.v6 == v6; });
  std::uint32_t from = 0; // behind a goto
  for (const RuleEntry& rule : rules_)
  {
    if (rule.v6 != v6 || rule.priority < from) continue;
    const Match fits = match(rule, sources);
    if (fits == Match::no) continue;
    const bool sure = fits == Match::yes;
    if (rule.action == RuleEntry::Action::refuse && sure) return { Way::refused };
    if (rule.action == RuleEntry::Action::go_to && sure) from = rule.target;
    if (rule.action != RuleEntry::Action::lookup) continue;
    const Outlook found = default_in(rule, roles);
    // That some flows may go into a tunnel is enough.
    if (found.way == Way::tunnel || (sure && found.way != Way::none)) return found;
  }
  return {};
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

} // namespace tandem::links
