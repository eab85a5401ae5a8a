"""Repeated downloads of a client that stands still, over two access points that have bad times (Croitoru et al., NSDI 2015, section 6.4, figure 9), in the simulator."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_simulator.program import SimError

from .. import ecn_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..simulations import ALONE, BLIND, BY_AP1, BY_AP2, LETTER, OLIA, OPTIMUM, PUBLISHED, TANDEM, SenderKind

ARMS = (BY_AP1, BY_AP2, ALONE, PUBLISHED, LETTER, BLIND, TANDEM, OPTIMUM)
SIZE = 10e6  # bytes
LONGEST = 1200.0  # s of virtual time
BATCH = 50  # downloads of a round
MEDIAN = Metric("median download", "s", 2, "times", "median")
P95 = Metric("95th percentile", "s", 2, "times", "p95")
P99 = Metric("99th percentile", "s", 2, "times", "p99")


@dataclass(frozen=True)
class Outside:
    """What happens at both access points, independently of each other and alike on average."""

    name: str
    variation: Mapping[str, Any] = field(default_factory=dict)  # of the packet times; empty: constant
    packet_ms: float = 0.7
    users_per_s: float = 0.0  # downloads of others that begin at each access point
    users_bytes: float = 0.0  # their mean size; Pareto with a shape of 1.5

    def downloads_of_others(self, seed: int, until: float) -> list[dict[str, Any]]:
        """Flows of the other users, the same for every arm of a seed."""
        draw = random.Random(seed)
        flows = []
        for ap in (1, 2):
            at = draw.expovariate(self.users_per_s) if self.users_per_s > 0 else until
            while at < until:
                size = min(20 * self.users_bytes, self.users_bytes / 3 * draw.paretovariate(1.5))
                flows.append({"cc": "reno", "size": round(size), "start": at, "subflows": [{"rtt_ms": 25, "jitter_ms": 0.5, "down": [f"users{ap}"]}]})
                at += draw.expovariate(self.users_per_s)
        return flows


# Chosen by what TCP by one access point does: a median of about 5 s and a 99th percentile of several times that, as in figure 9.
CHANNEL = Outside("good and bad times", {"how": "two-state", "good_ms": 0.7, "bad_ms": 7, "good_s": 40, "bad_s": 5})
SPREAD = Outside("log-normal packet times", {"how": "log-normal", "median_ms": 0.7, "sigma": 1.2, "hold_s": 10})
USERS = Outside("other users", packet_ms=0.5, users_per_s=0.02, users_bytes=50e6)
OUTSIDES = (CHANNEL, SPREAD, USERS)
KINDS = (OLIA, simulations.CUBIC)


def description(outside: Outside, sender: SenderKind, arm: Arm, seed: int) -> dict[str, Any]:
    """One download; the access points have been at work for a while when it begins."""
    start = 30.0 if outside.users_per_s > 0 else 5.0
    links: list[dict[str, Any]] = []
    for ap in ("ap1", "ap2"):
        links.append({"name": ap, "type": "weighted", "packet_ms": outside.packet_ms, **({"vary": [ap]} if outside.variation else {})})
    if outside.users_per_s > 0:
        links += [{"name": f"users{i}", "type": "weighted", "ap": f"ap{i}", "packet_ms": outside.packet_ms} for i in (1, 2)]
    if outside.variation:
        links.append({"name": "better", "type": "weighted", "vary": ["ap1", "ap2"]})  # always the better of both
    ways = {BY_AP1.name: ["ap1"], BY_AP2.name: ["ap2"], OPTIMUM.name: ["better"]}.get(arm.name, ["ap1", "ap2"])
    subflows = [{"rtt_ms": 25, "jitter_ms": 0.5, "down": [way], "start": 0.02 * number} for number, way in enumerate(ways)]
    client: dict[str, Any] = {"name": "client", "client": True, "ecn": True, "size": SIZE, "start": start, "subflows": subflows}
    if len(ways) > 1:
        client |= {"mptcp": True, "cc": sender.cc, "scheduler": sender.scheduler}
    else:
        client |= {"cc": "cubic" if sender.cc == "cubic" else "reno", "mss": 1428}
    variations = [{"name": ap, **outside.variation} for ap in ("ap1", "ap2")] if outside.variation else []
    return {"seed": seed, "seconds": LONGEST, "until": "first", "links": links, "variations": variations,
            "flows": [client, *outside.downloads_of_others(seed, 300.0)], **simulations.module_of(arm)}


class StaticTail(simulations.SimulatorBench):
    name = "static-tail"
    summary = "downloads of 10 MB over two access points that have bad times: TCP by either, MPTCP alone, marked as published, and with Tandem (simulator)"
    notes = (
        "In the simulator (docs/sim.md): both access points on one channel, 25 ms of round-trip time, each download on a seed of its own, the same for all arms. "
        "\"good and bad times\": the packet time is 0.7 ms for 40 s on average, then 7 ms for 5 s, exponentially distributed, each access point by itself. "
        "\"log-normal\": another packet time after 10 s on average, median 0.7 ms, sigma 1.2. \"other users\": constant packet times; every 50 s on average another user begins a download at an "
        "access point, 50 MB on average, Pareto; packet times do not show them.",
        "The radio tells the module the mean packet time of the last half second, twice a second.",
        "The optimum is TCP over whichever access point has the lower packet time at each moment; with other users the faster of the two downloads. Where that does not halve the 99th "
        "percentile of the better access point, there is no goal to halve it.",
        "MPTCP in the simulator does not send data again by another subflow (docs/sim.md); Linux does.",
        simulations.NOTE_ARMS, simulations.NOTE_SENDERS)

    def cases(self, quick: bool) -> list[Case]:
        made = []
        for sender in KINDS:
            for outside in OUTSIDES:
                goals = [Goal(TANDEM.name, "<=", 1.0, over=arm.name, metric=MEDIAN.name, text=f"median not above {arm.name}") for arm in (BY_AP1, BY_AP2)]
                if outside == CHANNEL:
                    goals += [Goal(TANDEM.name, "<=", 0.5, over=arm.name, metric=P99.name, text=f"99th percentile at most half of {arm.name}") for arm in (BY_AP1, BY_AP2)]
                made.append(Case(f"{outside.name}, {sender.name}", ARMS, (MEDIAN, P95, P99), 2 if quick else 12, tuple(goals) if sender == OLIA else (),
                                 "median 5 and 5.6 s by one, 6 s by both; 99th percentile halved" if sender == OLIA and outside == CHANNEL else "",
                                 {"sender": sender.name, "outside": outside.name}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.04 * BATCH

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        sender = next(kind for kind in KINDS if kind.name == case.parameters["sender"])
        outside = next(kind for kind in OUTSIDES if kind.name == case.parameters["outside"])
        times = [self._download(outside, sender, arm, BATCH * seed + number) for number in range(BATCH)]
        return Measurement({"mean": simulations.mean(times)}, {"times": times, "knobs": simulations.knob_words(arm)})

    def _download(self, outside: Outside, sender: SenderKind, arm: Arm, seed: int) -> float:
        if arm.name == OPTIMUM.name and not outside.variation:
            return min(self._download(outside, sender, one, seed) for one in (BY_AP1, BY_AP2))
        time = simulations.simulate("run", {}, description(outside, sender, arm, seed))["flows"][0]["finished"]
        if time is None:
            raise SimError(f"seed {seed}: not finished after {LONGEST:g} s")
        return time

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return ecn_pictures.distributions(self, cases, runs, "times", "download of 10 MB, s", directory)


BENCH = StaticTail()
