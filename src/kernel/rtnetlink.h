// What everyone needs who talks netlink by libnl: owned handles, a listening socket, and what a link message says.
#pragma once

#include "src/kernel/interface_notification.h"

#include <netlink/addr.h>
#include <netlink/cache.h>
#include <netlink/handlers.h>
#include <netlink/msg.h>
#include <netlink/netlink.h>
#include <netlink/route/addr.h>
#include <netlink/route/class.h>
#include <netlink/route/classifier.h>
#include <netlink/route/link.h>
#include <netlink/route/neighbour.h>
#include <netlink/route/qdisc.h>
#include <netlink/route/route.h>
#include <netlink/route/rule.h>
#include <netlink/socket.h>

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <string>

namespace tandem::kernel
{

// Whose rules and routes are Tandem's: in no registry of /etc/iproute2/rt_protos.
constexpr std::uint8_t own_protocol = 84;

struct NetlinkRelease
{
  void operator()(nl_sock* s) const { nl_socket_free(s); }
  void operator()(nl_cache* c) const { nl_cache_free(c); }
  void operator()(nl_msg* m) const { nlmsg_free(m); }
  void operator()(nl_cb* c) const { nl_cb_put(c); }
  void operator()(nl_addr* a) const { nl_addr_put(a); }
  void operator()(rtnl_addr* a) const { rtnl_addr_put(a); }
  void operator()(rtnl_link* l) const { rtnl_link_put(l); }
  void operator()(rtnl_route* r) const { rtnl_route_put(r); }
  void operator()(rtnl_rule* r) const { rtnl_rule_put(r); }
  void operator()(rtnl_neigh* n) const { rtnl_neigh_put(n); }
  void operator()(rtnl_qdisc* q) const { rtnl_qdisc_put(q); }
  void operator()(rtnl_class* c) const { rtnl_class_put(c); }
  void operator()(rtnl_cls* c) const { rtnl_cls_put(c); }
};
template <class T>
using Owned = std::unique_ptr<T, NetlinkRelease>;

// Throws std::runtime_error "<what>: <reason>" when the code of libnl is an error.
void check_netlink(const std::string& what, int code);

// A socket for requests. Throws std::runtime_error.
Owned<nl_sock> routing_socket();
// A socket that never blocks and is told of the groups (RTNLGRP_...); each object of a message goes to `take`, which
// lives as long as the socket. Throws std::runtime_error.
Owned<nl_sock> listening_socket(std::initializer_list<int> groups, const std::function<void(nl_object*)>& take);
// Takes in what is waiting; true when messages were lost, and everything has to be read anew. `failure`, when wanted,
// gets the code of another error.
bool receive_all(nl_sock* socket, int* failure = nullptr);

// RTM_NEWLINK, or RTM_DELLINK when `gone`.
InterfaceNotification read_link(rtnl_link* link, bool gone);

} // namespace tandem::kernel
