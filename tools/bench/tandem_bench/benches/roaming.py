"""One TCP download on a walk past the access points of a floor: figure 1 of Sinky et al., on kernel TCP in the lab."""

from __future__ import annotations

import math
import time
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.errors import LabError

from .. import helpers, lateness, roaming_pictures, walks
from ..daemon_status import of_all
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run

PLAIN, RATE, ALL = Arm("plain", "plain"), Arm("rate", "rate"), Arm("all and rate", "tandem")
ARMS = (PLAIN, RATE, ALL)
MODULES: Mapping[Arm, tuple[str, ...]] = {PLAIN: (), RATE: ("rate",), ALL: ("offload", "freeze", "mirror", "ecn", "rate")}

GOODPUT = Metric("goodput", "Mb/s", 1)
BEFORE, LATER = Metric("goodput in the last 2 s before a handoff", "Mb/s", 1), Metric("goodput from 2 to 4 s after one", "Mb/s", 1)
RTT_BEFORE, RTT_LATER = Metric("smoothed RTT in the last 2 s before a handoff", "ms", 0), Metric("smoothed RTT from 2 to 4 s after one", "ms", 0)
GAP = Metric("longest gap", "s", 2)
METRICS = (GOODPUT, BEFORE, LATER, RTT_BEFORE, RTT_LATER, GAP)

# A floor: access points at equal distances on three channels, and somebody who walks past them. The paper has 12 on the floor, and prints neither distances nor signals.
ACCESS_POINTS, APART, SIDE, SPEED = 12, 7.0, 2.0, 1.4  # number, m, m beside the way, m/s
AT_ONE_METRE, EXPONENT, NOISE = -40.0, 3.2, -95.0  # dBm, path loss, dBm
CHANNELS = (1, 6, 11)
# The traditional handoff: below so many dB, to the one that is heard best, if it is so many dB better (table II).
DELTA0, DELTA2 = 20.0, 12.0
GAP_SECONDS, CLOSE = 0.2, 2.0  # s without an access point at a handoff; s that count as before and after
LOOK = 0.25  # s between looks at the server's connection


def signal(ap: int, second: float) -> float:
    """In dB over the noise, at the client."""
    return AT_ONE_METRE - NOISE - 10 * EXPONENT * math.log10(math.hypot(SPEED * second - APART * ap, SIDE))


@dataclass(frozen=True)
class Walk:
    """Past so many access points, from beside the first one to beside the last one."""

    access_points: int = ACCESS_POINTS
    congestion: str = "cubic"

    @property
    def name(self) -> str:
        return f"{self.access_points} access points, {self.congestion}"

    @property
    def seconds(self) -> float:
        return round(APART * (self.access_points - 1) / SPEED, 1)

    @cache
    def handoffs(self) -> list[tuple[float, int]]:
        """When, and to which access point, the client goes: it clings to the present one while that is above delta0."""
        made, present = [], 0
        for tenth in range(int(10 * self.seconds)):
            second = tenth / 10
            best = max(range(self.access_points), key=lambda ap: signal(ap, second))
            if signal(present, second) < DELTA0 and signal(best, second) > signal(present, second) + DELTA2:
                made.append((second, best))
                present = best
        return made

    def present(self, second: float) -> int:
        """The access point that the client is at."""
        return ([0] + [ap for at, ap in self.handoffs() if at <= second])[-1]

    def scenario(self) -> str:
        """As TOML text."""
        times = [round(0.5 * half, 1) for half in range(int(2 * self.seconds) + 3)]
        tables = "".join(f'\n[[ap]]\nname = "ap{ap + 1}"\nchannel = {CHANNELS[ap % len(CHANNELS)]}\n' for ap in range(self.access_points))
        for ap in range(self.access_points):
            points = ", ".join(f'["{at:g}s", {signal(ap, at) + NOISE:.1f}]' for at in times)
            tables += walks.event(0, "signal", ap=f'"ap{ap + 1}"', points=f"[{points}]")
        tables += "".join(walks.event(at, "handoff", ap=f'"ap{ap + 1}"', gap=f'"{GAP_SECONDS:g}s"') for at, ap in self.handoffs())
        return (f'[scenario]\nname = "bench-roaming"\nduration = "600s"\n[wifi]\nprofile = "wifi-g"\nrate = "minstrel"\n[cell]\nprofile = "lte"\n[wan]\ndelay = "12.5ms"\n'
                f'[[server]]\nname = "srv1"\ncongestion = "{self.congestion}"\n{tables}')


def around(points: Sequence[tuple[float, float]], handoffs: Sequence[float], begin: float, end: float) -> float:
    """Mean of what lies so many seconds after a handoff, over all of them; below 0: before. Raises LabError when nothing does: 0 would be the best round trip of all."""
    found = [value for at, value in points if any(begin <= at - handoff < end for handoff in handoffs)]
    if not found:
        raise LabError(f"nothing was measured from {begin:g} to {end:g} s after any handoff")
    return sum(found) / len(found)


class Roaming(Bench):
    name = "roaming"
    summary = "one TCP download on a walk past the access points of a floor, with the handoffs of a laptop that clings to its access point: figure 1 of Sinky et al. on kernel TCP in the lab"
    parallel = True
    columns = ("plain", "rate", "tandem")
    headings = {"rate": "rate", "tandem": "all modules and rate"}
    detail_columns = (("handoffs", "handoffs"), ("skipped", "access points skipped"), ("RetransSegs", "retransmitted"), ("TCPTimeouts", "timeouts"), ("faults", "module faults"),
                      ("violations", "violations"))
    notes = (
        f"Lab, 802.11g with rate control, a server with CUBIC or BBR 25 ms away, queues of 100 packets at the access points. {ACCESS_POINTS} access points every {APART:g} m on channels {', '.join(map(str, CHANNELS))}, passed at {SPEED:g} m/s in "
        f"{SIDE:g} m; path loss exponent {EXPONENT:g}. The paper walks past 12 access points of a department with a, b, g and n, and prints neither the way nor the signals; its figure is drawn, and its text gives no numbers.",
        f"The client stays at its access point until that is below {DELTA0:g} dB and another one {DELTA2:g} dB better (table II, the traditional handoff), and goes to the best then; {GAP_SECONDS:g} s without any, and what the old one had queued is lost. All arms change at the same times.",
        "Smoothed RTT: the server's (ss), four times a second. Means over all handoffs of a run.",
        "\"rate\": this module alone, with its defaults; \"all modules and rate\": offload, freeze, mirror, ecn and rate. The daemon sees the air's frames.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        return [case_of(Walk(6), 1)] if quick else [case_of(Walk(congestion=congestion), 3) for congestion in ("cubic", "bbr")]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["walk"].seconds + 2.5

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        walk: Walk = case.parameters["walk"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(walk.scenario(), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if modules := MODULES[arm]:
                config = {"links": {"radio": f"lab:{lab.directory / 'frames.sock'}"}}
                daemon = stack.enter_context(helpers.tandem(lab, options, modules, config, f"{case.name}-{arm.name}-{seed}"))
            before = lab.tcp_counters()
            lab.start_timeline()
            began = time.monotonic()
            running = lab.start_download(seconds=walk.seconds)
            rtts: list[tuple[float, float]] = []
            while (now := time.monotonic() - began) < walk.seconds:
                if sockets := lab.sock_stats("srv1", 80):
                    rtts.append((now, sockets[0].rtt_ms))
                running.progress(max(0.0, LOOK - (time.monotonic() - began - now)))
                time.sleep(max(0.0, LOOK - (time.monotonic() - began - now)))
            result = running.wait()
            after = lab.tcp_counters()
            if result.error:
                raise LabError(f"download: {result.error}")
            details: dict[str, Any] = {key: after.get(key, 0) - before.get(key, 0) for key in ("RetransSegs", "TCPTimeouts")} | lateness.checked(lab.stats())
            if daemon is not None:
                details |= of_all(daemon.api("/v1/status"))
        rates = [(0.5 * number + 0.25, rate) for number, rate in enumerate(result.rates(0.5))]
        return Measurement(figures_of(walk, rates, rtts) | {GOODPUT.name: result.bytes * 8e-6 / result.seconds, GAP.name: result.longest_gap()},
                           details | told(walk) | {"rates": [[at, round(rate, 2)] for at, rate in rates], "rtts": [[round(at, 2), rtt] for at, rtt in rtts]})

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        """Figure 1: signal, throughput and round trip over the walk, first seed, a column for each case."""
        return roaming_pictures.walk(self, cases, runs, directory)


def figures_of(walk: Walk, rates: Sequence[tuple[float, float]], rtts: Sequence[tuple[float, float]]) -> dict[str, float]:
    """Throughput and round trip before and after the handoffs."""
    at = [second for second, _ in walk.handoffs()]
    return {BEFORE.name: around(rates, at, -CLOSE, 0), LATER.name: around(rates, at, CLOSE, 2 * CLOSE),
            RTT_BEFORE.name: around(rtts, at, -CLOSE, 0), RTT_LATER.name: around(rtts, at, CLOSE, 2 * CLOSE)}


def told(walk: Walk) -> dict[str, Any]:
    """What the picture and the second table need of the walk."""
    ways = [0] + [ap for _, ap in walk.handoffs()]
    return {"handoffs_s": [at for at, _ in walk.handoffs()], "handoffs": len(ways) - 1, "skipped": sum(max(0, there - here - 1) for here, there in zip(ways, ways[1:])),
            "signal": [[second / 2, round(signal(walk.present(second / 2), second / 2), 1)] for second in range(int(2 * walk.seconds) + 1)]}


def case_of(walk: Walk, rounds: int) -> Case:
    goals = tuple(Goal(arm.name, ">=", 0.97, over=PLAIN.name) for arm in (RATE, ALL)) + tuple(
        Goal(arm.name, "<=", 0.5, over=PLAIN.name, metric=RTT_BEFORE.name, text=f"{arm.name}: RTT before handoffs at most half of plain") for arm in (RATE, ALL))
    return Case(walk.name, ARMS, METRICS, rounds, goals, "throughput falls and RTT rises before handoffs; a satisfactory period after each", {"walk": walk})


BENCH = Roaming()
