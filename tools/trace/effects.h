// What Tandem's decisions spared a flow, as far as one recording shows it: counts and times, no estimate of a rate.
#pragma once

#include "tools/trace/event.h"
#include "tools/trace/link_story.h"

#include <tandem/segment.h>

#include <cstdint>
#include <string>
#include <vector>

namespace tandem::trace_tool
{

struct Effects
{
  std::uint64_t by_cell = 0;       // of this laptop's packets, in place of the Wi-Fi
  std::uint64_t by_cell_bytes = 0; // of their IP packets
  std::uint64_t left_out = 0;      // ACKs that a later one stands for
  std::uint64_t losses_hidden = 0; // decisions of `mirror` to hide one
  bool froze = false;              // `freeze` sent or changed something
  std::vector<std::int64_t>
      resumed_ns {}; // how long after the Wi-Fi was back the first data came, each time it was away
};

// Takes note of one packet of the flow.
void note(const Event& event, Effects& effects);

// When the Wi-Fi came back, in the order of time.
std::vector<std::int64_t> wifi_returns(const std::vector<LinkMoment>& links);

// In sentences, one for each effect; empty when there is none.
std::vector<std::string> effects_in_words(const Effects& effects);

} // namespace tandem::trace_tool
