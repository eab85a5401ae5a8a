"""Figures 9, 10 and 11b of Sinky et al.: throughput by each link, what befalls packets around handoffs, and what a handoff costs."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any, Mapping, Sequence

from tandem_common.picture import panels

from .model import Case, Run
from .plot import save
from .rate_pictures import Line

PARTS = (("Wi-Fi", "#56B4E9", "-"), ("LTE", "#CC79A7", "-"), ("in order, together", "#000000", "-"))
PACKETS = ((1, "RTT, ms", "linear"), (3, "retransmissions", "symlog"), (4, "duplicate ACKs", "symlog"), (2, "jitter, packet to packet, ms", "linear"))


def grids(count: int, across: int, share_y: bool = False) -> tuple[Any, list[Any]]:
    """As `panels`, with one time axis."""
    figure, places = panels(count, across, high=3.3, sharex=True, sharey=share_y)
    for place in places:
        place.grid(alpha=0.3)
    return figure, places


def handoff_lines(place: Any, run: Run, colour: str = "#999999") -> None:
    for at in run.details["handoffs_s"]:
        place.axvline(at, color=colour, linewidth=0.8, linestyle="--")


def throughput(shown: Sequence[tuple[Case, str]], runs: Sequence[Run], directory: Path, name: str) -> list[Path]:
    """Figure 9: by Wi-Fi, by LTE and in order, a panel for each case and arm."""
    found = [(case, arm, run) for case, arm in shown for run in runs if run.case == case.name and run.arm == arm and run.error is None]
    if not found:
        return []
    figure, places = grids(len(found), 3, share_y=True)
    for place, (case, arm, run) in zip(places, found):
        times, *by_link = zip(*(point[:3] for point in run.details["subflows"]))
        in_order = [point[1] for point in run.details["curve"]]
        for (label, colour, style), values in zip(PARTS, (*by_link, in_order)):
            place.plot(times, values, style, color=colour, linewidth=1.2, label=label)
        handoff_lines(place, run)
        if arm in ("CLA", "Tandem"):
            place.axhline(case.parameters["R0"], color="#D55E00", linewidth=0.8, linestyle=":")
        place.set_title(f"{arm}, {case.name}" if arm in ("CLA", "Tandem") else arm, fontsize=9)
        place.set_ylim(0, 45)
        place.set_ylabel("Mb/s")
        place.set_xlabel("s")
    for place in places[len(found):]:
        place.set_visible(False)
    places[0].legend(fontsize=7, frameon=False)
    figure.suptitle("Figure 9: throughput over the walk by link; dashed: handoffs, dotted: R0", fontsize=10)
    return save(figure, directory, name)


def packets(case: Case, runs: Sequence[Run], lines: Mapping[str, Line], directory: Path, name: str) -> list[Path]:
    """Figure 10: round trips, retransmissions, duplicate acknowledgements and jitter over the walk."""
    found = [run for arm in lines for run in runs if run.case == case.name and run.arm == arm and run.error is None]
    if not found:
        return []
    figure, places = grids(4, 2)
    for place, (column, label, scale) in zip(places, PACKETS):
        for run in found:
            points = [(point[0], point[column]) for point in run.details["series"] if point[column] is not None]
            colour, style = lines[run.arm]
            place.plot(*zip(*points), style, color=colour, linewidth=1.2, label=run.arm)
            handoff_lines(place, run, colour)
        place.set_yscale(scale)
        place.set_ylim(bottom=0)
        place.set_ylabel(label + (" in 0.5 s" if scale == "symlog" else ""))
        place.set_xlabel("s")
    places[0].legend(fontsize=7, frameon=False)
    figure.suptitle(f"Figure 10: packets over the walk, {case.name}; dashed: handoffs, in the colour of the arm", fontsize=10)
    return save(figure, directory, name)


def losses(cases: Sequence[Case], runs: Sequence[Run], metric: str, lines: Mapping[str, Line], directory: Path, name: str) -> list[Path]:
    """Figure 11b: R0 less what is carried in the second around a handoff, over R0, a panel for each delta2."""
    values: dict[tuple[float, str], dict[float, float]] = {}
    for case in cases:
        for arm in lines:
            own = [run.values[metric] for run in runs if run.case == case.name and run.arm == arm and run.error is None]
            if own:
                values.setdefault((case.parameters["delta2"], arm), {})[case.parameters["R0"]] = median(own)
    if not values:
        return []
    steps = sorted({delta2 for delta2, _ in values})
    figure, places = grids(len(steps), len(steps), share_y=True)
    for place, delta2 in zip(places, steps):
        place.axhline(0, color="black", linewidth=0.6)
        for arm, (colour, style) in lines.items():
            if curve := values.get((delta2, arm)):
                place.plot(*zip(*sorted(curve.items())), "o" + style, color=colour, markersize=3, linewidth=1.2, label=arm)
        place.set_title(f"delta2 {delta2} dB", fontsize=9)
        place.set_xlabel("R0, Mb/s")
    places[0].set_ylabel("throughput lost at the handoff, Mb/s")
    places[0].legend(fontsize=7, frameon=False)
    figure.suptitle("Figure 11b: R0 less what is carried in the second around a handoff", fontsize=10)
    return save(figure, directory, name)
