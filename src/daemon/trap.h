// A trap: a threshold on a flow or link, as a user writes it, at which the recording is kept.
#pragma once

#include <tandem/units.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>

namespace tandem::daemon
{

enum class TrapOn : std::uint8_t
{
  flow_gap,     // seconds since anything of a flow was seen that was downloading just before
  flow_rtt,     // smoothed, seconds
  flow_goodput, // over the last second of a flow that is downloading, bit/s
  link_signal,  // of the Wi-Fi, dBm
  link_silence, // as flow_gap, of all flows of the Wi-Fi together
  link_down,    // seconds since the Wi-Fi went down
};

struct Trap
{
  TrapOn on = TrapOn::flow_gap;
  bool above = true;
  double threshold = 0; // in the unit of `on`

  bool caught(double value) const { return above ? value > threshold : value < threshold; }
  // "flow.gap > 500 ms".
  std::string text() const;
  // A value of this quantity with its unit.
  std::string value_text(double value) const;
};

// Reads "flow.gap > 500ms", "flow.goodput < 2Mbit", "link.signal < -75dBm"; blanks do not matter. Else a sentence that
// says at which character which part is wrong, and what is needed there.
std::variant<Trap, std::string> parse_trap(std::string_view text);

} // namespace tandem::daemon
