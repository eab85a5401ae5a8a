"""Picture of the bench drawn: of every network what all modules gain or lose, in order; plain again shows what is chance."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from tandem_common.picture import drawing

from .model import Bench, Case, Run
from .plot import COLOURS, save
from .statistics import STATISTICS, paired_ratios

LEAST, MOST = 0.25, 16.0  # beyond it a network is drawn at the edge


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path, metrics: Sequence[str], arms: Sequence[tuple[str, str, str]], over: str) -> list[Path]:
    """A panel a metric: the share of the networks (vertical) whose median multiple of `over` (horizontal) is no more than this. `arms`: (arm, column whose
    colour it has, label)."""
    pyplot = drawing()
    figure, panels = pyplot.subplots(1, max(1, len(metrics)), figsize=(9 if len(metrics) < 2 else 12, 5), sharey=True, squeeze=False, constrained_layout=True)
    for axes, metric in zip(panels[0], metrics):
        for arm, column, label in arms:
            ratios = sorted(STATISTICS["median"](pairs) for case in cases if (pairs := list(paired_ratios(runs, case.name, arm, over, metric).values())))
            if ratios:
                axes.step([min(MOST, max(LEAST, ratio)) for ratio in ratios], [100 * (place + 1) / len(ratios) for place in range(len(ratios))], where="post",
                          color=COLOURS.get(column, "0.6"), label=f"{label} ({len(ratios)} networks)")
        axes.axvline(1.0, color="0.6", linewidth=0.8)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_xlabel(f"{metric}, multiple of {over}")
        axes.grid(alpha=0.3)
    panels[0][0].set_ylabel("networks with no more, %")
    panels[0][0].legend(loc="lower right")
    return save(figure, directory, bench.name)
