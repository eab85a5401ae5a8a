#!/usr/bin/python3
"""How fast the lab in virtual time is: virtual seconds in a real one, for downloads of several rates, one guest at a time.

    speed.py [--seconds N] [--rate MBPS]...

Each rate is run for two lengths, N and 3 N; what starting and stopping take drops out of the difference. Prints a Markdown table.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "common"))

from tandem_common.output import written_out  # noqa: E402

SCENARIO = """\
[scenario]
name = "speed"
duration = "600s"
[wifi]
{wifi}
[wan]
delay = "15ms"
[[server]]
name = "srv1"
congestion = "cubic"
"""
RATES = (5, 25, 50, 100)


def run(scenario: Path, seconds: float) -> tuple[float, float]:
    """(real seconds, Mb/s)"""
    began = time.monotonic()
    done = subprocess.run([sys.executable, str(HERE / "lab.py"), "run", str(scenario), "--time", "virtual", "--seconds", str(seconds), "--json"],
                          capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"speed.py: {done.stderr.strip()}")
    return time.monotonic() - began, json.loads(done.stdout)["goodput_mbps"]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--rate", type=int, action="append", help=f"of the wifi-pipe, Mb/s (default {', '.join(map(str, RATES))}, and 802.11g)")
    options = parser.parse_args()
    air = {f"wifi-pipe, {rate} Mb/s": f'profile = "wifi-pipe"\nrate = "{rate}Mbit"' for rate in options.rate or RATES}
    if not options.rate:
        air["802.11g"] = 'profile = "wifi-g"'
    print("| link | goodput, Mb/s | start and stop, s | virtual seconds in a real one |\n|---|---|---|---|")
    for name, wifi in air.items():
        with tempfile.TemporaryDirectory() as directory:
            scenario = Path(directory) / "speed.toml"
            scenario.write_text(SCENARIO.format(wifi=wifi))
            short, _ = run(scenario, options.seconds)
            long, mbps = run(scenario, 3 * options.seconds)
        speed = 2 * options.seconds / (long - short)
        print(f"| {name} | {mbps:.1f} | {short - options.seconds / speed:.1f} | {speed:.2f} |", flush=True)
    return 0


if __name__ == "__main__":
    with written_out("speed.py"):
        sys.exit(main())
