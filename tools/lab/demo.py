#!/usr/bin/python3
"""The demo: downloads from nginx over emulated Wi-Fi with losses and a blackout, without Tandem, with each module and with all, on real kernel TCP.

    tools/demo [--seconds 10] [--rounds 1] [--seed 1] [--out DIR]

Ends in a table and a plot (demo.png, demo.svg).
"""

from __future__ import annotations

import argparse
import os
import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Mapping, Sequence

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools" / part) for part in ("lab", "common")]

from tandem_common.output import written_out  # noqa: E402
from tandem_lab import Lab  # noqa: E402
from tandem_lab.errors import BadInput, LabError  # noqa: E402
from tandem_lab.scenario import find, load  # noqa: E402
from tandem_lab.show import Progress, table  # noqa: E402

MODULES = ("offload", "freeze", "mirror", "ecn")
PLAIN, ALL = "without Tandem", "all modules"
ARMS: Mapping[str, Sequence[str]] = {PLAIN: (), **{name: (name,) for name in MODULES}, ALL: MODULES}
# Okabe and Ito: told apart with any colour vision.
COLOURS = dict(zip(ARMS, ("#999999", "#56B4E9", "#009E73", "#E69F00", "#CC79A7", "#D55E00")))


@dataclass(frozen=True)
class Run:
    """One download. Rate in Mb/s, round trip in ms as the server's TCP sees it, ACKs per second of download."""

    number: int
    arm: str
    goodput: float
    rtt: float
    gap: float  # longest time without a byte, s
    wifi_acks: float
    cell_acks: float
    samples: list[tuple[float, int]]


def download(number: int, arm: str, seed: int, seconds: float, scenario: str) -> Run:
    """A lab of its own for every run; the runs of a round see the same air."""
    with Lab(scenario, seed=seed) as lab, (lab.daemon(ARMS[arm]) if ARMS[arm] else nullcontext()):
        lab.start_timeline()
        going = lab.start_download(seconds=seconds)
        shown = Progress(f"{arm:<14}", seconds)
        rtts: list[float] = []
        looked = time.monotonic()
        while going.running():
            shown(*going.progress(0.1))
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                rtts += [entry.rtt_ms for entry in lab.sock_stats("srv1")[:1]]
        shown.end()
        result = going.wait()
        if result.error:
            raise LabError(f"download: {result.error}")
        wifi, cell = result.interfaces["wlan0"], result.interfaces["cell0"]
        return Run(number, arm, result.goodput_mbps, statistics.median(rtts) if rtts else 0.0, result.longest_gap(),
                   wifi["acks_out"] / result.seconds, cell["acks_out"] / result.seconds, result.samples)


def median(runs: Sequence[Run], arm: str, what: str) -> float:
    return statistics.median(getattr(run, what) for run in runs if run.arm == arm)


def summary(runs: Sequence[Run]) -> str:
    """The table: medians per arm, and how many times the goodput without Tandem that is."""
    plain = median(runs, PLAIN, "goodput")
    rows = [[arm, f"{median(runs, arm, 'goodput'):.2f}", f"{median(runs, arm, 'goodput') / plain:.2f}" if plain else "-",
             f"{median(runs, arm, 'gap'):.1f}", f"{median(runs, arm, 'rtt'):.0f}", f"{median(runs, arm, 'wifi_acks'):.0f}", f"{median(runs, arm, 'cell_acks'):.0f}"]
            for arm in ARMS]
    return table(rows, ["", "goodput Mb/s", "times", "longest gap s", "RTT ms", "ACKs/s by Wi-Fi", "ACKs/s by cellular"])


def plot(runs: Sequence[Run], directory: Path) -> list[Path]:
    """What each download had brought after so many seconds, and its goodput."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), width_ratios=[2, 1])
    for run in runs:
        left.plot([0.0, *(now for now, _ in run.samples)], [0.0, *(total * 1e-6 for _, total in run.samples)], color=COLOURS[run.arm],
                  linewidth=2.2 if run.arm in (PLAIN, ALL) else 1.3, label=run.arm if run.number == 1 else None)
    left.set(xlabel="seconds", ylabel="MB received", title="One download through losses and a blackout")
    left.set_ylim(bottom=0)
    left.legend(loc="upper left", frameon=False)
    names = list(ARMS)
    for at, arm in enumerate(names):
        right.barh(at, median(runs, arm, "goodput"), color=COLOURS[arm])
        right.annotate(f"{median(runs, arm, 'goodput'):.1f}", (median(runs, arm, "goodput"), at), xytext=(3, -4), textcoords="offset points")
    right.set_yticks(range(len(names)), names)
    right.invert_yaxis()
    right.set(xlabel="goodput, Mb/s")
    right.margins(x=0.15)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    paths = [directory / "demo.png", directory / "demo.svg"]
    for path in paths:
        # Without the block of metadata an SVG says nothing but the picture, the same for the same data.
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type")) if path.suffix == ".svg" else None
        figure.savefig(path, dpi=130, metadata=nothing)
    return paths


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=10, help="length of each download (default 10)")
    parser.add_argument("--rounds", type=int, default=1, help="downloads of each kind (default 1)")
    parser.add_argument("--seed", type=int, default=1, help="of the emulated air (default 1)")
    parser.add_argument("--scenario", default="demo", help="of the lab (default demo; see `tandem lab list`)")
    parser.add_argument("--out", type=Path, default=ROOT / "build/demo", help="where the plot goes (default build/demo of the source)")
    parser.add_argument("--only-check", action="store_true", help=argparse.SUPPRESS)  # by tools/demo, before it installs and builds
    options = parser.parse_args()
    if options.seed < 0:
        parser.error(f"--seed {options.seed}: a whole number from 0 is needed")
    if options.rounds < 1 or not 4 <= options.seconds < 3600:
        parser.error("at least one round of at least 4 s, and below an hour, is needed")
    return options


def main() -> int:
    options = parsed()
    if os.geteuid() != 0:
        print("tools/demo: root is needed (it works with network namespaces): sudo tools/demo", file=sys.stderr)
        return 1
    try:
        options.out.mkdir(parents=True, exist_ok=True)
        if not load(file := find(options.scenario)).cell:
            raise BadInput(f"--scenario {options.scenario}: {file} has no cellular link (cell.enabled = false), which the modules are shown with; allowed: one that has")
    except OSError as error:
        print(f"tools/demo: --out {options.out}: {error.strerror}", file=sys.stderr)
        return 2
    except BadInput as error:
        print(f"tools/demo: {error}", file=sys.stderr)
        return 2
    if options.only_check:
        return 0
    runs: list[Run] = []
    try:
        for number in range(1, options.rounds + 1):
            # The order turns, so that a drift of the machine falls on no arm alone.
            names = list(ARMS)
            for arm in names if number % 2 else reversed(names):
                runs.append(download(number, arm, options.seed + number - 1, options.seconds, options.scenario))
                print(f"{arm:<14}  {runs[-1].goodput:6.2f} Mb/s", flush=True)
    except KeyboardInterrupt:
        print("stopped; the lab is gone", file=sys.stderr)
        return 130
    except BadInput as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    print("\n" + summary(runs))
    try:
        print("\nplot: " + ", ".join(map(str, plot(runs, options.out))))
    except OSError as error:
        print(f"demo: {error.filename or options.out}: {error.strerror}; the plot is not written", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    with written_out("tools/demo"):
        sys.exit(main())
