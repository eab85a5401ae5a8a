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

  // False when there is none: come again later.
  bool take(Tick now)
  {
    tokens_ = std::min(burst_, tokens_ + seconds(now - at_) * per_second_);
    at_ = now;
    if (tokens_ < 1) return false;
    tokens_ -= 1;
    return true;
  }

private:
  double per_second_;
  double burst_;
  double tokens_;
  Tick at_ {};
};

} // namespace tandem::feeder
