#include "src/wire/build.h"

#include "src/wire/bytes.h"
#include "src/wire/checksum.h"
#include "src/wire/edit.h"
#include "src/wire/layout.h"
#include "src/wire/parse.h"

#include <algorithm>

namespace tandem::wire
{
namespace
{

using Buffer = std::span<std::byte>;

std::size_t ip_header_length(bool v6)
{
  return v6 ? layout::ipv6_header : layout::ipv4_header;
}

void write_address(Buffer out, std::size_t at, const Address& address)
{
  const std::size_t size = address.v6 ? 16 : 4;
  std::transform(address.bytes.begin(), address.bytes.begin() + size, out.begin() + static_cast<std::ptrdiff_t>(at),
                 [](std::uint8_t b) { return std::byte { b }; });
}

struct IpFields
{
  Address source {};
  Address destination {};
  std::uint8_t protocol = 0;
  Ecn ecn = Ecn::not_ect;
  std::uint32_t ip_class = 0;
  std::uint8_t ttl = 64;
  std::uint16_t id = 0;
  std::size_t payload_length = 0;
};

// The IP header at the start of `out`, which has room for it. Returns its length, or 0 when the length field cannot
// hold the packet.
std::size_t write_ip(Buffer out, const IpFields& ip)
{
  const bool v6 = ip.source.v6;
  const std::size_t header = ip_header_length(v6);
  const std::size_t length_field = v6 ? ip.payload_length : header + ip.payload_length;
  if (length_field > 0xffff || ip.destination.v6 != v6) return 0;
  std::fill_n(out.begin(), header, std::byte { 0 });
  const auto ecn = static_cast<std::uint8_t>(ip.ecn);
  if (v6)
  {
    constexpr std::uint32_t version = 0x6000'0000;
    store32(out, 0, version | (ip.ip_class & layout::ip_class) | static_cast<std::uint32_t>(ecn) << 20);
    store16(out, layout::ipv6_payload_length, static_cast<std::uint16_t>(length_field));
    store8(out, layout::ipv6_next_header, ip.protocol);
    store8(out, layout::ipv6_hop_limit, ip.ttl);
    write_address(out, layout::ipv6_source, ip.source);
    write_address(out, layout::ipv6_destination, ip.destination);
    return header;
  }
  constexpr std::uint16_t dont_fragment = 0x4000;
  store8(out, 0, 0x45);
  store8(out, 1, static_cast<std::uint8_t>((ip.ip_class & layout::ip_class) >> 20 | ecn));
  store16(out, layout::ipv4_total_length, static_cast<std::uint16_t>(length_field));
  store16(out, layout::ipv4_id, ip.id);
  store16(out, layout::ipv4_fragment, dont_fragment);
  store8(out, layout::ipv4_ttl, ip.ttl);
  store8(out, layout::ipv4_protocol, ip.protocol);
  write_address(out, layout::ipv4_source, ip.source);
  write_address(out, layout::ipv4_destination, ip.destination);
  store16(out, layout::ipv4_checksum, checksum(out.first(header)));
  return header;
}

std::size_t options_length(const Headers& headers)
{
  std::size_t length = headers.timestamps ? 12 : 0;
  if (!headers.sacks.empty()) length += 4 + 8 * headers.sacks.size();
  return length;
}

void write_options(Buffer options, const Headers& headers)
{
  std::size_t at = 0;
  auto pad = [&]
  {
    store8(options, at++, layout::kind::nop);
    store8(options, at++, layout::kind::nop);
  };
  if (headers.timestamps)
  {
    pad();
    store8(options, at, layout::kind::timestamps);
    store8(options, at + 1, 10);
    store32(options, at + layout::timestamps_value, headers.timestamps->value.raw);
    store32(options, at + layout::timestamps_echo, headers.timestamps->echo.raw);
    at += 10;
  }
  if (!headers.sacks.empty())
  {
    pad();
    store8(options, at, layout::kind::sack);
    store8(options, at + 1, static_cast<std::uint8_t>(2 + 8 * headers.sacks.size()));
    at += 2;
    for (const SackBlock& block : headers.sacks)
    {
      store32(options, at, block.left.raw);
      store32(options, at + 4, block.right.raw);
      at += 8;
    }
  }
}

} // namespace

std::size_t build_segment(std::span<std::byte> out, const Headers& headers, std::span<const std::byte> payload)
{
  const FlowKey& key = headers.key;
  const bool leaving = headers.direction == Direction::egress;
  const std::size_t options = options_length(headers);
  const std::size_t ip_length = ip_header_length(key.local.v6);
  const std::size_t tcp_length = layout::tcp_header + options;
  const std::size_t total = ip_length + tcp_length + payload.size();
  if (options > layout::tcp_options_limit || out.size() < total) return 0;
  const IpFields ip { .source = leaving ? key.local : key.remote,
                      .destination = leaving ? key.remote : key.local,
                      .protocol = layout::protocol::tcp,
                      .ecn = headers.ecn,
                      .ip_class = headers.ip_class,
                      .ttl = headers.ttl,
                      .id = headers.id,
                      .payload_length = tcp_length + payload.size() };
  if (write_ip(out, ip) == 0) return 0;

  const Buffer tcp = out.subspan(ip_length, tcp_length + payload.size());
  store16(tcp, layout::tcp_source, leaving ? key.local_port : key.remote_port);
  store16(tcp, layout::tcp_destination, leaving ? key.remote_port : key.local_port);
  store32(tcp, layout::tcp_seq, headers.seq.raw);
  store32(tcp, layout::tcp_ack, (headers.flags & tcp_flag::ack) != 0 ? headers.ack.raw : 0);
  store16(tcp, layout::tcp_offset_flags, static_cast<std::uint16_t>((tcp_length / 4) << 12 | (headers.flags & 0x1ff)));
  store16(tcp, layout::tcp_window, headers.window);
  store32(tcp, layout::tcp_checksum, 0); // with the urgent pointer
  write_options(tcp.subspan(layout::tcp_header, options), headers);
  std::copy(payload.begin(), payload.end(), tcp.begin() + static_cast<std::ptrdiff_t>(tcp_length));
  const std::uint16_t pseudo =
      pseudo_header_sum(key.local, key.remote, layout::protocol::tcp, static_cast<std::uint32_t>(tcp.size()));
  store16(tcp, layout::tcp_checksum, checksum(tcp, pseudo));
  return total;
}

std::size_t build_ack(std::span<std::byte> out, const Headers& headers)
{
  Headers pure = headers;
  pure.flags =
      static_cast<std::uint16_t>((headers.flags | tcp_flag::ack) & ~(tcp_flag::syn | tcp_flag::fin | tcp_flag::rst));
  return build_segment(out, pure);
}

std::size_t build_unreachable(std::span<std::byte> out, const Unreachable& message)
{
  constexpr std::size_t icmp_header = 8;
  const bool v6 = message.key.local.v6;
  const std::size_t ip_length = ip_header_length(v6);
  const std::size_t quote_length = ip_length + layout::tcp_header;
  const std::size_t total = ip_length + icmp_header + quote_length;
  const Address router = message.router.value_or(message.key.local);
  const Address to = message.quoted == Direction::ingress ? message.key.remote : message.key.local;
  if (out.size() < total) return 0;
  const IpFields ip { .source = router,
                      .destination = to,
                      .protocol = v6 ? layout::protocol::icmpv6 : layout::protocol::icmp,
                      .ttl = message.ttl,
                      .payload_length = icmp_header + quote_length };
  if (write_ip(out, ip) == 0) return 0;
  const Buffer icmp = out.subspan(ip_length, icmp_header + quote_length);
  store8(icmp, 0, v6 ? 1 : 3);
  store8(icmp, 1, v6 ? 0 : 1);
  store16(icmp, 2, 0);
  store32(icmp, 4, 0);
  const Headers quoted { .key = message.key, .direction = message.quoted, .seq = message.seq, .ack = message.ack };
  if (build_segment(icmp.subspan(icmp_header), quoted) != quote_length) return 0;
  const std::uint16_t pseudo =
      v6 ? pseudo_header_sum(router, to, layout::protocol::icmpv6, static_cast<std::uint32_t>(icmp.size()))
         : std::uint16_t { 0 };
  store16(icmp, 2, checksum(icmp, pseudo));
  return total;
}

std::size_t build_fill(std::span<std::byte> out, const FlowKey& key, const InjectedSegment& request, const Fill& fill)
{
  if (request.kind != InjectedKind::fill || fill.bytes.size() != request.length || fill.bytes.empty()) return 0;
  return build_segment(out,
                       { .key = key,
                         .direction = Direction::ingress,
                         .seq = request.seq,
                         .ack = fill.ack,
                         .window = fill.window,
                         .timestamps = request.timestamps,
                         .ttl = 1 },
                       fill.bytes);
}

std::size_t build_again(std::span<std::byte> out, std::span<const std::byte> original,
                        const std::optional<Timestamps>& timestamps)
{
  if (out.size() < original.size()) return 0;
  std::copy(original.begin(), original.end(), out.begin());
  const Buffer packet = out.first(original.size());
  const Parsed parsed = parse(packet, Direction::egress, false, 0, static_cast<std::uint32_t>(original.size()));
  if (!parsed.ok()) return 0;
  Edit fields {};
  if (timestamps) fields.ts_value = timestamps->value;
  if (fields.ts_value && edit(packet, parsed.segment, fields, ChecksumState::partial) != EditFault::none) return 0;
  return seal(packet, parsed.segment) ? packet.size() : 0;
}

std::size_t build(std::span<std::byte> out, const FlowKey& key, const InjectedSegment& request, std::uint32_t ip_class)
{
  switch (request.kind)
  {
  case InjectedKind::ack:
  {
    const std::size_t held = std::min<std::size_t>(request.sack_count, request.sack_blocks.size());
    const std::size_t room = request.timestamps ? 3 : 4;
    return build_ack(out, { .key = key,
                            .seq = request.seq,
                            .ack = request.ack,
                            .flags = request.flags,
                            .window = request.window,
                            .timestamps = request.timestamps,
                            .sacks = std::span { request.sack_blocks }.first(std::min(held, room)),
                            .ip_class = ip_class });
  }
  case InjectedKind::host_unreachable:
    return build_unreachable(out, { .key = key, .seq = request.seq, .ack = request.ack });
  case InjectedKind::own_unreachable:
    return build_unreachable(out, { .key = key, .seq = request.seq, .quoted = Direction::egress });
  case InjectedKind::own_syn:
    return build_again(out, request.original, request.timestamps);
  case InjectedKind::fill:
    return 0; // has bytes of its own: build_fill
  }
  return 0;
}

} // namespace tandem::wire
