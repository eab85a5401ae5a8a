// What modules share that withhold, rewrite or inject the pure ACKs of a download.
#pragma once

#include <tandem/flow.h>
#include <tandem/module.h>
#include <tandem/plan.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace tandem
{

// An ACK to inject by `by`: what the local TCP said last, as it said it.
inline InjectedSegment latest_ack(const FlowView& flow, Link by)
{
  InjectedSegment ack { .by = by, .seq = flow.snd_nxt, .ack = flow.rcv_nxt, .window = flow.last_window };
  if (flow.timestamps_ok) ack.timestamps = Timestamps { flow.last_ts_value, flow.ts_recent };
  return ack;
}

// Whether the server has not been told yet of something that the local TCP acknowledged.
constexpr bool withholds_ack(const FlowView& flow)
{
  return flow.sent_any && flow.rcv_nxt.after(flow.sent_ack);
}

// The window, unscaled, of an ACK that is meant for firewalls on the way of the data alone (docs/decisions/0042): so
// old that the server has it and ignores it, as a sender does who goes by the newest number (RFC 9293 3.10.7.4). Of a
// stack that is not known to be one it is the local TCP's.
constexpr std::uint16_t window_for_firewalls(const FlowView& flow)
{
  constexpr std::uint32_t most = 32u << 20; // bytes: seconds of any Wi-Fi
  const bool ignored = flow.sender.kind == SenderKind::loss_based || flow.sender.kind == SenderKind::rate_based;
  if (ignored) return static_cast<std::uint16_t>(std::min(0xffffu, most >> flow.local_window_scale));
  return flow.last_window;
}

// Whether that is too little for ACKs that leave by another link than the data comes by: what may be in flight by the
// time that firewalls hear of more. `begun`: they do leave by it. A sender in slow start will soon have more in flight.
constexpr bool firewalls_fall_behind(const FlowView& flow, bool begun)
{
  const std::uint64_t needed = std::uint64_t { flow.window_estimate } * (flow.slow_start && !begun ? 6 : 3) / 2;
  return flow.scaled(window_for_firewalls(flow)) < needed;
}

// A link that carries more than any Wi-Fi link of a laptop has nothing to gain from a module: its flows are let past
// the queue, and looked at again after this time. 802.11ax with two spatial streams at 160 MHz sends 2.4 Gb/s, of
// which less than 2 Gb/s are TCP payload.
constexpr double fastest_wifi = 2e9; // bits per second
constexpr Duration look_again = std::chrono::seconds { 5 };

constexpr bool faster_than_wifi(const LinkState& link)
{
  return link.delivery_rate * 8 > fastest_wifi;
}

constexpr bool faster_than_wifi(const FlowView& flow, const LinkStates& links)
{
  return flow.delivery_rate * 8 > fastest_wifi || faster_than_wifi(links[static_cast<std::size_t>(flow.link)]);
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
