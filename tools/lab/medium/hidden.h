// An interferer that an access point does not sense and a station hears: bursts of energy at the station's antenna.
#pragma once

#include "tools/lab/medium/random.h"

#include <tandem/units.h>

#include <algorithm>
#include <deque>
#include <optional>

namespace tandem::medium
{

struct HiddenSettings
{
  double share = 0;                                  // of the time that bursts fill, 0 .. 0.95; 0 = no interferer
  Duration length = std::chrono::milliseconds { 1 }; // of a burst: its mean, or exactly when `fixed`
  bool fixed = false;                                // bursts of one length; else exponentially distributed

  bool operator==(const HiddenSettings&) const = default;
};

// Bursts with exponentially distributed gaps between them. The bursts depend on the seed and the settings only, not on
// who asks when: each is drawn after the one before.
class HiddenTerminal
{
public:
  explicit HiddenTerminal(Random random) : random_(random) {}

  // What has begun stays; the next gap is drawn with the new settings.
  void configure(Tick now, const HiddenSettings& settings)
  {
    if (settings == settings_) return;
    while (!bursts_.empty() && bursts_.back().begin > now)
      bursts_.pop_back();
    settings_ = settings;
    next_ = bursts_.empty() ? now : std::max(now, bursts_.back().end);
    next_ += gap();
  }

  // Whether a burst falls into [from, to). Calls must not go back by more than `memory`.
  bool overlaps(Tick from, Tick to)
  {
    draw(to);
    while (!bursts_.empty() && bursts_.front().end + memory < from)
      bursts_.pop_front();
    for (const Burst& burst : bursts_)
      if (burst.begin < to && burst.end > from) return true;
    return false;
  }

  // When the burst at `at` ends; nothing when there is silence.
  std::optional<Tick> busy_until(Tick at)
  {
    draw(at + Duration { 1 });
    for (const Burst& burst : bursts_)
      if (burst.begin <= at && burst.end > at) return burst.end;
    return {};
  }

private:
  static constexpr Duration memory = std::chrono::milliseconds { 50 };

  struct Burst
  {
    Tick begin {}, end {};
  };

  void draw(Tick until)
  {
    while (settings_.share > 0 && next_ < until)
    {
      const auto length = std::max(Duration { 1 }, settings_.fixed ? settings_.length : spread(settings_.length));
      bursts_.push_back({ next_, next_ + length });
      next_ += length + gap();
    }
  }
  Duration gap()
  {
    if (settings_.share <= 0) return {};
    const double mean = static_cast<double>(settings_.length.count()) * (1 - settings_.share) / settings_.share;
    return std::max(Duration { 1 }, spread(Duration { static_cast<std::int64_t>(mean) }));
  }
  Duration spread(Duration mean)
  {
    return Duration { static_cast<std::int64_t>(random_.exponential(static_cast<double>(mean.count()))) };
  }

  Random random_;
  HiddenSettings settings_ {};
  std::deque<Burst> bursts_;
  Tick next_ {};
};

} // namespace tandem::medium
