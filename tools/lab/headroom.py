#!/usr/bin/python3
"""How much the uplink ACKs of a download cost on the air: plain TCP against an air on which ACKs are free.

The second is the limit of what any ACK offloading can reach. Pairs of runs with equal seeds, order alternating.

    sudo tools/lab/headroom.py [--profiles wifi-b,wifi-g] [--seeds 1,2] [--seconds 6] [--scenario plain] [--set KEY=VALUE] [--json]
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from statistics import mean

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

from tandem_lab import Lab, LabError, scenario, show  # noqa: E402


def measure(options: argparse.Namespace, profile: str, seed: int, free: bool) -> dict[str, object]:
    """One download."""
    overrides = {**dict(scenario.parse_override(word) for word in options.set), "wifi.profile": profile, "wifi.ack_free": free}
    with Lab(options.scenario, overrides=overrides, seed=seed, prefix=options.prefix, congestion=options.congestion) as lab:
        lab.start_timeline()
        download = lab.start_download(seconds=options.seconds, warmup=options.warmup)
        time.sleep(max(0.0, options.seconds - 1.0))
        rtt = [entry.rtt_ms for entry in lab.sock_stats()[:1]]
        result = download.wait()
        return {"profile": profile, "seed": seed, "ack_free": free, "goodput_mbps": round(result.goodput_mbps, 3),
                "acks": result.interfaces["wlan0"]["acks_out"], "packets": result.interfaces["wlan0"]["packets_in"],
                "rtt_ms": rtt[0] if rtt else None}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profiles", default="wifi-b,wifi-g,wifi-a,wifi-n")
    parser.add_argument("--seeds", default="1,2")
    parser.add_argument("--seconds", type=float, default=6.0)
    parser.add_argument("--warmup", type=float, default=2.0)
    parser.add_argument("--scenario", default="plain")
    parser.add_argument("--congestion", choices=scenario.CONGESTION_CONTROLS)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--prefix", default="thr-")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    runs = []
    try:
        for profile in options.profiles.split(","):
            for number, seed in enumerate(int(word) for word in options.seeds.split(",")):
                for free in (False, True) if number % 2 == 0 else (True, False):
                    runs.append(measure(options, profile, seed, free))
                    print(json.dumps(runs[-1]), file=sys.stderr, flush=True)
    except LabError as error:
        print(f"headroom: {error}", file=sys.stderr)
        return error.code
    if options.json:
        print(json.dumps(runs, indent=2))
        return 0
    rows = []
    for profile in options.profiles.split(","):
        arms = [[run for run in runs if run["profile"] == profile and run["ack_free"] is free] for free in (False, True)]
        plain, limit = (mean(run["goodput_mbps"] for run in arm) for arm in arms)
        share = mean(run["acks"] / run["packets"] for run in arms[0])
        rows.append([profile, f"{plain:.2f}", f"{limit:.2f}", f"{limit / plain:.3f}", f"{share:.2f}"])
    print(show.table(rows, ["profile", "plain Mb/s", "ACK-free Mb/s", "ratio", "ACKs per data packet"]))
    return 0


if __name__ == "__main__":
    sys.exit(main())
