// What has come in answer to a probe of the gateway: anybody on the link may send it. Pure.
#pragma once

#include <tandem/segment.h>

#include <array>
#include <cstdint>
#include <optional>
#include <span>

namespace tandem::kernel
{

enum class ProbeWay : std::uint8_t
{
  none,
  arp,
  solicitation,
  echo,
};

// An ARP packet of Ethernet and IPv4 (RFC 826).
struct ArpPacket
{
  std::uint16_t hardware, protocol;
  std::uint8_t hardware_length, protocol_length;
  std::uint16_t operation;
  std::uint8_t sender_mac[6], sender[4], target_mac[6], target[4];
};
static_assert(sizeof(ArpPacket) == 28);

struct Asked
{
  std::optional<Address> source_v4 {};
  std::optional<Address> gateway_v4 {};
  std::optional<Address> gateway_v6 {};
  std::uint16_t identifier = 0; // of echo requests
};

struct ProbeAnswer
{
  bool ours = false;                                       // the gateway's answer to what was asked
  std::optional<std::array<std::uint8_t, 6>> neighbour {}; // its hardware address, where the answer tells it
};

// `bytes` as the socket of that way gives them: ARP without the Ethernet header, ICMPv6 without the IP header, ICMP
// with it. `v6`: they came over IPv6.
ProbeAnswer read_answer(ProbeWay way, bool v6, std::span<const std::uint8_t> bytes, const Asked& asked);

} // namespace tandem::kernel
