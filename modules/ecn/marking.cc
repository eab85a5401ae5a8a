#include "modules/ecn/marking.h"

#include <chrono>

namespace tandem::ecn
{

namespace
{

constexpr Duration markable_for = std::chrono::seconds { 2 }; // after the last ECN-capable packet

} // namespace

bool Marking::coupled(Link link, const Subflows& subflows) const
{
  const auto sender = static_cast<Sender>(static_cast<int>(knobs.sender));
  return sender == Sender::automatic ? subflows.all_version_0(link) : sender == Sender::coupled;
}

double Marking::rate(Link link, const View& view) const
{
  const Path& path = view.subflows.path(link);
  const auto& radio = view.links[at(link)].radio;
  if (!radio || !radio->packet_time || path.markable_at == Tick {} || view.now - path.markable_at > markable_for
      || !coupled(link, view.subflows) || !view.subflows.all_have_better(link, view.ranking, view.links))
    return 0;
  const bool smoothed = static_cast<RttChoice>(static_cast<int>(knobs.rtt)) == RttChoice::smoothed;
  return delta(view.times[wifi_number(link)].value_or(*radio->packet_time), smoothed ? path.smoothed : path.least_rtt(),
               { .below_pole = static_cast<BelowPole>(static_cast<int>(knobs.below_pole)) });
}

} // namespace tandem::ecn
