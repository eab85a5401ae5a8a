"""Two handoffs while data is sent by Wi-Fi and LTE: section V of Sinky et al. (CLA-MPTCP), in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from .. import simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..plot import COLOURS
from ..rate_pictures import curves

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
LTE = Metric("bytes by LTE", "MB", 0)
WHOLE = Metric("carried on the whole walk", "Mb/s", 1)
METRICS = (NEAR, LOSS, RTT, VARIATION, JITTER, GAP, AGAIN, LTE, WHOLE)

R0S = (10, 12, 14, 16, 18, 20, 22, 24)  # Mb/s, table II
ALLOWED = 23  # R1h + C2: what can be held through a handoff
DELTA2S = (1, 5, 10, 15)  # dB, figure 11b


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
            made.append(Case(f"R0 {r0} Mb/s", ARMS, METRICS, rounds, tuple(goals), "18.8 held (CLA); RTT -50 %, jitter -75 %" if r0 == 18 else "", {"R0": r0}))
        for r0 in (10, 18, 24):
            for delta2 in DELTA2S:
                made.append(Case(f"figure 11b: R0 {r0} Mb/s, delta2 {delta2} dB", (UNCOUPLED, COUPLED, OLIA, CLA, TANDEM), (LOSS,), rounds, (), "", {"R0": r0, "delta2": delta2}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.6

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        result = simulations.simulate("handoff", {**case.parameters, "arm": NAMES[arm.name], "seed": seed})
        near = result["near"]
        values = {NEAR.name: near["mbps"], LOSS.name: near["loss_mbps"], RTT.name: near["rtt_ms"], VARIATION.name: near["variation_ms"], JITTER.name: near["jitter_ms"], GAP.name: near["gap_ms"],
                  AGAIN.name: near["retransmissions"], LTE.name: result["lte_bytes"] / 1e6, WHOLE.name: result["mbps"]}
        return Measurement({metric.name: values[metric.name] for metric in case.metrics},
                           {"handoffs_s": result["handoffs_s"], "curve": [[point[0], point[3]] for point in result["curve"]], "subflows": [[point[0], point[1], point[2], point[4]] for point in result["curve"]]})

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        """Figure 9: what is carried in order over the walk, first seed, by R0."""
        lines = {UNCOUPLED.name: ("#999999", ":"), COUPLED.name: (COLOURS["plain"], "-"), OLIA.name: ("#009E73", ":"), CLA.name: (COLOURS["published"], "-"), TANDEM.name: (COLOURS["tandem"], "-")}
        shown = [case for case in cases if "delta2" not in case.parameters and case.parameters["R0"] in (10, 14, 18, 20, 22, 24)]
        first = min((run.seed for run in runs), default=0)
        return curves(self, shown, [run for run in runs if run.seed == first], "curve", lines, "s", "carried, Mb/s", directory)


BENCH = Cla()
