"""The result as a picture: a dot per run, a bar per median, the limit as a line over its case."""

from __future__ import annotations

from pathlib import Path
from typing import Sequence

from .model import Bench, Case, Metric, Run
from .statistics import Spread, values_of

# Okabe and Ito: told apart with any colour vision.
COLOURS = {"plain": "#0072B2", "published": "#E69F00", "tandem": "#D55E00", "limit": "#000000", "": "#999999"}


def draw(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
    """Writes NAME.png and NAME.svg; gives their paths. Nothing when no run succeeded."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

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
    columns = min(3, len(panels))
    lines = -(-len(panels) // columns)
    widest = max(len(panel[1]) for panel in panels)
    figure, axes = pyplot.subplots(lines, columns, squeeze=False, constrained_layout=True,
                                   figsize=(max(6.0, min(22.0, 1.1 * widest + 2.0)) * (1 if columns == 1 else 0.7) * columns, 4.8 * lines))
    for place, (metric, members) in zip(axes.flat, panels):
        _panel(place, bench, metric, members, runs)
    for place in list(axes.flat)[len(panels):]:
        place.set_visible(False)
    figure.suptitle(f"{bench.name}: {bench.summary}", fontsize=10)
    directory.mkdir(parents=True, exist_ok=True)
    written = [directory / f"{bench.name}.{kind}" for kind in ("png", "svg")]
    for path in written:
        figure.savefig(path, dpi=130)
    pyplot.close(figure)
    return written


def _panel(axes, bench: Bench, metric: Metric, cases: Sequence[Case], runs: Sequence[Run]) -> None:
    seen: dict[str, object] = {}
    for position, case in enumerate(cases):
        shown = [arm for arm in case.arms if arm.column != "limit"]
        width = 0.8 / max(1, len(shown))
        for number, arm in enumerate(shown):
            values = list(values_of(runs, case.name, arm.name, metric.name).values())
            if not values:
                continue
            middle = position - 0.4 + width * (number + 0.5)
            colour = COLOURS[arm.column]
            spread = [middle + width * 0.5 * ((i + 0.5) / len(values) - 0.5) for i in range(len(values))]
            dots = axes.plot(spread, values, "o", markersize=3.5, alpha=0.6, color=colour, markeredgewidth=0)[0]
            median = Spread.of(values)
            assert median
            axes.hlines(median.median, middle - width * 0.42, middle + width * 0.42, color=colour, linewidth=2.4)
            seen.setdefault(f"{bench.headings.get(arm.column, arm.name) if arm.column else arm.name}", dots)
        for arm in case.arms:
            if arm.column == "limit" and (limit := Spread.of(values_of(runs, case.name, arm.name, metric.name).values())):
                seen.setdefault(bench.headings.get("limit", "limit"),
                                axes.hlines(limit.median, position - 0.45, position + 0.45, color=COLOURS["limit"], linestyle="--", linewidth=1.2))
    axes.set_xticks(range(len(cases)), [case.name for case in cases], rotation=35, ha="right", fontsize=8)
    axes.set_xlim(-0.6, len(cases) - 0.4)
    axes.set_ylim(bottom=0)
    axes.set_ylabel(f"{metric.name}, {metric.unit}" if metric.unit else metric.name)
    axes.grid(axis="y", alpha=0.3)
    axes.legend(list(seen.values()), list(seen), fontsize=8, framealpha=0.9)
