"""The result as a table, for the terminal and as Markdown."""

from __future__ import annotations

from typing import Any, Iterable, Mapping, Sequence

from .model import Bench, Case, Metric, Run
from .statistics import Spread, Verdict, figure_of

HEADINGS = {"plain": "plain", "published": "as published", "tandem": "Tandem", "limit": "limit"}


def figure(value: float, digits: int) -> str:
    """A value with thousands apart where it has them."""
    return f"{value:,.{digits}f}".replace(",", " ")


def _cell(case: Case, metric: Metric, column: str, runs: Sequence[Run]) -> str:
    """Medians of the arms of a column, "a / b" where there are several; failed runs are said."""
    parts: list[str] = []
    for arm in case.arms:
        if arm.column != column:
            continue
        value = figure_of(runs, case.name, arm.name, metric)
        failed = sum(1 for run in runs if run.case == case.name and run.arm == arm.name and run.error is not None)
        text = figure(value, metric.digits) if value is not None else "-"
        parts.append(text + (f" ({failed} failed)" if failed else ""))
    return " / ".join(parts)


def _ratio(verdict: Verdict, digits: int) -> str:
    if verdict.value is None:
        return "-"
    if not verdict.goal.over:
        return figure(verdict.value, digits)
    interval = f" [{verdict.ci[0]:.3f}, {verdict.ci[1]:.3f}]" if verdict.ci else ""
    return f"{verdict.goal.arm} / {verdict.goal.over} {verdict.value:.3f}{interval}"


def _goal(verdict: Verdict) -> str:
    resolution = f" (resolution {verdict.resolution:.3f})" if verdict.resolution is not None else ""
    note = f", {verdict.note}" if verdict.note else ""
    return f"{verdict.word}{note}: {verdict.goal.sentence}{resolution}"


def _heading(bench: Bench, column: str, cases: Sequence[Case]) -> str:
    """The column's heading. Of one that names its arms only those are kept that were measured (--arm)."""
    words = bench.headings.get(column, HEADINGS.get(column, column))
    there = {arm.name for case in cases for arm in case.arms if arm.column == column}
    named = [part for part in words.split(" / ") if part in there]
    return " / ".join(named) or words


def _texts(found: Sequence[Any]) -> str:
    """What runs say in words: all of it while it is little, else what most of them say and how many others there are."""
    texts = [str(value) for value in found]
    different = sorted(set(texts), key=lambda text: (-texts.count(text), text))
    if len(different) <= 2:
        return "; ".join(sorted(different))
    return f"{different[0]} (or {len(different) - 1} others)"


def result_rows(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], verdicts: Sequence[Verdict]) -> tuple[list[str], list[list[str]]]:
    """Heading and rows: one per case and metric, and a further one for each further goal."""
    used = [column for column in bench.columns if any(arm.column == column for case in cases for arm in case.arms)]
    headings = ["case", bench.headings.get("published", "published"), *(_heading(bench, column, cases) for column in used), "ratio", "goal met?"]
    rows: list[list[str]] = []
    for case in cases:
        for number, metric in enumerate(case.metrics):
            own = [verdict for verdict in verdicts if verdict.case == case.name and verdict.metric == metric.name]
            if not own and not any(arm.column for arm in case.arms):
                continue  # measured for the picture and for other rows
            title = case.name if len(case.metrics) == 1 else f"{case.name}: {metric.name}"
            first = [f"{title}, {metric.unit}" if metric.unit else title, case.published if number == 0 else "",
                     *(_cell(case, metric, column, runs) for column in used)]
            rows.append(first + ([_ratio(own[0], metric.digits), _goal(own[0])] if own else ["", ""]))
            rows += [["", "", *("" for _ in used), _ratio(verdict, metric.digits), _goal(verdict)] for verdict in own[1:]]
    return headings, rows


def detail_rows(bench: Bench, cases: Sequence[Case], runs: Sequence[Run]) -> tuple[list[str], list[list[str]]] | None:
    """Medians of the bench's details per case and arm; None when it has none."""
    if not bench.detail_columns:
        return None
    rows: list[list[str]] = []
    for case in cases:
        for arm in case.arms:
            own = [run for run in runs if run.case == case.name and run.arm == arm.name and run.error is None]
            cells: list[str] = []
            for key, _ in bench.detail_columns:
                found = [run.details[key] for run in own if run.details.get(key) is not None]
                numbers = [value for value in found if isinstance(value, (int, float)) and not isinstance(value, bool)]
                if numbers and len(numbers) == len(found):
                    median = Spread.of(numbers)
                    assert median
                    cells.append(figure(median.median, 0 if abs(median.median) >= 100 or median.median.is_integer() else 2))
                else:
                    cells.append(_texts(found))
            if any(cells):
                rows.append([case.name, arm.name, *cells])
    return (["case", "arm", *(heading for _, heading in bench.detail_columns)], rows) if rows else None


def failures(runs: Iterable[Run]) -> list[str]:
    """One line per failed run, once: not again in the rows of several cases together."""
    return [f"{run.case} / {run.arm}, seed {run.seed}: {run.error}" for run in runs
            if run.error is not None and (not run.details.get("derived") or run.details.get("failed_here"))]


def as_text(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Columns padded with blanks, for a terminal."""
    widths = [max(len(row[i]) for row in [headings, *rows]) for i in range(len(headings))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [headings, *rows]]
    lines.insert(1, "  ".join("-" * width for width in widths))
    return "\n".join(lines)


def as_markdown(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(headings), "|" + "---|" * len(headings), *(line(row) for row in rows)])


def header_lines(header: Mapping[str, Any]) -> list[str]:
    """The header in words but for the knobs, one thing a line."""
    commit = header["commit"] or "none (not run from a source tree)"
    if header.get("dirty"):
        commit += ", with uncommitted changes"
    lines = [f"command: {header['command']}", f"commit: {commit}"]
    lines += [f"date: {header['date']}"] if "date" in header else []
    lines += [f"seed: {header['seed']}", f"time: {header.get('time', 'real')}", f"kernel: {header['kernel']}"]
    if "cpu" in header:
        lines.append(f"cpu: {header['cpu']}; in use by other programs just before: {header['busy_before'] * 100:.0f} %")
    lines.append("versions: " + ", ".join(f"{name} {text}" for name, text in header["versions"].items()))
    return lines


def knob_lines(header: Mapping[str, Any]) -> list[str]:
    """The knobs of each arm; arms with the same knobs share a line."""
    arms: dict[str, list[str]] = {}
    for arm, text in header["knobs"].items():
        arms.setdefault(text, []).append(arm)
    return [f"knobs of {', '.join(names)}: {text}" for text, names in arms.items()]


def folded(lines: Sequence[str]) -> str:
    """A page's list that opens with a click; empty without lines."""
    if not lines:
        return ""
    return "<details><summary>Knobs</summary>\n\n" + "\n".join(f"- {line}" for line in lines) + "\n\n</details>"
