#include "modules/ecn/signal_trend.h"

#include <algorithm>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration apart = 500ms;
// The mean age of a mean that takes a sixteenth of each new beacon: src/feeder/radio/estimator.h, and about what
// drivers do.
constexpr Duration behind = 1500ms;
constexpr float most = 3; // dB

} // namespace

void SignalTrend::look(std::optional<float> dbm, Tick now)
{
  newest_ = dbm;
  if (!dbm)
  {
    count_ = 0;
    return;
  }
  if (count_ > 0 && now - at_ < apart) return;
  told_[count_++ % told_.size()] = { *dbm, now };
  at_ = now;
}

std::optional<float> SignalTrend::now() const
{
  if (!newest_ || count_ < told_.size()) return newest_;
  const Told& oldest = told_[count_ % told_.size()];
  const auto over = static_cast<float>(seconds(at_ - oldest.at)); // more than usual where nobody looked for a while
  return *newest_ + std::clamp((*newest_ - oldest.dbm) / over * static_cast<float>(seconds(behind)), -most, most);
}

} // namespace tandem::ecn
