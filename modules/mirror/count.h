// Counts that stop at their largest value, and bytes as segments.
#pragma once

#include <tandem/flow.h>

#include <algorithm>
#include <limits>

namespace tandem::mirror
{

template <class Count>
void bump(Count& count)
{
  if (count < std::numeric_limits<Count>::max()) ++count;
}

// A server may say that its segments hold nothing (an MSS option of 0).
inline float segments(double bytes, const FlowView& flow)
{
  return static_cast<float>(bytes / std::max<int>(flow.mss, 1));
}

} // namespace tandem::mirror
