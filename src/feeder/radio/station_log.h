// Makes radio events of what the driver counts and announces. Pure.
#pragma once

#include "src/feeder/radio/radio_event.h"
#include "src/feeder/radio/report.h"

#include <optional>
#include <vector>

namespace tandem::feeder
{

class StationLog
{
public:
  // `at` is when it was asked or announced.
  void take(const StationStats& stats, Tick at, std::vector<RadioEvent>& events);
  void take(const WifiChange& change, Tick at, std::vector<RadioEvent>& events);
  // Nothing when we are not associated, as far as the driver has said.
  const std::optional<Mac>& ap() const { return ap_; }

private:
  std::optional<Mac> ap_ {};
  std::optional<StationStats> last_ {};
};

} // namespace tandem::feeder
