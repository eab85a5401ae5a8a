// What comparisons say of an effect, and how surely, whenever one looks: an anytime-valid confidence sequence.
//
// A comparison is two stretches of equal kind, one with a module and one without; which comes first is drawn by lot. It
// gives d, the log of the ratio of their goodputs. When the module has no effect, d is as likely as -d, whatever the
// network does meanwhile. Then exp(l S - l^2 V / 2) is a supermartingale for every l, with S the sum of all d and V the
// sum of their squares (de la Pena 1999, Ann. Probab. 27(1), lemma 6.1), and mixed over a normal l (Robbins 1970;
// Howard, Ramdas, McAuliffe, Sekhon 2021, Ann. Stat. 49(2), section 3.2)
//
//   |S| < sqrt((V + rho) log((V + rho) / (rho alpha^2)))  at all times at once, with probability 1 - alpha.
//
// So one may look after every comparison, and stop when one likes. Nothing is assumed of the distribution but the
// symmetry that the lot makes. An effect e is not excluded while the same holds for d - e.
//
// `tandem ab` and the benches have the same mixture at the same alpha with a scale taken from the pairs, since theirs
// are of any kind (tools/common/tandem_common/confidence.py).
#pragma once

#include <cstdint>

namespace tandem::evidence
{

// Of logs of ratios: 0.05 is about +5 %.
struct Interval
{
  double low = 0;
  double high = 0;
};

// Sums, so that it is the same size after a thousand comparisons, and can be written down.
struct Sums
{
  std::uint32_t count = 0;
  double weights = 0;         // sum of w
  double differences = 0;     // sum of w d
  double squares = 0;         // sum of (w d)^2
  double cross = 0;           // sum of w^2 d
  double squared_weights = 0; // sum of w^2

  bool operator==(const Sums&) const = default;
};

class Sequence
{
public:
  static constexpr double alpha = 0.05;
  // A comparison counts for no more than a factor of four: what an interrupted download says is loud, not large.
  static constexpr double most = 1.3862943611198906;

  Sequence() = default;
  explicit Sequence(const Sums& sums) : sums_ { sums } {}

  // Of a comparison whose weight was known before it began.
  void add(double difference, double weight = 1);

  std::uint32_t count() const { return sums_.count; }
  double mean() const { return sums_.weights > 0 ? sums_.differences / sums_.weights : 0; }
  // Whether the effect is outside the confidence sequence.
  bool excludes(double effect) const;
  // The effects around the mean that are not excluded, at most +-`widest`.
  static constexpr double widest = 3;
  Interval interval() const;
  const Sums& sums() const { return sums_; }

private:
  double first_excluded(double direction) const;

  Sums sums_ {};
};

} // namespace tandem::evidence
