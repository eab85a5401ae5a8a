#include "src/evidence/sequence.h"

#include <algorithm>
#include <cmath>

namespace tandem::evidence
{

namespace
{

// Where the sequence is tightest: at about eight comparisons of which each is off by a tenth.
constexpr double rho = 0.05;

} // namespace

void Sequence::add(double difference, double weight)
{
  if (!std::isfinite(difference) || !(weight > 0)) return;
  const double d = std::clamp(difference, -most, most);
  ++sums_.count;
  sums_.weights += weight;
  sums_.differences += weight * d;
  sums_.squares += weight * weight * d * d;
  sums_.cross += weight * weight * d;
  sums_.squared_weights += weight * weight;
}

bool Sequence::excludes(double effect) const
{
  const double off = std::abs(sums_.differences - effect * sums_.weights);
  const double spread =
      std::max(0.0, sums_.squares - 2 * effect * sums_.cross + effect * effect * sums_.squared_weights);
  return off >= std::sqrt((spread + rho) * std::log((spread + rho) / (rho * alpha * alpha)));
}

// From the mean outwards: in steps until one is excluded, then by halves.
double Sequence::first_excluded(double direction) const
{
  constexpr double step = 1.0 / 64;
  const double from = mean();
  double inside = from;
  double outside = from + direction * step;
  for (; !excludes(outside); outside += direction * step)
  {
    if (std::abs(outside) >= widest) return direction * widest;
    inside = outside;
  }
  for (int i = 0; i < 20; ++i)
  {
    const double middle = (inside + outside) / 2;
    (excludes(middle) ? outside : inside) = middle;
  }
  return outside;
}

Interval Sequence::interval() const
{
  if (sums_.count == 0) return { -widest, widest };
  return { first_excluded(-1), first_excluded(1) };
}

} // namespace tandem::evidence
