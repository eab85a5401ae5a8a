#include "tools/sim/marking.h"

#include <algorithm>

namespace tandem::sim
{

double published_delta(Duration packet_time, Duration rtt, double cap)
{
  const double t = seconds(packet_time), r = seconds(rtt);
  if (t <= 0 || r <= 0) return 0;
  const double pole = r * (r - 50 * t);
  if (pole == 0) return cap;
  const double x = 50 * t * t / pole;
  return std::min(cap, x * x / 2);
}

PublishedMarking::PublishedMarking(World& world, const MarkingConfig& config, Laptop& laptop,
                                   std::vector<Entry> entries)
    : world_(world), config_(config), laptop_(laptop), entries_(std::move(entries)),
      timer_(world.loop, [this] { update(); })
{
  timer_.set(world.now() + config.period);
}

void PublishedMarking::update()
{
  Duration best = Duration::max();
  for (const Entry& entry : entries_)
    best = std::min(best, entry.packet_time());
  for (const Entry& entry : entries_)
  {
    const Duration own = entry.packet_time();
    const bool worse = seconds(own) >= config_.threshold * seconds(best);
    laptop_.set_ce_rate(entry.interface, worse ? published_delta(own, entry.rtt(), config_.cap) : 0);
  }
  timer_.set(world_.now() + config_.period);
}

} // namespace tandem::sim
