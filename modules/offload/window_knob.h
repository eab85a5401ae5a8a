// The one knob that both strategies have.
#pragma once

#include <tandem/knobs.h>

namespace tandem::offload
{

constexpr double window_mss_default = 20; // Tsao and Sivakumar's ssthresh heuristic

constexpr Knob window_knob {
  .name = "window_mss",
  .unit = "MSS",
  .minimum = 1,
  .maximum = 10000,
  .help = "offload only while the sender's window is above this; below it an RTT counts for more than air time",
};

} // namespace tandem::offload
