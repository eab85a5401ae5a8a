// Finds the stalls of one flow and their causes.
#pragma once

#include "tools/trace/stall.h"

#include <cstdint>
#include <vector>

namespace tandem::trace_tool
{

// Fills in what arrived, and flow.story.stalls. `arrivals`: times of all arriving packets of the recording, ascending.
void find_stalls(StalledFlow& flow, const std::vector<std::int64_t>& arrivals, std::int64_t shortest_ns);

} // namespace tandem::trace_tool
