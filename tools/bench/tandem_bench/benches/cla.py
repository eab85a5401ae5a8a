"""Two handoffs while data is sent by Wi-Fi and LTE: section V of Sinky et al. (CLA-MPTCP), in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from .. import cla_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..plot import COLOURS
from ..rate_pictures import curves
from ..statistics import values_of

UNCOUPLED, COUPLED, OLIA, CLA, TANDEM = Arm("uncoupled", "plain"), Arm("coupled", "coupled"), Arm("OLIA", "olia"), Arm("CLA", "published"), Arm("Tandem", "tandem")
ARMS = (UNCOUPLED, COUPLED, OLIA, CLA, TANDEM)
NAMES = {UNCOUPLED.name: "uncoupled", COUPLED.name: "coupled", OLIA.name: "olia", CLA.name: "cla", TANDEM.name: "promise"}

NEAR = Metric("carried near handoffs", "Mb/s", 1)
LOSS = Metric("R0 less what is carried in the second around a handoff", "Mb/s", 1)
RTT = Metric("RTT near handoffs", "ms", 0)
VARIATION = Metric("delay variation near handoffs", "ms", 1)
JITTER = Metric("packet to packet jitter near handoffs", "ms", 2)
GAP = Metric("longest gap near handoffs", "ms", 0)
AGAIN = Metric("retransmissions near handoffs", "", 0)
DUPLICATES = Metric("duplicate ACKs near handoffs", "", 0)
LTE = Metric("bytes by LTE", "MB", 0)
WHOLE = Metric("carried on the whole walk", "Mb/s", 1)
METRICS = (NEAR, LOSS, RTT, VARIATION, JITTER, GAP, AGAIN, DUPLICATES, LTE, WHOLE)
RATIO = Metric("ratio", "", 2)

R0S = (10, 12, 14, 16, 18, 20, 22, 24)  # Mb/s, table II
ALLOWED = 23  # R1h + C2: what can be held through a handoff
DELTA2S = (1, 5, 10, 15)  # dB, figure 11b
PRINTED = 18  # the R0 of which the text gives a figure


def of_r0(r0: float) -> str:
    return f"R0 {r0} Mb/s"


# What the text says of its figures by comparison: row, published, case and metric above, arm and case below (empty: the arm's own).
CLAIMS = (
    ("figure 9: bytes by LTE, R0 22 by R0 10", "more with R0", LTE, of_r0(22), "", of_r0(10)),
    ("figure 10: RTT near handoffs by uncoupled, R0 18", "near 0.5", RTT, of_r0(PRINTED), UNCOUPLED.name, of_r0(PRINTED)),
    ("figure 10: delay variation near handoffs by uncoupled, R0 18", "jitter near 0.25", VARIATION, of_r0(PRINTED), UNCOUPLED.name, of_r0(PRINTED)),
    ("figure 10: packet to packet jitter by uncoupled, R0 18", "jitter near 0.25", JITTER, of_r0(PRINTED), UNCOUPLED.name, of_r0(PRINTED)),
    ("figure 10: retransmissions near handoffs by uncoupled, R0 18", "fewer; a sharp increase after a handoff", AGAIN, of_r0(PRINTED), UNCOUPLED.name, of_r0(PRINTED)),
)


class Cla(simulations.SimulatorBench):
    name = "cla"
    summary = "a walk with two handoffs, Wi-Fi of 25 Mb/s and LTE of 18 Mb/s, 30 Mb/s offered: MPTCP, CLA-MPTCP as published, Tandem (simulator)"
    columns = ("plain", "coupled", "olia", "published", "tandem")
    headings = {"plain": "uncoupled (Reno)", "coupled": "coupled (LIA)", "olia": "OLIA", "published": "CLA as published"}
    notes = (
        "In the simulator, packet by packet: the user walks at 2 m/s past three access points 100 m apart; the signal is 62 dB at 1 m and falls by 30 dB with ten times the way, and 802.11g's rates follow it. Wi-Fi 5 ms and LTE 20 ms each way, queues of 100 and 300 packets. "
        "A handoff takes 100 ms for all arms, and what Wi-Fi had queued is lost. The walk begins up to 10 m behind the first access point, by the seed. The paper's simulation is NS3-DCE; its walk, signals and queues are not printed.",
        "The data goes from the mobile to the server, as in the paper: the sender is the client itself. Near handoffs: 5 s before and after each.",
        "\"uncoupled\", \"coupled\", \"OLIA\": MPTCP with the traditional handoff (delta0 = 20, delta2 = 12 dB). \"CLA as published\": algorithms 1 to 3 on the coupled sender, asked every 100 ms, for candidates that are heard better; a subflow's window is set and its slow-start threshold with it. BDP_UB is 6 packets (3 hops each way).",
        "\"Tandem\": Wi-Fi first, LTE only for what is missing to 1.03 R0, windows bounded by bandwidth-delay products of the least round trip, Wi-Fi emptied before the handoff. It carries R0, not all that is offered: its round trips are to be read with that in mind; the row with R0 = 30 asks for everything.",
        "RTT: one-way delay of each data packet and the way back without a queue. Delay variation: 95th percentile above the least (RFC 5481), for each subflow, weighted by packets. Packet to packet jitter is mostly the time of a packet on the link. "
        "A gap: no progress in order. No row has a goal on packet to packet jitter: the paper does not say how it measures its jitter.",
    )

    def cases(self, quick: bool) -> list[Case]:
        made: list[Case] = []
        rounds = 3 if quick else 8
        for r0 in (*R0S, 30):
            goals: list[Goal] = []
            if r0 <= ALLOWED:
                goals = [Goal(TANDEM.name, ">=", 0.97 * r0, metric=NEAR.name, text="R0 held within 3 % near handoffs"), Goal(TANDEM.name, "<=", 0.03 * r0, metric=LOSS.name, text="and in the second around them"),
                         Goal(TANDEM.name, "<=", 0.4, UNCOUPLED.name, metric=RTT.name, text="RTT at least 60 % lower than uncoupled"),
                         Goal(TANDEM.name, "<=", 0.2, UNCOUPLED.name, metric=VARIATION.name, text="delay variation at least 80 % lower"),
                         Goal(TANDEM.name, "<=", 100, metric=GAP.name, text="gap at most 100 ms")]
            elif r0 == 24:
                goals = [Goal(TANDEM.name, "<=", 0.4, UNCOUPLED.name, metric=RTT.name, text="RTT at least 60 % lower than uncoupled"), Goal(TANDEM.name, "<=", 100, metric=GAP.name, text="gap at most 100 ms")]
            made.append(Case(of_r0(r0), ARMS, METRICS, rounds, tuple(goals), "18.8 held (CLA); RTT -50 %, jitter -75 %" if r0 == 18 else "", {"R0": r0}))
        for r0 in (10, 18, 24) if quick else R0S:
            for delta2 in DELTA2S:
                made.append(Case(f"figure 11b: R0 {r0} Mb/s, delta2 {delta2} dB", ARMS, (LOSS,), 3, (), {PRINTED: "-0.8 on average", 24: "above 0"}.get(r0, ""), {"R0": r0, "delta2": delta2}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.6

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        result = simulations.simulate("handoff", {**case.parameters, "arm": NAMES[arm.name], "seed": seed})
        near = result["near"]
        values = {NEAR.name: near["mbps"], LOSS.name: near["loss_mbps"], RTT.name: near["rtt_ms"], VARIATION.name: near["variation_ms"], JITTER.name: near["jitter_ms"], GAP.name: near["gap_ms"],
                  AGAIN.name: near["retransmissions"], DUPLICATES.name: near["duplicate_acks"], LTE.name: result["lte_bytes"] / 1e6, WHOLE.name: result["mbps"]}
        return Measurement({metric.name: values[metric.name] for metric in case.metrics},
                           {"handoffs_s": result["handoffs_s"], "curve": [[point[0], point[3]] for point in result["curve"]], "subflows": [[point[0], point[1], point[2], point[4]] for point in result["curve"]],
                            "series": result["series"]})

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """What the paper's text says of its figures, as ratios on the same seed."""
        rows: list[tuple[Case, list[Run]]] = []
        for title, published, metric, case, over, below in CLAIMS:
            made: list[Run] = []
            for arm in (CLA, TANDEM):
                above, under = values_of(runs, case, arm.name, metric.name), values_of(runs, below, over or arm.name, metric.name)
                made += [Run(title, arm.name, seed, 0, 0.0, {RATIO.name: above[seed] / under[seed]}, {"derived": True}) for seed in sorted(above.keys() & under.keys()) if under[seed] > 0]
            if made:
                rows.append((Case(title, (CLA, TANDEM), (RATIO,), cases[0].seeds, (), published, {"pooled": True}), made))
        return rows

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        """What is carried in order over the walk by R0, and figures 9, 10 (first seed) and 11b."""
        lines = {UNCOUPLED.name: ("#999999", ":"), COUPLED.name: (COLOURS["plain"], "-"), OLIA.name: ("#009E73", ":"), CLA.name: (COLOURS["published"], "-"), TANDEM.name: (COLOURS["tandem"], "-")}
        shown = [case for case in cases if "delta2" not in case.parameters and case.parameters.get("R0") in (10, 14, 18, 20, 22, 24)]
        first = min((run.seed for run in runs), default=0)
        walk = [run for run in runs if run.seed == first]
        by_r0 = {case.parameters["R0"]: case for case in cases if "delta2" not in case.parameters and "R0" in case.parameters}
        nine = [(by_r0[r0], arm.name) for arms, r0s in (((UNCOUPLED, COUPLED, OLIA), (PRINTED,)), ((CLA,), (10, PRINTED, 24)), ((TANDEM,), (10, PRINTED, 24))) for arm in arms for r0 in r0s if r0 in by_r0]
        made = curves(self, shown, walk, "curve", lines, "s", "carried, Mb/s", directory)
        made += cla_pictures.throughput(nine, walk, directory, "cla-figure-9")
        if PRINTED in by_r0:
            made += cla_pictures.packets(by_r0[PRINTED], walk, lines, directory, "cla-figure-10")
        return made + cla_pictures.losses([case for case in cases if "delta2" in case.parameters], runs, LOSS.name, lines, directory, "cla-figure-11b")


BENCH = Cla()
