#include "modules/rate/paced_upload.h"

#include "modules/rate/bound.h"

#include <algorithm>

namespace tandem::rate
{
namespace
{

using namespace std::chrono_literals;

// Of the highest rate, kept from one round to the next.
constexpr double rate_fading = 0.95;
// Than the least round trip: a queue stands, or the path is another one.
constexpr double queue_factor = 2;
// The pace is the rate that the path has, a little less while the round trip is above what is aimed at, a little more
// below it. Seconds pass between a change and what it does to the round trip measured, so the gain is small; the bounds
// let a deep queue go within some round trips, and find out that there is more without a queue of their own.
constexpr double gain = 0.25, least_pace = 0.5, most_pace = 1.1;
// Copies are samples: a round is long enough for some of them.
constexpr Duration shortest_round = 100ms, longest_round = 300ms;

} // namespace

// From data that leaves to the first ACK seen of it. What is sent twice is not timed (RFC 6298 3).
void PacedUpload::time(const Segment& segment, Tick now)
{
  if (segment.direction == Direction::egress)
  {
    if (segment.payload_length == 0) return;
    const bool again = timing_ && timed_.after(segment.seq);
    if (again) timing_ = false;
    if (again || timing_ || (timed_any_ && !segment.end().after(timed_))) return;
    timing_ = timed_any_ = true;
    timed_ = segment.end();
    timed_at_ = now;
    return;
  }
  if (!timing_ || !segment.has(tcp_flag::ack) || timed_.after(segment.ack)) return;
  timing_ = false;
  latest_ = now - timed_at_;
  smoothed_ = smoothed_ == Duration {} ? latest_ : smoothed_ + (latest_ - smoothed_) / 4;
  if (least_ == Duration {} || latest_ < least_) least_ = latest_;
}

void PacedUpload::measure(const Segment* segment, const FlowView& flow, Tick now)
{
  if (segment != nullptr) time(*segment, now);
  if (paced() > 0) believe(least_, bounded_at_, latest_, smoothed_, queue_factor, now);
  if (!counting_)
  {
    counting_ = true;
    una_ = flow.snd_una;
    round_ = now;
    return;
  }
  if (now - round_ < std::clamp(smoothed_, shortest_round, longest_round)) return;
  const double acknowledged = flow.snd_una.after(una_) ? static_cast<double>(flow.snd_una - una_) : 0;
  const double rate = acknowledged / seconds(now - round_);
  // Behind a queue that stands the rate is the path's, and the highest of before may be another one's.
  const bool queue = seconds(latest_) > queue_factor * seconds(least_);
  best_ = paced() > 0 && queue ? (best_ + rate) / 2 : std::max(rate_fading * best_, rate);
  una_ = flow.snd_una;
  round_ = now;
}

std::optional<double> PacedUpload::pace(const FlowView& flow, Tick now, double headroom, double limit)
{
  if (flow.bypass != Bypass::none || least_ <= Duration {} || smoothed_ <= Duration {} || best_ <= 0) return {};
  const double least_window = least_segments * flow.mss;
  // What sends less than it may anyhow is left alone: requests, a video call.
  const bool waiting =
      flow.snd_nxt.after(flow.snd_una) && static_cast<double>(flow.snd_nxt - flow.snd_una) >= least_window;
  if (paced() == 0 && !waiting) return {};
  const double rate = limit > 0 ? std::min(best_, limit / 8) : best_;
  const double target = headroom * seconds(least_);
  const double correction = std::clamp(1 + gain * (target - seconds(latest_)) / target, least_pace, most_pace);
  const double wanted =
      8 * with_headers * std::max(correction * rate, least_window / seconds(std::max(smoothed_, least_)));
  if (paced() == 0) bounded_at_ = now;
  return told_.tell(wanted, now);
}

} // namespace tandem::rate
