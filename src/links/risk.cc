#include "src/links/risk.h"

#include <algorithm>

namespace tandem::links
{

namespace
{

using namespace std::chrono_literals;

constexpr std::size_t points_needed = 4;
constexpr double falling_db_per_s = 3; // slower is drift, and no reason to look ahead
constexpr Duration horizon_least = 100ms;
// At most one wrong prediction in any minute, and after the fifth in a row one in 16 minutes. A download goes on well
// without predictions (docs/results/freeze.md: "foretold" beside "Tandem"), so that the minute costs an honest link
// little; two seconds, and half a minute at last, cost a link at the edge, or a forged one, five pauses in a minute.
constexpr Duration back_off_first = 60s;
constexpr unsigned back_off_doublings = 4;

// Of an even number the larger one of the middle: of one real and one forged reading that is the real one, since a
// forged one does harm only when it is the weaker.
template <std::size_t N>
double median(std::array<double, N>& values, std::size_t count)
{
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(count / 2);
  std::nth_element(values.begin(), middle, values.begin() + static_cast<std::ptrdiff_t>(count));
  return *middle;
}

} // namespace

void RiskPredictor::sample(double dbm, Tick at)
{
  const std::int64_t number = at.time_since_epoch() / bin;
  Bin& slot = bins_[static_cast<std::size_t>(number) % bins];
  if (slot.number != number) slot = { .number = number };
  slot.heard[slot.count++ % kept] = dbm;
}

void RiskPredictor::forget()
{
  // A warning that is out stays to be judged: a roam can be forged, too, and must not spare the forger the back-off.
  bins_ = {};
  points_ = 0;
  fitted_ = -1;
  warned_ = false;
}

bool RiskPredictor::known(Tick now) const
{
  return points_ >= points_needed && now.time_since_epoch() / bin - fitted_ <= 2;
}

// Theil and Sen: the median of all slopes, so that a fifth of wild readings changes nothing.
void RiskPredictor::fit(Tick now)
{
  const std::int64_t present = now.time_since_epoch() / bin;
  if (present == fitted_) return;
  fitted_ = present;
  std::array<double, bins> when {}, what {};
  points_ = 0;
  for (const Bin& one : bins_)
    if (one.count != 0 && one.number > present - static_cast<std::int64_t>(bins))
    {
      auto heard = one.heard;
      when[points_] = static_cast<double>(one.number - present) * seconds(bin);
      what[points_++] = median(heard, std::min(one.count, kept));
    }
  if (points_ < points_needed) return;
  std::array<double, bins*(bins - 1) / 2> slopes {};
  std::size_t count = 0;
  for (std::size_t i = 0; i < points_; ++i)
    for (std::size_t j = 0; j < i; ++j)
      if (when[i] != when[j]) slopes[count++] = (what[i] - what[j]) / (when[i] - when[j]);
  slope_ = count > 0 ? median(slopes, count) : 0;
  for (std::size_t i = 0; i < points_; ++i)
    what[i] -= slope_ * when[i];
  level_ = median(what, points_);
}

bool RiskPredictor::at_risk(Tick now)
{
  // A warning that nothing came of within two horizons was wrong: back off, and look less far ahead from then on.
  if (!judged_ && now - warned_at_ > 2 * horizon_)
  {
    judged_ = true;
    ++misses_;
    back_off_until_ = now + back_off_first * (1 << std::min(wrong_in_a_row_, back_off_doublings));
    ++wrong_in_a_row_;
    horizon_ = std::max(horizon_least, horizon_ * 7 / 10);
    warned_ = false;
  }
  fit(now);
  if (points_ < points_needed || now < back_off_until_) return warned_ = false;
  const double ahead = level_ + slope_ * seconds(horizon_);
  const double limit = settings_.critical_dbm + (warned_ ? settings_.hysteresis_db : 0);
  const bool low = ahead < limit && (slope_ < -falling_db_per_s || level_ < limit);
  if (low && !warned_ && judged_)
  {
    judged_ = false;
    warned_at_ = now;
  }
  return warned_ = low;
}

void RiskPredictor::blackout(Tick now)
{
  if (!judged_ && now - warned_at_ <= 2 * horizon_)
  {
    judged_ = true;
    ++hits_;
    wrong_in_a_row_ = 0;
    back_off_until_ = {};
    horizon_ = std::min(settings_.horizon, horizon_ * 14 / 10);
  }
  forget(); // what is heard after a blackout is another curve
}

} // namespace tandem::links
