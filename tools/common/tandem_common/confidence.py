"""What pairs say of an effect, and how surely, however often one looks: anytime-valid confidence sequences. Pure.

A pair is two measurements of equal kind, one with each setting, in an order that a coin tossed. Two sequences are here; both
cover the truth at all numbers of pairs at once with probability 1 - alpha, so that one may look after every pair and stop when one likes.

Mean (of the logs of ratios): with S the sum and V the sum of squares of the deviations from an effect e, e is not excluded while

    S^2 / V  <  (n + c) (1 - (alpha^2 c / (n + c))^(1 / n)),  c = PRIOR.

It is the t-test of Wang and Ramdas (arXiv 2310.03722), a mixture over normal effects: exact for normal pairs of any variance, and for
many pairs the asymptotic confidence sequence of Waudby-Smith et al. (arXiv 2103.06476), valid for others, too. The coin makes the difference of a pair as
likely as its negative when there is no effect, whatever the network does meanwhile (design-based: Ham et al., arXiv 2210.08589), and a sum of such
differences over the root of their squares has lighter tails than normal ones. docs/results/ab-statistics.md has what comes of it with few pairs.

The daemon (src/evidence/sequence.h) mixes over normal effects likewise, at the same alpha. Its scale is fixed (rho), since its stretches are always of the same
kind, seconds of a download; here the scale is whatever the place and the workload make it, and is taken from the pairs. It counts no ratio for more than four, here all
count as they are: an effect of six is shown as six.

Median (of anything, also of what has no logarithm): by the signs of the deviations alone, mixed over all probabilities (Robbins 1970). It assumes
nothing of the distribution.

Below LEAST pairs nothing is claimed. For signs that is no choice: seven of seven weigh 16 where 1 / alpha = 20 are
needed, eight of eight weigh 28.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import comb, exp, log, sqrt
from statistics import NormalDist
from typing import Sequence

import numpy

ALPHA = 0.05
LEAST = 8
PRIOR = 2.0  # an effect is expected to be of the size of a pair's noise; the sequence is tightest at about twenty to forty pairs
MOST_PAIRS = 100_000  # what needs more is not reached
FARTHEST = 4096  # further pairs that a prediction looks at
RESAMPLES = 400  # courses of a prediction; it is good to about a twentieth


def bound(count: int, alpha: float = ALPHA) -> float:
    """S^2 / V from which on an effect is excluded by `count` pairs. Above `count`, which S^2 / V never is, none is."""
    return (count + PRIOR) * (1 - exp(log(alpha * alpha * PRIOR / (count + PRIOR)) / count))


def half_width(deviation: float, count: int, alpha: float = ALPHA) -> float:
    """Half of the mean's interval after `count` pairs of that standard deviation (over n, not n - 1); infinite while nothing is excluded."""
    limit = bound(count, alpha) if count >= LEAST else float("inf")
    return deviation * sqrt(limit / (count - limit)) if limit < count else float("inf")


@dataclass(frozen=True)
class Estimate:
    """The mean of pairs. `low` and `high` are infinite below LEAST pairs; `deviation` is the standard deviation of one pair."""

    count: int
    mean: float
    deviation: float
    low: float
    high: float

    @property
    def claims(self) -> bool:
        """Whether there are enough pairs to say anything."""
        return self.low > -float("inf")

    @property
    def half(self) -> float:
        return (self.high - self.low) / 2 if self.claims else float("inf")

    def excludes(self, effect: float) -> bool:
        return not self.low <= effect <= self.high


def estimate(differences: Sequence[float], alpha: float = ALPHA) -> Estimate | None:
    """The mean and its interval; None without any pair."""
    if not len(differences):
        return None
    values = numpy.asarray(differences, dtype=float)
    mean, deviation, count = float(values.mean()), float(values.std()), len(values)
    half = half_width(deviation, count, alpha)
    return Estimate(count, mean, deviation, mean - half, mean + half)


def courses(differences: numpy.ndarray, alpha: float = ALPHA) -> tuple[numpy.ndarray, numpy.ndarray]:
    """Mean and half-width after each pair, along the last axis: what somebody sees who looks after every pair."""
    count = numpy.arange(1, differences.shape[-1] + 1)
    mean = numpy.cumsum(differences, axis=-1) / count
    deviation = numpy.sqrt(numpy.maximum(numpy.cumsum(differences**2, axis=-1) / count - mean**2, 0.0))
    widths = numpy.array([half_width(1.0, int(number), alpha) for number in count])
    with numpy.errstate(invalid="ignore"):
        return mean, numpy.where(numpy.isinf(widths), numpy.inf, deviation * widths)


def pairs_for_width(deviation: float, half: float, alpha: float = ALPHA) -> int | None:
    """How many pairs give an interval of that half-width or less; None: more than MOST_PAIRS."""
    return _least(lambda count: half_width(deviation, count, alpha) <= half)


def normal_noise(deviation: float) -> numpy.ndarray:
    """Deviations of pairs for a plan made before there are any: quantiles of a normal distribution."""
    law = NormalDist(0.0, deviation or 1e-12)
    return numpy.array([law.inv_cdf((place + 0.5) / 200) for place in range(200)])


def pairs_to_find(effect: float, noise: Sequence[float], power: float = 0.5, alpha: float = ALPHA, before: Sequence[float] = ()) -> int | None:
    """With how many pairs in all the sequence has excluded zero with probability `power`, when `effect` is the truth.

    By resampling: courses that go on from the pairs `before` with the effect plus deviations drawn from `noise`, as often as not the pairs' own. 0.5
    gives the number that one waits for commonly, 0.8 the one to plan with. None: more than FARTHEST further ones.
    """
    random = numpy.random.default_rng(2103)
    deviations = numpy.asarray(noise, dtype=float) - numpy.mean(noise)
    start = numpy.asarray(before, dtype=float)
    length = 64
    while True:
        further = effect + random.choice(deviations, (RESAMPLES, length))
        mean, half = courses(numpy.concatenate([numpy.broadcast_to(start, (RESAMPLES, len(start))), further], axis=1), alpha)
        found = (numpy.abs(mean) > half)[:, len(start):]
        if (share := numpy.maximum.accumulate(found, axis=1).mean(axis=0))[-1] >= power:
            return len(start) + int(numpy.argmax(share >= power)) + 1
        if length >= FARTHEST:
            return None
        length *= 4


def _least(enough) -> int | None:
    """The least number of pairs from LEAST on that is enough, by halves; once enough, always enough."""
    low, high = LEAST - 1, LEAST
    while not enough(high):
        low, high = high, 2 * high
        if low >= MOST_PAIRS:
            return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def shared_alpha(comparisons: int, alpha: float = ALPHA) -> float:
    """The alpha of each of several comparisons, so that all intervals hold at once with probability 1 - alpha (Bonferroni)."""
    return alpha / max(1, comparisons)


@dataclass(frozen=True)
class Drift:
    """How the effect went with time: its slope a second with standard error, and the means of the first and the last third."""

    slope: float
    error: float
    first: float
    last: float

    @property
    def clear(self) -> bool:
        """Further from none than chance would have it once in some hundred experiments. Of a look at the end, not of many on the way."""
        return self.error > 0 and abs(self.slope) > 3 * self.error


def drift(times: Sequence[float], differences: Sequence[float]) -> Drift | None:
    """None below LEAST pairs or without any time between them."""
    if len(differences) < LEAST or len(set(times)) < 3:
        return None
    at, values = numpy.asarray(times, dtype=float), numpy.asarray(differences, dtype=float)
    fitted, covariance = numpy.polyfit(at - at.mean(), values, 1, cov=True)
    order = numpy.argsort(at)
    third = len(values) // 3
    return Drift(float(fitted[0]), float(sqrt(max(0.0, covariance[0, 0]))), float(values[order[:third]].mean()), float(values[order[-third:]].mean()))


# -- the median, by signs


def outside(count: int, above: int, alpha: float = ALPHA) -> bool:
    """Whether `above` of `count` fair coins are too many or too few heads: the uniform mixture over their probability against one half."""
    part, whole = alpha.as_integer_ratio()  # a float ends at a thousand coins
    return part * 2**count >= whole * (count + 1) * comb(count, above)


def median_interval(values: Sequence[float], alpha: float = ALPHA) -> tuple[float, float] | None:
    """The interval of the median of which `values` are independent draws; None while nothing can be claimed."""
    ordered = sorted(float(value) for value in values)
    count = len(ordered)
    if count < LEAST or not outside(count, 0, alpha):
        return None
    below = max(rank for rank in range(count // 2 + 1) if outside(count, rank, alpha))
    return ordered[below], ordered[count - 1 - below]


def values_to_decide(right: int, count: int, alpha: float = ALPHA) -> int | None:
    """How many values in all until the median is decided to lie on one side of a bound, when so many as `right` of `count` keep lying above it.

    None: they lie on both sides alike, no number would do.
    """
    share = (right + 0.5) / (count + 1)
    share = max(share, 1 - share)

    def enough(total: int) -> bool:
        return total > count and outside(total, min(total, round(share * total)), alpha)

    for total in range(max(LEAST, count + 1), 1000):
        if enough(total):
            return total
    return None
