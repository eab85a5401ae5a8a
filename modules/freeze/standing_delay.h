// How much of the round trip stands in queues of the data: its least of the last tenth of a second or two, above its
// least of all, and no more than ForwardDelay knows of.
#pragma once

#include "modules/freeze/forward_delay.h"
#include "modules/freeze/least_lately.h"

#include <tandem/flow.h>
#include <tandem/units.h>

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace tandem::freeze
{

// By cellular ACKs take longer, or shorter, which is no queue either. What comes and goes is no standing queue (RFC
// 8289 4.1): over 802.11n an ACK waits for the air up to 30 ms while the access point sends aggregates, with nothing in
// a queue. A smoothed round trip counts that, its least does not.
class StandingDelay
{
public:
  // At an ACK of the local TCP.
  void look(const FlowView& flow, Tick now)
  {
    const std::uint32_t clock = clock_ms(now);
    if (flow.timestamps_ok) forward_.look(flow.ts_recent, clock);
    if (flow.rtt_latest <= Duration::zero()) return;
    if (const bool by_cell = flow.ts_reserved.what == TsReservation::What::odd; by_cell != by_cell_)
    {
      by_cell_ = by_cell;
      by_wifi_ = in_units(flow.rtt_min);
      // What the other way took is echoed for a round trip more.
      lately_.restart(clock + std::min(longest_wait, static_cast<std::uint32_t>(milliseconds(flow.rtt_smoothed))));
    }
    if (lately_.turn - clock - 1 < longest_wait) return; // it has not begun
    // A sample of the span before counts there.
    if (!lately_.turns(clock) && now - flow.rtt_at > std::chrono::milliseconds { clock - lately_.turn }) return;
    lately_.take(in_units(flow.rtt_latest));
  }

  // Seconds; 0 before the first sample.
  double delay(const FlowView& flow) const
  {
    const std::uint16_t least = lately_.least();
    if (least == lately_.none || (by_cell_ && !flow.cell_path_known)) return 0;
    const Duration all = by_cell_ ? by_wifi_ * unit + *flow.cell_path_known : flow.rtt_min;
    const double queued = std::max(0.0, seconds(least * unit - all));
    return std::min(queued, forward_.delay().value_or(queued));
  }

  // See ForwardDelay; `at`: the last progress.
  double pace(const FlowView& flow, Tick at) const { return forward_.pace(flow.ts_recent, clock_ms(at)); }

private:
  static constexpr std::uint32_t longest_wait = 10'000; // ms, for a round trip after the way of the ACKs has changed
  // 6.5 s at most: the state of a flow is small (tests/unit/state).
  static constexpr Duration unit = std::chrono::microseconds { 100 };

  static std::uint16_t in_units(Duration rtt)
  {
    return static_cast<std::uint16_t>(std::clamp<std::int64_t>(rtt / unit, 0, LeastLately<std::uint16_t>::none - 1));
  }

  ForwardDelay forward_ {};
  LeastLately<std::uint16_t> lately_ {}; // in units; its span may be one that is to begin
  std::uint16_t by_wifi_ = 0;            // the least of all before ACKs left by cellular
  bool by_cell_ = false;                 // they do, as odd TSvals tell (offload)
};

} // namespace tandem::freeze
