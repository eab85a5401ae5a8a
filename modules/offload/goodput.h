// A flow's goodput while its ACKs leave by Wi-Fi, and while they leave by cellular. Part of a flow's state; pure.
#pragma once

#include <tandem/flow.h>
#include <tandem/units.h>

#include <cstdint>

namespace tandem::offload
{

class Goodput
{
public:
  // With every ACK; `since` says when this path was taken. `loss_limit`: share of the goodput by Wi-Fi.
  void measure(const FlowView& flow, bool by_cell, Tick since, double loss_limit, Tick now);
  // The path changes.
  void restart() { window_at_ = Tick {}; }
  void forgive() { slow_windows_ = 0; }

  // Worse than by Wi-Fi by more than the limit, twice in a row.
  bool lost() const { return slow_windows_ >= 2; }
  float by_wifi() const { return wifi_rate_; } // bytes per second; 0 = not known
  float by_cell() const { return cell_rate_; }

private:
  Tick window_at_ {};              // start of the running window
  std::uint64_t window_bytes_ = 0; // delivered then
  float wifi_rate_ = 0;
  float cell_rate_ = 0;
  std::uint8_t slow_windows_ = 0; // in a row
};

} // namespace tandem::offload
