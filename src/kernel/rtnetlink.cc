#include "src/kernel/rtnetlink.h"

#include <net/if.h>
#include <netlink/msg.h>

#include <new>
#include <stdexcept>

namespace tandem::kernel
{

namespace
{

// RFC 2863 states; <linux/if.h>, which names them, cannot be included with <net/if.h>.
constexpr std::uint8_t oper_unknown = 0, oper_up = 6;
// An ENOBUFS is told once each time that the socket had no room: as many in a row are want of memory, which may last.
constexpr int most_losses = 16;

} // namespace

void check_netlink(const std::string& what, int code)
{
  if (code < 0) throw std::runtime_error { what + ": " + nl_geterror(code) };
}

Owned<nl_sock> routing_socket()
{
  Owned<nl_sock> socket { nl_socket_alloc() };
  if (!socket) throw std::bad_alloc {};
  check_netlink("open a routing socket", nl_connect(socket.get(), NETLINK_ROUTE));
  return socket;
}

Owned<nl_sock> listening_socket(std::initializer_list<int> groups, const std::function<void(nl_object*)>& take)
{
  Owned<nl_sock> socket { nl_socket_alloc() };
  if (!socket) throw std::bad_alloc {};
  nl_socket_disable_seq_check(socket.get());
  check_netlink("open a routing socket", nl_connect(socket.get(), NETLINK_ROUTE));
  for (const int group : groups)
    check_netlink("listen to link changes", nl_socket_add_membership(socket.get(), group));
  check_netlink("make the routing socket non-blocking", nl_socket_set_nonblocking(socket.get()));
  nl_socket_set_buffer_size(socket.get(), 1024 * 1024, 0);
  nl_socket_modify_cb(
      socket.get(), NL_CB_VALID, NL_CB_CUSTOM,
      [](nl_msg* message, void* taker)
      {
        nl_msg_parse(
            message,
            [](nl_object* object, void* f) { (*static_cast<const std::function<void(nl_object*)>*>(f))(object); },
            taker);
        return static_cast<int>(NL_OK);
      },
      const_cast<std::function<void(nl_object*)>*>(&take));
  return socket;
}

bool receive_all(nl_sock* socket, int* failure)
{
  bool lost = false;
  int losses = 0; // in a row
  for (int code = 0; code >= 0;)
  {
    code = nl_recvmsgs_default(socket);
    // libnl tells ENOBUFS as "out of memory": messages were lost.
    if (code == -NLE_NOMEM && ++losses < most_losses)
    {
      lost = true;
      code = 0;
    }
    else if (code >= 0)
      losses = 0;
    else if (code < 0 && code != -NLE_AGAIN && failure)
      *failure = code;
  }
  return lost;
}

InterfaceNotification read_link(rtnl_link* link, bool gone)
{
  InterfaceNotification notification;
  notification.ifindex = rtnl_link_get_ifindex(link);
  if (const char* name = rtnl_link_get_name(link)) notification.name = name;
  const unsigned flags = rtnl_link_get_flags(link);
  const std::uint8_t state = rtnl_link_get_operstate(link);
  notification.gone = gone;
  notification.admin_up = flags & IFF_UP;
  // TUN and many modems never report an operational state: with carrier they run.
  notification.running = (flags & IFF_RUNNING) && (state == oper_up || state == oper_unknown);
  notification.point_to_point = flags & IFF_POINTOPOINT;
  notification.mtu = rtnl_link_get_mtu(link);
  if (const char* kind = rtnl_link_get_type(link)) notification.kind = kind;
  notification.hardware = rtnl_link_get_arptype(link);
  return notification;
}

} // namespace tandem::kernel
