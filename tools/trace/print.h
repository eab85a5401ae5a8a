// `tandem trace print`: one line for each packet.
#pragma once

#include "src/trace/recorder.h"

#include <tandem/link.h>

#include <cstdint>
#include <filesystem>
#include <iosfwd>
#include <optional>
#include <string>

namespace tandem::trace_tool
{

struct PrintOptions
{
  std::filesystem::path file {};
  bool json = false;                                // one JSON object a line
  bool bytes = false;                               // JSON: also what was recorded of the IP packet, in hexadecimal
  std::optional<trace::Disposition> disposition {}; // only packets of this disposition
  std::optional<Link> link {};                      // only packets that came or left by this link
  std::optional<std::uint16_t> port {};             // only segments with this port at either end
  std::string why {};                               // only packets whose reason contains this
  std::uint64_t flow = 0;  // only packets of this flow, as explain and replay number them; 0: all
  std::uint64_t limit = 0; // stop after so many; 0: all
};

// Lines: seconds since the first packet of the file, link, direction, disposition, segment, "=> " what an edit changed,
// "| " why. JSON also tells the numbers of a segment, its flow, and which way it went as far as that is known or
// follows from the handshake. A packet that is no segment shows its fault and its bytes. Throws trace::BadFile; the
// lines before the fault are written by then.
void print(const PrintOptions& options, std::ostream& out);

} // namespace tandem::trace_tool
