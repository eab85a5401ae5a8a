#!/usr/bin/python3
"""The demo: paired downloads from nginx over emulated, busy Wi-Fi, without and with Tandem, on real kernel TCP.

    tools/demo [--seconds 8] [--pairs 3] [--seed 1] [--out DIR]

Ends in a table and a plot (demo.png, demo.svg).
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))

from tandem_lab import Lab  # noqa: E402
from tandem_lab.errors import BadInput, LabError  # noqa: E402
from tandem_lab.show import Progress, table  # noqa: E402

ARMS = ("without", "with Tandem")


@dataclass(frozen=True)
class Run:
    """One download. Rates in Mb/s, round trips in ms as the server's TCP sees them, ACKs per second of download."""

    pair: int
    arm: str
    goodput: float
    rtt: float
    wifi_acks: float
    cell_acks: float
    cell_kbytes: float
    samples: list[tuple[float, int]]


def download(pair: int, arm: str, seed: int, seconds: float, scenario: str) -> Run:
    """A lab of its own for every run; the two runs of a pair see the same air."""
    with Lab(scenario, seed=seed) as lab, (lab.daemon(["offload"]) if arm == ARMS[1] else nullcontext()):
        lab.start_timeline()
        going = lab.start_download(seconds=seconds, warmup=2.0)
        shown = Progress(f"pair {pair}, {arm:<11}", seconds)
        rtts: list[float] = []
        looked = time.monotonic()
        while going.running():
            shown(*going.progress(0.1))
            if time.monotonic() - looked > 0.5:
                looked = time.monotonic()
                rtts += [entry.rtt_ms for entry in lab.sock_stats("srv1")[:1]]
        shown.end()
        result = going.wait()
        wifi, cell = result.interfaces["wlan0"], result.interfaces["cell0"]
        return Run(pair, arm, result.goodput_mbps, statistics.median(rtts) if rtts else 0.0, wifi["acks_out"] / result.seconds,
                   cell["acks_out"] / result.seconds, cell["bytes_out"] / 1000, result.samples)


def summary(runs: list[Run]) -> str:
    """The table: medians per arm, and the median of the paired ratios."""
    rows = []
    for arm in ARMS:
        of = [run for run in runs if run.arm == arm]
        rows.append([arm] + [f"{statistics.median(getattr(run, what) for run in of):.{digits}f}"
                             for what, digits in (("goodput", 2), ("rtt", 0), ("wifi_acks", 0), ("cell_acks", 0), ("cell_kbytes", 0))])
    text = table(rows, ["", "goodput Mb/s", "RTT ms", "ACKs/s by Wi-Fi", "ACKs/s by cellular", "cellular kB"])
    ratios = [b.goodput / a.goodput for a in runs for b in runs if a.pair == b.pair and a.arm == ARMS[0] and b.arm == ARMS[1]]
    return f"{text}\n\nTandem / without, median of {len(ratios)} pairs: {statistics.median(ratios):.2f}  (each: {', '.join(f'{r:.2f}' for r in ratios)})"


def plot(runs: list[Run], directory: Path) -> list[Path]:
    """Goodput over time, every run as a line, and where the ACKs went."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    colours = {ARMS[0]: "#9a9a9a", ARMS[1]: "#1f77b4"}
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10, 4), width_ratios=[2, 1])
    for run in runs:
        times, rates, last = [], [], (0.0, 0)
        for now, total in run.samples:
            if now - last[0] >= 0.45:
                times.append(now)
                rates.append((total - last[1]) * 8e-6 / (now - last[0]))
                last = (now, total)
        left.plot(times, rates, color=colours[run.arm], alpha=0.8, linewidth=1.3, label=run.arm if run.pair == 1 else None)
    for arm in ARMS:
        median = statistics.median(run.goodput for run in runs if run.arm == arm)
        left.axhline(median, color=colours[arm], linestyle=":", linewidth=1)
        left.annotate(f"{median:.1f}", (1.0, median), xycoords=("axes fraction", "data"), xytext=(4, -3), textcoords="offset points",
                      color=colours[arm])
    left.set(xlabel="seconds", ylabel="goodput, Mb/s", title="One download over busy Wi-Fi")
    left.set_ylim(bottom=0)
    left.legend(loc="lower right", frameon=False)
    for at, arm in enumerate(ARMS):
        of = [run for run in runs if run.arm == arm]
        wifi, cell = statistics.median(r.wifi_acks for r in of), statistics.median(r.cell_acks for r in of)
        right.bar(at, wifi, color="#d98c5f", label="by Wi-Fi" if at == 0 else None)
        right.bar(at, cell, bottom=wifi, color="#6aa56a", label="by cellular" if at == 0 else None)
    right.set_xticks([0, 1], ARMS)
    right.set(ylabel="ACKs per second", title="Where the ACKs went")
    right.legend(frameon=False)
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.tight_layout()
    paths = [directory / "demo.png", directory / "demo.svg"]
    for path in paths:
        # Without the block of metadata an SVG says nothing but the picture, the same for the same data.
        nothing = dict.fromkeys(("Creator", "Date", "Format", "Type")) if path.suffix == ".svg" else None
        figure.savefig(path, dpi=130, metadata=nothing)
    return paths


def main() -> int:
    parser = argparse.ArgumentParser(prog="tools/demo", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=9, help="length of each download (default 9)")
    parser.add_argument("--pairs", type=int, default=3, help="downloads without and with Tandem (default 3)")
    parser.add_argument("--seed", type=int, default=1, help="of the emulated air (default 1)")
    parser.add_argument("--scenario", default="demo", help="of the lab (default demo; see `tandem lab list`)")
    parser.add_argument("--out", type=Path, default=Path("build/demo"), help="where the plot goes (default build/demo)")
    options = parser.parse_args()
    if options.pairs < 1 or options.seconds < 4:
        parser.error("at least one pair of at least 4 s is needed")
    runs: list[Run] = []
    try:
        for pair in range(1, options.pairs + 1):
            # The order alternates, so that a drift of the machine falls on both sides alike.
            for arm in ARMS if pair % 2 else reversed(ARMS):
                runs.append(download(pair, arm, options.seed + pair - 1, options.seconds, options.scenario))
                print(f"pair {pair}, {arm:<11}  {runs[-1].goodput:6.2f} Mb/s", flush=True)
    except KeyboardInterrupt:
        print("stopped; the lab is gone", file=sys.stderr)
        return 1
    except BadInput as error:
        print(f"demo: {error}", file=sys.stderr)
        return 2
    except LabError as error:
        print(f"demo: {error}", file=sys.stderr)
        return 1
    print("\n" + summary(runs))
    options.out.mkdir(parents=True, exist_ok=True)
    print("\nplot: " + ", ".join(map(str, plot(runs, options.out))))
    return 0


if __name__ == "__main__":
    sys.exit(main())
