// Ours, the default: slots by the round-trip model and the delays that the connections have, without a search through
// everything. Each station's slots are joined to some number of connections, as many as its delay likes best, and
// spread evenly; single exchanges then improve the order while any does.
#pragma once

#include "modules/rate/upper_bound.h"

namespace tandem::rate
{

class DelayAware final : public Allocator
{
public:
  // `delays`: d_i, s, one for each station. `effort`: how often a station's round-trip time may be computed, which
  // bounds the time that a plan takes.
  explicit DelayAware(std::vector<double> delays, RttModel model = published_model(), std::uint64_t effort = 1000);

  // Throws BadInput when there is not one delay a station.
  Allocated allocate(const Slots& slots) const override;
  std::string_view name() const override { return "delay-aware"; }

  // expected_rtt() with its defaults.
  static RttModel published_model();

private:
  std::vector<double> delays_;
  RttModel model_;
  std::uint64_t effort_;
};

// The slots of station i in pieces[i] connections (at most g_i), each as long as the others, spread evenly over the
// period.
Allocation spread(const Slots& slots, std::span<const std::uint32_t> pieces);

} // namespace tandem::rate
