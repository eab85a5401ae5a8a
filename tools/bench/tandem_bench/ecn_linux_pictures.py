"""Picture of the bench ecn-linux: what each arm reaches of the optimum in every round of every cell, sorted."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Mapping, Sequence

from tandem_common.picture import drawing

from .model import Bench
from .plot import COLOURS, save

LINES = {"TCP by AP1": ("#999999", ":"), "TCP by AP2": ("#999999", "--"), "MPTCP alone": (COLOURS["plain"], "-"), "CE 5 %": ("#F0E442", "-"),
         "as published": (COLOURS["published"], "-"), "AP1 backup by hand": ("#009E73", "--"), "Tandem": (COLOURS["tandem"], "-")}


def draw(bench: Bench, groups: Mapping[str, Mapping[str, Sequence[float]]], directory: Path) -> list[Path]:
    """A panel per scenario; `groups`: title -> arm -> per cent of the optimum."""
    pyplot = drawing()

    groups = {title: arms for title, arms in groups.items() if any(arms.get(name) for name in LINES)}
    if not groups:
        return []
    figure, axes = pyplot.subplots(1, len(groups), figsize=(5.2 * len(groups), 4.6), sharey=True, squeeze=False, constrained_layout=True)
    for panel, (title, arms) in zip(axes[0], groups.items()):
        for name, (colour, style) in LINES.items():
            if values := sorted(arms.get(name, [])):
                panel.plot(range(1, len(values) + 1), values, style, marker="o", markersize=2.5, color=colour, linewidth=1.5, label=name)
        panel.axhline(90, color=COLOURS["limit"], linestyle="--", linewidth=0.8)
        panel.set_title(title, fontsize=9)
        panel.set_xlabel("rounds of all cells, sorted")
        panel.xaxis.get_major_locator().set_params(integer=True)
        panel.grid(alpha=0.3)
    axes[0][0].set_ylim(0, 1.12 * axes[0][0].get_ylim()[1])  # of all panels, and only now: it fixes the top, with room for the legend
    axes[0][0].set_ylabel("goodput, % of the best access point alone")
    axes[0][0].legend(fontsize=7, frameon=False, loc="upper left", ncol=3)
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", 100)), fontsize=10)
    return save(figure, directory, bench.name)
