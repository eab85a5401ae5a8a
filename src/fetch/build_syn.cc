#include "src/fetch/build_syn.h"

#include "src/wire/bytes.h"
#include "src/wire/layout.h"
#include "src/wire/parse.h"

#include <array>

namespace tandem::fetch
{

std::vector<std::byte> build_syn(wire::Headers headers, const SynOptions& options)
{
  namespace kind = wire::layout::kind;
  constexpr std::size_t options_size = 20;
  std::array<std::byte, options_size> written {};
  const std::span<std::byte> out { written };
  wire::store8(out, 0, kind::mss);
  wire::store8(out, 1, 4);
  wire::store16(out, 2, options.mss);
  wire::store8(out, 4, kind::sack_permitted);
  wire::store8(out, 5, 2);
  wire::store8(out, 6, kind::timestamps);
  wire::store8(out, 7, 10);
  wire::store32(out, 8, headers.timestamps ? headers.timestamps->value.raw : 0);
  wire::store32(out, 12, 0);
  wire::store8(out, 16, kind::nop);
  wire::store8(out, 17, kind::window_scale);
  wire::store8(out, 18, 3);
  wire::store8(out, 19, options.window_scale);

  // A segment with the options as its payload, whose header is then made to reach over them.
  headers.flags = tcp_flag::syn;
  headers.timestamps.reset();
  headers.sacks = {};
  std::vector<std::byte> packet(wire::longest_header + options_size);
  packet.resize(wire::build_segment(packet, headers, written));
  if (packet.empty()) return packet;
  const std::size_t ip = headers.key.local.v6 ? wire::layout::ipv6_header : wire::layout::ipv4_header;
  constexpr auto words = static_cast<std::uint16_t>((wire::layout::tcp_header + options_size) / 4);
  wire::store16(packet, ip + wire::layout::tcp_offset_flags, static_cast<std::uint16_t>(words << 12 | tcp_flag::syn));
  const wire::Parsed parsed = wire::parse(packet, Direction::egress);
  wire::seal(packet, parsed.segment);
  return packet;
}

} // namespace tandem::fetch
