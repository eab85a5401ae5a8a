"""What the pairs say: gain with interval, verdict, how many more pairs, drift, and what it cost. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Mapping, Sequence

import numpy
from tandem_common import confidence

from .quantities import count, percent
from .surroundings import NOT_VALIDATED

SAME_RATE = 0.01  # all figures of a limited rate, from the smallest to the largest; over the lab's steady air they differ by 5 %
FAST_START = 1.5
Pair = Mapping[str, Any]


@dataclass(frozen=True)
class Comparison:
    """One arm against the first. Effects are logs of ratios, positive is better. `word`: too few, gain, loss, nothing, undecided."""

    arm: str
    base: str
    pairs: int
    mean: float
    low: float
    high: float
    deviation: float
    word: str
    to_width: int | None  # further pairs until the interval is as narrow as asked for; 0: it is
    drift: confidence.Drift | None
    differences: tuple[float, ...]
    numbers: tuple[int, ...]  # of the pairs
    alpha: float = confidence.ALPHA

    @cached_property
    def to_find(self) -> int | None:
        """Of an undecided one: further pairs until an effect as large as it looks now would be found."""
        if self.word != "undecided" or not self.mean:
            return None
        found = confidence.pairs_to_find(self.mean, numpy.asarray(self.differences) - self.mean, alpha=self.alpha, before=self.differences)
        return None if found is None else found - self.pairs

    @property
    def narrow(self) -> bool:
        return self.to_width == 0

    @property
    def gain(self) -> str:
        """+31.2 % (+25 % to +38 %)."""
        if self.word == "too few":
            return percent(self.mean) if self.pairs else "?"
        return f"{percent(self.mean)} ({percent(self.low)} to {percent(self.high)})"


def better(base: float, arm: float, smaller_is_better: bool) -> float:
    """The log of the ratio of two figures, positive when the arm is better."""
    return math.log(base / arm) if smaller_is_better else math.log(arm / base)


def counted(pairs: Sequence[Pair]) -> list[Pair]:
    return [pair for pair in pairs if not pair["discarded"]]


def compare(pairs: Sequence[Pair], arms: Sequence[str], smaller_is_better: bool, until: float) -> list[Comparison]:
    """Every arm against the first; `until` is the wanted half-width as a share. The error is shared among them."""
    alpha = confidence.shared_alpha(len(arms) - 1)
    good = counted(pairs)
    made = []
    for arm in arms[1:]:
        differences = [better(pair["trials"][arms[0]]["figure"], pair["trials"][arm]["figure"], smaller_is_better) for pair in good]
        made.append(_comparison(arm, arms[0], differences, [pair["began"] for pair in good], [pair["number"] for pair in good], alpha, math.log1p(until)))
    return made


def _comparison(arm: str, base: str, differences: list[float], times: list[float], numbers: list[int], alpha: float, until: float) -> Comparison:
    told = confidence.estimate(differences, alpha)
    if told is None:
        return Comparison(arm, base, 0, 0.0, -math.inf, math.inf, 0.0, "too few", None, None, (), (), alpha)
    total = confidence.pairs_for_width(told.deviation, until, alpha)
    to_width = None if total is None else max(0, total - told.count)
    if told.claims and told.half <= until:
        to_width = 0
    word = "too few"
    if told.claims:
        word = "gain" if told.low > 0 else "loss" if told.high < 0 else "nothing" if told.half <= until else "undecided"
    return Comparison(arm, base, told.count, told.mean, told.low, told.high, told.deviation, word, to_width,
                      confidence.drift(times, differences), tuple(differences), tuple(numbers), alpha)


def enough(comparisons: Sequence[Comparison]) -> bool:
    """The stop rule: every interval is as narrow as asked for."""
    return all(one.pairs >= confidence.LEAST and one.narrow for one in comparisons)


def sentence(one: Comparison, until: float, null: bool) -> str:
    """The verdict in words for a user."""
    if one.word == "too few":
        return f"{one.arm} against {one.base}: {count(one.pairs, 'pair')}, and below {confidence.LEAST} nothing is claimed"
    reach = max(-one.low, one.high)
    if null:
        if one.word in ("gain", "loss"):
            return f"not quiet: two equal settings differ, {one.gain}; what a comparison finds here cannot be trusted"
        if one.word == "undecided":
            more = f"; about {count(one.to_width, 'more pair')} until the interval is +-{until * 100:g} %" if one.to_width else ""
            return f"not known to be quiet: two equal settings do not differ so far, {one.gain}; what is smaller than {percent(reach).lstrip('+')} would not show here{more}"
        return f"quiet: two equal settings do not differ, {one.gain}; what is larger than {percent(reach).lstrip('+')} would show here"
    if one.word == "gain":
        return f"{one.arm} gains {one.gain} over {one.base}"
    if one.word == "loss":
        return f"{one.arm} loses: {one.gain} against {one.base}"
    if one.word == "nothing":
        return f"nothing found: if {one.arm} has an effect here, it is within {percent(one.low)} to {percent(one.high)}"
    more = [f"about {count(one.to_width, 'more pair')} until the interval is +-{until * 100:g} %" if one.to_width else ""]
    if one.to_find:
        more.append(f"about {one.to_find} would find an effect as large as it looks now")
    words = "; ".join(part for part in more if part) or "no number of pairs in sight would decide it"
    return f"undecided: {one.gain} contains no effect; {words}"


def drift_sentence(one: Comparison) -> str:
    """Empty when the effect stayed as it was."""
    if not one.drift or not one.drift.clear:
        return ""
    return f"the effect changed over time: {percent(one.drift.first)} in the first third of the pairs, {percent(one.drift.last)} in the last"


def throttled(pairs: Sequence[Pair], arms: Sequence[str]) -> str:
    """In words, when rates look as those of a server that limits them; else empty. Links do not keep to one rate so exactly, nor is the beginning of every download the fastest."""
    good = counted(pairs)
    trials = [pair["trials"][arm] for pair in good for arm in arms]
    if len(good) < confidence.LEAST:
        return ""
    figures = sorted(trial["figure"] for trial in trials)
    median = float(numpy.median(figures))
    if figures[-1] - figures[0] <= SAME_RATE * median:
        return (f"All blocks of all settings came to {median:.4g} Mb/s, within {(figures[-1] - figures[0]) / median * 100:.1f} %: so looks a server, or a provider, that limits the rate. "
                "Then no setting can gain anything; measure with a faster server.")
    ratios = [trial["beside"]["warm_up_mbps"] / trial["figure"] for trial in trials if "warm_up_mbps" in trial["beside"]]
    if len(ratios) == len(trials) and min(ratios) >= FAST_START:
        return (f"Every download was {float(numpy.median(ratios)):.2g} times as fast during its warm-up as afterwards: so looks a server, or a provider, that lets the first megabytes pass "
                "and limits the rate of the rest. What was measured is that limit; measure with another server.")
    return ""


def lopsided(pairs: Sequence[Pair], arms: Sequence[str]) -> str:
    """In words, when what was measured failed more often in one setting than in the first one; else empty. Such pairs do not count, so a setting that breaks downloads would look better than it is."""
    lost = {arm: sum(bool(pair["trials"].get(arm, {}).get("lost")) for pair in pairs) for arm in arms}
    for arm in arms[1:]:
        total, more = lost[arm] + lost[arms[0]], max(lost[arm], lost[arms[0]])
        if confidence.outside(total, more, confidence.shared_alpha(len(arms) - 1)):
            worse, other = (arm, arms[0]) if lost[arm] == more else (arms[0], arm)
            return (f"What was measured failed {count(more, 'time')} in {worse} and {count(total - more, 'time')} in {other}, more than chance would have it. "
                    f"Those pairs do not count: what {worse} did to them is not in the gain. Their reasons are below.")
    return ""


def only_validated(pairs: Sequence[Pair]) -> str:
    """In words, when pairs were left out for what happened in one setting alone; else empty. The gain is that of the others, not of all times."""
    left_out = sum(NOT_VALIDATED in pair["discarded"] for pair in pairs)
    if not left_out:
        return ""
    return (f"{'In one pair' if left_out == 1 else f'In {left_out} pairs'} {NOT_VALIDATED}, and offload could not act. The gain is that of the {count(len(counted(pairs)), 'pair')} that "
            f"{'counts' if len(counted(pairs)) == 1 else 'count'}; with the others among them, as --unvalidated takes them, it may be smaller.")


@dataclass(frozen=True)
class Cost:
    """What the trials of one arm took, per counted trial on average; None: the machine does not tell."""

    arm: str
    trials: int
    figure: float | None  # median
    cell_bytes: float
    downloaded: float
    daemon_cpu: float | None  # share of one core
    watts: float | None
    energy_from: str
    faults: int
    cell_by_module: Mapping[str, float] = field(default_factory=dict)  # of cell_bytes
    stalled: float | None = None  # of the user's own traffic: share of the time that data was wanted and nothing came


def costs(pairs: Sequence[Pair], arms: Sequence[str]) -> list[Cost]:
    made = []
    for arm in arms:
        trials = [pair["trials"][arm] for pair in counted(pairs)]

        def mean(values: list[float]) -> float | None:
            return float(numpy.mean(values)) if values else None

        besides = [trial["beside"] for trial in trials]
        made.append(Cost(
            arm, len(trials), float(numpy.median([trial["figure"] for trial in trials])) if trials else None,
            mean([one.get("cell_bytes", 0) for one in besides]) or 0.0, mean([trial["bytes"] for trial in trials]) or 0.0,
            mean([one["daemon_cpu_s"] / trial["wall_s"] for one, trial in zip(besides, trials) if "daemon_cpu_s" in one]),
            mean([one["energy_j"] / trial["wall_s"] for one, trial in zip(besides, trials) if "energy_j" in one]),
            next((one["energy_from"] for one in besides if "energy_from" in one), ""), sum(one.get("faults", 0) for one in besides),
            {name: sum(one.get("cell_by_module", {}).get(name, 0) for one in besides) / len(besides) for name in sorted({name for one in besides for name in one.get("cell_by_module", {})})},
            mean([one["stalled_s"] / trial["seconds"] for one, trial in zip(besides, trials) if "stalled_s" in one and trial["seconds"]])))
    return made
