"""A client between two access points of one channel that sense each other, or do not (Croitoru et al., NSDI 2015, figures 2 and 3), in the simulator."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_simulator.program import SimError

from .. import ecn_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..simulations import ALONE, BY_AP1, BY_AP2, OLIA, TANDEM

UDP = Arm("UDP by both", "udp")
BETTER = Arm("better TCP", "limit")
MAC = Arm("the MAC alone", "udp")
ARMS = (UDP, BY_AP1, BY_AP2, ALONE, TANDEM, BETTER)
GOODPUT = Metric("goodput", "Mb/s", 1)
SHARE = Metric("share of the better TCP, mean", "%", 1)
LEAST = Metric("and at the worst place", "%", 1)
FIRST, SECOND = Metric("packets lost by who always sends", "%", 1), Metric("by who sends now and then", "%", 1)

# Signals of both access points at the places of a walk from one to the other, in dBm.
PLACES = ((-60, -90), (-66, -86), (-71, -81), (-76, -76), (-81, -71), (-86, -66), (-90, -60))
SECONDS, WARMUP = 25.0, 5.0
RETRIES = (1, 2, 3, 4, 6, 8, 10)


@dataclass(frozen=True)
class Setup:
    """Two access points on one channel."""

    name: str
    wifi: Mapping[str, Any]
    apart: bool = False  # they do not sense each other
    fading_db: float = 0.0
    slow: float = 0.0  # Mb/s, the data rate of the second one
    fast: float = 0.0  # and of the first
    published: str = ""
    goal: float = 0.95  # of the better TCP, that Tandem reaches at every place
    places: Sequence[tuple[int, int]] = field(default=PLACES)


SETUPS = (
    Setup("apart, 6 Mb/s", {"standard": "a", "mbps": 6}, apart=True, published="MPTCP near the better TCP at every place, UDP far below between them (2b)"),
    Setup("apart, rate control", {"standard": "a"}, apart=True, published="the same (2a)"),
    Setup("in range, rate control", {"standard": "a"}, fading_db=4, published="MPTCP as the better TCP near either, 10 % more between them (3a)"),
    Setup("in range, 802.11n", {"standard": "n", "aggregate": 32}, fading_db=4, published="MPTCP half of the better TCP near either (4.2)"),
    Setup("in range, the second one at 6 Mb/s", {"standard": "a"}, fast=54, slow=6, published="MPTCP less than half of the better TCP (4.2, simulation)", places=((-60, -70),)),
)


def description(setup: Setup, place: Sequence[int], arm: Arm, seed: int) -> dict[str, Any]:
    """One run. ACKs go back by the access point that the data came by."""
    links: list[dict[str, Any]] = []
    for number, (signal, rate) in enumerate(zip(place, (setup.fast, setup.slow)), 1):
        links.append({"name": f"ap{number}", "type": "wifi", "signal_dbm": signal, "group": number if setup.apart else 0, "fading_db": setup.fading_db, "coherence_ms": 50,
                      "mbps": rate, "saturated": arm == UDP})
    ways = [{"rtt_ms": 25, "jitter_ms": 0.5, "down": [name], "up": [name], "start": start} for name, start in (("ap1", 0.0), ("ap2", 0.1))]
    flow: dict[str, Any] = {"name": "client", "client": True, "mss": 1428, "cc": "reno"}
    if arm == UDP:
        # What the MAC makes of two senders that always have something; the flow passes no air.
        links.append({"name": "wire", "mbps": 0.1})
        flow = {"subflows": [{"rtt_ms": 25, "down": ["wire"]}]}
    elif arm in (BY_AP1, BY_AP2):
        flow["subflows"] = [{**ways[0 if arm == BY_AP1 else 1], "start": 0.0}]
    else:
        flow |= {"mptcp": True, "cc": OLIA.cc, "ecn": True, "reinject": True, "subflows": ways}
    return {"seed": seed, "seconds": SECONDS, "warmup": WARMUP, "wifi": {"queue": 200, **setup.wifi}, "links": links, "flows": [flow],
            **simulations.module_of(arm)}


def episodes(attempts: int, seed: int) -> dict[str, Any]:
    """Figure 2c: one access point always sends, another, which it does not sense, a packet now and then; the client is between them."""
    links = [{"name": f"ap{number}", "type": "wifi", "signal_dbm": -76, "group": number, "saturated": number == 1, "load_mbps": 0 if number == 1 else 0.2} for number in (1, 2)]
    return {"seed": seed, "seconds": 300, "wifi": {"standard": "a", "mbps": 6, "attempts": attempts, "beacons": False}, "links": [*links, {"name": "wire", "mbps": 0.1}],
            "flows": [{"subflows": [{"rtt_ms": 25, "down": ["wire"]}]}]}


def shares_of_better(runs: Sequence[Run], cells: Sequence[Case], arm: Arm) -> list[tuple[int, list[float]]]:
    """For each seed that has every cell: what an arm has of the better TCP in each, in per cent."""
    limits = simulations.over_cells(runs, cells, BETTER, GOODPUT.name)
    made = []
    for seed, values in sorted(simulations.over_cells(runs, cells, arm, GOODPUT.name).items()):
        shares = [100 * value / limit for value, limit in zip(values, limits.get(seed, [])) if limit > 0]
        if cells and len(shares) == len(cells):
            made.append((seed, shares))
    return made


class CarrierSense(simulations.SimulatorBench):
    name = "carrier-sense"
    summary = "a client between two access points of one channel, in and out of each other's range: UDP, TCP by either, MPTCP alone and with Tandem (simulator)"
    columns = ("udp", "ap1", "ap2", "plain", "tandem", "limit")
    headings = {"udp": "UDP by both", "ap1": "TCP by AP1", "ap2": "TCP by AP2", "plain": "MPTCP alone, as published", "limit": "better TCP"}
    notes = (
        "On the simulator's 802.11 air (docs/sim.md), contention slot by slot: signals of both access points in dBm, 25 ms of round-trip time on the wire, OLIA. "
        f"{SECONDS:g} s of virtual time, the first {WARMUP:g} s do not count. \"Better TCP\": of the two on the same seed.",
        "Apart: neither access point senses the other; both sense the client. A frame is received by its signal over noise and the other's frame, by the error curves of its rate. "
        "In range: fading of 4 dB, drawn anew every 50 ms for each access point, where rate control is measured.",
        "The client's two interfaces contend as two stations here; on a real card one queue serves both, so they never collide with each other. Tandem is told the packet times of each access point "
        "from its air time, without an estimator's errors.",
        "Packets lost over retries (figure 2c): attempts of a frame, the first included; the paper counts retransmissions. Its text: both lose a packet in each episode at few retries, from six on the first loses "
        "none and the second about 40 %.",
        "Not reproduced: 3b and 3c, which show a card's fading and packet spacing; what follows from them is the gain between the access points.")

    def cases(self, quick: bool) -> list[Case]:
        rounds = 2 if quick else 8
        made = [Case(f"{setup.name}, {one}/{two} dBm", ARMS, (GOODPUT,), rounds, (Goal(TANDEM.name, ">=", setup.goal, over=BETTER.name),), "",
                     {"setup": setup.name, "place": (one, two), "number": number})
                for setup in SETUPS for number, (one, two) in enumerate(setup.places, 1)]
        made += [Case(f"lost after {attempts} attempt{'s' if attempts > 1 else ''}", (MAC,), (FIRST, SECOND), rounds,
                      (Goal(MAC.name, "<=", 1, metric=FIRST.name, text="the first loses none"), Goal(MAC.name, ">=", 10, metric=SECOND.name, text="the second does")) if attempts >= 8 else (),
                      "0 and 40 %" if attempts >= 6 else "", {"attempts": attempts}) for attempts in RETRIES]
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.4

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm != BETTER]

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        if "attempts" in case.parameters:
            links = simulations.simulate("run", {}, episodes(case.parameters["attempts"], seed))["links"][:2]
            shares = [100 * link["lost"] / max(1, link["lost"] + link["delivered"]) for link in links]
            return Measurement({FIRST.name: shares[0], SECOND.name: shares[1]}, {})
        setup = next(one for one in SETUPS if one.name == case.parameters["setup"])
        result = simulations.simulate("run", {}, description(setup, case.parameters["place"], arm, seed))
        if arm == UDP:
            rates = [link["mbps"] for link in result["links"][:2]]
            return Measurement({GOODPUT.name: sum(rates)}, {"by": [round(rate, 3) for rate in rates]})
        if not result["flows"]:
            raise SimError("no flow came of it")
        return Measurement({GOODPUT.name: result["flows"][0]["mbps"]}, simulations.told(result))

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        both = [values[arm.name][GOODPUT.name] for arm in (BY_AP1, BY_AP2) if GOODPUT.name in values.get(arm.name, {})]
        return {BETTER.name: {GOODPUT.name: max(both)}} if len(both) == 2 else {}

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """Each setup over its places, every seed against the better TCP of its own."""
        rows: list[tuple[Case, list[Run]]] = []
        for setup in SETUPS:
            own = [case for case in cases if case.parameters.get("setup") == setup.name]
            if not own or not simulations.over_cells(runs, own, BETTER, GOODPUT.name):
                continue
            made = [Run(f"{setup.name}, all places", arm.name, seed, 0, 0.0, {SHARE.name: simulations.mean(shares), LEAST.name: min(shares)}, {"derived": True})
                    for arm in (UDP, ALONE, TANDEM) for seed, shares in shares_of_better(runs, own, arm)]
            made += [failed for arm in (UDP, ALONE, TANDEM) for failed in simulations.failed_in(f"{setup.name}, all places", runs, own, arm)]
            goals = (Goal(TANDEM.name, ">=", 1.0, over=ALONE.name, metric=SHARE.name), Goal(TANDEM.name, ">=", 100 * setup.goal, metric=SHARE.name, text=f"at least {100 * setup.goal:g} % of the better TCP"))
            rows.append((Case(f"{setup.name}, all places", (UDP, ALONE, TANDEM), (SHARE, LEAST), own[0].seeds, goals, setup.published, {"pooled": True}), made))
        return rows

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        groups = {setup.name: [case for case in cases if case.parameters.get("setup") == setup.name] for setup in SETUPS if len(setup.places) > 1}
        return ecn_pictures.against(self, groups, runs, GOODPUT, "number", "place, from AP1 to AP2", directory)


BENCH = CarrierSense()
