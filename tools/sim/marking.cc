#include "tools/sim/marking.h"

#include "modules/ecn/delta.h"

#include <algorithm>

namespace tandem::sim
{

double published_delta(Duration packet_time, Duration rtt, double cap)
{
  return ecn::delta(packet_time, rtt, { .cap = cap, .below_pole = ecn::BelowPole::formula });
}

PublishedMarking::PublishedMarking(World& world, const MarkingConfig& config, ClientHost& client,
                                   std::vector<Entry> entries)
    : world_(world), config_(config), client_(client), entries_(std::move(entries)),
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
    client_.set_ce_rate(entry.interface, worse ? published_delta(own, entry.rtt(), config_.cap) : 0);
  }
  timer_.set(world_.now() + config_.period);
}

} // namespace tandem::sim
