"""Scenario 1 of Croitoru et al. (NSDI 2015): two access points on one channel, 120 cells (figure 6a), in the simulator."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from .. import ecn_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..simulations import ALONE, BLIND, LETTER, MEASURED, OLIA, OPTIMUM, PUBLISHED, SENDERS, TANDEM, TURNS, SenderKind

RTTS, TIMES, WEIGHTS = (10, 25, 50, 100), (1, 2, 3, 4, 5, 6), (1, 2, 4, 8, 16)
ARMS = (ALONE, PUBLISHED, LETTER, TURNS, BLIND, MEASURED, TANDEM, OPTIMUM)
SHARE = Metric("share of the optimum", "%", 1)
LEARNING = Metric("share of the optimum from the first second on", "%", 1)
MEAN, MEDIAN, WORST = Metric("mean", "%", 1), Metric("median", "%", 1), Metric("worst run", "%", 1)
FIGURES: Mapping[str, simulations.Figure] = {MEAN.name: simulations.mean, MEDIAN.name: statistics.median}
LEARNED = Metric("mean of the first 30 s, learning included", "%", 1)
FIRST = 30  # s


def cells(quick: bool) -> Iterator[tuple[int, int, int]]:
    """(round-trip time, packet time of AP1, its weight). The quick choice has every round-trip time with every packet time, and all weights."""
    for i, rtt in enumerate(RTTS):
        for j, t1 in enumerate(TIMES):
            for k, weight in enumerate(WEIGHTS):
                if not quick or (i + j + k) % 5 == 0:
                    yield rtt, t1, weight


def arms_for(sender: SenderKind) -> tuple[Arm, ...]:
    """The paper's sender is shown in every way."""
    return ARMS if sender == OLIA else (ALONE, PUBLISHED, BLIND, MEASURED, TANDEM, OPTIMUM)


def title(sender: SenderKind, rtt: int, t1: int, weight: int) -> str:
    return f"{sender.name}, RTT {rtt} ms, T1 {t1} ms, weight {weight}"


class EcnGrid(simulations.SimulatorBench):
    name = "ecn-grid"
    summary = "MPTCP over two access points of one channel, 120 cells: alone, marked as published, in turn, and with Tandem (simulator)"
    notes = (
        "In the simulator (docs/sim.md): round-trip times of 10, 25, 50 and 100 ms, packet times T1 of 1 to 6 ms, T2 of 0.5 ms, AP1 wins contention 1, 2, 4, 8 or 16 times for once of AP2. "
        "Queues of 200 packets. Each cell runs on each seed for 160 s of virtual time, the first 20 s do not count: what the module tries out does.",
        f"\"Tandem, measured times\": packets are 802.11a exchanges with failed attempts by chance, whose mean is the cell's packet time, and the module gets what the daemon's estimator makes of the frames that it captures, instead of the true times. "
        f"\"Learning included\": a run of its own of {FIRST} s of which every second counts (slow start, too).",
        "The optimum is AP2 alone on the air, busy all the time. \"worst run\" is the worst of all cells and seeds.",
        simulations.NOTE_ARMS, simulations.NOTE_SENDERS)

    def cases(self, quick: bool) -> list[Case]:
        # Without columns a case has no row of its own: the rows are those over all cells.
        return [Case(title(sender, *cell), tuple(Arm(arm.name) for arm in arms_for(sender)), (SHARE, LEARNING), 1 if quick else 3, (), "", {"sender": sender.name, "rtt": cell[0], "t1": cell[1], "weight": cell[2]})
                for sender in SENDERS for cell in cells(quick)]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.3

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm.name != OPTIMUM.name]

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        sender = next(kind for kind in SENDERS if kind.name == case.parameters["sender"])
        own = {key: case.parameters[key] for key in ("rtt", "t1", "weight")}
        result = simulations.simulate("grid", {**own, **simulations.settings_of(arm, sender), "seed": seed, "seconds": 160, "warmup": 20})
        first = simulations.simulate("grid", {**own, **simulations.settings_of(arm, sender), "seed": seed, "seconds": FIRST, "warmup": 0})
        return Measurement({SHARE.name: 100 * result["share"], LEARNING.name: 100 * first["share"]}, {**simulations.told(result), "knobs": simulations.knob_words(arm)})

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        return {OPTIMUM.name: {SHARE.name: 100.0, LEARNING.name: 100.0}}

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        rows: list[tuple[Case, list[Run]]] = []
        for sender in SENDERS:
            own = [case for case in cases if case.parameters.get("sender") == sender.name]
            if not own:
                continue
            shown = {arm.name for arm in own[0].arms}
            goals = tuple(Goal(arm.name, ">=", bound, metric=metric.name, text=f"{arm.name}: at least {bound} % {where}") for arm in (TANDEM, MEASURED)
                          for metric, bound, where in ((MEAN, 92, "on average"), (WORST, 80, "in the worst run")))
            row = Case(f"{sender.name}, {len(own)} cells", tuple(arm for arm in ARMS if arm.name in shown), (MEAN, MEDIAN, WORST, LEARNED), own[0].seeds,
                       goals if sender == OLIA and TANDEM.name in shown else (),
                       "85 mean, 87 median, 65 worst; 34 mean, 28 median alone" if sender == OLIA else "", {"pooled": True})
            made = simulations.together(row, runs, own, SHARE.name, FIGURES, WORST)
            learning = {(run.arm, run.seed): run.values[LEARNED.name] for run in simulations.together(row, runs, own, LEARNING.name, {LEARNED.name: simulations.mean})
                        if run.error is None}
            for run in (one for one in made if one.error is None):
                run.values[LEARNED.name] = learning[run.arm, run.seed]
            rows.append((row, made))
        return rows

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return ecn_pictures.sorted_curves(self, {sender.name: [case for case in cases if case.parameters["sender"] == sender.name] for sender in SENDERS}, runs,
                                          SHARE.name, directory, {"as published": 85.0, "MPTCP alone": 34.0})


BENCH = EcnGrid()
