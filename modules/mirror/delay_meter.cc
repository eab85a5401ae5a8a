#include "modules/mirror/delay_meter.h"

#include <algorithm>
#include <array>

namespace tandem::mirror
{

namespace
{

using namespace std::chrono_literals;

// Two halves: what is remembered is between one and two of them old. Long enough for a sender to empty the queue once,
// short enough for clocks that drift by 50 ppm.
constexpr Duration half = 15s;
// Of each of these the most that stood in the queue is kept.
constexpr Duration span = 2s;
// What stays there for this long is more than a short stall.
constexpr Duration around = 5ms;
constexpr std::uint8_t enough = 2; // samples within it
// TSval is compared with the clock over at least this long before its tick is taken as known.
constexpr Duration settle = 100ms;
constexpr std::array<float, 4> ticks { 1e-6f, 1e-3f, 4e-3f, 10e-3f };
constexpr double tolerance = 0.35;
// Of a server whose clock was none of these, though one of them was within that: a queue of 50 ms is not taken for it.
constexpr Duration settle_exactly = 5s;
constexpr double tolerance_exactly = 0.01;
// In vain twice, it is looked at for twice as long, up to 40 s: what comes and goes in a queue weighs less then.
constexpr unsigned tries = 2, most_looks = 3 * tries;
// Delays that fall by more than this share of the time in so many spans in a row are no queue that drains, and no
// drift.
constexpr double fastest_drift = 0.01;
constexpr std::uint8_t no_queue = 5;
// Seconds by which no path becomes shorter than it was for the first segment. A queue that grows while the tick is
// looked for makes a clock look slow: then delays seem to fall without end, and every queue to be empty. Or the
// server's clock was set.
constexpr float shortest_path = -1;

} // namespace

bool DelayMeter::arrived(TsClock value, Tick now)
{
  if (epoch_ == Tick {})
  {
    epoch_ = now;
    origin_ = value;
    return true;
  }
  const std::int32_t passed = value - origin_;
  if (!known())
  {
    find_tick(value, passed, now);
    return true;
  }
  const auto delay = static_cast<float>(seconds(now - epoch_) - passed * static_cast<double>(tick_));
  if (delay < shortest_path)
  {
    // One may be a copy of a damaged segment. A tick that was found in a growing queue gets here within a span of time.
    if (leapt_)
      begin_anew(falls_ > 0);
    else
      leapt_ = true;
    return false;
  }
  leapt_ = false;
  latest_ = delay;
  note_peak(now);
  if (falls_ >= no_queue)
  {
    begin_anew(true);
    return true;
  }
  if (now - turn_ >= half)
  {
    const bool stale = now - turn_ >= 2 * half;
    floor_before_ = stale ? latest_ : floor_now_;
    if (stale) tops_.fill(latest_); // the clocks have drifted apart
    floor_now_ = latest_;
    turn_ = now;
    // Keeps the numbers small, for single precision.
    const auto moved = static_cast<std::uint32_t>(std::max(0, passed));
    epoch_ += from_seconds(moved * static_cast<double>(tick_));
    origin_ = origin_ + moved;
  }
  floor_now_ = std::min(floor_now_, latest_);
  return true;
}

void DelayMeter::begin_anew(bool doubted)
{
  const bool exactly = doubted_ || doubted;
  *this = {};
  doubted_ = exactly;
}

void DelayMeter::find_tick(TsClock value, std::int32_t passed, Tick now)
{
  if (now - epoch_ < (doubted_ ? settle_exactly * (1 << looks_ / tries) : settle) || passed == 0) return;
  const double within = doubted_ ? tolerance_exactly : tolerance;
  const double elapsed = seconds(now - epoch_);
  const double pace = passed > 0 ? elapsed / passed : 0;
  for (const float candidate : ticks)
    if (pace > static_cast<double>(candidate) * (1 - within) && pace < static_cast<double>(candidate) * (1 + within))
      tick_ = candidate;
  if (!known())
  {
    // A pause, a clock nobody has, or the first copy was damaged: looked at again from here.
    if (doubted_ && looks_ < most_looks) ++looks_;
    epoch_ = now;
    origin_ = value;
    return;
  }
  latest_ = static_cast<float>(elapsed - passed * static_cast<double>(tick_));
  // The first segment of all had a delay of 0, by definition: slow start fills the queue while the tick is looked for.
  floor_now_ = floor_before_ = floor_then_ = std::min(latest_, 0.0F);
  peak_now_ = peak_before_ = low_ = latest_;
  tops_.fill(floor_now_);
  turn_ = peak_turn_ = span_turn_ = now;
}

// What stood in the queue around now, and in this span of time.
void DelayMeter::note_peak(Tick now)
{
  if (now - peak_turn_ >= around)
  {
    if (samples_ >= enough) tops_[span_] = std::max(tops_[span_], low_);
    peak_before_ = now - peak_turn_ >= 2 * around ? latest_ : peak_now_;
    peak_now_ = low_ = latest_;
    peak_turn_ = now;
    samples_ = 0;
  }
  peak_now_ = std::max(peak_now_, latest_);
  low_ = std::min(low_, latest_);
  if (samples_ < enough) ++samples_;
  if (now - span_turn_ >= span)
  {
    note_fall(now);
    span_ = static_cast<std::uint8_t>((span_ + 1u) % spans);
    tops_[span_] = floor();
    span_turn_ = now;
  }
}

// A clock that is a little faster than the tick it is taken for, as one of 1024 Hz is, makes delays fall without end:
// the queue seems to be empty, however full it is.
void DelayMeter::note_fall(Tick now)
{
  const auto drift = static_cast<float>(fastest_drift * seconds(now - span_turn_));
  const float least = floor();
  falls_ = least < floor_then_ - drift ? static_cast<std::uint8_t>(falls_ + 1) : std::uint8_t { 0 };
  floor_then_ = least;
}

float DelayMeter::floor() const
{
  return std::min(floor_now_, floor_before_);
}

double DelayMeter::top() const
{
  return known() ? static_cast<double>(*std::max_element(tops_.begin(), tops_.end()) - floor()) : 0;
}

double DelayMeter::recent() const
{
  return known() ? static_cast<double>(std::max(tops_[span_], tops_[(span_ + spans - 1u) % spans]) - floor()) : 0;
}

} // namespace tandem::mirror
