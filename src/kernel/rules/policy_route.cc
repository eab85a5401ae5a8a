#include "src/kernel/rules/policy_route.h"

#include "src/kernel/fd.h"
#include "src/kernel/json_fields.h"
#include "src/kernel/rtnetlink.h"
#include "src/kernel/rules/arp_setting.h"

#include <linux/fib_rules.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netlink/route/nexthop.h>
#include <sys/socket.h>

#include <array>
#include <optional>
#include <stdexcept>
#include <vector>

namespace tandem::kernel
{

namespace
{

template <class Each>
void for_each(nl_cache* cache, Each each)
{
  for (nl_object* object = nl_cache_get_first(cache); object; object = nl_cache_get_next(object))
    each(object);
}

// A route of one's own as (gateway or none); no value: no route at all.
struct Way
{
  std::vector<std::uint8_t> gateway {}; // binary; empty: on-link
  std::string text;
  bool operator==(const Way& other) const { return gateway == other.gateway; }
};

// Of IPv4 the gateway may be one of IPv6 (RFC 5549), which the kernel tells apart from others (RTA_VIA).
Way way_by(rtnl_nexthop* hop)
{
  nl_addr* gateway = rtnl_route_nh_get_gateway(hop);
  if (gateway == nullptr) gateway = rtnl_route_nh_get_via(hop);
  Way way;
  if (!gateway || nl_addr_get_len(gateway) == 0) return way;
  const auto* bytes = static_cast<const std::uint8_t*>(nl_addr_get_binary_addr(gateway));
  way.gateway.assign(bytes, bytes + nl_addr_get_len(gateway));
  std::array<char, 64> text {};
  way.text = nl_addr2str(gateway, text.data(), text.size());
  return way;
}

// One rule, one table, one way out.
struct Lane
{
  std::string interface;
  MarkBits mark {};
  std::uint32_t table = 0;
  std::uint32_t priority = 0;
};

int index_of(const Lane& lane)
{
  return static_cast<int>(if_nametoindex(lane.interface.c_str()));
}

constexpr std::uint32_t lower_priority(std::uint32_t priority)
{
  return priority - 1;
}

std::array<Lane, 2> lanes_of(const RoutePlan& plan)
{
  return { Lane { plan.cell, plan.mark, plan.table, plan.priority },
           Lane { plan.lower, plan.lower_mark, RoutePlan::lower_table, lower_priority(plan.priority) } };
}

} // namespace

TANDEM_JSON_FIELDS(RoutePlan, cell, mark, table, priority, announce, lower, lower_mark)

struct PolicyRoute::Parts
{
  RoutePlan plan {};
  Owned<nl_sock> socket {};
  Fd events {};
  RouteState state {};
  ArpAnnounce arp;
  bool left = false; // leave()

  explicit Parts(std::string note) : arp { std::move(note) } {}

  // Those there are.
  std::vector<Lane> lanes() const
  {
    std::vector<Lane> all {};
    if (plan.cell.empty()) return all;
    for (const Lane& lane : lanes_of(plan))
      if (!lane.interface.empty()) all.push_back(lane);
    return all;
  }

  // Others of Tandem's own, for placed connections, stand at the neighbouring priorities.
  void clear_own() const noexcept
  {
    clear(plan.table, plan.priority);
    if (!plan.lower.empty()) clear(RoutePlan::lower_table, lower_priority(plan.priority));
  }

  void subscribe()
  {
    events = Fd { ::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE) };
    sockaddr_nl address {};
    address.nl_family = AF_NETLINK;
    address.nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_IPV4_ROUTE | RTMGRP_IPV6_ROUTE;
    if (!events || ::bind(events.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) < 0)
      throw std::runtime_error { "listen to routing changes: the kernel refused" };
    for (const int group : { RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE })
      setsockopt(events.get(), SOL_NETLINK, NETLINK_ADD_MEMBERSHIP, &group, sizeof group);
  }

  bool has_rule(const Lane& lane, int family)
  {
    const Owned<nl_cache> rules =
        listed("rules", [&](nl_cache** to) { return rtnl_rule_alloc_cache(socket.get(), family, to); });
    if (!rules) return true;
    bool found = false;
    for_each(rules.get(),
             [&](nl_object* object)
             {
               auto* rule = reinterpret_cast<rtnl_rule*>(object);
               std::uint8_t protocol = 0;
               // libnl's cache of one version may hold the other one's as well.
               found |= rtnl_rule_get_family(rule) == family && rtnl_rule_get_protocol(rule, &protocol) == 0
                        && protocol == own_protocol && rtnl_rule_get_table(rule) == lane.table
                        && rtnl_rule_get_prio(rule) == lane.priority;
             });
    return found;
  }

  void add_rule(const Lane& lane, int family)
  {
    Owned<rtnl_rule> rule { rtnl_rule_alloc() };
    rtnl_rule_set_family(rule.get(), family);
    rtnl_rule_set_prio(rule.get(), lane.priority);
    rtnl_rule_set_mark(rule.get(), lane.mark.value);
    rtnl_rule_set_mask(rule.get(), lane.mark.mask);
    rtnl_rule_set_table(rule.get(), lane.table);
    rtnl_rule_set_action(rule.get(), FR_ACT_TO_TBL);
    rtnl_rule_set_protocol(rule.get(), own_protocol);
    int code = rtnl_rule_add(socket.get(), rule.get(), NLM_F_CREATE | NLM_F_EXCL);
    if (family == AF_INET6 && code == -NLE_AF_NOSUPPORT) return; // a kernel without IPv6
    check_netlink("add the ip rule for table " + std::to_string(lane.table), code);
  }

  // What the main table and the interface say the way by cell is.
  std::optional<Way> wanted(int family, nl_cache* routes, int ifindex)
  {
    if (ifindex == 0) return {};
    std::optional<Way> best;
    std::uint32_t best_metric = 0;
    for_each(routes,
             [&](nl_object* object)
             {
               auto* route = reinterpret_cast<rtnl_route*>(object);
               nl_addr* destination = rtnl_route_get_dst(route);
               if (rtnl_route_get_family(route) != family) return;
               if (rtnl_route_get_table(route) != RT_TABLE_MAIN || rtnl_route_get_type(route) != RTN_UNICAST) return;
               if (destination && nl_addr_get_prefixlen(destination) != 0) return;
               for (int i = 0; i < rtnl_route_get_nnexthops(route); ++i)
               {
                 rtnl_nexthop* hop = rtnl_route_nexthop_n(route, i);
                 if (rtnl_route_nh_get_ifindex(hop) != ifindex) continue;
                 std::uint32_t metric = rtnl_route_get_priority(route);
                 if (best && metric >= best_metric) continue;
                 best = way_by(hop);
                 best_metric = metric;
               }
             });
    if (best) return best;

    rtnl_link* raw = nullptr;
    if (rtnl_link_get_kernel(socket.get(), ifindex, nullptr, &raw) < 0) return {}; // it has just gone
    Owned<rtnl_link> link { raw };
    if (!(rtnl_link_get_flags(raw) & IFF_POINTOPOINT) || !(rtnl_link_get_flags(raw) & IFF_UP)) return {};
    const Owned<nl_cache> addresses =
        listed("addresses", [&](nl_cache** to) { return rtnl_addr_alloc_cache(socket.get(), to); });
    if (!addresses) return {};
    bool has_address = false;
    for_each(addresses.get(),
             [&](nl_object* object)
             {
               auto* address = reinterpret_cast<rtnl_addr*>(object);
               has_address |= rtnl_addr_get_ifindex(address) == ifindex && rtnl_addr_get_family(address) == family
                              && rtnl_addr_get_scope(address) == RT_SCOPE_UNIVERSE;
             });
    if (!has_address) return {};
    return Way {};
  }

  std::optional<Way> present(const Lane& lane, int family, nl_cache* routes, int ifindex, std::vector<rtnl_route*>& own)
  {
    std::optional<Way> found;
    for_each(routes,
             [&](nl_object* object)
             {
               auto* route = reinterpret_cast<rtnl_route*>(object);
               if (rtnl_route_get_family(route) != family) return;
               if (rtnl_route_get_table(route) != lane.table || rtnl_route_get_protocol(route) != own_protocol) return;
               own.push_back(route);
               if (rtnl_route_get_nnexthops(route) != 1) return;
               rtnl_nexthop* hop = rtnl_route_nexthop_n(route, 0);
               if (rtnl_route_nh_get_ifindex(hop) == ifindex) found = way_by(hop);
             });
    return found;
  }

  // 0 or a libnl error.
  int add_route(const Lane& lane, int family, int ifindex, const Way& way)
  {
    Owned<rtnl_route> route { rtnl_route_alloc() };
    Owned<nl_addr> everywhere { nl_addr_build(family, nullptr, 0) };
    nl_addr_set_prefixlen(everywhere.get(), 0);
    rtnl_route_set_family(route.get(), static_cast<std::uint8_t>(family));
    rtnl_route_set_dst(route.get(), everywhere.get());
    rtnl_route_set_table(route.get(), lane.table);
    rtnl_route_set_protocol(route.get(), own_protocol);
    rtnl_route_set_type(route.get(), RTN_UNICAST);
    rtnl_route_set_scope(route.get(), way.gateway.empty() ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE);
    rtnl_nexthop* hop = rtnl_route_nh_alloc();
    rtnl_route_nh_set_ifindex(hop, ifindex);
    if (!way.gateway.empty())
    {
      const bool v6 = way.gateway.size() == sizeof(in6_addr);
      Owned<nl_addr> gateway { nl_addr_build(v6 ? AF_INET6 : AF_INET, way.gateway.data(), way.gateway.size()) };
      if (v6 && family == AF_INET)
        rtnl_route_nh_set_via(hop, gateway.get());
      else
        rtnl_route_nh_set_gateway(hop, gateway.get());
      rtnl_route_nh_set_flags(hop, RTNH_F_ONLINK); // the gateway may be outside the interface's prefix
    }
    rtnl_route_add_nexthop(route.get(), hop);
    return rtnl_route_add(socket.get(), route.get(), NLM_F_CREATE | NLM_F_REPLACE);
  }

  // A list of the kernel's that `alloc` asks for; none of a kernel without this version of IP. Throws where it could
  // not be read: that says nothing of what there is.
  template <class Alloc>
  Owned<nl_cache> listed(const char* what, Alloc alloc)
  {
    nl_cache* raw = nullptr;
    int code = alloc(&raw);
    if (code < 0)
    {
      // The rest of an answer that was given up would be taken for that to the next question.
      socket = routing_socket();
      code = alloc(&raw);
    }
    if (code == -NLE_AF_NOSUPPORT || code == -NLE_OPNOTSUPP) return {};
    check_netlink(std::string { "read the " } + what + " for table " + std::to_string(plan.table), code);
    return Owned<nl_cache> { raw };
  }

  std::optional<Way> follow(const Lane& lane, int family, int ifindex, bool& changed)
  {
    // A kernel that has a version of IP switched off (ipv6.disable=1) lists the routes of the other one.
    const Owned<nl_cache> routes =
        listed("routes", [&](nl_cache** to) { return rtnl_route_alloc_cache(socket.get(), family, 0, to); });
    if (!routes) return {};
    nl_cache* raw = routes.get();
    std::vector<rtnl_route*> own;
    std::optional<Way> want = wanted(family, raw, ifindex), have = present(lane, family, raw, ifindex, own);
    if (want == have && own.size() == (want ? 1u : 0u)) return want;
    changed = true;
    for (rtnl_route* route : own)
      rtnl_route_delete(socket.get(), route, 0);
    if (want && add_route(lane, family, ifindex, *want) < 0)
      return {}; // going down at this moment: the next event retries
    return want;
  }
};

PolicyRoute::PolicyRoute(const RoutePlan& plan, std::string note) : parts_ { std::make_unique<Parts>(std::move(note)) }
{
  Parts& p = *parts_;
  p.plan = plan;
  p.clear_own();
  p.socket = routing_socket();
  p.subscribe();
  if (plan.cell.empty()) return;
  for (const Lane& lane : p.lanes())
    if (lane.mark.value == 0 || (lane.mark.value & ~lane.mark.mask) != 0)
      throw std::runtime_error { "policy route: the mark must not be zero and must lie within its mask" };
  try
  {
    put_rules_back();
    refresh();
  }
  catch (...)
  {
    p.clear_own();
    throw;
  }
}

PolicyRoute::~PolicyRoute()
{
  if (!parts_->left) parts_->clear_own();
}

void PolicyRoute::leave() noexcept
{
  parts_->left = true;
}

int PolicyRoute::fd() const
{
  return parts_->events.get();
}

bool PolicyRoute::refresh()
{
  Parts& p = *parts_;
  // What the messages say does not matter: the tables are read again.
  std::array<char, 16384> scrap;
  while (recv(p.events.get(), scrap.data(), scrap.size(), MSG_DONTWAIT) > 0 || errno == ENOBUFS)
  {
  }
  if (p.plan.cell.empty()) return false;
  const auto [lane, below] = lanes_of(p.plan);
  const bool tunnel = !below.interface.empty();
  bool changed = false, carried = false;
  if (tunnel)
  {
    const int ifindex = index_of(below);
    const auto v4 = p.follow(below, AF_INET, ifindex, changed), v6 = p.follow(below, AF_INET6, ifindex, changed);
    carried = v4 || v6;
  }
  // A tunnel whose own packets find no way by the modem would take them over Wi-Fi.
  const int ifindex = tunnel && !carried ? 0 : index_of(lane);
  if (ifindex != 0 && p.plan.announce) p.arp.set(lane.interface);
  const auto v4 = p.follow(lane, AF_INET, ifindex, changed), v6 = p.follow(lane, AF_INET6, ifindex, changed);
  p.state = { .v4 = v4.has_value(),
              .v6 = v6.has_value(),
              .gateway_v4 = v4 ? v4->text : "",
              .gateway_v6 = v6 ? v6->text : "",
              .lower = carried };
  return changed;
}

bool PolicyRoute::has_rules() const
{
  try
  {
    for (const Lane& lane : parts_->lanes())
      for (const int family : { AF_INET, AF_INET6 })
        if (!parts_->has_rule(lane, family)) return false;
    return true;
  }
  catch (const std::exception&)
  {
    return false;
  }
}

bool PolicyRoute::put_rules_back()
{
  bool put = false;
  for (const Lane& lane : parts_->lanes())
    for (const int family : { AF_INET, AF_INET6 })
      if (!parts_->has_rule(lane, family))
      {
        parts_->add_rule(lane, family);
        put = true;
      }
  return put;
}

const RouteState& PolicyRoute::state() const
{
  return parts_->state;
}

void PolicyRoute::clear_with_lower(const RoutePlan& plan) noexcept
{
  for (const Lane& lane : lanes_of(plan))
    clear(lane.table, lane.priority);
}

void PolicyRoute::clear(std::uint32_t table, std::uint32_t priority) noexcept
{
  try
  {
    Owned<nl_sock> socket = routing_socket();
    for (int family : { AF_INET, AF_INET6 })
    {
      nl_cache* raw = nullptr;
      if (rtnl_rule_alloc_cache(socket.get(), family, &raw) == 0)
      {
        Owned<nl_cache> rules { raw };
        for_each(raw,
                 [&](nl_object* object)
                 {
                   auto* rule = reinterpret_cast<rtnl_rule*>(object);
                   std::uint8_t protocol = 0;
                   if (rtnl_rule_get_protocol(rule, &protocol) < 0 || protocol != own_protocol) return;
                   if (rtnl_rule_get_table(rule) == table || rtnl_rule_get_prio(rule) == priority)
                     rtnl_rule_delete(socket.get(), rule, 0);
                 });
      }
      raw = nullptr;
      if (rtnl_route_alloc_cache(socket.get(), family, 0, &raw) == 0)
      {
        Owned<nl_cache> routes { raw };
        for_each(raw,
                 [&](nl_object* object)
                 {
                   auto* route = reinterpret_cast<rtnl_route*>(object);
                   if (rtnl_route_get_table(route) == table && rtnl_route_get_protocol(route) == own_protocol)
                     rtnl_route_delete(socket.get(), route, 0);
                 });
      }
    }
  }
  catch (const std::exception&)
  {
    // No permission or no memory: then there is nothing that could be done about it here.
  }
}

} // namespace tandem::kernel
