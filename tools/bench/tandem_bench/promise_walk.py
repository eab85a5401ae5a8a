"""A walk from one access point to the next beside LTE, with Wi-Fi gone at the handoff, and what a download shows of it: the bench `promise`. Pure."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Sequence

from tandem_lab.errors import LabError

from .model import Metric
from .walks import event

HELD = Metric("held of R0 over the walk, the handoff included", "%", 1)
AT_HANDOFF = Metric("goodput in the second from the handoff on", "% of R0", 0)
GAP = Metric("longest gap while Wi-Fi is gone", "ms", 0)
LATER_GAP = Metric("longest gap in the 5 s after it is back", "ms", 0)
GOODPUT = Metric("goodput", "Mb/s", 1)
CELLULAR = Metric("cellular", "MB", 1)
METRICS = (HELD, AT_HANDOFF, GAP, LATER_GAP, GOODPUT, CELLULAR)

# The walk of the bench `cla`: access points 100 m apart, 2 m/s, the signal 62 dB over the noise at 1 m and 30 dB less for ten times the way.
APART, SPEED, FIRST, NOISE = 100.0, 2.0, 17.0, -95.0  # m, m/s, m behind the first access point at the beginning, dBm
DELTA0, DELTA2 = 20.0, 12.0  # dB, table II: the traditional handoff
C1 = 25.0  # Mb/s of 54 Mb/s in 802.11g, and of its other rates the shares, by the signal that each needs (tools/sim/handoff_scenario.cc)
SHARES = ((25, 1.0), (24, 0.93), (19, 0.77), (16, 0.58), (11, 0.46), (9, 0.34), (7, 0.26), (5, 0.18))
AFTER = 10.0  # s of walk behind the handoff
BEGINS = 3.0  # s: slow start is over
STEP = 0.1  # s between looks at the signal


@dataclass(frozen=True)
class Walk:
    """`gone`: seconds without Wi-Fi at the handoff. Rates in Mb/s, delays in ms each way (section V of Sinky et al.)."""

    gone: float
    r0: float = 18.0
    congestion: str = "cubic"

    @property
    def name(self) -> str:
        return f"handoff, Wi-Fi gone for {self.gone:g} s, R0 {self.r0:g} Mb/s, {self.congestion}"

    @property
    def handoff(self) -> float:
        """When the traditional rule goes to the other access point."""
        return next(second for second in (STEP * number for number in range(10_000))
                    if heard(0, second) < DELTA0 and heard(1, second) > heard(0, second) + DELTA2)

    @property
    def seconds(self) -> float:
        return round(self.handoff + self.gone + AFTER, 1)

    def signal(self, second: float) -> float:
        """Of the access point that the laptop is at, dB over the noise."""
        return heard(0 if second < self.handoff + self.gone else 1, second)

    def scenario(self) -> str:
        times = [round(STEP * number, 1) for number in range(int(self.seconds / STEP) + 1)]
        points = ", ".join(f'["{at:g}s", {self.signal(at) + NOISE:.1f}]' for at in times)
        tables = event(0, "signal", ap='"ap1"', points=f"[{points}]")
        tables += event(self.handoff, "blackout", self.gone, mode='"drop"', carrier='"down"')
        rate = C1
        for at in times:
            if (now := carries(self.signal(at))) != rate:
                tables += event(at, "rate", value=f'"{now:g}Mbit"')
                rate = now
        return f"""[scenario]
name = "promise-handoff"
summary = "{self.name}"
duration = "{self.seconds + 5:g}s"
mptcp = true
[wifi]
profile = "wifi-pipe"
rate = "{C1:g}Mbit"
delay = "5ms"
queue = 100
[cell]
rate_down = "18Mbit"
rate_up = "10Mbit"
delay = "20ms"
queue = 300
[wan]
delay = "1ms"
[[ap]]
name = "ap1"
[[server]]
name = "srv1"
congestion = "{self.congestion}"
{tables}"""


def heard(ap: int, second: float) -> float:
    """An access point's signal, dB over the noise."""
    return 62 - 30 * math.log10(max(1.0, abs(FIRST + SPEED * second - APART * ap)))


def carries(signal: float) -> float:
    """Mb/s by Wi-Fi with that signal."""
    return round(C1 * next((share for least, share in SHARES if signal >= least), 0.02), 2)


def figures(walk: Walk, samples: Sequence[tuple[float, int]], cellular: float) -> tuple[dict[str, float], dict[str, Any]]:
    """From (second of the walk, body so far), which came at least every 20 ms or so, and what came by cellular (bytes)."""
    if not samples or samples[-1][0] < walk.seconds - 1:
        raise LabError("the download ended before the walk did")

    def body(second: float) -> int:
        return max((count for at, count in samples if at <= second), default=0)

    seconds = [(body(BEGINS + number + 1) - body(BEGINS + number)) * 8e-6 for number in range(int(walk.seconds - BEGINS))]
    held = sum(min(1.0, rate / walk.r0) for rate in seconds) / len(seconds)
    back = walk.handoff + walk.gone
    values = {HELD.name: 100 * held, AT_HANDOFF.name: 100 * (body(walk.handoff + 1) - body(walk.handoff)) * 8e-6 / walk.r0,
              GAP.name: 1000 * longest_gap(samples, walk.handoff, back), LATER_GAP.name: 1000 * longest_gap(samples, back, back + 5),
              GOODPUT.name: (body(walk.seconds) - body(BEGINS)) * 8e-6 / (walk.seconds - BEGINS), CELLULAR.name: cellular * 1e-6}
    return values, {"rates": [round(rate, 2) for rate in seconds]}


def longest_gap(samples: Sequence[tuple[float, int]], begin: float, end: float) -> float:
    """Longest time without a byte that lies in [begin, end] as a whole or in part, in seconds; what lies before `begin` does not count."""
    longest, since, seen = 0.0, begin, None
    for at, count in samples:
        if seen is not None and count > seen and at >= begin:
            longest = max(longest, at - since)
            since = at
        seen = count
        if since >= end:
            return longest
    return max(longest, samples[-1][0] - since)
