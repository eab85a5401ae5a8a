#include "modules/ecn/delta.h"

#include <algorithm>

namespace tandem::ecn
{

double delta(Duration packet_time, Duration rtt, const DeltaSettings& settings)
{
  const double t = seconds(packet_time);
  const double r = seconds(rtt);
  if (!(t > 0) || !(r > 0)) return 0;
  const double queue = settings.buffer / 4 * t;
  if (r <= queue && settings.below_pole != BelowPole::formula)
    return settings.below_pole == BelowPole::cap ? settings.cap : 0;
  if (r == queue) return settings.cap;
  const double x = queue * t / (r * (r - queue));
  return std::min(settings.cap, x * x / 2);
}

} // namespace tandem::ecn
