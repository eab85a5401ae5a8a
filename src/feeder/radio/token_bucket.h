// So many a second, and a burst at once. Pure.
#pragma once

#include <tandem/units.h>

#include <algorithm>

namespace tandem::feeder
{

class TokenBucket
{
public:
  TokenBucket(double per_second, double burst) : per_second_ { per_second }, burst_ { burst }, tokens_ { burst } {}

  // False when there is none: come again at next().
  bool take(Tick now)
  {
    tokens_ = std::min(burst_, tokens_ + seconds(now - at_) * per_second_);
    at_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }
  // When there is one, at the earliest, as of the latest take().
  Tick next() const { return at_ + from_seconds(std::max(0.0, 1 - tokens_) / per_second_); }

private:
  double per_second_;
  double burst_;
  double tokens_;
  Tick at_ {};
};

} // namespace tandem::feeder
