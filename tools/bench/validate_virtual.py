#!/usr/bin/python3
"""Virtual time against real time: the quick cells of four benches in both, and whether they agree.

    validate_virtual.py [--rounds N] [--jobs N] [--bench NAME]... [--keep DIR] [--markdown FILE] [--json FILE] [--plot FILE]

A cell is one arm of one case. Its figure in virtual time agrees when it lies within the range of the real rounds, widened by the real-time resolution:
how far "plain" and "plain again" strayed from each other in the same rounds where the bench has both, at least 2 %. Real time wants a machine
that does nothing else, so it is measured first, in one piece; what follows may share the machine. A real run that failed (the emulator was late) is
counted, and its cell has no verdict without two good ones. With --keep, a bench's result that lies in DIR is not measured again; it has to be of this commit.
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
sys.path.insert(0, str(HERE.parent / "common"))

from tandem_common import provenance  # noqa: E402

# Every sender, both forms of an access point, each PHY, bursts of one flow and eight: 37 cells in less than half an hour of quiet.
BENCHES = {"offload": ("wifi-b", "wifi-a", "wifi-n", "wifi-g, filtered"), "freeze": ("50 ms cubic", "20 ms reno"), "mirror": ("0.3 %", "1 %"), "ecn-linux": ("T1",)}
LEAST = 0.02


def measure(bench: str, rounds: int, virtual: int, keep: Path | None) -> dict[str, Any]:
    """The bench's JSON. `virtual`: rounds at a time in virtual time; 0: real time."""
    kept = keep / f"{bench}-{'virtual' if virtual else 'real'}.json" if keep else None
    if kept and kept.exists():
        return of_this_commit(kept, json.loads(kept.read_text()))
    words = ["--time", "virtual", "--jobs", str(virtual)] if virtual else ["--time", "real"]
    for case in BENCHES[bench]:
        words += ["--case", case]
    done = subprocess.run([sys.executable, str(HERE / "bench.py"), bench, "--quick", "--rounds", str(rounds), "--json", "-", *words], stdout=subprocess.PIPE)
    if not done.stdout:
        sys.exit(f"validate_virtual.py: {bench}: the bench gave no result (code {done.returncode})")
    if kept:
        kept.parent.mkdir(parents=True, exist_ok=True)
        kept.write_bytes(done.stdout)
    return json.loads(done.stdout)


def of_this_commit(place: Path, document: dict[str, Any]) -> dict[str, Any]:
    """A kept result, when it was measured with what would be measured now; the page has one commit for all."""
    before, now = document["header"], provenance.commit()
    if before.get("dirty") or now["dirty"] or before.get("commit") != now["commit"]:
        sys.exit(f"validate_virtual.py: {place}: of commit {before.get('commit') or 'none'}{', with uncommitted changes' if before.get('dirty') else ''}, and this is "
                 f"{now['commit'] or 'none'}{', with uncommitted changes' if now['dirty'] else ''}; remove it, or leave --keep out")
    return document


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


def resolution(real: dict[str, Any], case: str) -> float:
    """How far two equal arms strayed in the same rounds in real time, as a share."""
    rounds: dict[str, dict[int, float]] = {"plain": {}, "plain again": {}}
    metric = ""
    for run in real["runs"]:
        if run["case"] == case and run["value"] is not None and (metric := metric or run["metric"]) == run["metric"] and run["arm"] in rounds:
            rounds[run["arm"]][run["seed"]] = run["value"]
    one, other = rounds.values()
    return max([LEAST, *(abs(one[seed] / other[seed] - 1) for seed in one.keys() & other.keys() if other[seed])])


def compare(bench: str, real: dict[str, Any], virtual: dict[str, Any]) -> list[dict[str, Any]]:
    here, there = figures(real), figures(virtual)
    rows = []
    for (case, arm), values in there.items():
        known = here.get((case, arm), [])
        row: dict[str, Any] = {"bench": bench, "case": case, "arm": arm, "real": known, "virtual": values, "verdict": "no verdict"}
        if values and len(known) > 1:
            width = resolution(real, case)
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


def plot(rows: list[dict[str, Any]], file: Path) -> None:
    """Each cell's median and range, virtual against real; what differs is named."""
    import matplotlib
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(6.4, 5.2))
    for bench in dict.fromkeys(row["bench"] for row in rows):
        known = [row for row in rows if row["bench"] == bench and row["real"] and row["virtual"]]
        middle = {side: [statistics.median(row[side]) for row in known] for side in ("real", "virtual")}
        reach = {side: [[at - min(row[side]) for at, row in zip(middle[side], known)], [max(row[side]) - at for at, row in zip(middle[side], known)]]
                 for side in middle}
        axes.errorbar(middle["real"], middle["virtual"], xerr=reach["real"], yerr=reach["virtual"], fmt="o", markersize=4, linewidth=0.8, label=bench)
        for row, x, y in zip(known, middle["real"], middle["virtual"]):
            if row["verdict"] == "differs":
                axes.annotate(row["arm"], (x, y), xytext=(-8, 8), ha="right", textcoords="offset points", fontsize=8)
    axes.set(xscale="log", yscale="log", xlabel="real time, Mb/s (median and range)", ylabel="virtual time, Mb/s", title="Virtual time against real time, cell by cell")
    axes.plot(axes.get_xlim(), axes.get_xlim(), linewidth=0.8, color="gray")
    axes.legend()
    figure.tight_layout()
    figure.savefig(file, dpi=110)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--jobs", type=int, default=2, help="rounds at a time in virtual time (default %(default)s); real time takes one after the other")
    parser.add_argument("--bench", action="append", choices=list(BENCHES))
    parser.add_argument("--keep", type=Path, metavar="DIR")
    parser.add_argument("--markdown", type=Path)
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path, metavar="FILE")
    options = parser.parse_args()
    chosen = options.bench or list(BENCHES)
    real = {bench: measure(bench, options.rounds, 0, options.keep) for bench in chosen}
    virtual = {bench: measure(bench, options.rounds, options.jobs, options.keep) for bench in chosen}
    # Sums over a bench's cells are no cells.
    rows = [row for bench in chosen for row in compare(bench, real[bench], virtual[bench]) if not row["case"].startswith("all cells")]
    text = page(rows, virtual[chosen[0]]["header"], real[chosen[0]]["header"])
    if options.markdown:
        options.markdown.write_text(text)
    if options.json:
        options.json.write_text(json.dumps(rows, indent=1) + "\n")
    if options.plot:
        plot(rows, options.plot)
    print(text)
    return 1 if any(row["verdict"] == "differs" for row in rows) else 0


if __name__ == "__main__":
    sys.exit(main())
