"""The report's picture as numbers for SVG: every pair as a dot, the interval as it went. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy
from tandem_common import confidence

from .analysis import Comparison

WIDTH, HEIGHT = 640.0, 240.0
LEFT, RIGHT, TOP, BOTTOM = 84.0, 8.0, 8.0, 24.0  # on a phone words are drawn larger: their first sign must not be cut


@dataclass(frozen=True)
class Chart:
    dots: list[tuple[float, float, str]]  # x, y, words
    band: str  # points of a polygon; empty below 8 pairs
    line: str  # points of the mean's course
    zero: float
    ticks: list[tuple[float, str]]  # y, words
    pairs: list[tuple[float, str]]  # x, words


def _step(span: float) -> float:
    """A round step that gives some five ticks."""
    raw = span / 5
    power = 10.0 ** math.floor(math.log10(raw))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= raw)


def chart(one: Comparison, alpha: float) -> Chart | None:
    """None without any pair."""
    if not one.differences:
        return None
    values = numpy.asarray(one.differences)
    mean, half = confidence.courses(values, alpha)
    claimed = numpy.isfinite(half)
    reach = [0.0, *values, *(mean[claimed] + numpy.minimum(half[claimed], 1.0)), *(mean[claimed] - numpy.minimum(half[claimed], 1.0))]
    low, high = float(min(reach)), float(max(reach))
    margin = 0.08 * (high - low) or 0.01
    low, high = low - margin, high + margin

    def x(place: int) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * (place + 0.5) / len(values)

    def y(value: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (high - min(max(value, low), high)) / (high - low)

    places = [place for place in range(len(values)) if claimed[place]]
    edge = (x(1) - x(0)) / 2 if len(values) > 1 else 0.0  # an interval is as broad as its pair, also when it is the only one
    above = [f"{x(place) + side:.1f},{y(mean[place] + half[place]):.1f}" for place in places for side in (-edge, edge)]
    below = [f"{x(place) + side:.1f},{y(mean[place] - half[place]):.1f}" for place in places for side in (-edge, edge)]
    step = _step((math.exp(high) - math.exp(low)) * 100)
    shares = [step * number for number in range(math.ceil((math.exp(low) - 1) * 100 / step), math.floor((math.exp(high) - 1) * 100 / step) + 1)]
    every = max(1, math.ceil(len(values) / 10))
    return Chart([(round(x(place), 1), round(y(value), 1), f"pair {one.numbers[place] + 1}: {math.expm1(value) * 100:+.1f} %") for place, value in enumerate(values)],
                 " ".join(above + below[::-1]), " ".join(f"{x(place):.1f},{y(mean[place]):.1f}" for place in range(len(values))),
                 round(y(0.0), 1), [(round(y(math.log1p(share / 100)), 1), f"{share:+g} %" if share else "0") for share in shares if share > -100],
                 [(round(x(place), 1), str(one.numbers[place] + 1)) for place in range(0, len(values), every)])
