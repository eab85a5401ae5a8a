"""Pictures of the benches that steer between access points: sorted curves, figures over a number, distributions, bars of clients."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_common.picture import panels

from .model import Bench, Case, Metric, Run
from .plot import COLOURS, save
from .statistics import pooled, values_of

# Arm -> colour and line.
LINES: Mapping[str, tuple[str, str]] = {
    "TCP by AP1": ("#999999", "--"), "TCP by AP2": ("#56B4E9", "--"), "MPTCP alone": (COLOURS["plain"], "-"), "as published": (COLOURS["published"], "-"),
    "to the letter": ("#CC79A7", ":"), "on-off": ("#009E73", ":"), "Tandem, no survey": ("#F0A080", "-."), "Tandem, measured times": ("#7A3B00", ":"), "Tandem": (COLOURS["tandem"], "-"), "optimum": (COLOURS["limit"], "--"),
    "UDP by both": ("#CC79A7", ":"), "better TCP": (COLOURS["limit"], "--"),
    "the first one only": ("#999999", "--"), "handover by beacons": ("#CC79A7", ":"), "best at each moment": (COLOURS["limit"], "--"),
    "C at AP1": ("#999999", "--"), "C at AP2": ("#56B4E9", "--"),
}


def _finish(bench: Bench, figure: Any, directory: Path) -> list[Path]:
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", int(figure.get_figwidth() * 11))), fontsize=10)
    return save(figure, directory, bench.name)


def arms_of(cases: Sequence[Case]) -> list[str]:
    """In the order of the cases."""
    return list(dict.fromkeys(arm.name for case in cases for arm in case.arms))


def middle(runs: Sequence[Run], case: Case, arm: str, metric: str) -> float | None:
    """Mean over the seeds."""
    values = list(values_of(runs, case.name, arm, metric).values())
    return sum(values) / len(values) if values else None


def curve(runs: Sequence[Run], cases: Sequence[Case], arm: str, metric: str) -> list[float]:
    """A mean of each cell, rising."""
    return sorted(value for case in cases if (value := middle(runs, case, arm, metric)) is not None)


def sorted_curves(bench: Bench, groups: Mapping[str, Sequence[Case]], runs: Sequence[Run], metric: str, directory: Path,
                  published: Mapping[str, float]) -> list[Path]:
    """As figure 6a: all cells of an arm by what they reach. `published`: means of the paper, as thin lines."""
    groups = {name: cases for name, cases in groups.items() if cases}
    if not any(curve(runs, cases, arm, metric) for cases in groups.values() for arm in arms_of(cases)):
        return []
    figure, places = panels(len(groups), 3, 4.6, 4.4, least_width=6.0)
    for number, (axes, (name, cases)) in enumerate(zip(places, groups.items())):
        for arm in arms_of(cases):
            values = curve(runs, cases, arm, metric)
            if values:
                colour, style = LINES[arm]
                axes.plot([i + 1 for i in range(len(values))], values, style, color=colour, linewidth=1.6, label=arm)
        for arm, value in published.items() if number == 0 else ():
            axes.axhline(value, color=LINES[arm][0], linewidth=0.7, alpha=0.7)
            axes.annotate(f"published mean, {arm}", (1, value), fontsize=6, textcoords="offset points", xytext=(2, 2))
        axes.set_title(name, fontsize=9)
        axes.set_xlabel("cells, sorted")
        axes.set_ylabel("% of the optimum")
        axes.set_ylim(0, 105)
        axes.grid(alpha=0.3)
    # The first one has all the arms; below, where no curve is.
    places[0].legend(fontsize=7, frameon=False, loc="upper left", bbox_to_anchor=(-0.1, -0.13), ncols=3)
    return _finish(bench, figure, directory)


def against(bench: Bench, groups: Mapping[str, Sequence[Case]], runs: Sequence[Run], metric: Metric, parameter: str, label: str, directory: Path) -> list[Path]:
    """As figures 6b and 6c: a metric over a parameter of the cases, a line for each arm."""
    groups = {name: cases for name, cases in groups.items() if any(middle(runs, case, arm, metric.name) is not None for case in cases for arm in arms_of(cases))}
    if not groups:
        return []
    figure, places = panels(len(groups), 2 if len(groups) > 3 else 3, 4.8, 3.9, least_width=6.0)
    for axes, (name, cases) in zip(places, groups.items()):
        for arm in arms_of(cases):
            points = [(case.parameters[parameter], value) for case in cases if (value := middle(runs, case, arm, metric.name)) is not None]
            if points:
                colour, style = LINES[arm]
                axes.plot(*zip(*points), style, marker="o", markersize=3, color=colour, linewidth=1.5, label=arm)
        axes.set_title(name, fontsize=9)
        axes.set_xlabel(label)
        axes.set_ylabel(f"{metric.name}, {metric.unit}")
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    places[0].legend(fontsize=7, frameon=False)
    return _finish(bench, figure, directory)


def distributions(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], samples: str, label: str, directory: Path) -> list[Path]:
    """As figure 9: the share of samples below, a line for each arm."""
    cases = [case for case in cases if any(pooled(runs, case.name, arm.name, samples) for arm in case.arms)]
    if not cases:
        return []
    figure, places = panels(len(cases), 3, 4.8, 4.0, least_width=6.0)
    for axes, case in zip(places, cases):
        for arm in case.arms:
            values = sorted(pooled(runs, case.name, arm.name, samples))
            if values:
                colour, style = LINES[arm.name]
                axes.plot(values, [(i + 1) / len(values) for i in range(len(values))], style, color=colour, linewidth=1.5, label=arm.name)
        axes.axhline(0.99, color="black", linewidth=0.5, linestyle=":")
        axes.set_xscale("log")
        ticks = (2, 3, 5, 10, 20, 40)
        axes.set_xticks(ticks, [str(tick) for tick in ticks])
        axes.set_xticks([], minor=True)
        axes.set_ylim(0, 1.01)
        axes.set_title(case.name, fontsize=9)
        axes.set_xlabel(label)
        axes.set_ylabel("share of downloads below")
        axes.grid(alpha=0.3)
    places[0].legend(fontsize=7, frameon=False, loc="lower right")
    return _finish(bench, figure, directory)


def walks(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], curve_of: str, across: str, up: str, directory: Path) -> list[Path]:
    """As figure 8: what each arm's first run had over time."""
    found = {(run.case, run.arm): run.details[curve_of] for run in sorted(runs, key=lambda run: -run.seed) if curve_of in run.details}
    cases = [case for case in cases if any((case.name, arm.name) in found for arm in case.arms)]
    if not cases:
        return []
    figure, places = panels(len(cases), 1, 9.0, 2.8, least_width=6.0)
    for axes, case in zip(places, cases):
        for arm in case.arms:
            if points := found.get((case.name, arm.name)):
                colour, style = LINES[arm.name]
                axes.plot(*zip(*points), style, color=colour, linewidth=1.2, label=arm.name)
        axes.set_title(case.name, fontsize=9)
        axes.set_xlabel(across)
        axes.set_ylabel(up)
        axes.set_ylim(bottom=0)
        axes.grid(alpha=0.3)
    places[0].legend(fontsize=7, frameon=False, ncols=4)
    return _finish(bench, figure, directory)


def clients(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], metrics: Sequence[Metric], index: Metric, published: Mapping[str, Sequence[float]],
            directory: Path) -> list[Path]:
    """A group of bars for each arm, one bar for each client; the index above; the published row of both access points as short lines."""
    cases = [case for case in cases if any(middle(runs, case, arm, metrics[0].name) is not None for arm in arms_of([case]))]
    if not cases:
        return []
    figure, places = panels(len(cases), 3, 4.8, 3.6, least_width=6.0)
    shades = ("#56B4E9", "#009E73", COLOURS["tandem"])
    for axes, case in zip(places, cases):
        arms = arms_of([case])
        for position, arm in enumerate(arms):
            highest = 0.0
            for number, metric in enumerate(metrics):
                value = middle(runs, case, arm, metric.name)
                if value is None:
                    continue
                highest = max(highest, value)
                at = position + 0.26 * (number - 1)
                axes.bar(at, value, 0.24, color=shades[number], label=metric.name if position == 0 else None)
                if arm not in ("C at AP1", "C at AP2"):
                    axes.hlines(published[case.parameters["table"]][number], at - 0.12, at + 0.12, color="black", linewidth=1.2,
                                label="published, both access points" if number == 0 and position == len(arms) - 1 else None)
            if (value := middle(runs, case, arm, index.name)) is not None:
                axes.annotate(f"{value:.2f}", (position, highest), ha="center", fontsize=6, textcoords="offset points", xytext=(0, 3))
        axes.set_xticks(range(len(arms)), arms, rotation=30, ha="right", fontsize=7)
        axes.set_title(f"{case.name} (above: {index.name})", fontsize=8)
        axes.set_ylabel("Mb/s")
        axes.grid(axis="y", alpha=0.3)
    places[0].legend(fontsize=6, frameon=False)
    return _finish(bench, figure, directory)
