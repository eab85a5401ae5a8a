#include "src/wire/parse.h"

#include "src/wire/bytes.h"
#include "src/wire/layout.h"

#include <algorithm>

namespace tandem::wire
{
namespace
{

using Bytes = std::span<const std::byte>;
namespace kind = layout::kind;

// RFC 7323 2.3: a larger shift count is to be used as 14.
constexpr std::uint8_t largest_window_scale = 14;
// More extension headers than this serve no TCP; it also keeps every header offset within 16 bits.
constexpr std::size_t extension_limit = 1024;
// RFC 7413 appendix A: Fast Open before it had its own kind.
constexpr std::uint16_t fast_open_magic = 0xf989;

// What the IP header says.
struct Network
{
  Address source {};
  Address destination {};
  Ecn ecn = Ecn::not_ect;
  std::uint32_t ip_class = 0;
  std::size_t header_length = 0; // up to the TCP header
  std::uint64_t total_length = 0;
  std::uint8_t protocol = 0;
};

Address read_address(Bytes packet, std::size_t at, bool v6)
{
  Address address;
  address.v6 = v6;
  const auto from = packet.subspan(at, v6 ? 16 : 4);
  std::transform(from.begin(), from.end(), address.bytes.begin(),
                 [](std::byte b) { return std::to_integer<std::uint8_t>(b); });
  return address;
}

// A source route that is not used up holds the true destination, which the pseudo header needs (RFC 1122 4.2.3.8).
ParseFault check_ipv4_options(Bytes options)
{
  constexpr std::uint8_t end = 0, nop = 1, loose_route = 131, strict_route = 137;
  for (std::size_t at = 0; at < options.size();)
  {
    const std::uint8_t type = load8(options, at);
    if (type == end) break;
    if (type == nop)
    {
      ++at;
      continue;
    }
    if (at + 2 > options.size()) return ParseFault::ip_option;
    const std::size_t length = load8(options, at + 1);
    if (length < 2 || at + length > options.size()) return ParseFault::ip_option;
    if (type == loose_route || type == strict_route)
      if (length < 3 || load8(options, at + 2) <= length) return ParseFault::source_routed;
    at += length;
  }
  return ParseFault::none;
}

ParseFault read_ipv4(Bytes packet, std::uint32_t original_length, Network& network)
{
  if (packet.size() < layout::ipv4_header) return ParseFault::truncated_ip;
  network.header_length = std::size_t { 4 } * (load8(packet, 0) & 0x0f);
  if (network.header_length < layout::ipv4_header) return ParseFault::bad_ihl;
  if (packet.size() < network.header_length) return ParseFault::truncated_ip;
  network.ecn = static_cast<Ecn>(load8(packet, 1) & 0x03);
  network.ip_class = static_cast<std::uint32_t>(load8(packet, 1) << 20) & layout::ip_class;
  network.source = read_address(packet, layout::ipv4_source, false);
  network.destination = read_address(packet, layout::ipv4_destination, false);
  network.protocol = load8(packet, layout::ipv4_protocol);
  network.total_length = load16(packet, layout::ipv4_total_length);
  if (network.total_length == 0) network.total_length = original_length != 0 ? original_length : packet.size();
  if (network.total_length < network.header_length) return ParseFault::length_mismatch;
  constexpr std::uint16_t more_fragments = 0x2000, offset_mask = 0x1fff;
  if ((load16(packet, layout::ipv4_fragment) & (more_fragments | offset_mask)) != 0) return ParseFault::fragment;
  return check_ipv4_options(packet.subspan(layout::ipv4_header, network.header_length - layout::ipv4_header));
}

// Options of a hop-by-hop or destination options header (RFC 8200 4.2). Finds a jumbo length (RFC 2675) and a home
// address (RFC 6275).
ParseFault read_ipv6_options(Bytes options, std::uint32_t& jumbo_length)
{
  constexpr std::uint8_t pad1 = 0, jumbo = 0xc2, home_address = 0xc9;
  for (std::size_t at = 0; at < options.size();)
  {
    const std::uint8_t type = load8(options, at);
    if (type == pad1)
    {
      ++at;
      continue;
    }
    if (at + 2 > options.size()) return ParseFault::extension_overrun;
    const std::size_t length = load8(options, at + 1);
    if (at + 2 + length > options.size()) return ParseFault::extension_overrun;
    if (type == home_address) return ParseFault::source_routed;
    if (type == jumbo && length == 4) jumbo_length = load32(options, at + 2);
    at += 2 + length;
  }
  return ParseFault::none;
}

ParseFault read_ipv6(Bytes packet, std::uint32_t original_length, Network& network)
{
  if (packet.size() < layout::ipv6_header) return ParseFault::truncated_ip;
  network.ecn = static_cast<Ecn>(load8(packet, 1) >> 4 & 0x03);
  network.ip_class = load32(packet, 0) & layout::ip_class;
  network.source = read_address(packet, layout::ipv6_source, true);
  network.destination = read_address(packet, layout::ipv6_destination, true);
  const std::uint16_t payload_length = load16(packet, layout::ipv6_payload_length);
  network.total_length = layout::ipv6_header + payload_length;
  if (payload_length == 0) network.total_length = original_length != 0 ? original_length : packet.size();

  std::uint8_t next = load8(packet, layout::ipv6_next_header);
  std::size_t at = layout::ipv6_header;
  std::uint32_t jumbo_length = 0;
  while (next == layout::protocol::hop_by_hop || next == layout::protocol::routing
         || next == layout::protocol::destination_options || next == layout::protocol::fragment)
  {
    if (next == layout::protocol::fragment) return ParseFault::fragment;
    if (at + 8 > packet.size()) return ParseFault::extension_overrun;
    const std::size_t length = 8 + std::size_t { 8 } * load8(packet, at + 1);
    if (at + length > packet.size() || at + length > extension_limit) return ParseFault::extension_overrun;
    if (next == layout::protocol::hop_by_hop && at != layout::ipv6_header) return ParseFault::extension_order;
    if (next == layout::protocol::routing)
    {
      // Segments left: the final destination is inside the routing header (RFC 8200 8.1).
      if (load8(packet, at + 3) != 0) return ParseFault::source_routed;
    }
    else if (const ParseFault fault = read_ipv6_options(packet.subspan(at + 2, length - 2), jumbo_length);
             fault != ParseFault::none)
      return fault;
    next = load8(packet, at);
    at += length;
  }
  if (jumbo_length != 0)
  {
    if (payload_length != 0) return ParseFault::length_mismatch;
    network.total_length = layout::ipv6_header + std::uint64_t { jumbo_length };
  }
  network.protocol = next;
  network.header_length = at;
  if (network.total_length < network.header_length) return ParseFault::length_mismatch;
  return ParseFault::none;
}

// An option that comes twice has no defined meaning; only MPTCP may (RFC 8684 3).
void mark(Segment& segment, std::uint32_t bit)
{
  if ((segment.options & bit) != 0 && bit != option::mptcp) segment.options |= option::unknown;
  segment.options |= bit;
}

void read_mptcp(Bytes body, Segment& segment)
{
  // A DSS without any field has 4 bytes; the shortest of all, MP_PRIO, 3.
  if (body.size() < 3)
  {
    segment.options |= option::unknown;
    return;
  }
  const std::uint8_t subtype = load8(body, 2) >> 4;
  mark(segment, option::mptcp);
  segment.mptcp_subtypes |= static_cast<std::uint16_t>(1u << subtype);
  if (subtype > static_cast<std::uint8_t>(MptcpSubtype::mp_tcprst)) segment.options |= option::unknown;
  if (segment.mptcp == MptcpSubtype::none) segment.mptcp = static_cast<MptcpSubtype>(subtype);
  // RFC 8684 figure 5: the SYN of an MP_JOIN carries the receiver's token; the SYN/ACK and the ACK do not.
  const bool syn = segment.has(tcp_flag::syn);
  const bool first_syn = syn && !segment.has(tcp_flag::ack);
  const auto low = static_cast<std::uint8_t>(load8(body, 2) & 0xf);
  switch (static_cast<MptcpSubtype>(subtype))
  {
  case MptcpSubtype::mp_capable:
    // Figure 4: without a key in the first SYN (RFC 6824 has one there), the sender's key in the SYN/ACK, both after.
    segment.mptcp_version = low;
    if (body.size() >= 12) segment.mptcp_key = std::uint64_t { load32(body, 4) } << 32 | load32(body, 8);
    return;
  case MptcpSubtype::mp_join:
    if (!syn || body.size() < 12) return;
    segment.mptcp_backup = (low & 1) != 0;
    segment.mptcp_address_id = load8(body, 3);
    if (first_syn && body.size() == 12) segment.mptcp_token = load32(body, 4);
    return;
  case MptcpSubtype::dss:
  {
    // Figure 9: the flags are in the fourth byte.
    constexpr std::uint8_t data_fin = 0x10;
    if (body.size() < 4)
      segment.options |= option::unknown;
    else if ((load8(body, 3) & data_fin) != 0)
      segment.mptcp_data_fin = true;
    return;
  }
  case MptcpSubtype::mp_prio:
    // Figure 11; with the address id of another subflow in RFC 6824.
    segment.mptcp_prio = true;
    segment.mptcp_backup = (low & 1) != 0;
    if (body.size() == 4) segment.mptcp_prio_of = load8(body, 3);
    return;
  default:
    return;
  }
}

// One option, `body` from its kind byte on and of exactly its length. `at` is the option's place in the packet.
void read_option(Bytes body, std::size_t at, Segment& segment)
{
  const std::size_t length = body.size();
  const bool syn = segment.has(tcp_flag::syn);
  switch (load8(body, 0))
  {
  case kind::mss:
    if (length != 4 || !syn) break;
    mark(segment, option::mss);
    segment.mss = load16(body, 2);
    return;
  case kind::window_scale:
    if (length != 3 || !syn) break;
    mark(segment, option::window_scale);
    segment.window_scale = std::min(load8(body, 2), largest_window_scale);
    return;
  case kind::sack_permitted:
    if (length != 2 || !syn) break;
    mark(segment, option::sack_permitted);
    return;
  case kind::sack:
    if (length < 10 || length > 34 || (length - 2) % 8 != 0 || segment.has_option(option::sack)) break;
    mark(segment, option::sack);
    for (std::size_t block = 2; block < length; block += 8)
      segment.sack_blocks[segment.sack_count++] = { Seq { load32(body, block) }, Seq { load32(body, block + 4) } };
    return;
  case kind::timestamps:
    if (length != 10 || segment.has_option(option::timestamps)) break;
    mark(segment, option::timestamps);
    segment.timestamps = Timestamps { TsClock { load32(body, layout::timestamps_value) },
                                      TsClock { load32(body, layout::timestamps_echo) } };
    segment.timestamps_offset = static_cast<std::uint16_t>(at);
    return;
  case kind::mptcp:
    read_mptcp(body, segment);
    return;
  case kind::md5:
    // Recognised whatever its length: it is the sign not to touch the packet.
    mark(segment, option::md5);
    if (length != 18) break;
    return;
  case kind::ao:
    mark(segment, option::ao);
    if (length < 4) break;
    return;
  case kind::fast_open:
    if (length != 2 && (length < 6 || length > 18 || length % 2 != 0)) break;
    mark(segment, option::fast_open);
    return;
  case kind::experiment:
    if (length < 4 || load16(body, 2) != fast_open_magic) break;
    mark(segment, option::fast_open);
    return;
  case kind::user_timeout:
    if (length != 4) break;
    mark(segment, option::user_timeout);
    return;
  case kind::acc_ecn0:
  case kind::acc_ecn1:
    if (length != 2 && length != 5 && length != 8 && length != 11) break;
    mark(segment, option::acc_ecn);
    return;
  default:
    break;
  }
  segment.options |= option::unknown;
}

void note_order(std::uint8_t type, Segment& segment)
{
  constexpr std::uint32_t full = 0xf0000000;
  if (segment.has(tcp_flag::syn) && (segment.option_order & full) == 0)
    segment.option_order = segment.option_order << 4 | std::min<std::uint8_t>(type, 15);
}

ParseFault read_options(Bytes packet, std::size_t begin, std::size_t end, Segment& segment)
{
  for (std::size_t at = begin; at < end;)
  {
    const std::uint8_t type = load8(packet, at);
    if (type == kind::end) break;
    note_order(type, segment);
    if (type == kind::nop)
    {
      ++at;
      continue;
    }
    if (at + 2 > end) return ParseFault::options_overrun;
    const std::size_t length = load8(packet, at + 1);
    if (length < 2) return ParseFault::option_length;
    if (at + length > end) return ParseFault::options_overrun;
    read_option(packet.subspan(at, length), at, segment);
    at += length;
  }
  return ParseFault::none;
}

FlowKey orient(Bytes tcp, const Network& network, Direction direction)
{
  const std::uint16_t from = load16(tcp, layout::tcp_source);
  const std::uint16_t to = load16(tcp, layout::tcp_destination);
  if (direction == Direction::egress)
    return { .local = network.source, .remote = network.destination, .local_port = from, .remote_port = to };
  return { .local = network.destination, .remote = network.source, .local_port = to, .remote_port = from };
}

ParseFault read_tcp(Bytes packet, const Network& network, std::uint16_t gso_size, Segment& segment)
{
  const Bytes tcp = packet.subspan(network.header_length);
  const std::uint64_t tcp_length = network.total_length - network.header_length;
  if (tcp_length < layout::tcp_header) return ParseFault::length_mismatch;
  if (tcp.size() < layout::tcp_header) return ParseFault::truncated_tcp;
  const std::uint16_t offset_flags = load16(tcp, layout::tcp_offset_flags);
  const std::size_t header_length = std::size_t { 4 } * (offset_flags >> 12);
  if (header_length < layout::tcp_header || header_length > tcp_length) return ParseFault::bad_data_offset;
  if (header_length > tcp.size()) return ParseFault::truncated_tcp;

  segment.key = orient(tcp, network, segment.direction);
  segment.seq = { load32(tcp, layout::tcp_seq) };
  segment.ack = { load32(tcp, layout::tcp_ack) };
  segment.flags = offset_flags & 0x1ff;
  segment.window = load16(tcp, layout::tcp_window);
  segment.payload_length = static_cast<std::uint32_t>(tcp_length - header_length);
  segment.gso_size = segment.payload_length > gso_size ? gso_size : std::uint16_t { 0 };
  segment.ecn = network.ecn;
  segment.ip_class = network.ip_class;
  segment.ip_header_length = static_cast<std::uint16_t>(network.header_length);
  segment.tcp_header_length = static_cast<std::uint16_t>(header_length);
  return read_options(packet, network.header_length + layout::tcp_header, network.header_length + header_length,
                      segment);
}

ParseFault read(Bytes packet, bool observed_cut, std::uint16_t gso_size, std::uint32_t original_length,
                Segment& segment)
{
  if (packet.empty()) return ParseFault::empty;
  const unsigned version = load8(packet, 0) >> 4;
  if (version != 4 && version != 6) return ParseFault::bad_version;
  Network network;
  const ParseFault fault =
      version == 4 ? read_ipv4(packet, original_length, network) : read_ipv6(packet, original_length, network);
  if (fault != ParseFault::none) return fault;
  if (network.protocol != layout::protocol::tcp) return ParseFault::not_tcp;
  if (!observed_cut && packet.size() < network.total_length) return ParseFault::truncated_ip;
  if (packet.size() > network.total_length) packet = packet.first(static_cast<std::size_t>(network.total_length));
  segment.bytes = packet;
  return read_tcp(packet, network, gso_size, segment);
}

} // namespace

Parsed parse(std::span<const std::byte> packet, Direction direction, bool observed_cut, std::uint16_t gso_size,
             std::uint32_t original_length)
{
  Parsed parsed;
  parsed.segment.direction = direction;
  parsed.segment.bytes = packet;
  parsed.fault = read(packet, observed_cut, gso_size, original_length, parsed.segment);
  return parsed;
}

} // namespace tandem::wire
