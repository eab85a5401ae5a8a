"""The result as HTML, Markdown, JSON and CSV. What is shown is computed once here; the templates only arrange it."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

import jinja2
from tandem_common import confidence
from tandem_common.errors import Failure
from tandem_common.whole import written_whole

from . import analysis, charts
from .quantities import count, percent, size

Rows = tuple[list[str], list[list[str]]]


@dataclass(frozen=True)
class Result:
    """An experiment and what its pairs say."""

    head: dict[str, Any]
    pairs: list[dict[str, Any]]

    @property
    def arms(self) -> list[str]:
        return [arm["name"] for arm in self.head["arms"]]

    @property
    def comparisons(self) -> list[analysis.Comparison]:
        return analysis.compare(self.pairs, self.arms, self.head["smaller_is_better"], self.head["until"])

    def verdicts(self) -> list[str]:
        return [analysis.sentence(one, self.head["until"], self.head["null"]) for one in self.comparisons]

    def notes(self) -> list[str]:
        """What a reader must know beside the verdicts."""
        found = [f"{one.arm}: {words}" for one in self.comparisons if (words := analysis.drift_sentence(one))]
        lost = [pair for pair in self.pairs if pair["discarded"]]
        if lost:
            found.append(f"{count(len(lost), 'pair')} of {len(self.pairs)} {'does' if len(lost) == 1 else 'do'} not count, each with its reason below.")
        found += [f"{cost.arm}: {count(cost.faults, 'module fault')}" for cost in analysis.costs(self.pairs, self.arms) if cost.faults]
        return found


def figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _title(result: Result) -> str:
    if result.head["null"]:
        return "off against off"
    return f"{', '.join(result.arms[1:])} against {result.arms[0]}"


def cost_rows(result: Result) -> Rows:
    unit = result.head["unit"]
    costs = analysis.costs(result.pairs, result.arms)
    headings = ["setting", "trials", f"median{', ' + unit if unit else ''}", "cellular a trial", "CPU of tandemd"]
    energy = next((cost.energy_from for cost in costs if cost.energy_from), "")
    headings += [f"power ({energy})"] if energy else []
    rows = []
    for cost in costs:
        row = [cost.arm, str(cost.trials), figure(cost.figure), size(cost.cell_bytes),
               "-" if cost.daemon_cpu is None else f"{cost.daemon_cpu * 100:.1f} % of a core"]
        rows.append(row + ([f"{cost.watts:.2f} W" if cost.watts is not None else "-"] if energy else []))
    return headings, rows


def _radio(trial: dict[str, Any]) -> str:
    beside = trial["beside"]
    radio = beside.get("radio", {})
    parts = [f"{radio['signal_dbm']:.0f} dBm" if "signal_dbm" in radio else "", f"{radio['mbps']:.0f} Mb/s" if "mbps" in radio else "",
             f"{radio['frequency_mhz']:.0f} MHz" if "frequency_mhz" in radio else "", f"{beside['channel_busy'] * 100:.0f} % busy" if "channel_busy" in beside else "",
             beside.get("access_point", "")]
    return ", ".join(part for part in parts if part)


def pair_rows(result: Result) -> Rows:
    unit = f", {result.head['unit']}" if result.head["unit"] else ""
    headings = ["pair", "at", "first", *(f"{arm}{unit}" for arm in result.arms), *(f"{arm}: gain" for arm in result.arms[1:]), "cellular",
                "radio", "not counted, because"]
    rows = []
    for pair in result.pairs:
        trials = [pair["trials"].get(arm) for arm in result.arms]
        gains = ["" if pair["discarded"] else
                 percent(analysis.better(trials[0]["figure"], trial["figure"], result.head["smaller_is_better"])) for trial in trials[1:]]
        rows.append([str(pair["number"] + 1), time.strftime("%H:%M:%S", time.localtime(pair["began"])), pair["order"][0],
                     *(figure(trial["figure"]) if trial and trial["figure"] > 0 else "-" for trial in trials), *gains,
                     size(sum(trial["beside"].get("cell_bytes", 0) for trial in trials if trial)),
                     " / ".join(dict.fromkeys(words for trial in trials if trial and (words := _radio(trial)))), pair["discarded"]])
    if not any(row[-2] for row in rows):  # no radio here
        return headings[:-2] + headings[-1:], [row[:-2] + row[-1:] for row in rows]
    return headings, rows


def head_rows(result: Result) -> list[tuple[str, str]]:
    head = result.head
    workload = head["workload"]
    what = {"download": f"download of {workload.get('url')}", "upload": f"upload to {workload.get('url')}",
            "requests": f"{workload.get('number')} requests to {', '.join(workload.get('urls', []))}", "command": " ".join(workload.get("argv", []))}[workload["kind"]]
    block = f"{head['for_s']:g} s after {head['warm_up_s']:g} s of warm-up" if workload["kind"] in ("download", "upload") else "as long as it takes"
    return [("command", head["command"]), ("workload", what), ("a block", f"{block}, fresh connections; {head['washout_s']:g} s between blocks"),
            ("order", f"tossed for each pair, seed {head['seed']}"),
            ("interval", f"95 %, valid at all pairs at once; nothing is claimed below {confidence.LEAST} pairs"
             + (f"; shared among {len(result.arms) - 1} comparisons" if len(result.arms) > 2 else "")),
            ("begun", head["begun"]), ("machine", head["machine"]), ("version", head["version"])]


def _number(value: float) -> float | None:
    return value if math.isfinite(value) else None


def document(result: Result) -> dict[str, Any]:
    """The whole result for programs; shares, not per cent."""
    entries = []
    for one, words in zip(result.comparisons, result.verdicts()):
        claims = one.word != "too few"
        entries.append({"arm": one.arm, "base": one.base, "pairs": one.pairs, "verdict": one.word, "words": words, "gain": math.expm1(one.mean) if one.pairs else None,
                        "low": math.expm1(one.low) if claims else None, "high": math.expm1(one.high) if claims else None, "log_mean": one.mean if one.pairs else None,
                        "log_low": _number(one.low), "log_high": _number(one.high), "log_deviation": one.deviation,
                        "pairs_to_width": one.to_width, "pairs_to_find": one.to_find,
                        "drift": None if one.drift is None else {"first_third": math.expm1(one.drift.first), "last_third": math.expm1(one.drift.last), "clear": one.drift.clear}})
    return {"experiment": result.head, "null": result.head["null"], "pairs": len(result.pairs), "discarded": sum(bool(pair["discarded"]) for pair in result.pairs),
            "comparisons": entries, "costs": [vars(cost) for cost in analysis.costs(result.pairs, result.arms)], "notes": result.notes(), "every_pair": result.pairs}


def as_csv(result: Result) -> str:
    """A line for each trial, for notebooks: pandas.read_csv() has it as a frame."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    fields = ("cell_bytes", "daemon_cpu_s", "others_cpu", "channel_busy", "energy_j", "access_point", "interface", "by_cellular", "faults")
    radio = ("signal_dbm", "mbps", "delivery", "packet_time_us", "frequency_mhz")
    writer.writerow(["pair", "began", "place", "arm", "figure", "unit", "bytes", "seconds", *fields, *radio, "discarded"])
    for pair in result.pairs:
        for place, arm in enumerate(pair["order"]):
            if trial := pair["trials"].get(arm):
                beside = trial["beside"]
                writer.writerow([pair["number"], f"{pair['began']:.3f}", place, arm, trial["figure"], result.head["unit"], trial["bytes"], trial["seconds"],
                                 *(beside.get(name, "") for name in fields), *(beside.get("radio", {}).get(name, "") for name in radio), pair["discarded"]])
    return out.getvalue()


def markdown_table(rows: Rows) -> str:
    def line(cells: Sequence[str]) -> str:
        return "| " + " | ".join(cell.replace("|", "\\|") for cell in cells) + " |"

    return "\n".join([line(rows[0]), "|" + "---|" * len(rows[0]), *(line(row) for row in rows[1])])


def as_text(result: Result) -> str:
    """For a terminal: verdicts and cost."""
    headings, rows = cost_rows(result)
    widths = [max(len(row[place]) for row in [headings, *rows]) for place in range(len(headings))]
    table = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in [headings, *rows]]
    return "\n".join([*result.verdicts(), *result.notes(), "", *table])


def _rendered(result: Result, template: str, html: bool) -> str:
    # Words of servers and programs stand in it: in HTML everything is escaped.
    environment = jinja2.Environment(loader=jinja2.FileSystemLoader(Path(__file__).parent), autoescape=html, keep_trailing_newline=True, undefined=jinja2.StrictUndefined)
    alpha = confidence.shared_alpha(len(result.arms) - 1)
    drawn = [(one.arm, drawing) for one in result.comparisons if (drawing := charts.chart(one, alpha))]
    return environment.get_template(template).render(
        title=_title(result), verdicts=result.verdicts(), notes=result.notes(), charts=drawn, costs=cost_rows(result), pairs=pair_rows(result), head=head_rows(result),
        table=markdown_table)


def write(result: Result, directory: Path) -> list[Path]:
    """report.html, report.md, report.json and trials.csv, each whole or not at all. Raises Failure."""
    texts = {"report.html": _rendered(result, "report.html.j2", True), "report.md": _rendered(result, "report.md.j2", False)}
    texts |= {"report.json": json.dumps(document(result), indent=1) + "\n", "trials.csv": as_csv(result)}
    written = []
    for name, text in texts.items():
        try:
            with written_whole(directory / name) as fresh:
                fresh.write_text(text)
        except OSError as error:
            raise Failure(f"{directory / name}: {error.strerror}; this report is not written") from error
        written.append(directory / name)
    return written
