// How much of the round trip stands in queues of the data: its least of the last tenth of a second or two, above its
// least of all, and no more than ForwardDelay knows of.
#pragma once

#include "modules/freeze/forward_delay.h"

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
    const auto clock = static_cast<std::uint32_t>(now.time_since_epoch() / std::chrono::milliseconds { 1 });
    if (flow.timestamps_ok) forward_.look(flow.ts_recent, clock);
    if (flow.rtt_latest <= Duration::zero()) return;
    if (const bool by_cell = flow.ts_reserved.what == TsReservation::What::odd; by_cell != by_cell_)
    {
      by_cell_ = by_cell;
      by_wifi_ = in_units(flow.rtt_min);
      now_ = before_ = none;
      // What the other way took is echoed for a round trip more.
      turn_ = clock + std::min(longest_wait, static_cast<std::uint32_t>(milliseconds(flow.rtt_smoothed)));
    }
    if (turn_ - clock - 1 < longest_wait) return; // it has not begun
    const std::uint32_t lasted = clock - turn_;
    if (lasted >= span)
    {
      before_ = lasted < 2 * span ? now_ : none;
      now_ = none;
      turn_ = clock;
    }
    // A sample of the span before counts there.
    else if (now - flow.rtt_at > std::chrono::milliseconds { lasted })
      return;
    now_ = std::min(now_, in_units(flow.rtt_latest));
  }

  // Seconds; 0 before the first sample.
  double delay(const FlowView& flow) const
  {
    const std::uint16_t least = std::min(now_, before_);
    if (least == none || (by_cell_ && !flow.cell_path_known)) return 0;
    const Duration all = by_cell_ ? by_wifi_ * unit + *flow.cell_path_known : flow.rtt_min;
    const double queued = std::max(0.0, seconds(least * unit - all));
    return std::min(queued, forward_.delay().value_or(queued));
  }

private:
  // CoDel's interval (RFC 8289 4.2), the longest usual round trip: ms.
  static constexpr std::uint32_t span = 100;
  static constexpr std::uint32_t longest_wait = 10'000; // ms, for a round trip after the way of the ACKs has changed
  // 6.5 s at most: the state of a flow is small (tests/unit/state).
  static constexpr Duration unit = std::chrono::microseconds { 100 };
  static constexpr std::uint16_t none = 0xffff;

  static std::uint16_t in_units(Duration rtt)
  {
    return static_cast<std::uint16_t>(std::clamp<std::int64_t>(rtt / unit, 0, none - 1));
  }

  ForwardDelay forward_ {};
  std::uint16_t now_ = none, before_ = none; // the least of this span, and of the last
  std::uint16_t by_wifi_ = 0;                // the least of all before ACKs left by cellular
  bool by_cell_ = false;                     // they do, as odd TSvals tell (offload)
  std::uint32_t turn_ = 0;                   // when this span began or is to begin, ms
};

} // namespace tandem::freeze
