#include "src/kernel/interface_address.h"

#include "src/kernel/rtnetlink.h"

#include <arpa/inet.h>
#include <linux/if_addr.h>
#include <linux/rtnetlink.h>
#include <netlink/route/nexthop.h>
#include <sys/socket.h>

#include <array>
#include <stdexcept>

namespace tandem::kernel
{
namespace
{

Owned<nl_addr> parsed(const std::string& text)
{
  nl_addr* raw = nullptr;
  check_netlink(text, nl_addr_parse(text.c_str(), AF_INET, &raw));
  return Owned<nl_addr> { raw };
}

Owned<rtnl_addr> on_interface(int ifindex, const InterfaceAddress& one)
{
  Owned<rtnl_addr> address { rtnl_addr_alloc() };
  rtnl_addr_set_ifindex(address.get(), ifindex);
  rtnl_addr_set_family(address.get(), AF_INET);
  const std::string with_prefix = one.address + "/" + std::to_string(one.prefix);
  check_netlink(with_prefix, rtnl_addr_set_local(address.get(), parsed(with_prefix).get()));
  rtnl_addr_set_prefixlen(address.get(), static_cast<int>(one.prefix));
  return address;
}

void add_route(nl_sock* socket, int ifindex, const std::string& to, const InterfaceAddress& by, bool on_link)
{
  const Owned<rtnl_route> route { rtnl_route_alloc() };
  rtnl_route_set_family(route.get(), AF_INET);
  rtnl_route_set_table(route.get(), RT_TABLE_MAIN);
  rtnl_route_set_protocol(route.get(), own_protocol);
  rtnl_route_set_priority(route.get(), by.metric);
  rtnl_route_set_scope(route.get(), on_link ? RT_SCOPE_LINK : RT_SCOPE_UNIVERSE);
  check_netlink(to, rtnl_route_set_dst(route.get(), parsed(to).get()));
  rtnl_route_set_pref_src(route.get(), parsed(by.address).get());
  rtnl_nexthop* hop = rtnl_route_nh_alloc();
  rtnl_route_nh_set_ifindex(hop, ifindex);
  if (!on_link) rtnl_route_nh_set_gateway(hop, parsed(by.gateway).get());
  rtnl_route_add_nexthop(route.get(), hop);
  check_netlink(("route to " + to).c_str(), rtnl_route_add(socket, route.get(), NLM_F_CREATE | NLM_F_REPLACE));
}

} // namespace

std::string network_of(const std::string& address, unsigned prefix)
{
  in_addr bits {};
  inet_pton(AF_INET, address.c_str(), &bits);
  bits.s_addr &= htonl(prefix == 0 ? 0 : ~0u << (32 - prefix));
  std::array<char, INET_ADDRSTRLEN> text {};
  return std::string { inet_ntop(AF_INET, &bits, text.data(), text.size()) } + "/" + std::to_string(prefix);
}

std::string give_address(int ifindex, const InterfaceAddress& wanted)
{
  try
  {
    const Owned<nl_sock> socket = routing_socket();
    const Owned<rtnl_addr> address = on_interface(ifindex, wanted);
    rtnl_addr_set_flags(address.get(), IFA_F_NOPREFIXROUTE);
    if (wanted.lifetime > Duration {})
    {
      const auto life = static_cast<std::uint32_t>(seconds(wanted.lifetime));
      rtnl_addr_set_valid_lifetime(address.get(), life);
      rtnl_addr_set_preferred_lifetime(address.get(), life);
    }
    check_netlink("address " + wanted.address,
                  rtnl_addr_add(socket.get(), address.get(), NLM_F_CREATE | NLM_F_REPLACE));
    add_route(socket.get(), ifindex, network_of(wanted.address, wanted.prefix), wanted, true);
    if (!wanted.gateway.empty()) add_route(socket.get(), ifindex, "0.0.0.0/0", wanted, false);
    return {};
  }
  catch (const std::exception& fault)
  {
    return fault.what();
  }
}

void take_address(int ifindex, const InterfaceAddress& given) noexcept
{
  try
  {
    const Owned<nl_sock> socket = routing_socket();
    rtnl_addr_delete(socket.get(), on_interface(ifindex, given).get(), 0);
  }
  catch (const std::exception&)
  {
    // The interface has gone, and the address with it.
  }
}

} // namespace tandem::kernel
