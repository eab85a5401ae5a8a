#include "src/feeder/radio/sequence_log.h"

#include <algorithm>

namespace tandem::feeder
{

SequenceLog::Taken SequenceLog::restart(std::uint16_t number)
{
  seen_.reset();
  seen_.set(number % known);
  highest_ = number;
  open_ = static_cast<std::uint16_t>((number + 1) % range);
  started_ = true;
  return { .fresh = true };
}

SequenceLog::Taken SequenceLog::take(std::uint16_t number)
{
  if (!started_) return restart(number);
  const unsigned forward = (number - highest_ + range) % range;
  if (forward == 0) return {};
  if (const unsigned back = range - forward; back < known)
  {
    if (seen_.test(number % known)) return {};
    seen_.set(number % known);
    // Behind the first open number everything was decided.
    const bool decided = (highest_ + 1 - open_ + range) % range <= back;
    if (!decided) return { .fresh = true };
    if (back < few)
      ahead_ = std::max(ahead_, back + 1);
    else
      expect_disorder();
    return { .fresh = true, .lost = -1 };
  }
  // So many are missing that nobody knows what they were: the sender was away, or began anew.
  if (forward >= known) return restart(number);
  for (unsigned i = 1; i < forward; ++i)
    seen_.reset((highest_ + i) % known);
  seen_.set(number % known);
  highest_ = number;
  Taken taken { .fresh = true };
  while ((highest_ + 1 - open_ + range) % range > ahead_)
  {
    if (!seen_.test(open_ % known)) ++taken.lost;
    open_ = static_cast<std::uint16_t>((open_ + 1) % range);
  }
  return taken;
}

SequenceLog::Taken SequenceLog::take_near(std::uint16_t number)
{
  constexpr unsigned near = 64;
  if (!started_ || (number - highest_ + range) % range >= near) return {};
  return take(number);
}

} // namespace tandem::feeder
