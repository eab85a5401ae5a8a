// The pace of one flow as it was last told: told anew when it has moved, and again before it lapses.
#pragma once

#include <tandem/plan.h>
#include <tandem/units.h>

#include <cmath>
#include <optional>

namespace tandem::rate
{

// Of payload: what a pace counts has headers, too.
constexpr double with_headers = 1.05;

class ToldPace
{
public:
  // What is to be told now of a pace of so many bits/s, which lasts until another is told; nothing: the last one holds.
  std::optional<double> tell(double wanted, Tick now)
  {
    // A change by a tenth, ten times a second; and the same again before it lapses.
    constexpr double some = 0.1;
    constexpr Duration tell_every = std::chrono::milliseconds { 100 }, repeat_every = pace_lasts / 4;
    const bool same = std::abs(wanted - rate_) < some * rate_;
    if (rate_ > 0 && now - at_ < (same ? repeat_every : tell_every)) return {};
    if (!same) rate_ = wanted;
    at_ = now;
    return rate_;
  }
  // From now on the local TCP sends as it likes. True: it was bounded.
  bool open()
  {
    const bool bounded = rate_ > 0;
    rate_ = 0;
    return bounded;
  }
  double rate() const { return rate_; } // bits/s; 0: not bounded

private:
  double rate_ = 0;
  Tick at_ {};
};

} // namespace tandem::rate
