#include "modules/rate/subflows.h"

namespace tandem::rate
{

void Subflow::account(const FlowView& flow, Tick now, Subflows& to)
{
  if (all == nullptr)
  {
    all = &to;
    is_wifi = role(flow.link) == LinkRole::wifi;
    is_denied = flow.cell_denied != CellDenied::no;
    all->on_wifi += is_wifi ? 1u : 0u;
    all->denied += is_denied ? 1u : 0u;
  }
  const std::uint64_t more = flow.bytes_delivered - counted;
  counted = flow.bytes_delivered;
  if (is_denied) return;
  if (is_wifi)
    all->wifi += more;
  else if (flow.link == Link::cell)
    all->cell += more;
  // Longer than the empty path by a quarter and by what jitter makes of one: a sender that fills the link.
  constexpr double queued = 1.25;
  constexpr Duration jitter = std::chrono::milliseconds { 5 };
  if (is_wifi && flow.rtt_min > Duration {}
      && seconds(flow.rtt_smoothed) > queued * seconds(flow.rtt_min) + seconds(jitter))
    all->queue_at = now;
}

} // namespace tandem::rate
