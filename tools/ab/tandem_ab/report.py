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

SHARED_AIR = ("Biased: both settings were in force at the same time, connection by connection, and shared the air. What one gains the other may lose: +150 % has been measured that way "
              "where nothing was gained (Spang et al., arXiv 2110.00118). Blocks of time (--per time) do not have this fault.")
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
        costs = {cost.arm: cost for cost in analysis.costs(self.pairs, self.arms)}
        return [analysis.sentence(one, self.head["until"], self.head["null"]) + _cellular(costs[one.arm], costs[one.base]) for one in self.comparisons]

    def notes(self) -> list[str]:
        """What a reader must know beside the verdicts."""
        found = [f"{one.arm}: {words}" for one in self.comparisons if (words := analysis.drift_sentence(one))]
        if (self.head.get("own") or {}).get("per") == "flow":
            found.append(SHARED_AIR)
        if self.head["unit"] == "Mb/s" and (words := analysis.throttled(self.pairs, self.arms)):
            found.append(words)
        lost = [pair for pair in self.pairs if pair["discarded"]]
        if lost:
            found.append(f"{count(len(lost), 'pair')} of {len(self.pairs)} {'does' if len(lost) == 1 else 'do'} not count, each with its reason below.")
        if words := analysis.only_validated(self.pairs):
            found.append(words)
        if words := analysis.lopsided(self.pairs, self.arms):
            found.append(words)
        found += [f"{cost.arm}: {count(cost.faults, 'module fault')}" for cost in analysis.costs(self.pairs, self.arms) if cost.faults]
        return found


def _cellular(cost: analysis.Cost, base: analysis.Cost) -> str:
    """What the gain has cost, beside it; empty when nothing went by cellular."""
    if not cost.cell_bytes and not base.cell_bytes:
        return ""
    return f"; by cellular {cell_words(cost)} a trial" + (f", {size(base.cell_bytes)} in {base.arm}" if base.cell_bytes else "")


def cell_words(cost: analysis.Cost) -> str:
    """Of several modules with the share of each."""
    parts = [f"{name} {size(number)}" for name, number in cost.cell_by_module.items()]
    return size(cost.cell_bytes) + (f" ({', '.join(parts)})" if len(parts) > 1 else "")


def figure(value: float | None) -> str:
    return "-" if value is None else f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def percent_of(share: float | None) -> str:
    return "-" if share is None else f"{share * 100:.1f} % of the time"


def _title(result: Result) -> str:
    if result.head["null"]:
        return "off against off"
    return f"{', '.join(result.arms[1:])} against {result.arms[0]}"


def cost_rows(result: Result) -> Rows:
    unit = result.head["unit"]
    costs = analysis.costs(result.pairs, result.arms)
    headings = ["setting", "trials", f"median{', ' + unit if unit else ''}", "cellular a trial", "CPU of tandemd"]
    energy = next((cost.energy_from for cost in costs if cost.energy_from), "")
    stalls = any(cost.stalled is not None for cost in costs)
    headings += ["stalled"] if stalls else []
    headings += [f"power ({energy})"] if energy else []
    rows = []
    for cost in costs:
        row = [cost.arm, str(cost.trials), figure(cost.figure), cell_words(cost),
               "-" if cost.daemon_cpu is None else f"{cost.daemon_cpu * 100:.1f} % of a core"]
        row += [percent_of(cost.stalled)] if stalls else []
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
    if own := head.get("own"):
        return _own_rows(head, own)
    workload = head["workload"]
    what = {"download": f"download of {workload.get('url')}", "upload": f"upload to {workload.get('url')}",
            "requests": f"{workload.get('number')} requests to {', '.join(workload.get('urls', []))}", "command": " ".join(workload.get("argv", []))}[workload["kind"]]
    block = f"{head['for_s']:g} s after {head['warm_up_s']:g} s of warm-up" if workload["kind"] in ("download", "upload") else "as long as it takes"
    return [("command", head["command"]), ("workload", what), ("a block", f"{block}, fresh connections; {head['washout_s']:g} s between blocks"),
            ("order", f"tossed for each pair, seed {head['seed']}"),
            ("interval", f"95 %, valid at all pairs at once; nothing is claimed below {confidence.LEAST} pairs"
             + (f"; shared among {len(result.arms) - 1} comparisons" if len(result.arms) > 2 else "")),
            ("begun", head["begun"]), ("machine", head["machine"]), ("version", head["version"])]


def _own_rows(head: dict[str, Any], own: dict[str, Any]) -> list[tuple[str, str]]:
    """Of an experiment on the user's own traffic."""
    if own["per"] == "flow":
        blocks, order = f"{head['for_s']:g} s, both settings at the same time", "the daemon's own lot, connection by connection (evidence.share)"
    else:
        blocks = f"{head['for_s']:g} s, connections that began in it; {head['washout_s']:g} s between blocks; at most {own['share'] * 100:g} % of the time"
        order = f"tossed for each pair, seed {head['seed']}"
    ends = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(own["ends"]))
    return [("command", head["command"]), ("workload", "your own downloads: what arrived a second while data was wanted"), ("a block", blocks), ("order", order),
            ("interval", f"95 %, valid at all pairs at once; nothing is claimed below {confidence.LEAST} pairs"), ("begun", head["begun"]), ("ends", ends),
            ("machine", head["machine"]), ("version", head["version"])]


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


@dataclass(frozen=True)
class Column:
    """Of a table with a row for each trial; None: not known."""

    name: str
    kind: type  # float, int or str
    values: list[Any]


_BESIDE = {"cell_bytes": int, "stalled_s": float, "longest_stall_s": float, "flows": int, "rtt_ms": float, "daemon_cpu_s": float, "others_cpu": float, "channel_busy": float, "energy_j": float,
           "access_point": str, "interface": str, "by_cellular": int, "faults": int}
_RADIO = {"signal_dbm": float, "mbps": float, "delivery": float, "packet_time_us": float, "frequency_mhz": float}


def trial_columns(result: Result) -> list[Column]:
    """What notebooks get. `place`: 0 for the pair's first trial."""
    rows = [(pair, place, arm, trial) for pair in result.pairs for place, arm in enumerate(pair["order"]) if (trial := pair["trials"].get(arm))]
    return [Column("pair", int, [pair["number"] for pair, *_ in rows]), Column("began", float, [pair["began"] for pair, *_ in rows]),
            Column("place", int, [place for _, place, *_ in rows]), Column("arm", str, [arm for *_, arm, _ in rows]), Column("figure", float, [trial["figure"] for *_, trial in rows]),
            Column("unit", str, [result.head["unit"]] * len(rows)), Column("bytes", int, [trial["bytes"] for *_, trial in rows]),
            Column("seconds", float, [trial["seconds"] for *_, trial in rows]),
            *(Column(name, kind, [trial["beside"].get(name) for *_, trial in rows]) for name, kind in _BESIDE.items()),
            *(Column(name, kind, [trial["beside"].get("radio", {}).get(name) for *_, trial in rows]) for name, kind in _RADIO.items()),
            Column("discarded", str, [pair["discarded"] for pair, *_ in rows])]


def as_csv(result: Result) -> str:
    """A line for each trial, for notebooks: pandas.read_csv() has it as a frame."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    columns = trial_columns(result)
    writer.writerow([column.name for column in columns])
    cells = [[f"{value:.3f}" for value in column.values] if column.name == "began" else ["" if value is None else value for value in column.values] for column in columns]
    writer.writerows(zip(*cells))
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
