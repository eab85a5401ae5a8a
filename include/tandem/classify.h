// What kind of packet a TCP segment is. One table says it, for everybody who asks: classify() below, the nftables
// rules, the BPF programs of iptables and of the observer (src/kernel), and through tandem/admission.h the daemon, the
// simulator and the golden harness.
//
// Only the direction, four flags and whether there is payload count. PSH, URG, ECE, CWR, AE and the TCP options change
// nothing, and neither does merging (GSO, GRO): a super-packet is a segment with much payload.
#pragma once

#include <tandem/segment.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>

namespace tandem
{

// Kinds of segments, as bits: each segment is of one kind at most.
namespace traffic
{
constexpr std::uint32_t none = 0; // nobody is shown it; see classify()
// Leaving, ACK set, no payload, none of SYN, FIN, RST: a pure acknowledgement (RFC 3168 6.1.4). With or without SACK
// blocks, ECE, or a new window.
constexpr std::uint32_t egress_pure_ack = 1u << 0;
constexpr std::uint32_t egress_data = 1u << 1;    // leaving, ACK set, with payload, none of SYN, FIN, RST
constexpr std::uint32_t egress_closing = 1u << 2; // leaving FIN or RST, with payload or without
constexpr std::uint32_t ingress_data = 1u << 3;   // arriving with payload, also with FIN or RST (RFC 9293 3.10.7.4)
constexpr std::uint32_t ingress_ack = 1u << 4;    // arriving without payload, also with FIN or RST
// SYN and SYN-ACK, either way, also with data (RFC 7413). Never queued: a module is shown copies.
constexpr std::uint32_t handshake = 1u << 5;
constexpr std::uint32_t egress = egress_pure_ack | egress_data | egress_closing;
constexpr std::uint32_t ingress = ingress_data | ingress_ack;
} // namespace traffic

// A row of the table: the first one that fits says the kind.
struct KindRule
{
  std::uint16_t flags = 0;               // tcp_flag::*
  bool set = false;                      // whether one of `flags` is to be set, or none of them
  std::optional<bool> payload {};        // empty: with or without
  std::optional<Direction> direction {}; // empty: both
  std::uint32_t kind = traffic::none;
  // Opens, closes or resets a connection: copied as soon as anything at all is wanted of the flow's link.
  bool always_observed = false;

  constexpr bool concerns(Direction way, bool with_payload) const
  {
    return direction.value_or(way) == way && payload.value_or(with_payload) == with_payload;
  }
  constexpr bool fits(std::uint16_t header_flags) const { return ((header_flags & flags) != 0) == set; }
};

constexpr std::array<KindRule, 9> kind_rules { {
    { .flags = tcp_flag::syn, .set = true, .kind = traffic::handshake, .always_observed = true },
    { .flags = tcp_flag::fin | tcp_flag::rst,
      .set = true,
      .direction = Direction::egress,
      .kind = traffic::egress_closing,
      .always_observed = true },
    { .flags = tcp_flag::fin | tcp_flag::rst,
      .set = true,
      .payload = true,
      .direction = Direction::ingress,
      .kind = traffic::ingress_data,
      .always_observed = true },
    { .flags = tcp_flag::fin | tcp_flag::rst,
      .set = true,
      .payload = false,
      .direction = Direction::ingress,
      .kind = traffic::ingress_ack,
      .always_observed = true },
    // RFC 9293 3.10.7.4: "if the ACK bit is off, drop the segment and return".
    { .flags = tcp_flag::ack, .kind = traffic::none },
    { .payload = false, .direction = Direction::egress, .kind = traffic::egress_pure_ack },
    { .payload = true, .direction = Direction::egress, .kind = traffic::egress_data },
    { .payload = true, .direction = Direction::ingress, .kind = traffic::ingress_data },
    { .payload = false, .direction = Direction::ingress, .kind = traffic::ingress_ack },
} };

constexpr const KindRule& kind_rule(Direction direction, std::uint16_t flags, bool payload)
{
  return *std::find_if(kind_rules.begin(), kind_rules.end(),
                       [&](const KindRule& rule) { return rule.concerns(direction, payload) && rule.fits(flags); });
}

// Whether the IP header is one that the kernel's rules and filters look behind: IPv4 without options, IPv6 with TCP as
// its first next header. No host of today sends other TCP unasked, and an exact look costs the rules too much.
// Fragments are no Segment (wire::ParseFault::fragment); rules and filters pass over them likewise.
constexpr bool plain_ip_header(const Segment& segment)
{
  return segment.ip_header_length <= (segment.key.local.v6 ? 40 : 20);
}

// The one traffic:: bit that the segment is of, or traffic::none.
constexpr std::uint32_t classify(const Segment& segment)
{
  if (!plain_ip_header(segment)) return traffic::none;
  return kind_rule(segment.direction, segment.flags, segment.payload_length > 0).kind;
}

// BPF reads one byte of flags: AE (RFC 9768) is not in it.
static_assert(std::all_of(kind_rules.begin(), kind_rules.end(),
                          [](const KindRule& rule) { return rule.flags < 0x100; }));

} // namespace tandem
