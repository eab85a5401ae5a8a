// What freeze is shown of a flow.
#pragma once

#include <tandem/flow.h>

#include <chrono>

namespace tandem::freeze
{

// A download over 40 ms, of which so many segments may be withheld.
inline FlowView a_download(std::uint32_t may_withhold)
{
  FlowView flow {};
  flow.sack_ok = flow.timestamps_ok = flow.sent_any = true;
  flow.mss = 1448;
  flow.bytes_delivered = 10'000'000;
  flow.window_estimate = 200'000;
  flow.may_withhold = may_withhold * 1448;
  flow.rtt_smoothed = flow.rtt_min = std::chrono::milliseconds { 40 };
  flow.last_window = flow.sent_window = flow.told_window = 60'000;
  return flow;
}

} // namespace tandem::freeze
