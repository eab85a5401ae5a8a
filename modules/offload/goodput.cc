#include "modules/offload/goodput.h"

#include <algorithm>

namespace tandem::offload
{

using namespace std::chrono_literals;

void Goodput::measure(const FlowView& flow, bool by_cell, Tick since, double loss_limit, Tick now)
{
  const Duration settle = by_cell ? std::max<Duration>(4 * flow.rtt_smoothed, 1s) : Duration {};
  if (window_at_ == Tick {} || (!by_cell && flow.resumed > window_at_))
  {
    if (now - since < settle) return;
    window_at_ = now;
    window_bytes_ = flow.bytes_delivered;
    return;
  }
  const Duration length = now - window_at_;
  const Duration wanted = by_cell ? Duration { 2s } : Duration { 1s };
  if (length < wanted) return;
  const auto rate = static_cast<float>(static_cast<double>(flow.bytes_delivered - window_bytes_) / seconds(length));
  window_at_ = now;
  window_bytes_ = flow.bytes_delivered;
  // ACKs come every few milliseconds: a window that ends so late holds a blackout.
  if (length > wanted * 5 / 4) return;
  if (!by_cell)
  {
    wifi_rate_ = wifi_rate_ > 0 ? 0.5f * (wifi_rate_ + rate) : rate;
    return;
  }
  cell_rate_ = rate;
  if (wifi_rate_ > 0 && rate < wifi_rate_ * static_cast<float>(1 - loss_limit))
    ++slow_windows_;
  else
    slow_windows_ = 0;
}

} // namespace tandem::offload
