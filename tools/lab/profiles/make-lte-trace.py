#!/usr/bin/python3
"""Makes lte-down.trace and lte-up.trace in the directory of the command line: packet-delivery opportunities in mahimahi's format.

The rate follows a mean-reverting random walk in the logarithm, one step per 20 ms, with rare outages of 100 to 400 ms, the
shape of published LTE drive traces. The seed is fixed, so running this again gives the same files byte for byte (tests/unit/repo).
The build runs it; the files are 20 383 lines that a source tree need not keep.
"""

import math
import pathlib
import random
import sys


def opportunities(seed: int, mean_mbps: float, length_ms: int) -> list[int]:
    """Milliseconds at which 1500 bytes may leave, for a walk around mean_mbps."""
    rng = random.Random(seed)
    log_rate, outage, credit, result = 0.0, 0, 0.0, []
    for ms in range(1, length_ms + 1):
        if ms % 20 == 0:
            log_rate += 0.05 * (0.0 - log_rate) + 0.15 * rng.gauss(0.0, 1.0)
            if outage == 0 and rng.random() < 0.002:
                outage = rng.randint(100, 400)
        if outage > 0:
            outage -= 1
            continue
        credit += mean_mbps * math.exp(log_rate) * 1000.0 / 8.0 / 1500.0
        while credit >= 1.0:
            result.append(ms)
            credit -= 1.0
    if result[-1] != length_ms:
        result.append(length_ms)  # the last entry is the length of the loop
    return result


def main() -> None:
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit("usage: make-lte-trace.py DIRECTORY")
    directory = pathlib.Path(sys.argv[1])
    directory.mkdir(parents=True, exist_ok=True)
    for name, seed, mean in (("lte-down.trace", 2009, 18.0), ("lte-up.trace", 2010, 6.0)):
        times = opportunities(seed, mean, 10_000)
        (directory / name).write_text("".join(f"{t}\n" for t in times))
        print(f"{name}: {len(times) * 1500 * 8 / times[-1] / 1000:.1f} Mb/s over {times[-1] / 1000:.0f} s")


if __name__ == "__main__":
    main()
