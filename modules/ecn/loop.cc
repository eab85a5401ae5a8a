#include "modules/ecn/loop.h"

#include <algorithm>

namespace tandem::ecn
{

namespace
{

using namespace std::chrono_literals;

constexpr Duration sample_every = 90ms;
constexpr Duration longest_settle = 3s;
constexpr unsigned timeout = 3;       // measuring times, when the first leaves it open
constexpr unsigned longest_trial = 8; // likewise, while the goodput grows
constexpr double growth = 1.04;
constexpr double clear_win = 1.3, clear_loss = 0.75;
constexpr double hopeless = 0.5;    // ends a trial early
constexpr double least_busy = 50e3; // bytes per second; below it there is nothing to compare
constexpr double fallen = 0.7;      // of the usual goodput: something has changed
constexpr Duration usual_over = 5s;
constexpr Duration best_over = 60s;
constexpr Duration reset_gap = 5s;
constexpr Duration recovery = 3s; // after a trial that lost, until the goodput is what it was
constexpr Duration peak_span = 4s;
// Beside others at a bottleneck a subflow comes to its part in many seconds: 3.6 Mb/s in its first one, 7 after six
// (measured, six others, CUBIC).
constexpr Duration rise_over = 600ms, slow_rise = 3s;
constexpr double steep = 1.1;
constexpr Duration latest = 300ms; // over which the goodput of this moment is taken
// A link that is added and takes the air shows it within a few round-trip times.
constexpr Duration soon = 400ms;
constexpr double ruinous = 0.4;

} // namespace

// Bytes per second between the oldest and the newest sample within the two times.
double Loop::rate(Tick from, Tick to) const
{
  const Sample* first = nullptr;
  const Sample* last = nullptr;
  for (std::size_t i = count_ - std::min(count_, samples_.size()); i < count_; ++i)
  {
    const Sample& one = samples_[i % samples_.size()];
    if (one.at < from || one.at > to) continue;
    if (first == nullptr) first = &one;
    last = &one;
  }
  if (first == last) return 0;
  return static_cast<double>(last->delivered - first->delivered) / seconds(last->at - first->at);
}

double Loop::rate(Tick from) const
{
  return rate(from, Tick::max());
}

// Slow start and recovery are not yet what a level brings.
bool Loop::rising(Tick now, Duration over) const
{
  return rate(now - over) > steep * rate(now - 2 * over, now - over);
}

// What the best of the worse links can bring to `goodput` at most. Access points win contention equally often: where
// both have packets the better one falls to the same rate. Where it needs less, the air that is left over carries more.
double Loop::most_gain(double goodput, const Look& look, const LoopSettings& settings)
{
  if (look.capacity <= 0 || look.spare <= 0) return goodput;
  const double used = std::max(goodput / look.capacity, look.busy.value_or(0) / settings.full);
  const double left_over = std::max(0.0, 1 - used) * look.spare;
  const double alike = look.capacity * look.spare / (look.capacity + look.spare);
  return goodput <= alike ? left_over : std::min(left_over, 2 * alike - goodput);
}

// What was learned of other links, or in another order, is of no use.
void Loop::forget(Tick now, const LoopSettings& settings)
{
  for (Record& record : records_)
    record = { .next = now, .pause = settings.retry };
  reset_at_ = now;
}

void Loop::begin(std::size_t level, const Look& look, double reference, Tick now, const LoopSettings& settings)
{
  // A link that is left out empties its queue first; one that is added does its good and its harm at once.
  settle_ = std::clamp(2 * (level > level_ ? look.rtt_least : look.rtt), settings.settle, longest_settle);
  trial_ = level;
  trial_from_ = now;
  reference_ = reference;
  ++trials_;
}

void Loop::decide(bool won, Tick now, const LoopSettings& settings)
{
  const std::size_t loser = won ? level_ : *trial_;
  if (won)
  {
    level_ = *trial_;
    ++moves_;
  }
  Record& record = records_[loser];
  record.next = now + record.pause;
  record.pause = std::min(2 * record.pause, settings.retry_most);
  if (!won) reset_at_ = now + recovery - reset_gap;
  usual_ = 0;
  peaks_ = {};
  trial_.reset();
  since_ = now;
}

// The level to be tried now, if any: from the bottom the first that uses a link whole, from anywhere else the
// neighbours and the bottom.
std::optional<std::size_t> Loop::due(const Look& look, Tick now) const
{
  const std::size_t top = look.levels - 1;
  std::array<std::size_t, 3> others {};
  std::size_t count = 0;
  const auto add = [&](std::size_t level)
  {
    if (level != level_ && level <= top
        && std::find(others.begin(), others.begin() + count, level) == others.begin() + count)
      others[count++] = level;
  };
  if (level_ == 0)
    add(std::min<std::size_t>(2, top));
  else
  {
    add(0);
    add(level_ + 1);
    add(level_ - 1);
  }
  std::optional<std::size_t> first {};
  for (std::size_t i = 0; i < count; ++i)
    if (records_[others[i]].next <= now && (!first || records_[others[i]].next < records_[*first].next))
      first = others[i];
  return first;
}

// Other links, or nothing to choose between.
void Loop::restart(const Look& look, Tick now, const LoopSettings& settings)
{
  trial_.reset();
  level_ = std::min(look.first, look.levels - 1);
  since_ = now;
  usual_ = goodput_ = 0;
  peaks_ = {};
  settle_ = std::clamp(2 * look.rtt, settings.settle, longest_settle);
  forget(now, settings);
}

// Whether the level on trial has won or lost, as soon as that is clear.
void Loop::judge(const Look& look, Tick settled, Tick now, const LoopSettings& settings)
{
  const Duration measured = now - settled;
  // A download that has ended tells nothing about levels.
  if (rate(now - latest) <= 0 && measured > latest)
  {
    trial_.reset();
    since_ = now;
    return;
  }
  // What was taken from a subflow by the level before comes back slowly, against others at a bottleneck in many
  // seconds.
  const bool up = *trial_ > level_;
  const double ratio = rate(std::max(settled, now - 3 * settings.measure / 2)) / reference_;
  const bool growing =
      !up && measured < longest_trial * settings.measure
      && rate(now - settings.measure) > growth * rate(now - 2 * settings.measure, now - settings.measure);
  // Of two that bring the same the one that uses less air is the better one.
  const bool won = up ? ratio >= 1 + settings.gain : ratio >= 1 - settings.gain / 2;
  // Air that is full without the worse links is used by others: what these would bring would be taken from them.
  const bool full = !up && *trial_ == 0 && look.busy && *look.busy >= settings.full;
  const bool clear = measured >= settings.measure && (ratio >= clear_win || (ratio <= clear_loss && !full && !growing));
  const bool early = measured >= settings.measure / 2 && ratio <= hopeless && !full && !growing;
  if (clear || early || (measured >= timeout * settings.measure && (won || !growing)))
    decide(won || full, now, settings);
}

// Whether to try another level, while one is held.
void Loop::consider(const Look& look, Tick settled, Tick now, const LoopSettings& settings)
{
  const Duration measured = now - settled;
  // What has collapsed is not idle.
  best_ = std::max(goodput_, best_ * (1 - seconds(sample_every) / seconds(best_over)));
  if (measured < settings.measure || best_ < least_busy || rate(now - latest) <= 0) return;
  if (now - peaks_from_ >= peak_span)
  {
    peaks_ = { 0, peaks_[0] };
    peaks_from_ = now;
  }
  peaks_[0] = std::max(peaks_[0], goodput_);
  const double peak = std::max(peaks_[0], peaks_[1]);
  if (usual_ > 0 && peak < fallen * usual_ && now - reset_at_ >= reset_gap) forget(now, settings);
  const double share = std::min(1.0, seconds(sample_every) / seconds(usual_over));
  usual_ = usual_ > 0 ? usual_ + share * (goodput_ - usual_) : goodput_;
  if (level_ == 0 && most_gain(peak, look, settings) < settings.gain * peak) return;
  // While the good links bring more than the worse one could, there is time to see what they come to; alone already
  // while they bring half of that, since what the worse one takes of the air it takes from them.
  const double enough = level_ == 0 ? look.spare / 2 : look.spare;
  const bool time = look.spare > 0 && goodput_ > enough;
  if (rising(now, rise_over) || (time && (measured < 2 * slow_rise || rising(now, slow_rise)))) return;
  if (const auto level = due(look, now))
    begin(*level, look, rate(std::max(settled, now - timeout * settings.measure)), now, settings);
}

void Loop::look(const Look& look, Tick now, const LoopSettings& settings)
{
  if (count_ == 0) forget(now, settings);
  if (count_ == 0 || now - samples_[(count_ - 1) % samples_.size()].at >= sample_every)
    samples_[count_++ % samples_.size()] = { now, look.delivered };
  if (look.levels <= 1 || look.changed || level_ >= look.levels || (trial_ && *trial_ >= look.levels))
  {
    restart(look, now, settings);
    return;
  }
  const double of_late = rate(now - latest);
  if (trial_ && *trial_ > level_ && now - trial_from_ >= soon && of_late < ruinous * reference_ && of_late > 0)
  {
    decide(false, now, settings);
    return;
  }
  const Tick settled = (trial_ ? trial_from_ : since_) + settle_;
  if (now <= settled) return;
  goodput_ = rate(std::max(settled, now - settings.measure));
  if (trial_)
    judge(look, settled, now, settings);
  else
    consider(look, settled, now, settings);
}

} // namespace tandem::ecn
