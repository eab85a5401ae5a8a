"""Picture of the bench applications: of each cell what one waits with all modules, as a multiple of plain; plain again shows what is chance."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from tandem_common.picture import drawing

from .model import Bench, Case, Metric, Run
from .plot import COLOURS, save
from .statistics import STATISTICS, paired_ratios

ROW_INCHES = 0.26


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path, metrics: Sequence[Metric], arms: Sequence[tuple[str, str]], over: str) -> list[Path]:
    """A panel a metric, a row a cell; a dot is a pair, a bar the median. `arms`: (arm, column whose colour it has), drawn in this order; `over`: the arm that is 1."""
    shown = [case for case in cases if any(paired_ratios(runs, case.name, arm, over, metrics[0].name) for arm, _ in arms)]
    if not shown:
        return []
    pyplot = drawing()
    figure, panels = pyplot.subplots(1, len(metrics), figsize=(12, 1.2 + ROW_INCHES * len(shown)), sharey=True, squeeze=False, constrained_layout=True)
    for axes, metric in zip(panels[0], metrics):
        axes.axvline(1.0, color="0.6", linewidth=0.8)
        named: set[str] = set()
        for place, (arm, column) in enumerate(arms):
            colour, shift = COLOURS.get(column, "0.6"), 0.3 * (place - (len(arms) - 1) / 2)
            for row, case in enumerate(shown):
                ratios = list(paired_ratios(runs, case.name, arm, over, metric.name).values())
                if not ratios:
                    continue
                axes.plot(ratios, [row + shift] * len(ratios), "o", color=colour, markersize=3, alpha=0.6)
                axes.plot([STATISTICS["median"](ratios)], [row + shift], "|", color=colour, markersize=11, markeredgewidth=2.5,
                          label=None if arm in named else arm)
                named.add(arm)
        axes.set_xscale("log", base=2)
        axes.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
        axes.set_title(f"{metric.name}, multiple of {over}")
        axes.grid(axis="x", alpha=0.3)
    panels[0][0].set_yticks(range(len(shown)), [case.name for case in shown], fontsize=7)
    panels[0][0].invert_yaxis()
    panels[0][0].legend(loc="lower left", fontsize=8)
    return save(figure, directory, bench.name)
