// Any bytes as a packet: parse, and hold what it says against the buffer.
// Input: one byte of choices (bit 0 direction, bit 1 observed_cut, bit 2 a GSO size), then the packet.
#include "src/wire/checksum.h"
#include "src/wire/parse.h"
#include "src/wire/text.h"
#include "tests/fuzz/check.h"

#include <cstddef>
#include <cstdint>
#include <span>

using namespace tandem;
using tandem::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  if (size == 0) return 0;
  const auto packet = std::as_bytes(std::span { data + 1, size - 1 });
  const auto direction = (data[0] & 1) != 0 ? Direction::ingress : Direction::egress;
  const bool cut = (data[0] & 2) != 0;
  const auto gso_size = static_cast<std::uint16_t>((data[0] & 4) != 0 ? 1448 : 0);
  const wire::Parsed parsed = wire::parse(packet, direction, cut, gso_size);
  const Segment& s = parsed.segment;
  check(static_cast<std::size_t>(parsed.fault) < wire::parse_fault_count, "a fault with a name");
  check(s.bytes.data() == packet.data() && s.bytes.size() <= packet.size(), "bytes inside the packet");
  check(s.sack_count <= s.sack_blocks.size(), "at most four SACK blocks");
  wire::hex_line(packet);
  if (!parsed.ok()) return 0;

  const std::size_t headers = std::size_t { s.ip_header_length } + s.tcp_header_length;
  check(headers <= s.bytes.size(), "headers inside the packet");
  check(s.timestamps_offset == 0 || s.timestamps_offset + 10u <= headers, "timestamps inside the header");
  check(s.timestamps.has_value() == s.has_option(option::timestamps), "timestamps value and bit agree");
  check(s.has_option(option::mptcp) == (s.mptcp_subtypes != 0), "MPTCP options and their subtypes agree");
  check((subtype_bit(s.mptcp) & ~s.mptcp_subtypes) == 0, "the first MPTCP option is one of them");
  check(!s.mptcp_data_fin || (s.mptcp_subtypes & subtype_bit(MptcpSubtype::dss)) != 0, "DATA_FIN is in a DSS");
  check(!s.window_scale || *s.window_scale <= 14, "window scale clamped");
  check(cut || headers + s.payload_length == s.bytes.size(), "lengths add up");
  check(s.gso_size == 0 || s.payload_length > s.gso_size, "a super-packet is more than one segment");
  wire::describe(s);
  wire::verify(s.bytes, s);

  // The other direction turns the key round and changes nothing else.
  const auto other = direction == Direction::egress ? Direction::ingress : Direction::egress;
  const Segment turned = wire::parse(packet, other, cut, gso_size).segment;
  check(turned.key.local == s.key.remote && turned.key.remote_port == s.key.local_port, "key oriented by direction");
  check(turned.options == s.options && turned.payload_length == s.payload_length, "direction changes the key only");
  return 0;
}
