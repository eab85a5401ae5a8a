"""How often the statistics raise a false alarm, and whether planted gains are found when predicted, over made-up places. Pure: same seed, same figures."""

from __future__ import annotations

from dataclasses import dataclass

import numpy
from tandem_common import confidence

from .shapes import Blocks, differences

GAINS = (0.05, 0.10, 0.20)
PILOT = 4000  # pairs without a gain, of which a prediction takes the noise of the place


@dataclass(frozen=True)
class Alarms:
    """Shares of A/A experiments whose interval excluded zero after any pair: the order tossed, and strict AB, AB."""

    tossed: float
    strict: float
    signs: float  # the order tossed, and the median told by signs, as in the benches
    deviation: float  # of one pair's log ratio


@dataclass(frozen=True)
class Found:
    """A planted gain: pairs until it was found by half and by 80 % of the experiments, and as predicted; None: not in time."""

    gain: float
    half: int | None
    half_predicted: int | None
    most: int | None
    most_predicted: int | None
    covered: float  # share of the experiments whose interval held the planted gain after every pair


def false_alarms(shape: Blocks, seed: int, experiments: int, pairs: int) -> Alarms:
    random = numpy.random.default_rng(seed)
    tossed = differences(shape, random, experiments, pairs)
    strict = differences(shape, random, experiments, pairs, tossed=False)
    return Alarms(_excluded(tossed).any(axis=1).mean(), _excluded(strict).any(axis=1).mean(), _excluded_by_signs(tossed).any(axis=1).mean(), tossed.std())


def found(shape: Blocks, gain: float, seed: int, experiments: int, pairs: int) -> Found:
    random = numpy.random.default_rng(seed)
    pilot = differences(shape, random, 1, PILOT)[0]
    effect = float(numpy.log1p(gain))
    values = differences(shape, random, experiments, pairs, gain)
    mean, half = confidence.courses(values)
    excluded = numpy.maximum.accumulate(mean - half > 0, axis=1).mean(axis=0)
    covered = (numpy.abs(mean - effect) <= half).all(axis=1).mean()

    def at(share: float) -> int | None:
        return int(numpy.argmax(excluded >= share)) + 1 if excluded[-1] >= share else None

    return Found(gain, at(0.5), confidence.pairs_to_find(effect, pilot), at(0.8), confidence.pairs_to_find(effect, pilot, 0.8), covered)


def _excluded(values: numpy.ndarray) -> numpy.ndarray:
    mean, half = confidence.courses(values)
    return numpy.abs(mean) > half


def _excluded_by_signs(values: numpy.ndarray) -> numpy.ndarray:
    """Whether zero lies outside the interval of the median, after each pair."""
    pairs = values.shape[1]
    far = numpy.array([[count >= confidence.LEAST and above <= count and confidence.outside(count, above) for above in range(pairs + 1)] for count in range(1, pairs + 1)])
    return far[numpy.arange(pairs), numpy.cumsum(values > 0, axis=1)]
