#include "modules/offload/path_delay.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <utility>

namespace tandem::offload
{

using namespace std::chrono_literals;

namespace
{

// Ticks between two segments of a server that sends: fewer than its timer waits (RTO, 200 ms above a round trip), more
// than between two ACKs of a thin uplink.
constexpr std::int32_t longest_gap = 100;
// Ticks after which the server has made a pause: what was heard before is of another round, and what it echoes first
// may have waited for as long.
constexpr std::int32_t pause = 1000;
// Ticks for which a least delay stands.
constexpr std::uint32_t least_memory = 60'000;
// Ticks by which a server's clock gets ahead of this host's, which no queue explains: the connection has gone to
// another machine, say. Or both have parted for hours.
constexpr std::int32_t leap = 1000;
constexpr std::uint32_t ticks_apart = tick_apart / 1ms;

} // namespace

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

// A pause of the server is as long by both clocks, and what waited for a link lets it look behind.
bool PathDelay::leaps(TsClock remote, Tick now)
{
  if (!clocks_agree_ || remote - first_remote_ <= leap + (now - first_at_) / 1ms) return false;
  first_remote_ = remote;
  first_at_ = now;
  return true;
}

std::optional<double> UplinkLoad::hear(TsClock sent, std::int32_t delay, std::int32_t window, std::int32_t limit)
{
  if (waits_ && !sent.after(mark_)) return {};
  waits_ = false;
  const TsClock heard = sent + static_cast<std::uint32_t>(delay);
  if (!window_any_) mark_ = heard;
  if (!std::exchange(window_any_, true) || wrapped(delay, in_window_.delay) < 0) in_window_ = { sent, delay };
  if (heard - mark_ < window) return {};
  window_any_ = false;
  const std::uint32_t span = in_window_.sent.raw - least_.sent.raw;
  // As far as it is not the clocks that part.
  const std::int32_t grown =
      wrapped(in_window_.delay, least_.delay) - static_cast<std::int32_t>(std::min(span, least_memory) / ticks_apart);
  if (!std::exchange(known_, true) || grown <= 0 || span > least_memory)
  {
    least_ = in_window_;
    return {};
  }
  return grown > limit ? std::optional { 1 + static_cast<double>(grown) / span } : std::nullopt;
}

PathDelay::Heard PathDelay::hear(const Segment& segment, const FlowView& flow, Tick now)
{
  const TsClock local = flow.last_ts_value;
  const TsClock remote = segment.timestamps->value;
  const TsClock echo = segment.timestamps->echo;
  const TsClock before =
      std::exchange(last_remote_, first_known_ && !remote.after(last_remote_) ? last_remote_ : remote);
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
  const std::int32_t gap = remote - before;
  if (gap > pause) round_any_ = false;
  if (leaps(remote, now)) return { .clock_set = true };
  if (!clocks_agree_ || !echo.after(last_echo_)) return {};
  last_echo_ = echo;
  const auto delay = static_cast<std::int32_t>(remote.raw - echo.raw);
  if (gap > pause) return {};
  const auto of_ack = gap <= longest_gap ? std::optional { delay } : std::nullopt;
  if (!round_any_)
  {
    round_any_ = true;
    round_delay_ = delay;
    round_at_ = now;
    return { .ack = of_ack };
  }
  if (wrapped(delay, round_delay_) < 0) round_delay_ = delay;
  if (now - round_at_ < flow.rtt_smoothed) return { .ack = of_ack };
  round_any_ = false;
  return { .ack = of_ack, .round = round_delay_ };
}

} // namespace tandem::offload
