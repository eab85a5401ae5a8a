#include "modules/freeze/recovery_undo.h"

#include <algorithm>

namespace tandem::freeze
{

namespace
{

using namespace std::chrono_literals;

// The episode of retransmissions after a blackout is waited for this long from link-up: a sender that is in its third
// round of them by then has long restored what it could.
constexpr Duration longest_watch = 10s;
// And without a hole for this long: later ones are not the blackout's.
constexpr Duration longest_wait = 1s;
constexpr int longest_wait_trips = 4;

} // namespace

Plan RecoveryUndo::acknowledged(const Segment& segment, bool progress, Duration since_up, Duration rtt)
{
  if (!watching) return {};
  if (since_up > longest_watch || (!episode && since_up > std::max(longest_wait, longest_wait_trips * rtt)))
  {
    watching = false;
    return {};
  }
  if (segment.has(tcp_flag::ece)) watching = false; // congestion was signalled: none of our business
  if (!watching || !segment.timestamps) return {};
  if (!progress && !edge_fixed)
    for (const SackBlock& block : segment.sacks())
    {
      if (!block.right.after(segment.ack)) continue; // a duplicate was reported (RFC 2883): no hole
      recovery_point = episode ? later(recovery_point, block.right) : block.right;
      episode = true;
    }
  if (!episode || !progress) return {};
  if (!edge_fixed)
  {
    // The head of the hole is filled: TS.Recent is now the TSval of the first retransmission (RFC 7323 4.3).
    edge_fixed = true;
    retransmission = segment.timestamps->echo;
  }
  if (!segment.ack.at_or_after(recovery_point)) return {};
  watching = false;
  return { .edit = { .ts_echo = retransmission - 1 }, .why = "freeze: undo at the recovery point" };
}

} // namespace tandem::freeze
