"""Picture of the bench mirror: goodput over the loss rate, a line per column, as a share of the loss-free goodput."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_common.picture import drawing

from .model import Bench, Case, Run
from .plot import COLOURS, save
from .statistics import values_of

LINES = {"plain": COLOURS["plain"], "replay": COLOURS["published"], "range": "#009E73", "undo": "#CC79A7", "tandem": COLOURS["tandem"]}


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path, losses: Mapping[str, Any]) -> list[Path]:
    """A panel per congestion control: each dot is a cell on a seed, the line goes through the medians."""
    pyplot = drawing()
    import numpy

    controls = [name for name in ("cubic", "reno", "bbr") if any(case.parameters["cell"].congestion == name for case in cases)]
    figure, axes = pyplot.subplots(1, len(controls), figsize=(4.6 * len(controls), 4.4), sharey=True, squeeze=False, constrained_layout=True)
    places = [name for name in losses if any(case.parameters["cell"].loss == name for case in cases)]
    shown = False
    for panel, control in zip(axes[0], controls):
        for number, (arm, colour) in enumerate(LINES.items()):
            points: dict[int, list[float]] = {}
            for case in cases:
                cell = case.parameters["cell"]
                if cell.congestion != control:
                    continue
                free = values_of(runs, case.name, "loss-free", "goodput")
                for seed, value in values_of(runs, case.name, arm, "goodput").items():
                    if free.get(seed, 0) > 0:
                        points.setdefault(places.index(cell.loss), []).append(value / free[seed])
            if not points:
                continue
            shown = True
            shift = 0.12 * (number - (len(LINES) - 1) / 2)
            for place, values in points.items():
                panel.plot([place + shift] * len(values), values, "o", color=colour, markersize=3.5, alpha=0.6)
            ordered = sorted(points)
            panel.plot([place + shift for place in ordered], [float(numpy.median(points[place])) for place in ordered], color=colour, linewidth=1.6,
                       label=bench.headings.get(arm, arm))
        panel.axhline(0.95, color=COLOURS["limit"], linestyle="--", linewidth=1.0)
        panel.set_title(control, fontsize=9)
        panel.set_xticks(range(len(places)), places, rotation=30, ha="right", fontsize=8)
        panel.set_xlabel("loss behind the queue")
        panel.set_xlim(-0.5, len(places) - 0.5)
        panel.set_ylim(0, 1.15)
        panel.grid(alpha=0.3)
    if not shown:
        pyplot.close(figure)
        return []
    axes[0][0].set_ylabel("goodput / loss-free goodput")
    axes[0][-1].legend(fontsize=8, frameon=False, loc="lower left")
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", 110)), fontsize=10)
    return save(figure, directory, bench.name)
