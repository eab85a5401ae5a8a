"""Picture of the bench mirror-roc: the curve over the thresholds, and each judged cell as a point."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Sequence

from tandem_common.picture import drawing

from .model import Bench, Case, Metric, Run
from .plot import COLOURS, save
from .statistics import STATISTICS, pooled

COLOUR = {"without radio": COLOURS["plain"], "with radio": COLOURS["tandem"]}


def curve(cases: Sequence[Case], runs: Sequence[Run], evidence: str, random: Metric, congestion: Metric) -> list[tuple[float, float, float]]:
    """(threshold, share of congestion episodes hidden, share of random ones) over all swept cells together."""
    points: dict[float, tuple[list[float], list[float]]] = {}
    for case in cases:
        if not case.name.startswith("sweep, "):
            continue
        for arm in case.arms:
            head, _, threshold = arm.name.partition(", threshold ")
            if head == evidence and threshold:
                both = points.setdefault(float(threshold), ([], []))
                both[0].extend(pooled(runs, case.name, arm.name, congestion.samples))
                both[1].extend(pooled(runs, case.name, arm.name, random.samples))
    mean = STATISTICS["mean"]
    return [(threshold, mean(wrong), mean(right)) for threshold, (wrong, right) in sorted(points.items()) if wrong and right]


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path, random: Metric, congestion: Metric) -> list[Path]:
    pyplot = drawing()

    figure, (whole, corner) = pyplot.subplots(1, 2, figsize=(11, 5), constrained_layout=True)
    shown = False
    for evidence, colour in COLOUR.items():
        points = curve(cases, runs, evidence, random, congestion)
        dots = []
        for case in cases:
            if case.name.startswith("sweep, "):
                continue
            wrong, right = (pooled(runs, case.name, evidence, metric.samples) for metric in (congestion, random))
            if wrong and right:
                dots.append((sum(wrong) / len(wrong), sum(right) / len(right)))
        for axes in (whole, corner):
            if points:
                axes.plot([x for _, x, _ in points], [y for _, _, y in points], "-o", color=colour, markersize=4, label=f"{evidence}, thresholds")
                for threshold, x, y in points:
                    axes.annotate(f"{threshold:g}", (x, y), textcoords="offset points", xytext=(4, -9), fontsize=7, color=colour, annotation_clip=True)
            if dots:
                axes.plot([x for x, _ in dots], [y for _, y in dots], "x", color=colour, markersize=6, label=f"{evidence}, each cell")
        shown = shown or bool(points or dots)
    if not shown:
        pyplot.close(figure)
        return []
    for axes, limits in ((whole, ((-0.02, 1.02), (-0.02, 1.02))), (corner, ((-0.005, 0.2), (0.8, 1.005)))):
        axes.set_xlim(*limits[0])
        axes.set_ylim(*limits[1])
        axes.plot([0.05, 0.05, 0], [1, 0.95, 0.95], "--", color=COLOUR["without radio"], linewidth=0.8)
        axes.plot([0.02, 0.02, 0], [1, 0.98, 0.98], "--", color=COLOUR["with radio"], linewidth=0.8)
        axes.set_xlabel("congestion episodes hidden, share")
        axes.set_ylabel("random episodes hidden, share")
        axes.grid(alpha=0.3)
    whole.legend(fontsize=8, frameon=False, loc="lower right")
    corner.set_title("the goals' corner", fontsize=9)
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", 110)), fontsize=10)
    return save(figure, directory, bench.name)
