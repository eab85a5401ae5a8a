// The packet comment: how disposition, part and reason are written for a reader of the trace, and found again.
#pragma once

#include "src/trace/recorder.h"

#include <optional>
#include <string>
#include <string_view>

namespace tandem::trace
{

// An edited packet is told as two packets.
enum class Part : std::uint8_t
{
  whole,  // any other packet
  before, // as it came
  after,  // as it was sent on
};

struct Comment
{
  Disposition disposition = Disposition::passed;
  Part part = Part::whole;
  std::string why {};

  bool operator==(const Comment&) const = default;
};

// "passed", "dropped: offload: thinned", "edited, before: mirror: undo at recovery point".
std::string to_text(const Comment& comment);

// Empty when the text is none that to_text writes: a recording of another program.
std::optional<Comment> from_text(std::string_view text);

} // namespace tandem::trace
