// Changes single fields of a segment in place, with its checksums.
#pragma once

#include "src/wire/checksum.h"

#include <tandem/plan.h>
#include <tandem/segment.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tandem::wire
{

// Why a segment was left as it is.
enum class EditFault : std::uint8_t
{
  none,
  authenticated, // TCP-MD5 or TCP-AO: any change would make the peer drop it
  not_whole,     // the buffer does not hold the whole segment, so it cannot be sent on
  no_ack,        // an acknowledgement number for a segment without ACK
  no_timestamps, // TSval or TSecr for a segment without the option
};

constexpr std::size_t edit_fault_count = static_cast<std::size_t>(EditFault::no_timestamps) + 1;

constexpr std::array<std::string_view, edit_fault_count> edit_fault_names { "none", "authenticated", "not_whole",
                                                                            "no_ack", "no_timestamps" };

constexpr std::string_view name(EditFault fault)
{
  const auto index = static_cast<std::size_t>(fault);
  return index < edit_fault_count ? edit_fault_names[index] : "?";
}

// Writes the fields that `fields` names (Edit::route is not in the bytes and is ignored) and nothing else. All or
// nothing: with a fault the packet is unchanged. `segment` is the parse of these very bytes, or of the original that
// `packet` is a copy of.
//
// `state` says what the TCP checksum field holds. partial: the whole checksum is computed anew. complete: it is updated
// by the difference (RFC 1624), so a segment that was damaged on the way stays recognisable as such; an arriving
// segment whose checksum nobody has verified must be edited this way.
EditFault edit(std::span<std::byte> packet, const Segment& segment, const Edit& fields, ChecksumState state);

} // namespace tandem::wire
