#include "modules/offload/path_delay.h"

#include <chrono>
#include <cmath>

namespace tandem::offload
{

using namespace std::chrono_literals;

// RFC 7323 leaves the clock open; delays can be read only where both tick in milliseconds, as Linux does.
void PathDelay::compare_clocks(TsClock local, TsClock remote, Tick now)
{
  const Duration span = now - first_at_;
  if (clocks_agree_ || span <= 200ms) return;
  const double ms = milliseconds(span);
  const auto agrees = [&](TsClock a, TsClock b) { return std::abs(static_cast<double>(b - a) / ms - 1) < 0.25; };
  clocks_agree_ = agrees(first_local_, local) && agrees(first_remote_, remote);
  first_local_ = local;
  first_remote_ = remote;
  first_at_ = now;
}

std::optional<std::int32_t> PathDelay::hear(const Segment& segment, const FlowView& flow, Tick now)
{
  const TsClock local = flow.last_ts_value;
  const TsClock remote = segment.timestamps->value;
  const TsClock echo = segment.timestamps->echo;
  if (!first_known_)
  {
    first_local_ = local;
    first_remote_ = remote;
    first_at_ = now;
    first_known_ = true;
    last_echo_ = echo;
    return {};
  }
  compare_clocks(local, remote, now);
  if (!clocks_agree_ || !echo.after(last_echo_)) return {};
  last_echo_ = echo;
  const auto delay = static_cast<std::int32_t>(remote.raw - echo.raw);
  if (!round_any_)
  {
    round_any_ = true;
    round_delay_ = delay;
    round_at_ = now;
    return {};
  }
  if (wrapped(delay, round_delay_) < 0) round_delay_ = delay;
  if (now - round_at_ < flow.rtt_smoothed) return {};
  round_any_ = false;
  return round_delay_;
}

} // namespace tandem::offload
