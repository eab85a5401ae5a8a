"""Figures 8a, 9a and 10a of Giustiniano et al.: which slot of a wireless period is whose."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_common.picture import drawing

from .plot import save

# Okabe and Ito, one for each access point.
COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442")


def in_one_piece(counts: Sequence[int]) -> list[int]:
    """No policy: the slots of each access point after one another. Access points are numbered from 0."""
    return [ap for ap, count in enumerate(counts) for _ in range(count)]


def order_at(points: Sequence[Mapping[str, Any]], delay: float) -> list[int]:
    """Whose each slot is, as planned for that wired delay."""
    point = next(point for point in points if point["delay_ms"] == delay)
    return [int(word) - 1 for word in point["order"].split()]


def slots(planned: Mapping[str, Mapping[str, Any]], delay: float, directory: Path, name: str) -> list[Path]:
    """A line of slots for no policy and for each plan; `planned`: the details of a run by arm."""
    if not planned:
        return []
    pyplot = drawing()

    any_plan = next(iter(planned.values()))
    lines = {"no policy": in_one_piece(any_plan["slots"]), **{arm: order_at(details["points"], delay) for arm, details in planned.items()}}
    figure, place = pyplot.subplots(constrained_layout=True, figsize=(8.0, 0.9 + 0.6 * len(lines)))
    for row, order in enumerate(lines.values()):
        begin = 0.0
        for ap in order:
            length = any_plan["lengths_ms"][ap]
            place.barh(row, length, left=begin, height=0.7, color=COLOURS[ap % len(COLOURS)], edgecolor="white")
            place.text(begin + length / 2, row, str(ap + 1), ha="center", va="center", fontsize=9, color="white")
            begin += length
    place.set_yticks(range(len(lines)), list(lines))
    place.invert_yaxis()
    place.set_xlabel("ms of the wireless period; numbers: access points")
    return save(figure, directory, name)
