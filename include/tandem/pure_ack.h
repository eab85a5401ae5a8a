// What modules share that withhold, rewrite or inject the pure ACKs of a download.
#pragma once

#include <tandem/flow.h>
#include <tandem/plan.h>

namespace tandem
{

// An ACK to inject by `by`: what the local TCP said last, as it said it.
inline Craft latest_ack(const FlowView& flow, Link by)
{
  Craft ack { .by = by, .seq = flow.next_seq, .ack = flow.highest_ack, .window = flow.last_window };
  if (flow.timestamps_ok) ack.timestamps = Timestamps { flow.last_ts_value, flow.last_ts_echo };
  return ack;
}

// Whether the server has not been told yet of something that the local TCP acknowledged.
constexpr bool withholds_ack(const FlowView& flow)
{
  return flow.sent_any && flow.highest_ack.after(flow.sent_ack);
}

// Whether an ACK says more than numbers, so that it can be neither repeated nor skipped: RFC 9768 counts in the flags
// of every ACK, with nothing to see while the count stands at zero, and what an unknown option ties to the ACK number
// nobody knows.
constexpr bool tied_to_its_flags(const Segment& segment, const FlowView& flow)
{
  constexpr std::uint16_t counted = tcp_flag::ae | tcp_flag::cwr | tcp_flag::urg;
  return flow.acc_ecn || segment.has(counted) || segment.has_option(option::unknown);
}

} // namespace tandem
