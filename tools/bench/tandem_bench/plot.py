"""The result as a picture: a dot per run, a bar per median, the limit as a line over its case."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Sequence

from tandem_common import picture

from .model import Arm, Bench, Case, Metric, Run
from .statistics import Spread, values_of

# Okabe and Ito: told apart with any colour vision.
COLOURS = {"plain": "#0072B2", "published": "#E69F00", "tandem": "#D55E00", "limit": "#000000", "": "#999999"}

MOST = 9  # cases side by side in one panel


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
    """Writes NAME.png (or the bench's own pictures); gives their paths. Nothing when no run succeeded."""
    if (own := bench.draw(cases, runs, directory)) is not None:
        return own
    pyplot = picture.drawing()

    panels: list[tuple[Metric, list[Case]]] = []
    for case in cases:
        for metric in case.metrics:
            if not any(values_of(runs, case.name, arm.name, metric.name) for arm in case.arms):
                continue
            known = next((panel for panel in panels if panel[0].name == metric.name and panel[0].unit == metric.unit), None)
            if known:
                known[1].append(case)
            else:
                panels.append((metric, [case]))
    if not panels:
        return []
    # A long row of cases is broken into several panels, like text into lines.
    panels = [(metric, members[start:start + MOST]) for metric, members in panels for start in range(0, len(members), MOST)]
    widest = max(len(members) for _, members in panels)
    columns = min(len(panels), max(1, MOST // (2 * widest)))
    lines = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(lines, columns, squeeze=False, constrained_layout=True,
                                   figsize=(max(7.0, columns * max(4.0, 1.35 * widest + 1.0)), 4.2 * lines))
    for place, (metric, members) in zip(axes.flat, panels):
        _panel(place, figure.get_figwidth() / columns, bench, metric, members, runs)
    for place in list(axes.flat)[len(panels):]:
        place.set_visible(False)
    figure.suptitle("\n".join(textwrap.wrap(f"{bench.name}: {bench.summary}", int(figure.get_figwidth() * 11))), fontsize=10)
    return save(figure, directory, bench.name)


def save(figure, directory: Path, name: str) -> list[Path]:
    """Writes the figure as NAME.png and closes it."""
    from matplotlib import pyplot

    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{name}.png"
    picture.save(figure, path)
    pyplot.close(figure)
    return [path]


def _colour(case: Case, arm: Arm) -> tuple[float, float, float]:
    """The column's colour, lighter for each further arm of the same column."""
    from matplotlib.colors import to_rgb

    number = [other.name for other in case.arms if other.column == arm.column].index(arm.name)
    share = 0.65 ** number
    red, green, blue = (share * part + 1 - share for part in to_rgb(COLOURS.get(arm.column, COLOURS[""])))
    return red, green, blue


def _panel(axes, width_inches: float, bench: Bench, metric: Metric, cases: Sequence[Case], runs: Sequence[Run]) -> None:
    seen: dict[str, object] = {}
    for position, case in enumerate(cases):
        shown = [arm for arm in case.arms if arm.column != "limit"]
        width = 0.8 / max(1, len(shown))
        for number, arm in enumerate(shown):
            values = list(values_of(runs, case.name, arm.name, metric.name).values())
            if not values:
                continue
            middle = position - 0.4 + width * (number + 0.5)
            colour = _colour(case, arm)
            spread = [middle + width * 0.5 * ((i + 0.5) / len(values) - 0.5) for i in range(len(values))]
            median = Spread.of(values)
            assert median
            bar = axes.hlines(median.median, middle - width * 0.42, middle + width * 0.42, color=colour, linewidth=2.4)
            axes.plot(spread, values, "o", markersize=3.5, color=colour, markeredgecolor="black", markeredgewidth=0.4)
            seen.setdefault(arm.name, bar)
        for arm in case.arms:
            if arm.column == "limit" and (limit := Spread.of(values_of(runs, case.name, arm.name, metric.name).values())):
                seen.setdefault(bench.headings.get("limit", "limit"),
                                axes.hlines(limit.median, position - 0.45, position + 0.45, color=COLOURS["limit"], linestyle="--", linewidth=1.2))
    if len(cases) <= 4:
        axes.set_xticks(range(len(cases)), [textwrap.fill(case.name, 24) for case in cases], fontsize=8)
    else:
        axes.set_xticks(range(len(cases)), [case.name for case in cases], rotation=30, ha="right", fontsize=8)
    axes.set_xlim(-0.6, len(cases) - 0.4)
    low, high = axes.get_ylim()
    axes.set_ylim(min(0.0, low), max(high, 0.0) + 0.04 * (max(high, 0.0) - min(0.0, low)) or 1.0)
    axes.set_ylabel(f"{metric.name}, {metric.unit}" if metric.unit else metric.name)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(list(seen.values()), list(seen), fontsize=7, loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=max(1, min(len(seen), round(width_inches / 1.7))), frameon=False)
