// Any packet with any edit: what was named is changed, the rest is not, and checksums that were right stay right.
// Input: 16 bytes of edit (choices, ECN, window, ack, TSval, TSecr), then the packet.
#include "src/wire/build.h"
#include "src/wire/bytes.h"
#include "src/wire/edit.h"
#include "src/wire/parse.h"
#include "tests/fuzz/check.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

using namespace tandem;
using tandem::fuzz::check;

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size)
{
  constexpr std::size_t head = 16;
  if (size < head) return 0;
  const auto choices = std::as_bytes(std::span { data, head });
  const std::uint8_t bits = data[0];
  Edit fields;
  if ((bits & 1) != 0) fields.ack = Seq { wire::load32(choices, 4) };
  if ((bits & 2) != 0) fields.window = wire::load16(choices, 2);
  if ((bits & 4) != 0) fields.ts_value = TsClock { wire::load32(choices, 8) };
  if ((bits & 8) != 0) fields.ts_echo = TsClock { wire::load32(choices, 12) };
  if ((bits & 16) != 0) fields.ecn = static_cast<Ecn>(data[1] & 3);
  const auto state = (bits & 32) != 0 ? wire::ChecksumState::complete : wire::ChecksumState::partial;
  const bool cut = (bits & 64) != 0;

  const auto input = std::as_bytes(std::span { data + head, size - head });
  std::vector<std::byte> packet(input.begin(), input.end());
  const wire::Parsed before = wire::parse(packet, Direction::egress, cut);
  if (!before.ok()) return 0;
  const Segment& old = before.segment;
  if ((bits & 128) != 0) wire::seal(packet, old);
  const std::vector<std::byte> original = packet;
  const bool was_right = wire::verify(packet, old);

  const wire::EditFault fault = wire::edit(packet, old, fields, state);
  if (fault != wire::EditFault::none || !fields.changes_bytes())
  {
    check(packet == original, "a refused or empty edit touches nothing");
    return 0;
  }
  check(!old.has_option(option::md5 | option::ao), "authenticated segments are refused");
  const wire::Parsed after = wire::parse(packet, Direction::egress, cut);
  check(after.ok(), "an edited segment parses");
  const Segment& now = after.segment;
  check(now.ack == fields.ack.value_or(old.ack), "ack");
  check(now.window == fields.window.value_or(old.window), "window");
  check(now.ecn == fields.ecn.value_or(old.ecn), "ecn");
  if (old.timestamps)
  {
    check(now.timestamps->value == fields.ts_value.value_or(old.timestamps->value), "TSval");
    check(now.timestamps->echo == fields.ts_echo.value_or(old.timestamps->echo), "TSecr");
  }
  check(now.key == old.key && now.seq == old.seq && now.flags == old.flags && now.options == old.options
            && now.payload_length == old.payload_length,
        "nothing else changed");
  const std::size_t headers = std::size_t { old.ip_header_length } + old.tcp_header_length;
  check(std::equal(packet.begin() + static_cast<std::ptrdiff_t>(headers), packet.end(),
                   original.begin() + static_cast<std::ptrdiff_t>(headers)),
        "payload untouched");
  if (was_right) check(wire::verify(packet, now), "right checksums stay right");
  return 0;
}
