"""What a client with two access points does to the others there (Croitoru et al., NSDI 2015, section 6.5, tables 1 to 3), in the simulator."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from .. import ecn_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..simulations import ALONE, BLIND, LETTER, LIA, OLIA, PUBLISHED, TANDEM, TURNS, SenderKind

AT_AP1, AT_AP2 = Arm("C at AP1", "ap1"), Arm("C at AP2", "ap2")
ARMS = (AT_AP1, AT_AP2, ALONE, PUBLISHED, LETTER, TURNS, BLIND, TANDEM)
CLOSE_MS = 0.52  # 22 Mb/s, "the maximum rate in 802.11a"


@dataclass(frozen=True)
class Way:
    """From an access point to C: time of a packet on the air, and the turns that it costs, retries being backed off for."""

    packet_ms: float = CLOSE_MS
    cost: float = 1.0


@dataclass(frozen=True)
class Table:
    """One of the paper's. `published`: its last row, C1, C2, C."""

    name: str
    ways: tuple[Way, Way]
    published: tuple[float, float, float]
    rows: str


# The far ways follow from the published rows of TCP clients alone. In table 2 with C at AP1, AP1 sends 3.5 + 3.5 for 13 of AP2, so a packet to C costs 2.7 turns;
# 3.5 and 13 Mb/s to the close clients leave C's 3.5 Mb/s 0.81 ms a packet. Likewise in table 3, mean of both access points.
TABLES = (
    Table("table 1, all close", (Way(), Way()), (7, 7, 7), "5/10/5, 10/5/5, 7/7/7"),
    Table("table 2, C close to AP2", (Way(0.81, 2.7), Way()), (10, 5, 5), "3.5/13/3.5, 10/5/5, 10/5/5"),
    Table("table 3, C in between", (Way(0.86, 3.4), Way(0.86, 3.4)), (8.5, 6.5, 5), "3.5/13.5/3, 14/3/3, 8.5/6.5/5"),
)


@dataclass(frozen=True)
class Kinds:
    """The sender of C, and that of plain TCP, C's own by one access point included."""

    sender: SenderKind
    tcp: str


KINDS = (Kinds(OLIA, "reno"), Kinds(LIA, "reno"), Kinds(simulations.CUBIC, "cubic"))
C1, C2, C = Metric("C1", "Mb/s", 1), Metric("C2", "Mb/s", 1), Metric("C", "Mb/s", 1)
JAIN = Metric("Jain's index", "", 3)
LEAST = Metric("the other who gets less", "Mb/s", 1)
OTHERS = Metric("both others", "Mb/s", 1)


def jain(values: Sequence[float]) -> float:
    """1: all have the same; 1 / n: one has everything."""
    squares = sum(value * value for value in values)
    return sum(values) ** 2 / (len(values) * squares) if squares > 0 else 0.0


def description(table: Table, kinds: Kinds, arm: Arm, seed: int) -> dict[str, Any]:
    """Two access points, C1 at the first, C2 at the second, C at one or both; a queue and a turn for each access point."""
    def by(link: str, start: float = 0.0) -> dict[str, Any]:
        return {"rtt_ms": 25, "jitter_ms": 0.5, "down": [link], "start": start}

    links: list[dict[str, Any]] = [{"name": f"ap{i}", "type": "weighted", "packet_ms": CLOSE_MS} for i in (1, 2)]
    links += [{"name": f"c{i}", "type": "weighted", "ap": f"ap{i}", "packet_ms": way.packet_ms, "cost": way.cost} for i, way in zip((1, 2), table.ways)]
    client: dict[str, Any] = {"name": "C", "client": True, "ecn": True}
    if arm in (AT_AP1, AT_AP2):
        client |= {"cc": kinds.tcp, "mss": 1428, "subflows": [by("c1" if arm == AT_AP1 else "c2")]}
    else:
        client |= {"mptcp": True, "cc": kinds.sender.cc, "scheduler": kinds.sender.scheduler, "subflows": [by("c1"), by("c2", 0.1)]}
    others = [{"name": f"C{i}", "cc": kinds.tcp, "mss": 1428, "start": 0.3 * i, "subflows": [by(f"ap{i}")]} for i in (1, 2)]
    return {"seed": seed, "seconds": 600, "warmup": 60, "links": links, "flows": [client, *others], **simulations.module_of(arm)}


class Fairness(simulations.SimulatorBench):
    name = "fairness"
    summary = "three clients and two access points, one of the clients at both: who gets how much (simulator)"
    headings = {**simulations.HEADINGS, "ap1": "C at AP1 (TCP)", "ap2": "C at AP2 (TCP)"}
    notes = (
        "In the simulator (docs/sim.md): C1 is a client of AP1, C2 of AP2, C of AP1, AP2 or both. Each access point has one queue, first in, first out, for all its clients, and the access "
        "points take turns packet by packet; a packet to a far client takes longer and costs more turns. Those two numbers are taken from the published rows of TCP clients, "
        "the rows of MPTCP are what comes out. Published: C1/C2/C for C at AP1, at AP2, at both. 600 s of virtual time, the first 60 s do not count: the windows of a few flows over a queue of 200 packets swing for minutes.",
        "Goals, set before measuring: Jain's index over C1, C2 and C at least that of the published row of both access points, less 0.02; and the other client that gets less gets no less "
        "than with C as a TCP client of the better access point (AP2; in tables 1 and 3 either is as good).",
        "\"uncoupled CUBIC\": C1 and C2 are CUBIC as well. The paper says of uncoupled subflows in table 1: 10 Mb/s for C, 5 for each other.",
        simulations.NOTE_ARMS)

    def cases(self, quick: bool) -> list[Case]:
        made = []
        for kinds in KINDS:
            for table in TABLES:
                bound = jain(table.published) - 0.02
                goals = (Goal(TANDEM.name, ">=", bound, metric=JAIN.name, text=f"as fair as published: at least {bound:.3f}"),
                         Goal(TANDEM.name, ">=", 0.98, over=AT_AP2.name, metric=LEAST.name, text="the others not worse off than with TCP by the better one"))
                made.append(Case(f"{table.name}, {kinds.sender.name}", ARMS, (C1, C2, C, JAIN, LEAST, OTHERS), 1 if quick else 12,
                                 goals if kinds.sender != simulations.CUBIC else (), table.rows, {"sender": kinds.sender.name, "table": table.name}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 1.2

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        table = next(entry for entry in TABLES if entry.name == case.parameters["table"])
        kinds = next(entry for entry in KINDS if entry.sender.name == case.parameters["sender"])
        result = simulations.simulate("run", {}, description(table, kinds, arm, seed))
        c, c1, c2 = (flow["mbps"] for flow in result["flows"])
        values: Mapping[str, float] = {C1.name: c1, C2.name: c2, C.name: c, JAIN.name: jain((c1, c2, c)), LEAST.name: min(c1, c2), OTHERS.name: c1 + c2}
        return Measurement(values, {**simulations.told(result), "knobs": simulations.knob_words(arm)})

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return ecn_pictures.clients(self, cases, runs, (C1, C2, C), JAIN, {table.name: table.published for table in TABLES}, directory)


BENCH = Fairness()
