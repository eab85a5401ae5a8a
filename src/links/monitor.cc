#include "src/links/monitor.h"

#include "src/kernel/rtnetlink.h"
#include "src/links/read_rules.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <utility>

namespace tandem::links
{

using namespace kernel; // of libnl: owned handles, sockets

namespace
{

constexpr int addr_unusable = IFA_F_TENTATIVE | IFA_F_DADFAILED;

Address from_nl(nl_addr* address)
{
  Address result;
  result.v6 = nl_addr_get_family(address) == AF_INET6;
  std::memcpy(result.bytes.data(), nl_addr_get_binary_addr(address),
              std::min<std::size_t>(result.bytes.size(), nl_addr_get_len(address)));
  return result;
}

// Nothing for what is no unicast default route of the main table.
template <class Each>
void read_route(rtnl_route* route, bool gone, Each each)
{
  nl_addr* destination = rtnl_route_get_dst(route);
  if (rtnl_route_get_table(route) != RT_TABLE_MAIN || rtnl_route_get_type(route) != RTN_UNICAST) return;
  if (destination && nl_addr_get_prefixlen(destination) != 0) return;
  for (int i = 0; i < rtnl_route_get_nnexthops(route); ++i)
  {
    rtnl_nexthop* hop = rtnl_route_nexthop_n(route, i);
    DefaultRouteNotification notification;
    notification.ifindex = rtnl_route_nh_get_ifindex(hop);
    notification.v6 = rtnl_route_get_family(route) == AF_INET6;
    notification.gone = gone;
    notification.metric = rtnl_route_get_priority(route);
    if (nl_addr* gateway = rtnl_route_nh_get_gateway(hop); gateway && nl_addr_get_len(gateway) > 0)
      notification.gateway = from_nl(gateway);
    each(notification);
  }
}

bool refuses(const rtnl_route* route)
{
  const std::uint8_t type = rtnl_route_get_type(const_cast<rtnl_route*>(route));
  return type == RTN_BLACKHOLE || type == RTN_UNREACHABLE || type == RTN_PROHIBIT;
}

// What the route says of the way of this host's own packets. The local table is about what arrives.
template <class Each>
void read_way(rtnl_route* route, Each each)
{
  if (rtnl_route_get_table(route) == RT_TABLE_LOCAL) return;
  RouteEntry entry { .v6 = rtnl_route_get_family(route) == AF_INET6,
                     .table = rtnl_route_get_table(route),
                     .metric = rtnl_route_get_priority(route),
                     .refused = refuses(route) };
  entry.to.address.v6 = entry.v6;
  if (nl_addr* to = rtnl_route_get_dst(route); to && nl_addr_get_prefixlen(to) != 0)
    entry.to = network_of(from_nl(to), nl_addr_get_prefixlen(to));
  if (entry.refused) return each(entry);
  if (rtnl_route_get_type(route) != RTN_UNICAST) return;
  for (int i = 0; i < rtnl_route_get_nnexthops(route); ++i)
  {
    rtnl_nexthop* hop = rtnl_route_nexthop_n(route, i);
    if ((rtnl_route_nh_get_flags(hop) & RTNH_F_DEAD) != 0) continue;
    entry.ifindex = rtnl_route_nh_get_ifindex(hop);
    each(entry);
  }
}

} // namespace

struct Monitor::Parts
{
  LinkTable table {};
  Routing routing {};
  Owned<nl_sock> asking {};    // dumps
  Owned<nl_sock> listening {}; // multicast
  std::function<void(nl_object*)> taker = [this](nl_object* object) { take(object); };
  bool changed = false;
  bool overrun = false; // what is known is not all; until everything was read anew
  Tick now {};

  void open()
  {
    asking = routing_socket();
    listening = listening_socket({ RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR, RTNLGRP_IPV4_ROUTE,
                                   RTNLGRP_IPV6_ROUTE, RTNLGRP_IPV4_RULE, RTNLGRP_IPV6_RULE },
                                 taker);
  }

  void take(nl_object* object)
  {
    switch (nl_object_get_msgtype(object))
    {
    case RTM_NEWLINK:
    case RTM_DELLINK:
    {
      auto* link = reinterpret_cast<rtnl_link*>(object);
      // Bridges and wireless drivers report in families of their own; those do not describe the interface.
      if (rtnl_link_get_family(link) != AF_UNSPEC) return;
      const InterfaceNotification notification = read_link(link, nl_object_get_msgtype(object) == RTM_DELLINK);
      changed |= table.apply(notification, now);
      // The kernel drops the routes of an interface that goes down without a message for each: the next best may lead
      // into a tunnel.
      overrun |= is_tunnel(notification) || notification.gone || !notification.admin_up;
      break;
    }
    case RTM_NEWADDR:
      take_address(reinterpret_cast<rtnl_addr*>(object), false);
      break;
    case RTM_DELADDR:
      take_address(reinterpret_cast<rtnl_addr*>(object), true);
      // So it does, of IPv4, with the last address of an interface.
      overrun |= rtnl_addr_get_family(reinterpret_cast<rtnl_addr*>(object)) == AF_INET;
      break;
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
    {
      // A replaced route comes as new only, and what it replaced is not told: such changes are read anew.
      // Those of interfaces without a role, too: who has a default route may get one.
      read_route(reinterpret_cast<rtnl_route*>(object), false,
                 [&](const DefaultRouteNotification&) { overrun = true; });
      // Beside a tunnel any route may be an exception from what leads into it.
      read_way(reinterpret_cast<rtnl_route*>(object), [&](const RouteEntry& entry)
               { overrun |= entry.to.prefix == 0 || entry.refused || routing.any_tunnel(); });
      break;
    }
    case RTM_NEWRULE:
    case RTM_DELRULE:
      overrun = true;
      break;
    default:
      break;
    }
  }

  void take_address(rtnl_addr* address, bool gone)
  {
    nl_addr* local = rtnl_addr_get_local(address);
    if (!local) return;
    AddressNotification notification;
    notification.ifindex = rtnl_addr_get_ifindex(address);
    notification.address = from_nl(local);
    notification.gone = gone;
    notification.global = rtnl_addr_get_scope(address) < RT_SCOPE_LINK;
    const unsigned flags = rtnl_addr_get_flags(address);
    notification.usable = (flags & addr_unusable) == 0;
    // Of IPv4, IFA_F_TEMPORARY's bit says "secondary".
    notification.deprecated = notification.address.v6 && (flags & IFA_F_DEPRECATED) != 0;
    notification.temporary = notification.address.v6 && (flags & IFA_F_TEMPORARY) != 0;
    // Of a point-to-point interface the kernel tells the network of the peer.
    nl_addr* peer = rtnl_addr_get_peer(address);
    notification.on_link = network_of(peer != nullptr ? from_nl(peer) : notification.address,
                                      static_cast<unsigned>(rtnl_addr_get_prefixlen(address)));
    changed |= table.apply(notification, now);
  }

  template <class Each>
  void dump(int code, nl_cache* raw, Each each)
  {
    check_netlink("read links, addresses and routes", code);
    Owned<nl_cache> cache { raw };
    for (nl_object* object = nl_cache_get_first(raw); object; object = nl_cache_get_next(object))
      each(object);
  }

  void read_all()
  {
    Routing fresh {};
    if (!asking) asking = routing_socket();
    table.begin_dump();
    nl_cache* cache = nullptr;
    int code = rtnl_link_alloc_cache(asking.get(), AF_UNSPEC, &cache);
    dump(code, cache,
         [&](nl_object* o)
         {
           const InterfaceNotification link = read_link(reinterpret_cast<rtnl_link*>(o), false);
           table.apply(link, now);
           fresh.add(link);
         });
    cache = nullptr;
    code = rtnl_addr_alloc_cache(asking.get(), &cache);
    dump(code, cache, [&](nl_object* o) { take_address(reinterpret_cast<rtnl_addr*>(o), false); });
    for (int family : { AF_INET, AF_INET6 })
    {
      cache = nullptr;
      code = rtnl_route_alloc_cache(asking.get(), family, 0, &cache);
      dump(code, cache,
           [&](nl_object* o)
           {
             read_route(reinterpret_cast<rtnl_route*>(o), false,
                        [&](const DefaultRouteNotification& n) { table.apply(n, now); });
             read_way(reinterpret_cast<rtnl_route*>(o), [&](const RouteEntry& entry) { fresh.add(entry); });
           });
    }
    for (const RuleEntry& rule : read_rules())
      fresh.add(rule);
    changed |= fresh != routing;
    routing = std::move(fresh);
    changed |= table.finish_dump(now);
  }
};

Monitor::Monitor(const std::string& wifi, const std::string& cell, Tick now, const std::vector<std::string>& more_wifi)
    : Monitor { now }
{
  assign(wifi, cell, more_wifi, now);
}

Monitor::Monitor(Tick now) : parts_ { std::make_unique<Parts>() }
{
  // Listening starts before the dump: a change in between is seen twice rather than never.
  parts_->now = now;
  parts_->open();
  parts_->read_all();
}

Monitor::~Monitor() = default;

int Monitor::fd() const
{
  return nl_socket_get_fd(parts_->listening.get());
}

bool Monitor::receive(Tick now)
{
  Parts& p = *parts_;
  p.now = now;
  p.changed = false;
  p.overrun |= receive_all(p.listening.get());
  if (p.overrun)
  {
    LinkTable before = p.table;
    try
    {
      p.read_all();
      p.overrun = false;
    }
    catch (const std::exception&)
    {
      p.table = std::move(before); // half of it would be links that are gone
      p.asking.reset();            // what is left of an answer would come into the next one
    }
  }
  return p.changed;
}

bool Monitor::outdated() const
{
  return parts_->overrun;
}

bool Monitor::assign(const std::string& wifi, const std::string& cell, const std::vector<std::string>& more_wifi,
                     Tick now, const LowerInterfaces& lower)
{
  return parts_->table.assign(wifi, cell, more_wifi, now, lower);
}

const LinkTable& Monitor::table() const
{
  return parts_->table;
}

const Routing& Monitor::routing() const
{
  return parts_->routing;
}

} // namespace tandem::links
