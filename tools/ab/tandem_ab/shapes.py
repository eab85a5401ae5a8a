"""Made-up places to measure at, for the statistics' own tests: the log of what a block of time would yield, block after block. Pure."""

from __future__ import annotations

from typing import Callable, Mapping

import numpy

Blocks = Callable[[numpy.random.Generator, int, int], numpy.ndarray]


def _steady(random: numpy.random.Generator, experiments: int, blocks: int) -> numpy.ndarray:
    """A long download on a quiet link."""
    return random.normal(0.0, 0.05, (experiments, blocks))


def _requests(random: numpy.random.Generator, experiments: int, blocks: int) -> numpy.ndarray:
    """A hundred small requests a block, each of exponential time; of a thousand, three wait for a retransmission timeout of twenty times that."""
    times = random.gamma(100.0, 1.0, (experiments, blocks)) + 20.0 * random.poisson(0.3, (experiments, blocks))
    return -numpy.log(times)


def _bursty(random: numpy.random.Generator, experiments: int, blocks: int) -> numpy.ndarray:
    """A neighbour who takes half of the air for ten blocks on average, then none for ten; besides, noise with a memory of five blocks."""
    busy = _switching(random, experiments, blocks, 0.1)
    noise = numpy.empty((experiments, blocks))
    noise[:, 0] = random.normal(0.0, 0.1, experiments)
    for place in range(1, blocks):
        noise[:, place] = 0.8 * noise[:, place - 1] + random.normal(0.0, 0.06, experiments)
    return noise - numpy.log(2.0) * busy


def _switching(random: numpy.random.Generator, experiments: int, blocks: int, chance: float) -> numpy.ndarray:
    changes = random.random((experiments, blocks)) < chance
    return (numpy.cumsum(changes, axis=1) + random.integers(0, 2, (experiments, 1))) % 2


def _heavy(random: numpy.random.Generator, experiments: int, blocks: int) -> numpy.ndarray:
    """Tails of Student's t with 2.5 degrees of freedom, and of twenty blocks one that goes badly (a third)."""
    bad = random.random((experiments, blocks)) < 0.05
    return 0.05 * random.standard_t(2.5, (experiments, blocks)) - 1.1 * bad


def _drift(random: numpy.random.Generator, experiments: int, blocks: int) -> numpy.ndarray:
    """The place gets worse all the time, to half of what it was, with a tide of fifty blocks and a step of a fifth somewhere."""
    at = numpy.arange(blocks)
    tide = 0.15 * numpy.sin(2 * numpy.pi * (at / 50.0 + random.random((experiments, 1))))
    step = -0.22 * (at > random.integers(0, blocks, (experiments, 1)))
    return -0.7 * at / blocks + tide + step + random.normal(0.0, 0.05, (experiments, blocks))


def _periodic(random: numpy.random.Generator, experiments: int, blocks: int) -> numpy.ndarray:
    """A disturbance of a fifth in every other block: what a strict order of settings takes for an effect."""
    return 0.1 * (-1.0) ** numpy.arange(blocks) + random.normal(0.0, 0.05, (experiments, blocks))


def growing(random: numpy.random.Generator, experiments: int, blocks: int) -> numpy.ndarray:
    """A disturbance in every other block that grows without end, by 3 % a pair: more than the statistics bear."""
    return numpy.broadcast_to(0.001 * (-1.0) ** numpy.arange(blocks) * 1.03 ** (numpy.arange(blocks) // 2), (experiments, blocks))


SHAPES: Mapping[str, Blocks] = {
    "steady download": _steady,
    "many small requests": _requests,
    "bursty": _bursty,
    "heavy tails": _heavy,
    "drift": _drift,
    "period of two blocks": _periodic,
}


def differences(shape: Blocks, random: numpy.random.Generator, experiments: int, pairs: int, gain: float = 0.0, tossed: bool = True) -> numpy.ndarray:
    """The log ratios of the pairs, setting over none, experiments x pairs. `gain` is a share: 0.05 is +5 %; `tossed`: the order by a coin, not strict."""
    level = shape(random, experiments, 2 * pairs)
    first_minus_second = level[:, 0::2] - level[:, 1::2]
    sign = random.choice((-1.0, 1.0), (experiments, pairs)) if tossed else 1.0
    return sign * first_minus_second + numpy.log1p(gain)
