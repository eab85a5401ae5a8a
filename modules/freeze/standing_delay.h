// How much of the round trip stands in queues: its least of the last tenth of a second or two, above its least of all.
#pragma once

#include <tandem/flow.h>
#include <tandem/units.h>

#include <algorithm>
#include <chrono>

namespace tandem::freeze
{

// What comes and goes is no standing queue (RFC 8289 4.1): over 802.11n an ACK waits for the air up to 30 ms while the
// access point sends aggregates, with nothing in a queue. A smoothed round trip counts that, its least does not.
class StandingDelay
{
public:
  // At any event of the flow.
  void look(const FlowView& flow, Tick now)
  {
    if (flow.rtt_at == taken_ || flow.rtt_latest <= Duration::zero()) return;
    taken_ = flow.rtt_at;
    if (now - turn_ >= span)
    {
      before_ = now - turn_ < 2 * span ? now_ : Duration::max();
      now_ = Duration::max();
      turn_ = now;
    }
    now_ = std::min(now_, flow.rtt_latest);
  }

  // Seconds; 0 before the first sample.
  double delay(const FlowView& flow) const
  {
    const Duration least = std::min(now_, before_);
    return least == Duration::max() ? 0 : std::max(0.0, seconds(least - flow.rtt_min));
  }

private:
  // CoDel's interval (RFC 8289 4.2): the longest usual round trip.
  static constexpr Duration span = std::chrono::milliseconds { 100 };

  Duration now_ = Duration::max(), before_ = Duration::max();
  Tick turn_ {};
  Tick taken_ {};
};

} // namespace tandem::freeze
