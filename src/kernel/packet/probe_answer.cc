#include "src/kernel/packet/probe_answer.h"

#include <arpa/inet.h>
#include <net/if_arp.h>
#include <netinet/icmp6.h>
#include <netinet/ip_icmp.h>

#include <cstring>

namespace tandem::kernel
{

namespace
{

bool identifies(std::span<const std::uint8_t> two, std::uint16_t identifier)
{
  return two[0] == identifier >> 8 && two[1] == (identifier & 0xff);
}

ProbeAnswer read_arp(std::span<const std::uint8_t> bytes, const Asked& asked)
{
  ArpPacket packet {};
  if (bytes.size() < sizeof packet || !asked.gateway_v4 || !asked.source_v4) return {};
  std::memcpy(&packet, bytes.data(), sizeof packet);
  if (ntohs(packet.operation) != ARPOP_REPLY || std::memcmp(packet.sender, asked.gateway_v4->bytes.data(), 4) != 0
      || std::memcmp(packet.target, asked.source_v4->bytes.data(), 4) != 0)
    return {};
  ProbeAnswer answer { .ours = true, .neighbour = std::array<std::uint8_t, 6> {} };
  std::memcpy(answer.neighbour->data(), packet.sender_mac, answer.neighbour->size());
  return answer;
}

} // namespace

ProbeAnswer read_answer(ProbeWay way, bool v6, std::span<const std::uint8_t> bytes, const Asked& asked)
{
  if (way == ProbeWay::none) return {};
  if (way == ProbeWay::arp) return read_arp(bytes, asked);
  if (v6 && way == ProbeWay::solicitation)
    // The kernel has checked the advertisement's sum and hop limit (RFC 4861, 7.1.2) before it was handed up.
    return { .ours = bytes.size() >= 24 && asked.gateway_v6
                     && std::memcmp(bytes.data() + 8, asked.gateway_v6->bytes.data(), 16) == 0 };
  if (v6) return { .ours = bytes.size() >= 8 && identifies(bytes.subspan(4, 2), asked.identifier) };
  if (bytes.empty()) return {};
  const std::size_t header = std::size_t { 4 } * (bytes[0] & 15u);
  return { .ours = bytes.size() >= header + 8 && bytes[header] == ICMP_ECHOREPLY
                   && identifies(bytes.subspan(header + 4, 2), asked.identifier) };
}

} // namespace tandem::kernel
