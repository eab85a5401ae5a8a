// What the bounds of downloads and of uploads have in common: how little they leave a flow, and what they believe of
// its least round trip.
#pragma once

#include <tandem/units.h>

#include <algorithm>
#include <chrono>

namespace tandem::rate
{

// RFC 6928: what a sender may begin with. Less would leave losses to its timer.
constexpr double least_segments = 10;

// `least` of a flow that is bounded since `bounded_at`. A queue of its own is gone after some round trips of a bound; a
// round trip that is still `longer` times as long is the path's, or others' doing, and must not squeeze this flow: it
// is the least one from then on. `bounded_at` is moved on to when that was looked at last.
inline void believe(Duration& least, Tick& bounded_at, Duration latest, Duration smoothed, double longer, Tick now)
{
  constexpr int round_trips = 8;
  if (least <= Duration {} || now - bounded_at <= round_trips * std::max(smoothed, least)) return;
  bounded_at = now;
  if (seconds(latest) > longer * seconds(least) && seconds(smoothed) > longer * seconds(least))
    least = std::min(latest, smoothed);
}

// Longer than the empty path by a quarter, and by what jitter makes of one: something waits.
inline bool has_queue(Duration round_trip, Duration least)
{
  constexpr double queued = 1.25;
  constexpr Duration jitter = std::chrono::milliseconds { 5 };
  return least > Duration {} && seconds(round_trip) > queued * seconds(least) + seconds(jitter);
}

} // namespace tandem::rate
