// The share of time in which the channel was in use, by anybody, from the driver's surveys.
#pragma once

#include "src/feeder/radio/report.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <optional>

namespace tandem::feeder
{

class BusyMeter
{
public:
  // What this station received, which takes air, too.
  void take(const StationStats& stats)
  {
    bytes_ = stats.rx_bytes;
    if (stats.rx_mbps) fastest_ = std::max(fastest_, *stats.rx_mbps);
  }

  // A survey of the channel in use, as it was at `at`; others are ignored.
  void take(const Survey& survey, Tick at)
  {
    if (!survey.in_use || !survey.active || !survey.busy) return;
    if (before_ && before_->frequency == survey.frequency)
    {
      const Duration active = *survey.active - *before_->active, busy = *survey.busy - *before_->busy;
      if (active >= Duration {} && active < least_span && busy >= Duration {}) return; // together with the next
      // Counters that ran backwards were reset.
      if (active > Duration {} && busy >= Duration {} && busy <= active + slack)
      {
        share_.reset();
        if (busy + slack >= needed()) share_ = static_cast<float>(std::min(1.0, seconds(busy) / seconds(active)));
        at_ = at;
      }
    }
    else
      share_.reset();
    before_ = survey;
    bytes_before_ = bytes_;
    fastest_ = 0;
  }

  // 0 .. 1; nothing without two surveys of the channel, or when the last is old.
  std::optional<float> share(Tick now) const { return share_ && now - at_ <= stale_after ? share_ : std::nullopt; }

private:
  // The time that the bytes alone took which were received since the last survey, at the fastest rate of meanwhile. A
  // driver that tells of less busy time counts something else.
  Duration needed() const
  {
    if (!bytes_ || !bytes_before_ || *bytes_ < *bytes_before_ || fastest_ <= 0) return {};
    return from_seconds(static_cast<double>(*bytes_ - *bytes_before_) * 8e-6 / fastest_);
  }

  static constexpr Duration least_span = std::chrono::milliseconds { 400 };
  static constexpr Duration slack = std::chrono::milliseconds { 20 }; // the two counters are not read at once
  static constexpr Duration stale_after = std::chrono::seconds { 4 };
  std::optional<Survey> before_ {};
  std::optional<float> share_ {};
  Tick at_ {};
  std::optional<std::uint64_t> bytes_ {}, bytes_before_ {}; // received, at the newest reading and at the last survey
  double fastest_ = 0;                                      // Mb/s, since the last survey
};

} // namespace tandem::feeder
