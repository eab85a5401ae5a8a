"""The result as JSON and as a Markdown page."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_common import confidence
from tandem_common.whole import written_whole

from . import table
from .model import Bench, Case, Run
from .statistics import COUNTED, Spread, Verdict, paired_ratios


def write(path: Path, text: str) -> None:
    """Whole or not at all; into a device or a pipe (/dev/null, /dev/stdout) rather than in its place. Raises OSError."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with written_whole(path) as fresh:
        fresh.write_text(text)


def document(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], verdicts: Sequence[Verdict], header: Mapping[str, Any],
             interrupted: bool) -> dict[str, Any]:
    """Everything: every run (one entry per metric, the first with the run's details), the paired ratios, the goals."""
    units = {(case.name, metric.name): metric.unit for case in cases for metric in case.metrics}
    entries: list[dict[str, Any]] = []
    for run in runs:
        common = {"case": run.case, "arm": run.arm, "seed": run.seed, "order": run.order, "seconds": round(run.seconds, 3)}
        if run.error is not None:
            entries.append({**common, "value": None, "unit": "", "error": run.error, **({"details": dict(run.details)} if run.details else {})})
        elif not run.values and not run.details.get("derived"):
            entries.append({**common, "value": None, "unit": "", "details": dict(run.details)})  # it succeeded, and found nothing to measure
        for number, (name, value) in enumerate(run.values.items()):
            entry = {**common, "metric": name, "value": value, "unit": units.get((run.case, name), "")}
            entries.append({**entry, "details": dict(run.details)} if number == 0 else entry)  # once per run: they can be long
    ratios: list[dict[str, Any]] = []
    for case in cases:
        for metric in case.metrics:
            wanted = {(verdict.goal.arm, verdict.goal.over) for verdict in verdicts
                      if verdict.case == case.name and verdict.metric == metric.name and verdict.goal.over}
            plain = next((arm.name for arm in case.arms if arm.column == "plain"), "")
            wanted |= {(arm.name, plain) for arm in case.arms if plain and arm.name != plain}
            for arm, over in sorted(wanted):
                pairs = paired_ratios(runs, case.name, arm, over, metric.name)
                if spread := Spread.of(pairs.values()):
                    ratios.append({"case": case.name, "metric": metric.name, "arm": arm, "over": over, "median": spread.median,
                                   "ci95": spread.ci, "pairs": [{"seed": seed, "ratio": ratio} for seed, ratio in pairs.items()]})
    goals = [{"case": v.case, "metric": v.metric, "goal": v.goal.sentence, "arm": v.goal.arm, "over": v.goal.over, "sense": v.goal.sense,
              "bound": v.goal.bound, "value": v.value, "ci95": v.ci, "pairs": v.pairs, "resolution": v.resolution,
              "status": "met" if v.met else "undecided" if v.undecided else "missed", "within_resolution": v.within_resolution, "claimed": v.claimed,
              "more_rounds": v.more, "failed_runs": v.failed, "runs_without": v.lacking} for v in verdicts]
    return {"bench": bench.name, "summary": bench.summary, "header": dict(header), "interrupted": interrupted,
            "cases": [{"case": case.name, "published": case.published, "arms": [arm.name for arm in case.arms], "rounds": case.seeds,
                       "parameters": dict(case.parameters)} for case in cases],
            "runs": entries, "failed": len(table.failures(runs)), "ratios": ratios, "goals": goals}


def as_json(content: Mapping[str, Any]) -> str:
    return json.dumps(_as_words(content), indent=1, default=str, allow_nan=False) + "\n"


def _as_words(value: Any) -> Any:
    """Infinite figures (something over nothing) and such as are none as text, since JSON has no number for them."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Mapping):
        return {key: _as_words(inner) for key, inner in value.items()}
    return [_as_words(inner) for inner in value] if isinstance(value, (list, tuple)) else value


def as_page(bench: Bench, cases: Sequence[Case], runs: Sequence[Run], verdicts: Sequence[Verdict], header: Mapping[str, Any],
            interrupted: bool) -> str:
    """A page of docs/results: header, tables, failed runs. Only what was measured."""
    # Of an interrupted bench those that were had.
    had = {case.name: {run.seed for run in runs if run.case == case.name} for case in cases}
    counts = sorted({min(case.seeds, len(had[case.name])) if interrupted and had[case.name] else case.seeds for case in cases})
    rounds = f"{counts[0]}" if len(counts) == 1 else f"{counts[0]} to {counts[-1]}"
    parts = [f"# {bench.name}", bench.summary, "\n".join(f"- {line}" for line in table.header_lines(header)),
             table.folded(table.knob_lines(header)),
             f"Medians of {rounds} paired rounds; in brackets the 95 % interval of the median of the paired ratios, which holds however often one looks. "
             f"Below {confidence.LEAST} pairs there is none: met and missed then only say where the median lies. The resolution is the interval's half-width for two equal arms "
             "(without one their largest deviation from 1)."
             + (" Figures of all samples together have the bootstrap's interval, which takes samples as independent and holds for a fixed number of rounds."
                if any(metric.samples and metric.statistic not in COUNTED for case in cases for metric in case.metrics) else "")
             + (" This run was interrupted." if interrupted else ""),
             table.as_markdown(*table.result_rows(bench, cases, runs, verdicts))]
    if details := table.detail_rows(bench, cases, runs):
        parts.append(table.as_markdown(*details))
    if failed := table.failures(runs):
        parts.append("Failed runs:\n\n" + "\n".join(f"- {line}" for line in failed))
    parts += ["\n".join(f"- {note}" for note in bench.notes)] if bench.notes else []
    return "\n\n".join(part for part in parts if part) + "\n"
