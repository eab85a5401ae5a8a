#!/usr/bin/python3
"""Virtual time against real time: the quick cells of four benches in both, and whether they agree.

    validate_virtual.py [--rounds N] [--jobs N] [--bench NAME]... [--markdown FILE] [--json FILE]

A cell is one arm of one case. Its figure in virtual time agrees when it lies within the range of the real rounds, widened by the real-time resolution:
how far "plain" and "plain again" strayed from each other in the same rounds where the bench has both, at least 2 %. Real time wants a machine
that does nothing else; a real run that failed (the emulator was late) is counted, and its cell has no verdict without two good ones.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
BENCHES = ("offload", "freeze", "mirror", "ecn-linux")
LEAST = 0.02


def measure(bench: str, rounds: int, virtual: int) -> dict[str, Any]:
    """The bench's JSON. `virtual`: rounds at a time in virtual time; 0: real time."""
    words = ["--time", "virtual", "--jobs", str(virtual)] if virtual else []
    done = subprocess.run([sys.executable, str(HERE / "bench.py"), bench, "--quick", "--rounds", str(rounds), "--json", "-", *words], stdout=subprocess.PIPE)
    if not done.stdout:
        sys.exit(f"validate_virtual.py: {bench}: the bench gave no result (code {done.returncode})")
    return json.loads(done.stdout)


def figures(document: dict[str, Any]) -> dict[tuple[str, str], list[float]]:
    """(case, arm) -> the rounds' values of the case's first metric; an empty list where all failed."""
    found: dict[tuple[str, str], list[float]] = defaultdict(list)
    main: dict[str, str] = {}
    for run in document["runs"]:
        metric = main.setdefault(run["case"], run["metric"]) if run.get("metric") else ""
        if run["value"] is not None and metric == run["metric"]:
            found[run["case"], run["arm"]].append(run["value"])
        else:
            found[run["case"], run["arm"]] += []
    return found


def resolution(real: dict[tuple[str, str], list[float]], case: str) -> float:
    """How far two equal arms strayed in real time, as a share."""
    pairs = zip(real.get((case, "plain"), []), real.get((case, "plain again"), []))
    return max([LEAST, *(abs(one / other - 1) for one, other in pairs if other)])


def compare(bench: str, real: dict[str, Any], virtual: dict[str, Any]) -> list[dict[str, Any]]:
    here, there = figures(real), figures(virtual)
    rows = []
    for (case, arm), values in there.items():
        known = here.get((case, arm), [])
        row: dict[str, Any] = {"bench": bench, "case": case, "arm": arm, "real": known, "virtual": values, "verdict": "no verdict"}
        if values and len(known) > 1:
            width = resolution(here, case)
            figure = statistics.median(values)
            row |= {"resolution": width, "verdict": "agrees" if min(known) * (1 - width) <= figure <= max(known) * (1 + width) else "differs"}
        rows.append(row)
    return rows


def page(rows: list[dict[str, Any]], header: dict[str, Any], real: dict[str, Any]) -> str:
    def spread(values: list[float]) -> str:
        return f"{statistics.median(values):.2f} ({min(values):.2f} to {max(values):.2f})" if values else "-"

    count = {verdict: sum(row["verdict"] == verdict for row in rows) for verdict in ("agrees", "differs", "no verdict")}
    lines = [f"- commit: {header['commit']}", f"- virtual: {header['kernel']}", f"- real: {real['kernel']}, {real['cpu']}, {real['busy_before'] * 100:.0f} % in use by others just before",
             f"- {count['agrees']} cells agree, {count['differs']} differ, {count['no verdict']} without a verdict", "",
             "| bench | case | arm | real, median (range) | virtual, median (range) | resolution | |", "|---|---|---|---|---|---|---|"]
    lines += [f"| {row['bench']} | {row['case']} | {row['arm']} | {spread(row['real'])} | {spread(row['virtual'])} | "
              f"{row.get('resolution', 0) * 100:.1f} % | {row['verdict']} |" for row in rows]
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="rounds at a time in virtual time (default %(default)s); real time takes one after the other")
    parser.add_argument("--bench", action="append", choices=BENCHES)
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    options = parser.parse_args()
    rows: list[dict[str, Any]] = []
    for bench in options.bench or BENCHES:
        virtual, real = measure(bench, options.rounds, options.jobs), measure(bench, options.rounds, 0)
        rows += compare(bench, real, virtual)
        text = page(rows, virtual["header"], real["header"])
        if options.markdown:
            options.markdown.write_text(text)
        if options.json:
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    print(text)
    return 1 if any(row["verdict"] == "differs" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
