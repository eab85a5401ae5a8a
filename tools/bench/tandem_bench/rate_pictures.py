"""Pictures of the benches about rates: a curve of each arm, from the details of its runs."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Mapping, Sequence

from tandem_common.picture import panels

from .model import Bench, Case, Run
from .plot import save

Line = tuple[str, str]  # colour, style


def mean_curve(runs: Sequence[Run], case: str, arm: str, key: str) -> list[tuple[float, float]]:
    """Mean over the runs of an arm of what `details[key]` holds: [[x, y], ...] on the same x."""
    found = [run.details[key] for run in runs if run.case == case and run.arm == arm and run.error is None and run.details.get(key)]
    if not found:
        return []
    columns = list(zip(*found))
    return [(column[0][0], sum(point[1] for point in column) / len(column)) for column in columns]


def curves(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], key: str, lines: Mapping[str, Line], across: str, up: str, directory: Path,
           level: float | None = None, printed: Mapping[str, Mapping[str, Sequence[tuple[float, float]]]] | None = None) -> list[Path]:
    """A panel for each case. `level`: a thin line over the whole panel; `printed`: the paper's points, by case and arm."""
    cases = [case for case in cases if any(mean_curve(runs, case.name, arm.name, key) for arm in case.arms)]
    if not cases:
        return []
    figure, places = panels(len(cases), least_width=6.0)
    for place, case in zip(places, cases):
        if level is not None:
            place.axhline(level, color="black", linewidth=0.6)
        for arm in case.arms:
            points = mean_curve(runs, case.name, arm.name, key)
            if points:
                colour, style = lines[arm.name]
                place.plot(*zip(*points), style, color=colour, linewidth=1.5, label=arm.name)
        for arm, known in (printed or {}).get(case.name, {}).items():
            place.plot(*zip(*known), "x", color=lines[arm][0], markersize=6, label=f"{arm}, printed")
        place.set_title(case.name, fontsize=9)
        place.set_xlabel(across)
        place.set_ylabel(up)
        place.grid(alpha=0.3)
    places[0].legend(fontsize=7, frameon=False)
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", int(figure.get_figwidth() * 11))), fontsize=10)
    return save(figure, directory, bench.name)
