#include "src/evidence/tally.h"

#include <algorithm>

namespace tandem::evidence
{

void Tally::refresh(WallTime now)
{
  used = std::min(used, now);
  // A clock that was set back must not make a rest endless.
  until = std::min(until, now + longest_rest);
  if (now - used > lasts) *this = {};
  used = now;
  if (standing != Standing::resting || now < until) return;
  standing = Standing::trial;
  gains = {};
}

bool Tally::harms() const
{
  return gains.count() >= 4 && gains.excludes(0) && gains.interval().high < -margin;
}

bool Tally::harmless() const
{
  return gains.count() >= enough && gains.interval().low > -margin;
}

void Tally::rest(WallTime now)
{
  constexpr unsigned growth = 4;
  WallTime length = first_rest;
  for (unsigned i = 0; i < failures && length < longest_rest; ++i)
    length *= growth;
  if (failures < 16) ++failures;
  standing = Standing::resting;
  until = now + std::min(length, longest_rest);
}

bool Tally::add(double difference, double weight, WallTime now)
{
  refresh(now);
  const Standing before = standing;
  if (gains.count() >= longest)
  {
    // Of a network that rests servers which speak for themselves are compared still: what it rests for stays as it is.
    if (standing == Standing::resting) return false;
    gains = {};
  }
  gains.add(difference, weight);
  if (standing == Standing::resting) return false;
  if (harms())
    rest(now);
  else if (standing == Standing::trial)
  {
    // Harm would most likely have shown: comparisons without a sign of it are enough to go back to what is usual.
    constexpr std::uint32_t some = 12, many = 40;
    if (harmless() || (gains.count() >= some && gains.mean() > -margin / 2) || gains.count() >= many)
      standing = Standing::acting;
  }
  else if (harmless())
    failures = 0;
  return standing != before;
}

double Tally::urgency() const
{
  constexpr double certain = 1.0 / 8, alarming = 4;
  if (standing == Standing::resting) return 0;
  if (standing == Standing::trial) return 1;
  if (harmless()) return certain;
  return gains.count() >= 3 && gains.mean() < -5 * margin ? alarming : 1;
}

} // namespace tandem::evidence
