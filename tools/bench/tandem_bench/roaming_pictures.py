"""Figure 1 of Sinky et al.: signal, throughput and round trip over a walk with handoffs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Sequence

from tandem_common.picture import drawing

from .model import Bench, Case, Run
from .plot import COLOURS, save

LINES = {"plain": (COLOURS["plain"], "-"), "rate": ("#009E73", ":"), "all and rate": (COLOURS["tandem"], "-")}
PARTS = (("signal", "signal over noise, dB"), ("rates", "throughput, Mb/s"), ("rtts", "smoothed RTT, ms"))


def walk(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
    """A column for each case, of the first seed; nothing where nothing was measured."""
    first = min((run.seed for run in runs if run.error is None), default=0)
    shown = [(case, [run for run in runs if run.case == case.name and run.seed == first and run.error is None and "rtts" in run.details]) for case in cases]
    shown = [(case, own) for case, own in shown if own]
    if not shown:
        return []
    pyplot = drawing()

    figure, axes = pyplot.subplots(len(PARTS), len(shown), squeeze=False, sharex="col", sharey="row", constrained_layout=True, figsize=(max(7.0, 6.0 * len(shown)), 7.5))
    for column, (case, own) in enumerate(shown):
        for place, (key, label) in zip(axes[:, column], PARTS):
            for run in own[:1] if key == "signal" else own:
                colour, style = ("black", "-") if key == "signal" else LINES[run.arm]
                place.plot(*zip(*run.details[key]), style, color=colour, linewidth=1.2, label=run.arm)
            for at in own[0].details["handoffs_s"]:
                place.axvline(at, color="#999999", linewidth=0.8, linestyle="--")
            place.set_ylabel(label)
            place.grid(alpha=0.3)
        axes[0, column].set_title(f"{case.name}; dashed: handoffs", fontsize=9)
        axes[1, column].legend(fontsize=7, frameon=False)
        axes[-1, column].set_xlabel("s")
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", int(figure.get_figwidth() * 11))), fontsize=10)
    return save(figure, directory, bench.name)
