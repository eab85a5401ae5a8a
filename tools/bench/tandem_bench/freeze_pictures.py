"""Pictures of the bench freeze: share of the link after each blackout as a heat map, and one download over time."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Sequence

from tandem_common.picture import drawing

from .model import Bench, Case, Metric, Run
from .plot import COLOURS, save
from .statistics import figure_of

LINES = {"plain": COLOURS["plain"], "zero-window": COLOURS["published"], "tandem": COLOURS["tandem"], "oracle": COLOURS["limit"]}
LEFT_OUT = "plain again"


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path, share: Metric, shown_over_time: str) -> list[Path]:
    """`share` is the metric of the heat map; the first case whose name begins with `shown_over_time` (otherwise the first) is drawn over time."""
    pyplot = drawing()

    if not any(figure_of(runs, case.name, arm.name, share) is not None for case in cases for arm in case.arms):
        return []
    height = 1.6 + 0.36 * len(cases)
    figure, (top, bottom) = pyplot.subplots(2, 1, figsize=(11, 4.2 + height), height_ratios=(4.0, height), constrained_layout=True)
    _over_time(top, next((case for case in cases if case.name.startswith(shown_over_time)), cases[0]), runs)
    _heat_map(figure, bottom, cases, runs, share, bench)
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", 110)), fontsize=10)
    return save(figure, directory, bench.name)


def _over_time(axes, case: Case, runs: Sequence[Run]) -> None:
    """Megabytes received since the start, of the first run of each arm; blackouts grey."""
    shaded = False
    for arm in case.arms:
        run = next((run for run in runs if run.case == case.name and run.arm == arm.name and run.error is None), None)
        if run is None or arm.name not in LINES:
            continue
        step = run.details["series_step_s"]
        series = [count / 1e6 for count in run.details["series_bytes"]]
        axes.plot([number * step for number in range(len(series))], series, color=LINES[arm.name], label=arm.name,
                  linestyle="--" if arm.name == "oracle" else "-", linewidth=1.6)
        for start, duration in () if shaded else run.details["schedule"]:
            axes.axvspan(start, start + duration, color="#dddddd", linewidth=0)
        shaded = True
    axes.set_title(case.name, fontsize=9)
    axes.set_xlabel("time, s")
    axes.set_ylabel("received in order, MB")
    axes.set_xlim(left=0)
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    if shaded:
        axes.legend(fontsize=8, frameon=False)


def _heat_map(figure, axes, cases: Sequence[Case], runs: Sequence[Run], share: Metric, bench: Bench) -> None:
    import numpy

    names = list(dict.fromkeys(arm.name for case in cases for arm in case.arms if arm.name != LEFT_OUT))
    values = numpy.full((len(cases), len(names)), numpy.nan)
    for row, case in enumerate(cases):
        for column, name in enumerate(names):
            found = figure_of(runs, case.name, name, share)
            if found is not None:
                values[row, column] = found
    image = axes.imshow(values, vmin=0.0, vmax=1.0, cmap="cividis", aspect="auto")
    for (row, column), value in numpy.ndenumerate(values):
        if not numpy.isnan(value):
            axes.text(column, row, f"{value:.2f}", ha="center", va="center", fontsize=8, color="black" if value > 0.55 else "white")
    axes.set_xticks(range(len(names)), names, fontsize=8)
    axes.set_yticks(range(len(cases)), [case.name for case in cases], fontsize=8)
    axes.set_title(share.name, fontsize=9)
    figure.colorbar(image, ax=axes, shrink=0.8)
