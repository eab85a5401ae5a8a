// Counts that stop at their largest value, and bytes as segments.
#pragma once

#include <tandem/flow.h>

#include <limits>

namespace tandem::mirror
{

template <class Count>
void bump(Count& count)
{
  if (count < std::numeric_limits<Count>::max()) ++count;
}

inline float segments(double bytes, const FlowView& flow)
{
  return static_cast<float>(bytes / flow.mss);
}

} // namespace tandem::mirror
