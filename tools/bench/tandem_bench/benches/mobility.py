"""A client at places between two access points and on a walk past five of one channel (Croitoru et al., NSDI 2015, figures 7 and 8), in the simulator."""

from __future__ import annotations

import math
import random
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from .. import ecn_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..simulations import ALONE, BY_AP1, BY_AP2, OLIA, PUBLISHED, TANDEM, TURNS
from . import carrier_sense
from .carrier_sense import BETTER, GOODPUT, SETUPS, SHARE, description, shares_of_better

ONE = Arm("the first one only", "ap1")
HANDOVER = Arm("handover by beacons", "handover")
BEST = Arm("best at each moment", "limit")
NOMADIC = (BY_AP1, BY_AP2, ALONE, PUBLISHED, TURNS, TANDEM, BETTER)
WALKING = (ONE, ALONE, PUBLISHED, TURNS, HANDOVER, TANDEM, BEST)
SILENT = Metric("time below 1 Mb/s", "%", 1)

ELEVEN_N = next(setup for setup in SETUPS if setup.name == "in range, 802.11n")

# The walk, in metres: two access points at the lab, one at the stairs, two towards the cafeteria.
ACCESS_POINTS = (4.0, 14.0, 45.0, 72.0, 92.0)
LENGTH, HEIGHT = 96.0, 3.0
AT_ONE_METRE, EXPONENT, WEAKEST = -40.0, 3.5, -88.0  # dBm, path loss, and below it the client is not associated
FADING, NOISE = 3.0, -95.0
BEACON, WINDOW, DELTA = 0.1024, 2.0, 10  # s, s, beacons: the paper's
GAP = 3.0  # s without an access point at a handover: association, authentication, DHCP; the paper saw 5 to 10


@dataclass(frozen=True)
class Walk:
    """How fast, and over which standard."""

    kmh: float
    standard: str

    @property
    def name(self) -> str:
        return f"walk at {self.kmh:g} km/h, 802.11{self.standard}"

    @property
    def seconds(self) -> float:
        return round(LENGTH / (self.kmh / 3.6))


WALKS = (Walk(5, "a"), Walk(1, "a"), Walk(5, "n"), Walk(1, "n"))


def signal(walk: Walk, ap: float, at: float) -> float:
    """In dBm, without fading."""
    return AT_ONE_METRE - 10 * EXPONENT * math.log10(math.hypot(at * walk.kmh / 3.6 - ap, HEIGHT))


def stay(walk: Walk, ap: float) -> tuple[float, float]:
    """From when, and how long, an access point is heard well enough."""
    heard = [second for second in range(int(walk.seconds)) if signal(walk, ap, second) > WEAKEST]
    return float(heard[0]), float(heard[-1] + 1 - heard[0])


def handovers(walk: Walk, seed: int) -> list[tuple[int, float, float]]:
    """(access point, from, how long): the client counts beacons over 2 s and changes to who has 10 more than the present one."""
    draw = random.Random(seed)
    heard: list[list[float]] = [[] for _ in ACCESS_POINTS]
    stays: list[tuple[int, float, float]] = []
    present, since, now = 0, 0.0, 0.0
    while now < walk.seconds:
        for number, ap in enumerate(ACCESS_POINTS):
            snr = signal(walk, ap, now) + draw.gauss(0, FADING) - NOISE
            if draw.random() < 1 / (1 + math.exp(-(snr - 6))):  # at the lowest rate, whose frames of this length need about 6 dB
                heard[number].append(now)
            heard[number] = [at for at in heard[number] if at > now - WINDOW]
        most = max(range(len(heard)), key=lambda number: len(heard[number]))
        if now - since > GAP and len(heard[most]) >= len(heard[present]) + DELTA:
            stays.append((present, since, now - since))
            present, since = most, now + GAP
        now += BEACON
    return [*stays, (present, since, max(1.0, walk.seconds - since))]


def link(walk: Walk, name: str, number: int, there: tuple[float, float]) -> dict[str, Any]:
    points = [[at / 2, round(signal(walk, ACCESS_POINTS[number], at / 2), 2)] for at in range(int(2 * walk.seconds) + 1)]
    return {"name": name, "type": "wifi", "signal": points, "fading_db": FADING, "coherence_ms": 50, "there": [list(there)]}


def walked(walk: Walk, arm: Arm, seed: int, only: int = 0) -> dict[str, Any]:
    """The walk by every access point, by those of the handovers, or by TCP through one."""
    every = [(number, *stay(walk, ap)) for number, ap in enumerate(ACCESS_POINTS)]
    stays = handovers(walk, seed) if arm == HANDOVER else [every[only]] if arm in (ONE, BEST) else every
    links = [link(walk, f"ap{place}", number, (start, length)) for place, (number, start, length) in enumerate(stays, 1)]
    ways = [{"rtt_ms": 25, "jitter_ms": 0.5, "down": [f"ap{place}"], "up": [f"ap{place}"], "start": start + 0.1} for place, (_, start, _) in enumerate(stays, 1)]
    flow: dict[str, Any] = {"name": "client", "client": True, "mss": 1428, "cc": "reno", "subflows": ways}
    if arm not in (ONE, BEST):
        flow |= {"mptcp": True, "reinject": True, "cc": OLIA.cc, "ecn": True}
    return {"seed": seed, "seconds": walk.seconds, "interval_ms": 1000, "wifi": {"queue": 200, "standard": walk.standard, "aggregate": 32 if walk.standard == "n" else 1},
            "links": links, "flows": [flow], **simulations.module_of(arm)}


class Mobility(simulations.SimulatorBench):
    name = "mobility"
    summary = "a client at places between two access points, and on a walk past five: one, all always, as published, in turn, handover by beacons, Tandem (simulator)"
    columns = ("ap1", "ap2", "plain", "published", "on-off", "handover", "tandem", "limit")
    headings = {**simulations.HEADINGS, "ap1": "TCP by AP1", "plain": "MPTCP, all always", "handover": "handover by beacons", "limit": "better TCP, or best at each moment"}
    notes = (
        "On the simulator's 802.11 air (docs/sim.md), one channel, every access point in range of the others, 25 ms of round-trip time on the wire, OLIA, data of a subflow that timed out sent by others, too.",
        "Nomadic: 802.11n, fading of 4 dB; places as in `carrier-sense`. \"Better TCP\": of the two on the same seed.",
        f"Walk: {LENGTH:g} m past five access points, path loss exponent {EXPONENT:g}, fading of {FADING:g} dB anew every 50 ms; associated above {WEAKEST:g} dBm, at once (a virtual interface for each). \"Best at each moment\": TCP by each "
        "access point alone, and of each second the best of these five.",
        f"Handover by beacons: counted over {WINDOW:g} s, to who has {DELTA} more than the present one, {GAP:g} s without any meanwhile; MPTCP with a new subflow each time. The paper saw 5 to 10 s near zero.",
        "Tandem is told the packet times of each access point from its air time, without an estimator's errors. The client's interfaces contend as stations of their own.")

    def cases(self, quick: bool) -> list[Case]:
        rounds = 2 if quick else 8
        made = [Case(f"nomadic, {one}/{two} dBm", NOMADIC, (GOODPUT,), rounds, (Goal(TANDEM.name, ">=", 1.0, over=PUBLISHED.name), Goal(TANDEM.name, ">=", 0.95, over=BETTER.name)), "",
                     {"place": (one, two), "number": number}) for number, (one, two) in enumerate(ELEVEN_N.places, 1)]
        for walk in WALKS[:1] if quick else WALKS:
            goals = tuple(Goal(TANDEM.name, ">=", 1.0, over=arm.name) for arm in (ALONE, PUBLISHED, HANDOVER)) + (Goal(TANDEM.name, ">=", 0.9, over=BEST.name),)
            made.append(Case(walk.name, WALKING, (GOODPUT, SILENT), rounds, goals, "as TCP by the best one at any point; handover 5 to 10 s near zero", {"walk": walk.name}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 1.5 if "walk" in case.parameters else 0.4

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm != BETTER]

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        if "place" in case.parameters:
            result = simulations.simulate("run", {}, description(ELEVEN_N, case.parameters["place"], arm, seed))
            return Measurement({GOODPUT.name: result["flows"][0]["mbps"]}, simulations.told(result))
        walk = next(one for one in WALKS if one.name == case.parameters["walk"])
        if arm == BEST:
            alone = [simulations.simulate("run", {}, walked(walk, arm, seed, number))["flows"][0]["rates_mbps"] for number in range(len(ACCESS_POINTS))]
            rates = [max(each) for each in zip(*alone)]
        else:
            result = simulations.simulate("run", {}, walked(walk, arm, seed))
            rates = result["flows"][0]["rates_mbps"]
        silent = 100 * sum(1 for rate in rates if rate < 1) / len(rates)
        details = {"curve": [[second + 0.5, round(rate, 2)] for second, rate in enumerate(rates)]}
        return Measurement({GOODPUT.name: simulations.mean(rates), SILENT.name: silent}, details)

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        return carrier_sense.BENCH.derive(case, values) if "place" in case.parameters else {}

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """The nomadic client over its places."""
        own = [case for case in cases if "place" in case.parameters]
        made = [Run("nomadic, all places", arm.name, seed, 0, 0.0, {SHARE.name: simulations.mean(shares)}, {"derived": True})
                for arm in (ALONE, PUBLISHED, TURNS, TANDEM) for seed, shares in shares_of_better(runs, own, arm)]
        made += [failed for arm in (ALONE, PUBLISHED, TURNS, TANDEM) for failed in simulations.failed_in("nomadic, all places", runs, own, arm)]
        if not made:
            return []
        goals = (Goal(TANDEM.name, ">=", 85, metric=SHARE.name, text="at least the published 85 %"), Goal(TANDEM.name, ">=", 1.0, over=PUBLISHED.name, metric=SHARE.name))
        return [(Case("nomadic, all places", (ALONE, PUBLISHED, TURNS, TANDEM), (SHARE,), own[0].seeds, goals, "85 % with marks", {"pooled": True}), made)]

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return ecn_pictures.walks(self, [case for case in cases if "walk" in case.parameters], runs, "curve", "s", "Mb/s", directory)


BENCH = Mobility()
