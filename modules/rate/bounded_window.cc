#include "modules/rate/bounded_window.h"

#include "modules/rate/bound.h"

#include <algorithm>
#include <cmath>

namespace tandem::rate
{
namespace
{

// Of the highest rate, kept from one round trip to the next.
constexpr float fading = 0.95F;
constexpr double longer = 1.5;
constexpr double largest = 1 << 30; // RFC 7323, 2.3: no window is larger

} // namespace

void BoundedWindow::forget()
{
  *this = {};
}

void BoundedWindow::measure(const FlowView& flow, Tick now)
{
  if (flow.rtt_min > Duration {} && (least_ == Duration {} || flow.rtt_min < least_)) least_ = flow.rtt_min;
  if (bounding_) believe(least_, bounded_at_, flow.rtt_latest, flow.rtt_smoothed, longer, now);
  const auto rate = static_cast<float>(flow.delivery_rate);
  if (now - faded_ >= std::max(flow.rtt_smoothed, Duration { 1 }))
  {
    best_ *= fading;
    faded_ = now;
  }
  best_ = std::max(best_, rate);
}

std::optional<std::uint16_t> BoundedWindow::bound(const Segment& ack, const FlowView& flow, Tick now, double headroom,
                                                  double limit)
{
  if (flow.bypass == Bypass::mid_flow || least_ <= Duration {} || best_ <= 0 || !flow.sent_any)
  {
    bounding_ = false;
    return {};
  }
  const Seq offered = ack.ack + flow.scaled(ack.window);
  const double rate = limit > 0 ? std::min<double>(best_, limit / 8) : best_;
  bytes_ = static_cast<float>(std::clamp(headroom * rate * seconds(least_), least_segments * flow.mss, largest));
  // What this host sends beside ACKs is not queued, and offers what the local TCP says.
  if (!bounding_ || ack.seq != seq_)
  {
    bounding_ = true;
    bounded_at_ = now;
    edge_ = later(offered, flow.sent_ack + flow.scaled(flow.sent_window));
    seq_ = ack.seq;
    return {};
  }
  edge_ = later(edge_, flow.sent_ack + flow.scaled(flow.sent_window));
  // Duplicates of an ACK carry its window (RFC 5681 section 2), or they count for none. Where less than a segment is
  // still offered there are none: the local TCP's window was closed, and opens.
  const bool onward = ack.ack.after(flow.sent_ack) || !edge_.at_or_after(ack.ack + std::uint32_t { flow.mss });
  const Seq bounded = ack.ack + static_cast<std::uint32_t>(bytes_);
  const Seq wanted = onward ? later(edge_, bounded) : edge_;
  if (edge_.after(bounded)) bounded_at_ = now; // what was offered before is not eaten up yet
  if (!offered.after(wanted))
  {
    edge_ = later(edge_, offered);
    return {};
  }
  // Up to a whole unit of the scaled window.
  const std::uint32_t unit = 1u << flow.local_window_scale;
  const std::uint32_t size = wanted.after(ack.ack) ? static_cast<std::uint32_t>(wanted - ack.ack) : 0;
  const std::uint32_t raw = (size + unit - 1) / unit;
  if (raw >= ack.window)
  {
    edge_ = later(edge_, offered);
    return {};
  }
  edge_ = ack.ack + raw * unit;
  return static_cast<std::uint16_t>(raw);
}

} // namespace tandem::rate
