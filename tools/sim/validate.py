#!/usr/bin/python3
"""Holds the simulator against kernel TCP: the same flow through equal links in the lab and in virtual time.

Needs root (the lab). Prints a table; with --out writes it as a Markdown page with commit, kernel, seed and command.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "lab"))
sys.path.insert(0, str(HERE.parent / "common"))

from tandem_common import provenance  # noqa: E402
from tandem_lab import Lab  # noqa: E402


@dataclass(frozen=True)
class Cell:
    """One flow through one link. rtt: without queues, ms; queue: packets."""

    cc: str
    mbps: float
    rtt: float
    queue: int


# Queues from a fifth of a bandwidth-delay product to all of it, so that the window's course shows in the goodput.
CELLS = [
    Cell("reno", 20, 40, 14), Cell("reno", 20, 40, 66), Cell("reno", 10, 80, 14), Cell("reno", 40, 20, 20), Cell("reno", 20, 100, 40),
    Cell("cubic", 20, 40, 14), Cell("cubic", 20, 40, 66), Cell("cubic", 10, 80, 14), Cell("cubic", 40, 20, 20), Cell("cubic", 20, 100, 40),
]


def simulator() -> str:
    """The program: TANDEM_BIN_DIR, the build directory, or beside this script when installed."""
    for place in (os.environ.get("TANDEM_BIN_DIR"), HERE.parents[1] / "build/bin", HERE):
        if place and (found := Path(place) / "tandem-sim").exists():
            return str(found)
    raise SystemExit("validate.py: no tandem-sim; build it, or name its directory in TANDEM_BIN_DIR")


def changed() -> bool:
    """Whether what takes part differs from the commit."""
    done = subprocess.run(["git", "status", "--porcelain", "--", "tools/sim", "tools/lab"], cwd=provenance.ROOT, capture_output=True, text=True)
    return bool(done.stdout.strip())


def simulated(cell: Cell, seconds: float, warmup: float, seed: int) -> float:
    """Goodput in Mb/s."""
    done = subprocess.run([simulator(), "single", "--cc", cell.cc, "--mbps", str(cell.mbps), "--rtt", str(cell.rtt), "--queue", str(cell.queue),
                           "--seconds", str(seconds), "--warmup", str(warmup), "--seed", str(seed)], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)["flows"][0]["mbps"])


def measured(cell: Cell, seconds: float, warmup: float, seed: int, prefix: str) -> tuple[float, float]:
    """Goodput in Mb/s and the idle round-trip time in ms that ping saw, both of the lab."""
    overrides = {"wifi.profile": "wifi-pipe", "wifi.rate_down": f"{cell.mbps:g}Mbit", "wifi.rate_up": "100Mbit", "wifi.queue": cell.queue,
                 "wan.delay": f"{cell.rtt / 2:g}ms"}
    with Lab("plain", overrides=overrides, seed=seed, prefix=prefix, congestion=cell.cc) as lab:
        lab.start_timeline()
        idle = sorted(lab.ping(count=5))
        result = lab.download(seconds=seconds, warmup=warmup)
        return result.goodput_mbps, idle[len(idle) // 2]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seconds", type=float, default=25, help="length of each download (default %(default)s)")
    parser.add_argument("--warmup", type=float, default=5, help="not counted (default %(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--prefix", default="simval-", help="of the lab's namespaces (default %(default)s)")
    parser.add_argument("--cells", default="", help="numbers of the cells to run, like 1,2,7 (default all)")
    parser.add_argument("--out", type=Path, help="write the table as Markdown here")
    options = parser.parse_args()
    try:
        chosen = [CELLS[int(number) - 1] for number in options.cells.split(",")] if options.cells else CELLS
    except (ValueError, IndexError):
        parser.error(f"--cells {options.cells}: numbers from 1 to {len(CELLS)} are allowed")
    if os.geteuid() != 0:
        print("validate.py: the lab needs root; run it with sudo", file=sys.stderr)
        return 1
    lines = ["| flow | link | base RTT (ping) | queue | kernel TCP | simulator | difference |", "|---|---|---|---|---|---|---|"]
    print("\n".join(lines), flush=True)
    worst = 0.0
    for cell in chosen:
        lab, idle = measured(cell, options.seconds, options.warmup, options.seed, options.prefix)
        sim = simulated(cell, options.seconds, options.warmup, options.seed)
        off = sim / lab - 1
        worst = max(worst, abs(off))
        lines.append(f"| {cell.cc} | {cell.mbps:g} Mb/s | {cell.rtt:g} ms ({idle:.1f}) | {cell.queue} | {lab:.2f} Mb/s | {sim:.2f} Mb/s | {off:+.1%} |")
        print(lines[-1], flush=True)
    print(f"largest difference {worst:.1%}")
    if options.out:
        commit = provenance.commit()["commit"] or "unknown"
        page = ["# The simulator against kernel TCP", "",
                f"One download through equal links: in the lab (kernel TCP over the real-time emulator's pipe) and in virtual time. {options.seconds:g} s each, "
                f"the first {options.warmup:g} s not counted. Goodput is the payload the application got.", "", *lines, "",
                f"Largest difference {worst:.1%}; the goal is 10 %.", "",
                f"- commit {commit}{' (with changes)' if changed() else ''}",
                f"- kernel {platform.release()}, {provenance.cpu()}",
                f"- seed {options.seed}",
                f"- command `{shlex.join(['tools/sim/validate.py', *sys.argv[1:]])}`",
                f"- {datetime.datetime.now(datetime.timezone.utc).date().isoformat()}", ""]
        options.out.write_text("\n".join(page))
    return 0 if worst <= 0.10 else 1


if __name__ == "__main__":
    sys.exit(main())
