#include "modules/ecn/published.h"

namespace tandem::ecn
{

Tick Published::treat(const View& view, Treatments& wanted)
{
  const auto order = view.ranking.order();
  for (std::size_t i = view.ranking.good(); i < order.size(); ++i)
    wanted[at(wifi_link(order[i]))].ce_rate = marking_.rate(wifi_link(order[i]), view);
  return view.now + look_every;
}

std::string_view Published::why(const View& view) const
{
  return view.worse() == 0 ? "ecn: all access points are good" : "ecn: marked as published";
}

} // namespace tandem::ecn
