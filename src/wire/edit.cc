#include "src/wire/edit.h"

#include "src/wire/bytes.h"
#include "src/wire/layout.h"

namespace tandem::wire
{
namespace
{

EditFault permit(std::span<const std::byte> packet, const Segment& segment, const Edit& fields)
{
  if (segment.has_option(option::md5 | option::ao)) return EditFault::authenticated;
  const std::size_t length =
      std::size_t { segment.ip_header_length } + segment.tcp_header_length + segment.payload_length;
  if (segment.ip_header_length < layout::ipv4_header || segment.tcp_header_length < layout::tcp_header
      || packet.size() < length)
    return EditFault::not_whole;
  if (fields.ack && !segment.has(tcp_flag::ack)) return EditFault::no_ack;
  if ((fields.ts_value || fields.ts_echo) && segment.timestamps_offset == 0) return EditFault::no_timestamps;
  return EditFault::none;
}

void write_ecn(std::span<std::byte> packet, bool v6, Ecn ecn)
{
  const auto bits = static_cast<std::uint8_t>(ecn);
  if (v6)
  {
    store8(packet, 1, static_cast<std::uint8_t>((load8(packet, 1) & ~0x30) | bits << 4));
    return;
  }
  const std::uint16_t before = load16(packet, 0);
  store8(packet, 1, static_cast<std::uint8_t>((load8(packet, 1) & ~0x03) | bits));
  const std::uint16_t check = load16(packet, layout::ipv4_checksum);
  store16(packet, layout::ipv4_checksum, update16(check, before, load16(packet, 0)));
}

// Keeps the checksum of a TCP header in step with single fields.
class Header
{
public:
  explicit Header(std::span<std::byte> tcp) : tcp_ { tcp } {}

  void write16(std::size_t at, std::uint16_t value)
  {
    const auto window = aligned(at, 2);
    const std::uint16_t before = sum(window);
    store16(tcp_, at, value);
    follow(before, window);
  }

  void write32(std::size_t at, std::uint32_t value)
  {
    const auto window = aligned(at, 4);
    const std::uint16_t before = sum(window);
    store32(tcp_, at, value);
    follow(before, window);
  }

private:
  // The 16-bit words around a field: an option may start at an odd offset. The header is a multiple of 4 bytes, so they
  // exist.
  std::span<const std::byte> aligned(std::size_t at, std::size_t size) const
  {
    const std::size_t begin = at & ~std::size_t { 1 };
    const std::size_t end = (at + size + 1) & ~std::size_t { 1 };
    return tcp_.subspan(begin, end - begin);
  }

  void follow(std::uint16_t before, std::span<const std::byte> window)
  {
    const std::uint16_t check = load16(tcp_, layout::tcp_checksum);
    store16(tcp_, layout::tcp_checksum, update16(check, before, sum(window)));
  }

  std::span<std::byte> tcp_;
};

} // namespace

EditFault edit(std::span<std::byte> packet, const Segment& segment, const Edit& fields, ChecksumState state)
{
  if (const EditFault fault = permit(packet, segment, fields); fault != EditFault::none) return fault;
  if (fields.ecn) write_ecn(packet, segment.key.local.v6, *fields.ecn);

  Header header { packet.subspan(segment.ip_header_length, segment.tcp_header_length) };
  if (fields.ack) header.write32(layout::tcp_ack, fields.ack->raw);
  if (fields.window) header.write16(layout::tcp_window, *fields.window);
  const std::size_t timestamps = std::size_t { segment.timestamps_offset } - segment.ip_header_length;
  if (fields.ts_value) header.write32(timestamps + layout::timestamps_value, fields.ts_value->raw);
  if (fields.ts_echo) header.write32(timestamps + layout::timestamps_echo, fields.ts_echo->raw);

  // Only when something changed: a segment with nothing to edit stays byte for byte what it was.
  if (state == ChecksumState::partial && fields.changes_bytes())
    store16(packet, segment.ip_header_length + layout::tcp_checksum, tcp_checksum(packet, segment));
  return EditFault::none;
}

} // namespace tandem::wire
