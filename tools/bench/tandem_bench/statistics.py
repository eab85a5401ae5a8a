"""Medians, paired ratios and their confidence intervals, and the verdict on a goal. Pure: same runs, same numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, Callable, Iterable, Mapping, Sequence

import numpy
from tandem_common import confidence

from .model import Arm, Case, Goal, Metric, Run

CONFIDENCE = 1 - confidence.ALPHA


@dataclass(frozen=True)
class Spread:
    """Values over the seeds in one figure. `ci` is the interval of the median by signs, valid however often one looks; None below confidence.LEAST values."""

    values: tuple[float, ...]
    median: float
    ci: tuple[float, float] | None

    @classmethod
    def of(cls, values: Iterable[float]) -> "Spread | None":
        kept = tuple(float(value) for value in values)
        return cls(kept, float(numpy.median(kept)), confidence.median_interval(kept)) if kept else None

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
    """The runs of several cases (of these arms alone, when they are given) as those of one: a pair is a case on a seed, with a number of its own."""
    wanted = None if arms is None else {arm.name for arm in arms}
    kept = [run for run in runs if wanted is None or run.arm in wanted]
    return [replace(run, case=title, seed=place * 1_000_000 + run.seed, details={"derived": True})
            for place, case in enumerate(members) for run in kept if run.case == case.name]


def over_cases(title: str, members: Sequence[Case], runs: Iterable[Run], arms: Sequence[Arm], metrics: tuple[Metric, ...],
               goals: Callable[[tuple[Arm, ...]], tuple[Goal, ...]]) -> list[tuple[Case, list[Run]]]:
    """The row of several cases together, with those of `arms` that all have and the goals on these; none of fewer than two cases."""
    if len(members) < 2:
        return []
    shared = tuple(arm for arm in arms if all(arm in case.arms for case in members))
    pooled = as_one_case(title, members, runs, shared)
    return [(Case(title, shared, metrics, len({run.seed for run in pooled}), goals(shared), parameters={"pooled": True}), pooled)]


def over_groups(titles: Mapping[Any, str], group_of: Callable[[Case], Any], cases: Sequence[Case], runs: Sequence[Run], arms: Sequence[Arm],
                metrics: tuple[Metric, ...], goals: Callable[[tuple[Arm, ...]], tuple[Goal, ...]]) -> list[tuple[Case, list[Run]]]:
    """The row of each group's cases together, as `over_cases` makes it. `titles`: of the groups, in the order of the rows."""
    return [row for group, title in titles.items()
            for row in over_cases(f"{title}, all cells", [case for case in cases if group_of(case) == group], runs, arms, metrics, goals)]


STATISTICS: Mapping[str, Callable[[Sequence[float]], float]] = {
    "median": lambda values: float(numpy.median(values)),
    "mean": lambda values: float(numpy.mean(values)),
    "p95": lambda values: float(numpy.quantile(values, 0.95)),
    "p99": lambda values: float(numpy.quantile(values, 0.99)),
    "sum": lambda values: float(numpy.sum(values)),
    "minimum": lambda values: float(numpy.min(values)),
    "maximum": lambda values: float(numpy.max(values)),
}
TAILS = {"median": 0.5, "p95": 0.05, "p99": 0.01}  # share of the samples beyond the figure
COUNTED = ("sum", "minimum", "maximum")  # what the samples are, not an estimate of anything


def figure_of(runs: Sequence[Run], case: str, arm: str, metric: Metric) -> float | None:
    """What the table shows of a metric: the median over the runs, or the metric's statistic over its samples. None without any value."""
    if metric.samples:
        values = pooled(runs, case, arm, metric.samples)
        return STATISTICS[metric.statistic](values) if values else None
    spread = Spread.of(values_of(runs, case, arm, metric.name).values())
    return spread.median if spread else None


def paired_ratios(runs: Sequence[Run], case: str, arm: str, over: str, metric: str) -> dict[int, float]:
    """Seed -> value of arm / value of over, where both succeeded."""
    top, bottom = values_of(runs, case, arm, metric), values_of(runs, case, over, metric)
    return {seed: _ratio(top[seed], bottom[seed]) for seed in sorted(top.keys() & bottom.keys())}


def _ratio(value: float, over: float) -> float:
    """Something over nothing is infinite and nothing over nothing is equal: a pair that is left out says nothing against the arm that has something."""
    if over > 0:
        return value / over
    return math.inf if value > 0 else 1.0


@dataclass(frozen=True)
class Verdict:
    """A goal and how it stands. `value` is None when no pair was measured; the goal counts as missed then."""

    case: str
    goal: Goal
    metric: str
    value: float | None
    ci: tuple[float, float] | None
    pairs: int  # or runs, or samples
    resolution: float | None  # measured, when the goal names a noise arm
    met: bool
    within_resolution: bool  # met only thanks to the resolution
    undecided: bool = False  # the interval contains the bound
    claimed: bool = True  # by an interval, or by counting; False: there are too few pairs, it only says where the figure lies
    more: int | None = None  # further rounds that would decide it, by how it went so far; None: no number in sight
    counted: str = "pair"  # what `pairs` counts
    failed: int = 0  # runs of the goal's arm that failed, without which it would be met: it is undecided for their sake
    lacking: int = 0  # and runs of it that succeeded without a value of this metric

    @property
    def word(self) -> str:
        if self.value is None:
            return "no result"
        if self.undecided:
            return "undecided"
        if self.within_resolution:
            return "met within resolution"
        return "met" if self.met else "MISSED"

    @property
    def note(self) -> str:
        """What must be said beside the word; empty when nothing must."""
        if self.value is None:
            return ""
        if self.failed or self.lacking:
            left_out = [f"{self.failed} failed run{'' if self.failed == 1 else 's'}"] if self.failed else []
            left_out += [f"{self.lacking} run{'' if self.lacking == 1 else 's'} without {self.metric}"] if self.lacking else []
            return f"met but for {' and '.join(left_out)} of {self.goal.arm}"
        if not self.claimed:
            return f"{self.pairs} {self.counted}{'' if self.pairs == 1 else 's'}: no interval"
        if self.undecided:
            return "no number of rounds in sight that would decide" if self.more is None else f"about {self.more} more round{'' if self.more == 1 else 's'}"
        return ""


def _standing(goal: Goal, value: float, ci: tuple[float, float] | None, allowed: float) -> dict[str, bool]:
    """met, within_resolution and undecided of a figure. Without an interval the figure alone says it."""
    sign = 1 if goal.sense == ">=" else -1
    short = sign * (goal.bound - value)
    if ci is None:
        return {"met": short <= allowed, "within_resolution": 0 < short <= allowed}
    worst, best = sorted(sign * (end - goal.bound) for end in ci)  # how far the interval's ends lie on the good side
    if worst >= 0:
        return {"met": True, "within_resolution": False}
    equal = short <= allowed and worst >= -goal.tolerance_cap
    if allowed > 0 and equal:
        return {"met": True, "within_resolution": True}
    return {"met": False, "within_resolution": False, "undecided": best >= 0}


def judge(case: Case, goal: Goal, runs: Sequence[Run]) -> Verdict:
    """How a goal stands after these runs: met or missed when the whole interval says so, undecided when it contains the bound.

    A failed run of the goal's arm has no figure and may have had any, and so has one that succeeded without this metric: what is met only where the worst is not
    assumed of them is undecided.
    """
    verdict = _judge_good(case, goal, runs)
    metric = goal.metric or case.metrics[0].name
    failed, lacking = _failed_alone(case, goal, runs), _lacking_alone(case, goal, metric, runs)
    if not verdict.met or not failed | lacking:
        return verdict
    if any(entry.name == metric and entry.samples for entry in case.metrics):
        holds = False
    else:
        worst = -math.inf if goal.sense == ">=" else math.inf
        values = paired_ratios(runs, case.name, goal.arm, goal.over, metric) if goal.over else values_of(runs, case.name, goal.arm, metric)
        spread = Spread.of([*values.values(), *[worst] * len(failed | lacking)])
        assert spread
        holds = _standing(goal, spread.median, spread.ci, min(verdict.resolution or 0.0, goal.tolerance_cap))["met"]
    return verdict if holds else replace(verdict, met=False, within_resolution=False, undecided=True, failed=len(failed), lacking=len(lacking - failed))


def _failed_alone(case: Case, goal: Goal, runs: Iterable[Run]) -> set[int]:
    """The seeds on which the goal's arm failed and that over which it is measured did not."""
    other = seeds_measured(runs, case.name, goal.over) if goal.over else None
    return {run.seed for run in runs if run.case == case.name and run.arm == goal.arm and run.error is not None and (other is None or run.seed in other)}


def _lacking_alone(case: Case, goal: Goal, metric: str, runs: Sequence[Run]) -> set[int]:
    """The seeds on which a run of the goal's arm succeeded without the metric that its others have, and that of the other arm has it. Not of what is worked out of
    several runs, or is a list of samples, which may be empty."""
    if any(entry.name == metric and entry.samples for entry in case.metrics):
        return set()
    own = [run for run in runs if run.case == case.name and run.arm == goal.arm and run.error is None and not run.details.get("derived")]
    if not any(metric in run.values for run in own):
        return set()
    other = values_of(runs, case.name, goal.over, metric) if goal.over else None
    have = values_of(runs, case.name, goal.arm, metric)
    return {run.seed for run in own if run.seed not in have and (other is None or run.seed in other)}


def _judge_good(case: Case, goal: Goal, runs: Sequence[Run]) -> Verdict:
    """Of the runs that succeeded."""
    metric = goal.metric or case.metrics[0].name
    kind = next((entry for entry in case.metrics if entry.name == metric), None)
    if kind is not None and kind.samples:
        return _judge_samples(case, goal, kind, runs)
    values = paired_ratios(runs, case.name, goal.arm, goal.over, metric) if goal.over else values_of(runs, case.name, goal.arm, metric)
    spread = Spread.of(values.values())
    resolution = None
    if goal.noise:
        noise = Spread.of(paired_ratios(runs, case.name, goal.noise, goal.over, metric).values())
        resolution = _resolution(noise)
    if spread is None:
        return Verdict(case.name, goal, metric, None, None, 0, resolution, False, False)
    standing = _standing(goal, spread.median, spread.ci, min(resolution or 0.0, goal.tolerance_cap))
    count = len(spread.values)
    total = confidence.values_to_decide(sum(value > goal.bound for value in spread.values), count) if standing.get("undecided") else None
    return Verdict(case.name, goal, metric, spread.median, spread.ci, count, resolution, **standing, claimed=spread.ci is not None,
                   more=total and total - count, counted="pair" if goal.over else "run")


def _judge_samples(case: Case, goal: Goal, kind: Metric, runs: Sequence[Run]) -> Verdict:
    """A goal on all samples together, or on the ratio of two arms' figures of them."""
    statistic = STATISTICS[kind.statistic]
    top = pooled(runs, case.name, goal.arm, kind.samples)
    bottom = pooled(runs, case.name, goal.over, kind.samples) if goal.over else [1.0]
    if not top or not bottom or (goal.over and statistic(bottom) <= 0):
        return Verdict(case.name, goal, kind.name, None, None, 0, None, False, False)
    value = statistic(top) / (statistic(bottom) if goal.over else 1.0)
    if kind.statistic in COUNTED:
        return Verdict(case.name, goal, kind.name, value, None, len(top), None, **_standing(goal, value, None, 0.0), counted="sample")
    ci = ratio_interval(top, bottom, kind.statistic) if goal.over else figure_interval(top, kind.statistic)
    resolution = None
    if goal.over and goal.noise and (again := pooled(runs, case.name, goal.noise, kind.samples)):
        if noise := ratio_interval(again, bottom, kind.statistic):
            resolution = (noise[1] - noise[0]) / 2
    standing = _standing(goal, value, ci, min(resolution or 0.0, goal.tolerance_cap))
    more = None
    if ci is not None and standing.get("undecided") and value != goal.bound and all(map(math.isfinite, ci)):
        rounds = len(seeds_measured(runs, case.name, goal.arm))
        more = math.ceil(rounds * (((ci[1] - ci[0]) / 2 / abs(value - goal.bound)) ** 2 - 1)) or 1
    return Verdict(case.name, goal, kind.name, value, ci, len(top), resolution, **standing, claimed=ci is not None,
                   more=more if more is None or 0 < more < 1000 else None, counted="sample")


def seeds_measured(runs: Iterable[Run], case: str, arm: str) -> set[int]:
    """The seeds of the runs that succeeded."""
    return {run.seed for run in runs if run.case == case and run.arm == arm and run.error is None}


def _enough(values: Sequence[float], statistic: str) -> bool:
    """Whether a resampled figure says anything: as many samples beyond a percentile as a claim needs pairs."""
    return len(values) * TAILS.get(statistic, 1.0) >= confidence.LEAST


def figure_interval(values: Sequence[float], statistic: str) -> tuple[float, float] | None:
    """The bootstrap percentile interval of a figure of samples; None with too few of them."""
    return ratio_interval(values, [1.0] * len(values), statistic)


def ratio_interval(top: Sequence[float], bottom: Sequence[float], statistic: str) -> tuple[float, float] | None:
    """The bootstrap percentile interval of the ratio of two arms' figures; None with too few samples on either side."""
    if not _enough(top, statistic) or not _enough(bottom, statistic):
        return None
    random = numpy.random.default_rng(2009)
    above, below, figure = numpy.asarray(top, dtype=float), numpy.asarray(bottom, dtype=float), STATISTICS[statistic]
    ratios = [_ratio(figure(random.choice(above, len(above))), figure(random.choice(below, len(below)))) for _ in range(1000)]
    ways = ("linear", "linear") if all(map(math.isfinite, ratios)) else ("lower", "higher")  # between infinite ones nothing can be interpolated
    low, high = (numpy.quantile(ratios, end, method=way) for end, way in zip(((1 - CONFIDENCE) / 2, (1 + CONFIDENCE) / 2), ways))
    return float(low), float(high)


def _resolution(noise: Spread | None) -> float | None:
    """How far the median of equal arms can lie from 1: the interval's half-width, without an interval the largest deviation."""
    if noise is None:
        return None
    if noise.half_width is not None:
        return noise.half_width
    return max(abs(value - 1.0) for value in noise.values)
