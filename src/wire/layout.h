// Field offsets and numbers of the IP, TCP and ICMP headers. Inner header of src/wire.
// Sources: RFC 791, RFC 8200, RFC 9293, RFC 792, RFC 4443 and the IANA TCP option registry.
#pragma once

#include <cstddef>
#include <cstdint>

namespace tandem::wire::layout
{

constexpr std::size_t ipv4_header = 20, ipv6_header = 40, tcp_header = 20, tcp_options_limit = 40;
constexpr std::uint32_t ip_class = 0x0fcf'ffff; // of an IPv6 header's first word: DSCP and flow label

constexpr std::size_t ipv4_total_length = 2, ipv4_id = 4, ipv4_fragment = 6, ipv4_ttl = 8, ipv4_protocol = 9,
                      ipv4_checksum = 10, ipv4_source = 12, ipv4_destination = 16;
constexpr std::size_t ipv6_payload_length = 4, ipv6_next_header = 6, ipv6_hop_limit = 7, ipv6_source = 8,
                      ipv6_destination = 24;
constexpr std::size_t tcp_source = 0, tcp_destination = 2, tcp_seq = 4, tcp_ack = 8, tcp_offset_flags = 12,
                      tcp_window = 14, tcp_checksum = 16;
// From the kind byte of a timestamps option (RFC 7323 3.2).
constexpr std::size_t timestamps_value = 2, timestamps_echo = 6;

namespace protocol
{
constexpr std::uint8_t hop_by_hop = 0, icmp = 1, tcp = 6, routing = 43, fragment = 44, icmpv6 = 58,
                       destination_options = 60;
}

namespace kind
{
constexpr std::uint8_t end = 0, nop = 1, mss = 2, window_scale = 3, sack_permitted = 4, sack = 5, timestamps = 8,
                       md5 = 19, user_timeout = 28, ao = 29, mptcp = 30, fast_open = 34, acc_ecn0 = 172, acc_ecn1 = 174,
                       experiment = 254;
}

} // namespace tandem::wire::layout
