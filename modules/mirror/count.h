// Counts that stop at their largest value.
#pragma once

#include <limits>

namespace tandem::mirror
{

template <class Count>
void bump(Count& count)
{
  if (count < std::numeric_limits<Count>::max()) ++count;
}

} // namespace tandem::mirror
