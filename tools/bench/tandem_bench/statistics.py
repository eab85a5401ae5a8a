"""Medians, paired ratios and their bootstrap confidence intervals, and the verdict on a goal. Pure: same runs, same numbers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Callable, Iterable, Mapping, Sequence

import numpy

from .model import Arm, Case, Goal, Metric, Run

CONFIDENCE = 0.95
RESAMPLES = 10_000


def interval(values: Sequence[float]) -> tuple[float, float] | None:
    """The bootstrap percentile interval of the median at CONFIDENCE; None with fewer than three values, which carry none."""
    if len(values) < 3:
        return None
    data = numpy.asarray(values, dtype=float)
    picks = numpy.random.default_rng(2009).integers(0, len(data), size=(RESAMPLES, len(data)))
    medians = numpy.median(data[picks], axis=1)
    low, high = numpy.quantile(medians, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


@dataclass(frozen=True)
class Spread:
    """Values over the seeds in one figure. `ci` of the median."""

    values: tuple[float, ...]
    median: float
    ci: tuple[float, float] | None

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        kept = tuple(float(value) for value in values)
        return cls(kept, float(numpy.median(kept)), interval(kept)) if kept else None

    @property
    def half_width(self) -> float | None:
        return (self.ci[1] - self.ci[0]) / 2 if self.ci else None


def values_of(runs: Iterable[Run], case: str, arm: str, metric: str) -> dict[int, float]:
    """Seed -> value of the runs that succeeded."""
    return {run.seed: run.values[metric] for run in runs
            if run.case == case and run.arm == arm and run.error is None and metric in run.values}


def pooled(runs: Iterable[Run], case: str, arm: str, samples: str) -> list[float]:
    """Every value of that list in the details of the runs that succeeded."""
    return [float(value) for run in runs if run.case == case and run.arm == arm and run.error is None
            for value in run.details.get(samples, ())]


def as_one_case(title: str, members: Sequence[Case], runs: Iterable[Run], arms: Iterable[Arm] | None = None) -> list[Run]:
    """The good runs of several cases (of these arms alone, when they are given) as those of one: a pair is a case on a seed, with a number of its own."""
    wanted = None if arms is None else {arm.name for arm in arms}
    kept = [run for run in runs if run.error is None and (wanted is None or run.arm in wanted)]
    return [replace(run, case=title, seed=place * 1_000_000 + run.seed, details={"derived": True})
            for place, case in enumerate(members) for run in kept if run.case == case.name]


STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "median": lambda values: float(numpy.median(values)),
    "mean": lambda values: float(numpy.mean(values)),
    "p95": lambda values: float(numpy.quantile(values, 0.95)),
    "p99": lambda values: float(numpy.quantile(values, 0.99)),
    "sum": lambda values: float(numpy.sum(values)),
    "minimum": lambda values: float(numpy.min(values)),
}


def figure_of(runs: Sequence[Run], case: str, arm: str, metric: Metric) -> float | None:
    """What the table shows of a metric: the median over the runs, or the metric's statistic over its samples. None without any value."""
    if metric.samples:
        values = pooled(runs, case, arm, metric.samples)
        return STATISTICS[metric.statistic](values) if values else None
    spread = Spread.of(values_of(runs, case, arm, metric.name).values())
    return spread.median if spread else None


def paired_ratios(runs: Sequence[Run], case: str, arm: str, over: str, metric: str) -> dict[int, float]:
    """Seed -> value of arm / value of over, where both succeeded and the divisor is positive."""
    top, bottom = values_of(runs, case, arm, metric), values_of(runs, case, over, metric)
    return {seed: top[seed] / bottom[seed] for seed in sorted(top.keys() & bottom.keys()) if bottom[seed] > 0}


@dataclass(frozen=True)
class Verdict:
    """A goal and how it stands. `value` is None when no pair was measured; the goal counts as missed then."""

    case: str
    goal: Goal
    metric: str
    value: float | None
    ci: tuple[float, float] | None
    pairs: int
    resolution: float | None  # measured, when the goal names a noise arm
    met: bool
    within_resolution: bool  # met only thanks to the resolution
    undecided: bool = False  # the interval contains the bound, and the goal asks for more

    @property
    def word(self) -> str:
        if self.value is None:
            return "no result"
        if self.undecided:
            return "undecided"
        if self.within_resolution:
            return "met within resolution"
        return "met" if self.met else "MISSED"


def judge(case: Case, goal: Goal, runs: Sequence[Run]) -> Verdict:
    """How a goal stands after these runs."""
    metric = goal.metric or case.metrics[0].name
    kind = next((entry for entry in case.metrics if entry.name == metric), None)
    if kind is not None and kind.samples:
        return _judge_samples(case, goal, kind, runs)
    if goal.over:
        spread = Spread.of(paired_ratios(runs, case.name, goal.arm, goal.over, metric).values())
    else:
        spread = Spread.of(values_of(runs, case.name, goal.arm, metric).values())
    resolution = None
    if goal.noise:
        noise = Spread.of(paired_ratios(runs, case.name, goal.noise, goal.over, metric).values())
        resolution = _resolution(noise)
    if spread is None:
        return Verdict(case.name, goal, metric, None, None, 0, resolution, False, False)
    short = goal.bound - spread.median if goal.sense == ">=" else spread.median - goal.bound
    strictly = short <= 0
    if goal.by_interval and spread.ci and spread.ci[0] < goal.bound < spread.ci[1]:
        return Verdict(case.name, goal, metric, spread.median, spread.ci, len(spread.values), resolution, False, False, undecided=True)
    allowed = min(resolution or 0.0, goal.tolerance_cap)
    return Verdict(case.name, goal, metric, spread.median, spread.ci, len(spread.values), resolution,
                   strictly or short <= allowed, not strictly and short <= allowed)


def _judge_samples(case: Case, goal: Goal, kind: Metric, runs: Sequence[Run]) -> Verdict:
    """A goal on all samples together, or on the ratio of two arms' figures of them."""
    statistic = STATISTICS[kind.statistic]
    top = pooled(runs, case.name, goal.arm, kind.samples)
    bottom = pooled(runs, case.name, goal.over, kind.samples) if goal.over else [1.0]
    if not top or not bottom or (goal.over and statistic(bottom) <= 0):
        return Verdict(case.name, goal, kind.name, None, None, 0, None, False, False)
    value, ci = statistic(top), None
    resolution = None
    if goal.over:
        value /= statistic(bottom)
        ci = ratio_interval(top, bottom, statistic)
        again = pooled(runs, case.name, goal.noise, kind.samples) if goal.noise else []
        if again and (noise := ratio_interval(again, bottom, statistic)):
            resolution = (noise[1] - noise[0]) / 2
    short = goal.bound - value if goal.sense == ">=" else value - goal.bound
    allowed = min(resolution or 0.0, goal.tolerance_cap)
    return Verdict(case.name, goal, kind.name, value, ci, len(top), resolution, short <= max(0.0, allowed), 0 < short <= allowed)


def ratio_interval(top: Sequence[float], bottom: Sequence[float], statistic: Callable[[Sequence[float]], float]) -> tuple[float, float] | None:
    """The bootstrap percentile interval of statistic(top) / statistic(bottom); None with fewer than ten values on either side."""
    if min(len(top), len(bottom)) < 10:
        return None
    random = numpy.random.default_rng(2009)
    above, below = numpy.asarray(top, dtype=float), numpy.asarray(bottom, dtype=float)
    ratios = [statistic(random.choice(above, len(above))) / statistic(random.choice(below, len(below))) for _ in range(1000)]
    low, high = numpy.quantile(ratios, [(1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2])
    return float(low), float(high)


def _resolution(noise: Spread | None) -> float | None:
    """How far the median of equal arms can lie from 1: the interval's half-width, with few rounds the largest deviation."""
    if noise is None:
        return None
    if noise.half_width is not None:
        return noise.half_width
    return max(abs(value - 1.0) for value in noise.values)
