// Reads mahimahi packet-delivery traces.
#pragma once

#include "tools/lab/medium/pipe.h"

#include <string>
#include <string_view>
#include <variant>

namespace tandem::medium
{

struct TraceFault
{
  int line = 0; // 1-based; 0 when the fault is not in one line
  std::string what;
};

// One whole number of milliseconds per line, not decreasing, the last above 0. Empty lines and lines that begin with
// '#' are skipped.
std::variant<Opportunities, TraceFault> parse_trace(std::string_view text);

} // namespace tandem::medium
