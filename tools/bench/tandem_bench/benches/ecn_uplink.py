"""Scenario 2 of Croitoru et al. (NSDI 2015): TCP flows compete for the uplink of the better access point (figure 6b), in the simulator."""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any, Mapping, Sequence

from .. import ecn_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..simulations import ALONE, BLIND, BY_AP1, BY_AP2, LETTER, OLIA, OPTIMUM, PUBLISHED, SENDERS, TANDEM, TURNS

FLOWS = tuple(range(11))
ARMS = (BY_AP1, BY_AP2, ALONE, PUBLISHED, LETTER, TURNS, BLIND, TANDEM, OPTIMUM)
GOODPUT = Metric("goodput", "Mb/s")
SHARE = Metric("share of the optimum", "%", 1)  # in the JSON and the rows over all n
RAW, CAPPED, MEDIAN, WORST = (Metric("mean", "%", 1), Metric("mean, every n capped at 100 %", "%", 1), Metric("median", "%", 1), Metric("worst run", "%", 1))
FIGURES: Mapping[str, simulations.Figure] = {RAW.name: simulations.mean, CAPPED.name: simulations.capped_mean, MEDIAN.name: statistics.median}


class EcnUplink(simulations.SimulatorBench):
    name = "ecn-uplink"
    summary = "n TCP flows compete for the uplink of the better access point: TCP by either, MPTCP alone, marked as published, in turn, and with Tandem (simulator)"
    notes = (
        "In the simulator (docs/sim.md): T1 of 3 ms, T2 of 0.5 ms, 25 ms of round-trip time, an uplink of 25 Mb/s with 100 packets of queue behind AP2, n Reno flows through it. "
        "150 s of virtual time, the first 30 s do not count.",
        "The optimum is the best single way: AP1 alone on the air (3.8 Mb/s), or the uplink's (n + 1)th part. Both ways together carry more than that, so shares can be above 100 %; "
        "the row with every n capped at 100 % gives nothing for it.",
        simulations.NOTE_ARMS, simulations.NOTE_SENDERS)

    def cases(self, quick: bool) -> list[Case]:
        return [Case(f"{sender.name}, n = {flows}", ARMS, (GOODPUT,), 1 if quick else 5, (), "", {"sender": sender.name, "flows": flows})
                for sender in SENDERS for flows in (FLOWS[::2] if quick else FLOWS)]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.5

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm != OPTIMUM]

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        sender = next(kind for kind in SENDERS if kind.name == case.parameters["sender"])
        result = simulations.simulate("uplink", {"rtt": 25, "t1": 3, "flows": case.parameters["flows"], **simulations.settings_of(arm, sender), "seed": seed,
                                                 "seconds": 150, "warmup": 30})
        return Measurement({GOODPUT.name: result["flows"][0]["mbps"], SHARE.name: 100 * result["share"]},
                           {**simulations.told(result), "knobs": simulations.knob_words(arm)})

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        one = next((entry for entry in values.values() if entry[SHARE.name] > 0), None)
        return {OPTIMUM.name: {GOODPUT.name: 100 * one[GOODPUT.name] / one[SHARE.name], SHARE.name: 100.0}} if one else {}

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        rows: list[tuple[Case, list[Run]]] = []
        for sender in SENDERS:
            own = [case for case in cases if case.parameters.get("sender") == sender.name]
            if not own:
                continue
            goals = (Goal(TANDEM.name, ">=", 92, metric=RAW.name, text="at least 92 % on average"),
                     Goal(TANDEM.name, ">=", 92, metric=CAPPED.name, text="at least 92 % on average, capped"))
            row = Case(f"{sender.name}, all n, of the optimum", own[0].arms, (RAW, CAPPED, MEDIAN, WORST), own[0].seeds,
                       goals if sender == OLIA and TANDEM in own[0].arms else (), "84 mean, 88 median" if sender == OLIA else "", {"pooled": True})
            rows.append((row, simulations.together(row, runs, own, SHARE.name, FIGURES, WORST)))
        return rows

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return ecn_pictures.against(self, {sender.name: [case for case in cases if case.parameters["sender"] == sender.name] for sender in SENDERS}, runs,
                                    GOODPUT, "flows", "TCP flows that compete", directory)


BENCH = EcnUplink()
