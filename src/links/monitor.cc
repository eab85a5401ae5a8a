#include "src/links/monitor.h"

#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <netlink/cache.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/link.h>
#include <netlink/route/nexthop.h>
#include <netlink/route/route.h>
#include <netlink/socket.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

namespace tandem::links
{

namespace
{

// RFC 2863 states; <linux/if.h>, which names them, cannot stand beside <net/if.h>.
constexpr std::uint8_t oper_unknown = 0, oper_up = 6;
constexpr int addr_unusable = IFA_F_TENTATIVE | IFA_F_DADFAILED;

struct Release
{
  void operator()(nl_sock* s) const { nl_socket_free(s); }
  void operator()(nl_cache* c) const { nl_cache_free(c); }
};
template <class T>
using Owned = std::unique_ptr<T, Release>;

Address from_nl(nl_addr* address)
{
  Address result;
  result.v6 = nl_addr_get_family(address) == AF_INET6;
  std::memcpy(result.bytes.data(), nl_addr_get_binary_addr(address),
              std::min<std::size_t>(result.bytes.size(), nl_addr_get_len(address)));
  return result;
}

InterfaceNews read_link(rtnl_link* link, bool gone)
{
  InterfaceNews news;
  news.ifindex = rtnl_link_get_ifindex(link);
  if (const char* name = rtnl_link_get_name(link)) news.name = name;
  const unsigned flags = rtnl_link_get_flags(link);
  const std::uint8_t state = rtnl_link_get_operstate(link);
  news.gone = gone;
  news.admin_up = flags & IFF_UP;
  // TUN and many modems never report an operational state: with carrier they run.
  news.running = (flags & IFF_RUNNING) && (state == oper_up || state == oper_unknown);
  news.point_to_point = flags & IFF_POINTOPOINT;
  news.mtu = rtnl_link_get_mtu(link);
  return news;
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
    DefaultRouteNews news;
    news.ifindex = rtnl_route_nh_get_ifindex(hop);
    news.v6 = rtnl_route_get_family(route) == AF_INET6;
    news.gone = gone;
    news.metric = rtnl_route_get_priority(route);
    if (nl_addr* gateway = rtnl_route_nh_get_gateway(hop); gateway && nl_addr_get_len(gateway) > 0)
      news.gateway = from_nl(gateway);
    each(news);
  }
}

} // namespace

struct Monitor::Parts
{
  LinkTable table;
  Owned<nl_sock> asking {};    // dumps
  Owned<nl_sock> listening {}; // multicast
  bool changed = false;
  bool overrun = false;
  Tick now {};

  Parts(const std::string& wifi, const std::string& cell) : table { wifi, cell } {}

  void open()
  {
    auto check = [](const char* what, int code)
    {
      if (code < 0) throw std::runtime_error { std::string { what } + ": " + nl_geterror(code) };
    };
    asking.reset(nl_socket_alloc());
    listening.reset(nl_socket_alloc());
    if (!asking || !listening) throw std::bad_alloc {};
    check("open a routing socket", nl_connect(asking.get(), NETLINK_ROUTE));
    nl_socket_disable_seq_check(listening.get());
    check("open a routing socket", nl_connect(listening.get(), NETLINK_ROUTE));
    check("listen to link changes",
          nl_socket_add_memberships(listening.get(), RTNLGRP_LINK, RTNLGRP_IPV4_IFADDR, RTNLGRP_IPV6_IFADDR,
                                    RTNLGRP_IPV4_ROUTE, RTNLGRP_IPV6_ROUTE, 0));
    check("make the routing socket non-blocking", nl_socket_set_nonblocking(listening.get()));
    nl_socket_set_buffer_size(listening.get(), 1024 * 1024, 0);
    nl_socket_modify_cb(
        listening.get(), NL_CB_VALID, NL_CB_CUSTOM,
        [](nl_msg* message, void* self)
        {
          nl_msg_parse(
              message, [](nl_object* object, void* parts) { static_cast<Parts*>(parts)->take(object); }, self);
          return static_cast<int>(NL_OK);
        },
        this);
  }

  void take(nl_object* object)
  {
    switch (nl_object_get_msgtype(object))
    {
    case RTM_NEWLINK:
    case RTM_DELLINK:
    {
      auto* link = reinterpret_cast<rtnl_link*>(object);
      // Bridges and wireless drivers report in families of their own; those are no news of the interface.
      if (rtnl_link_get_family(link) != AF_UNSPEC) return;
      changed |= table.apply(read_link(link, nl_object_get_msgtype(object) == RTM_DELLINK), now);
      break;
    }
    case RTM_NEWADDR:
      take_address(reinterpret_cast<rtnl_addr*>(object), false);
      break;
    case RTM_DELADDR:
      take_address(reinterpret_cast<rtnl_addr*>(object), true);
      break;
    case RTM_NEWROUTE:
    case RTM_DELROUTE:
    {
      // A replaced route comes as new only, and what it replaced is not told: such changes are read anew.
      bool ours = false;
      read_route(reinterpret_cast<rtnl_route*>(object), false,
                 [&](const DefaultRouteNews& news) { ours |= table.of_ifindex(news.ifindex) != Link::other; });
      overrun |= ours;
      break;
    }
    default:
      break;
    }
  }

  void take_address(rtnl_addr* address, bool gone)
  {
    nl_addr* local = rtnl_addr_get_local(address);
    if (!local) return;
    AddressNews news;
    news.ifindex = rtnl_addr_get_ifindex(address);
    news.address = from_nl(local);
    news.gone = gone;
    news.global = rtnl_addr_get_scope(address) < RT_SCOPE_LINK;
    news.usable = (rtnl_addr_get_flags(address) & addr_unusable) == 0;
    changed |= table.apply(news, now);
  }

  template <class Each>
  void dump(int code, nl_cache* raw, Each each)
  {
    if (code < 0) throw std::runtime_error { std::string { "read links, addresses and routes: " } + nl_geterror(code) };
    Owned<nl_cache> cache { raw };
    for (nl_object* object = nl_cache_get_first(raw); object; object = nl_cache_get_next(object))
      each(object);
  }

  void read_all()
  {
    table.begin_dump();
    nl_cache* cache = nullptr;
    int code = rtnl_link_alloc_cache(asking.get(), AF_UNSPEC, &cache);
    dump(code, cache, [&](nl_object* o) { table.apply(read_link(reinterpret_cast<rtnl_link*>(o), false), now); });
    cache = nullptr;
    code = rtnl_addr_alloc_cache(asking.get(), &cache);
    dump(code, cache, [&](nl_object* o) { take_address(reinterpret_cast<rtnl_addr*>(o), false); });
    for (int family : { AF_INET, AF_INET6 })
    {
      cache = nullptr;
      code = rtnl_route_alloc_cache(asking.get(), family, 0, &cache);
      dump(code, cache,
           [&](nl_object* o) {
             read_route(reinterpret_cast<rtnl_route*>(o), false,
                        [&](const DefaultRouteNews& n) { table.apply(n, now); });
           });
    }
    changed |= table.finish_dump(now);
  }
};

Monitor::Monitor(const std::string& wifi, const std::string& cell, Tick now)
    : parts_ { std::make_unique<Parts>(wifi, cell) }
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
  p.changed = p.overrun = false;
  for (int code = 0; code >= 0;)
  {
    code = nl_recvmsgs_default(p.listening.get());
    // libnl tells ENOBUFS as "out of memory": messages were lost.
    if (code == -NLE_NOMEM)
    {
      p.overrun = true;
      code = 0;
    }
  }
  if (p.overrun)
  {
    try
    {
      p.read_all();
    }
    catch (const std::exception&)
    {
      p.changed |= p.table.finish_dump(now); // what could be read; the next event reads again
    }
  }
  return p.changed;
}

const LinkTable& Monitor::table() const
{
  return parts_->table;
}

} // namespace tandem::links
