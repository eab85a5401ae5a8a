// Where something was found out: a network, a cellular link, and a part of the Internet.
#pragma once

#include <tandem/segment.h>

#include <algorithm>
#include <array>
#include <compare>
#include <cstdint>
#include <string>

namespace tandem::evidence
{

// The servers of one /24 (IPv4) or /48 (IPv6), which mostly share a way; or all servers.
struct Prefix
{
  std::uint8_t bits = 0; // 24, 48, or 0: all
  std::array<std::uint8_t, 6> bytes {};

  auto operator<=>(const Prefix&) const = default;
};

constexpr Prefix prefix_of(const Address& server)
{
  Prefix prefix { .bits = static_cast<std::uint8_t>(server.v6 ? 48 : 24) };
  for (std::size_t i = 0; i < prefix.bits / 8u; ++i)
    prefix.bytes[i] = server.bytes[i];
  return prefix;
}

struct Place
{
  std::uint32_t network = 0; // Network::id; 0: not known
  std::string cell {};       // the cellular link's name (cell_name.h); empty: there is none
  Prefix prefix {};

  Place everywhere() const { return { network, cell, {} }; }
  auto operator<=>(const Place&) const = default;
};

// What tells networks apart, as far as it is seen now.
struct NetworkSigns
{
  std::string ssid {};    // any bytes; empty: not known
  std::string gateway {}; // of the default route: its hardware address, else its address; empty: not known
  bool unique = false;    // the gateway is a hardware address: no other network has it

  bool empty() const { return ssid.empty() && gateway.empty(); }
  bool operator==(const NetworkSigns&) const = default;
};

} // namespace tandem::evidence
