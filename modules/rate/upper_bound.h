// The upper bound of section VI-B: of all allocations the one with the highest throughput by the round-trip model, with
// the delays known. "Note that this upper bound can not be calculated in practice": it goes through all of them.
#pragma once

#include "modules/rate/rtt_model.h"
#include "modules/rate/slot_plan.h"

#include <functional>
#include <span>
#include <vector>

namespace tandem::rate
{

// Mean round-trip time (s) of a station's schedule at its delay (s).
using RttModel = std::function<double(const Schedule& schedule, double delay)>;

// Sum over the stations of 1 / RTT, 1/s: the aggregate throughput by Mathis but for MSS and loss, the same for all.
double aggregate(const Slots& slots, const Allocation& allocation, std::span<const double> delays,
                 const RttModel& model);

class UpperBound final : public Allocator
{
public:
  // `delays`: d_i, s, one for each station.
  UpperBound(std::vector<double> delays, RttModel model);

  // Throws BadInput above most_arrangements, and when there is not one delay a station.
  Allocated allocate(const Slots& slots) const override;
  std::string_view name() const override { return "upper bound"; }

private:
  std::vector<double> delays_;
  RttModel model_;
};

// Throws BadInput unless there is one delay for each station, none negative.
void check_delays(const Slots& slots, std::span<const double> delays);

} // namespace tandem::rate
