"""Figures 3, 5, 6 and 7 of Giustiniano et al. in the paper's own panels: several disconnections or periods in one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence

from tandem_common.picture import panels

from .model import Run
from .plot import save
from .rate_pictures import mean_curve
from .slot_pictures import COLOURS


@dataclass(frozen=True)
class Panel:
    """What one panel shows: of an arm `details[key]`, a curve for each case."""

    title: str
    arm: str
    key: str  # "rates", "rtts"
    cases: Mapping[str, str]  # label -> case
    across: str = "end-to-end wired delay, ms"


def figures(wanted: Sequence[Panel], runs: Sequence[Run], directory: Path, name: str) -> list[Path]:
    """One picture of the panels of which there is something to show."""
    drawn = [(panel, {label: points for label, case in panel.cases.items() if (points := mean_curve(runs, case, panel.arm, panel.key))}) for panel in wanted]
    drawn = [(panel, found) for panel, found in drawn if found]
    if not drawn:
        return []
    figure, places = panels(len(drawn))
    for place, (panel, found) in zip(places, drawn):
        for colour, (label, points) in zip(COLOURS, found.items()):
            place.plot(*zip(*points), "o-", color=colour, markersize=3.5, linewidth=1.3, label=label)
        place.set_title(panel.title, fontsize=9)
        place.set_xlabel(panel.across)
        place.set_ylabel("RTT, ms" if panel.key == "rtts" else "Mb/s")
        place.set_ylim(bottom=0)
        place.grid(alpha=0.3)
        place.legend(fontsize=7, frameon=False)
    return save(figure, directory, name)
