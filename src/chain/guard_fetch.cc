#include "src/chain/guard_fetch.h"

namespace tandem::chain
{
namespace
{

// Holes are what this host lacks before something that it has.
Violation check_hole(Seq from, Seq to, const FlowView& flow)
{
  if (flow.mptcp) return Violation::fetch_mptcp;
  if (!from.before(to) || from.before(flow.rcv_nxt) || to.after(flow.highest_held)) return Violation::fetch_range;
  return flow.content == Content::http ? Violation::none : Violation::content_unknown;
}

} // namespace

Violation check_fetches(std::span<const Fetch> fetches, const LinkStates& links, const FlowView& flow,
                        std::uint64_t& cost)
{
  if (fetches.size() > max_fetches) return Violation::too_many_fetches;
  for (const Fetch& fetch : fetches)
  {
    if (const Violation v = check_hole(fetch.from, fetch.to, flow); v != Violation::none) return v;
    if (!usable(Link::cell, links, flow)) return Violation::route_unusable;
    cost += fetch_cost(fetch.from, fetch.to);
  }
  return Violation::none;
}

// What the local TCP makes of a fill must be what it would have acknowledged anyway, had the byte not been lost: the
// ACK echoes nothing younger than the last one did, and no byte is filled that the server did not send.
Violation check_fill(const InjectedSegment& injected, const FlowView& flow)
{
  if (injected.length == 0 || injected.length > longest_fill) return Violation::fetch_range;
  if (const Violation v = check_hole(injected.seq, injected.seq + injected.length, flow); v != Violation::none)
    return v;
  if (injected.by != flow.link) return Violation::route_unusable;
  if (!injected.timestamps) return flow.timestamps_ok ? Violation::no_timestamps : Violation::none;
  if (!flow.timestamps_ok) return Violation::no_timestamps;
  if (injected.timestamps->value.after(flow.ts_recent)) return Violation::ts_value_raised;
  if (injected.timestamps->value.before(flow.ts_recent - 1)) return Violation::ts_value_stale;
  if (injected.timestamps->echo.raw != 0 && injected.timestamps->echo.after(flow.sent_ts_value))
    return Violation::ts_echo_raised;
  return Violation::none;
}

} // namespace tandem::chain
