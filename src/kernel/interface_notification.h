// What the kernel says of an interface. Without a socket, so that what decides about it stays pure.
#pragma once

#include <cstdint>
#include <string>

namespace tandem::kernel
{

// RTM_NEWLINK / RTM_DELLINK.
struct InterfaceNotification
{
  int ifindex = 0;
  std::string name {};
  bool gone = false;
  bool admin_up = false; // IFF_UP
  bool running = false;  // operstate up or unknown, with carrier
  bool point_to_point = false;
  std::uint32_t mtu = 1500;
  std::string kind {};   // of a virtual one: "wireguard", "tun", "veth" (IFLA_INFO_KIND)
  unsigned hardware = 1; // ARPHRD_...; 1: Ethernet
};

} // namespace tandem::kernel
