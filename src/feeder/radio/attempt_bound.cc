#include "src/feeder/radio/attempt_bound.h"

#include <algorithm>
#include <cmath>

namespace tandem::feeder
{

namespace
{

constexpr float fade = 0.99F;      // the latest hundred count
constexpr float share = 0.05F;     // of the least rooms that may be mistakes
constexpr double bins = 2;         // an exchange
constexpr double below_mean = 1.6; // standard deviations: where 0.05 of a sum of backoffs lies
constexpr double tolerance = 0.5;  // exchanges
constexpr double cw_min = 15, cw_max = 1023;

} // namespace

void AttemptBound::lost(Duration room, const PhySeen& phy, unsigned packet_bytes)
{
  const double exchange = exchange_us(phy, packet_bytes);
  slots_ = static_cast<float>(exchange / PhyTimes::of(phy).slot_us);
  const double exchanges = std::max(0.0, milliseconds(room) * 1e3 / exchange);
  const auto bin = std::min(static_cast<std::size_t>(exchanges * bins), histogram_.size() - 1);
  for (float& one : histogram_)
    one *= fade;
  histogram_[bin] += 1;
  weight_ = weight_ * fade + 1;
}

unsigned AttemptBound::attempts(unsigned usual) const
{
  if (!known()) return usual;
  double seen = 0;
  std::size_t bin = 0;
  while (bin + 1 < histogram_.size() && seen + histogram_[bin] < share * weight_)
    seen += histogram_[bin++];
  const double least = static_cast<double>(bin) / bins;
  // So much room does a frame take that is given up after so many attempts, but for one in twenty.
  double mean = 0, variance = 0, window = cw_min;
  unsigned attempts = 0;
  while (attempts < usual)
  {
    mean += 1 + window / 2 / slots_;
    variance += window * window / 12 / (slots_ * slots_);
    if (attempts > 0 && mean - below_mean * std::sqrt(variance) > least + tolerance) break;
    ++attempts;
    window = std::min(2 * window + 1, cw_max);
  }
  return attempts;
}

} // namespace tandem::feeder
