#include "modules/rate/promise.h"

#include <algorithm>

namespace tandem::rate
{
namespace
{

constexpr double forget = 0.8;     // of the largest rate at each look
constexpr double least_window = 4; // packets: enough for SACK to repair a loss
constexpr double pull = 0.5;       // of what is missing, at each look

} // namespace

Promise::Output Promise::look(const Input& input)
{
  const ClaParameters& p = config_.parameters;
  const double wanted = config_.spare * p.R0;
  Output out;

  // The candidate is worth it as soon as it is heard better: nothing is lost by a handoff that is prepared.
  const bool worth =
      input.signals.S2 && input.signals.S1<p.delta0&& * input.signals.S2> input.signals.S1 + p.delta2 / 2;
  if (!input.connected)
    leaving_ = Tick::max();
  else if (leaving_ == Tick::max() && worth)
    leaving_ = input.now;
  const bool leaving = !input.connected || leaving_ != Tick::max();
  out.hand_off = input.connected && leaving && input.now >= leaving_ + config_.empty + input.wifi_rtt;
  if (out.hand_off) leaving_ = Tick::max(); // at the next access point all begins anew

  best_ = leaving ? forget * best_ : std::max(input.signals.R1, forget * best_);
  if (leaving)
    cell_ = std::min(p.C2, wanted); // all of it, before Wi-Fi brings nothing
  else
    cell_ = std::clamp(cell_ + pull * (wanted - input.signals.R1 - input.signals.R2), 0.0, std::min(p.C2, wanted));

  out.wifi_window =
      leaving ? 0 : std::max(least_window, config_.headroom * bdp_path(best_, input.wifi_rtt, input.wifi_mss) + 2);
  if (input.wifi_rtt <= Duration {} && !leaving) out.wifi_window = 1e9;
  out.cell_window = cell_ > 0.02 * p.C2 ? std::max(2.0, bdp_path(cell_, input.cell_rtt, input.cell_mss) + 1) : 0;
  if (input.cell_rtt <= Duration {}) out.cell_window = least_window;
  return out;
}

} // namespace tandem::rate
