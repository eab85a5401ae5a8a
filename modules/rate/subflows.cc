#include "modules/rate/subflows.h"

#include "modules/rate/bound.h"

namespace tandem::rate
{
namespace
{

// A subflow that has sent so much, and more than it got, uploads. What is less are requests.
constexpr std::uint64_t upload_from = 256 * 1024; // bytes
// By cellular an upload goes on that has begun by Wi-Fi: its first bytes there are owed, too.
constexpr Duration recently = std::chrono::seconds { 1 };

void add(Carried& to, std::uint64_t more, bool wifi, Link link)
{
  if (wifi)
    to.wifi += more;
  else if (link == Link::cell)
    to.cell += more;
}

} // namespace

bool Subflow::uploads(const FlowView& flow, Tick now) const
{
  const bool goes_on = all != nullptr && !is_wifi && now - all->upload_at < recently;
  return (goes_on || sent >= upload_from) && sent > flow.bytes_delivered;
}

void Subflow::pass_over(const FlowView& flow)
{
  counted = flow.bytes_delivered;
  una = flow.snd_una;
}

void Subflow::account(const FlowView& flow, Tick now, bool queue_up, Subflows& to)
{
  if (all == nullptr)
  {
    all = &to;
    pass_over(flow); // it may be older than the promise
    is_wifi = role(flow.link) == LinkRole::wifi;
    is_denied = cell_denial(flow) != CellDenied::no;
    all->on_wifi += is_wifi ? 1u : 0u;
    all->denied += is_denied ? 1u : 0u;
  }
  const std::uint64_t more = flow.bytes_delivered - counted;
  counted = flow.bytes_delivered;
  const bool seen = una.raw != 0;
  const std::uint64_t sent_more = seen && flow.snd_una.after(una) ? static_cast<std::uint64_t>(flow.snd_una - una) : 0;
  if (!seen || sent_more > 0) una = flow.snd_una;
  sent += sent_more;
  if (is_denied) return;
  add(all->down, more, is_wifi, flow.link);
  if (uploads(flow, now) && sent_more > 0)
  {
    add(all->up, is_wifi ? sent_more : sent - told_up, is_wifi, flow.link);
    told_up = sent;
    if (is_wifi)
      all->upload_at = now;
    else if (flow.link == Link::cell)
      all->by_cell.sends(sent_at, now);
  }
  if (is_wifi && queue_up) all->up.queue_at = now;
  // A sender that fills the link.
  if (is_wifi && has_queue(flow.rtt_smoothed, flow.rtt_min)) all->down.queue_at = now;
}

} // namespace tandem::rate
