"""Several access points on one channel (Croitoru et al., NSDI 2015, figure 6c), in the simulator."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from .. import ecn_pictures, simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..simulations import ALONE, BLIND, LETTER, OLIA, OPTIMUM, PUBLISHED, SENDERS, TANDEM

ARMS = (ALONE, PUBLISHED, LETTER, BLIND, TANDEM, OPTIMUM)
WITH_ROLES = 8  # access points that Tandem knows; others are left to the kernel
SHARE = Metric("share of the optimum", "%", 1)
USED = Metric("access points used", "", 0)
KEPT = Metric("least share for 2 to 8, of that for 1", "%", 1)
MOST = Metric("most used", "", 0)


class EcnMany(simulations.SimulatorBench):
    name = "ecn-many"
    summary = "1 to 16 access points on one channel, all but one poor or mixed: MPTCP alone, marked as published, and with Tandem (simulator)"
    notes = (
        "In the simulator (docs/sim.md): one access point with 0.5 ms, the others poor (6 ms each) or mixed (evenly between 0.5 and 6 ms), 50 ms of round-trip time, equal weights. "
        "200 s of virtual time, the first 30 s do not count. The optimum is the best one alone on the air.",
        "Used: not left out (backup) for most of the time, and with more than 1 % of the bytes.",
        "Tandem has roles for eight access points. Where there are more it sees what some of them carry and asks for nothing. "
        "What is asked of those rows is that nothing breaks: no failed run, and not less than MPTCP alone.",
        simulations.NOTE_ARMS, simulations.NOTE_SENDERS)

    def cases(self, quick: bool) -> list[Case]:
        counts = (1, 2, 4, 8, 12) if quick else range(1, 17)
        made = []
        for sender in SENDERS:
            for others in ("poor", "mixed"):
                for aps in counts:
                    goals: tuple[Goal, ...] = ()
                    if sender == OLIA and aps <= WITH_ROLES:
                        goals = (Goal(TANDEM.name, "<=", 4, metric=USED.name, text="at most 4 used"),)
                    elif sender == OLIA:
                        goals = (Goal(TANDEM.name, ">=", 0.98, over=ALONE.name, metric=SHARE.name, text="nothing breaks: at least MPTCP alone"),)
                    arms = ARMS if sender == OLIA else tuple(Arm(arm.name) for arm in ARMS)
                    made.append(Case(f"{sender.name}, {aps} {others}", arms, (SHARE, USED), 1 if quick else 3, goals, "",
                                     {"sender": sender.name, "others": others, "aps": aps}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.6

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm.name != OPTIMUM.name]

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        sender = next(kind for kind in SENDERS if kind.name == case.parameters["sender"])
        aps: int = case.parameters["aps"]
        result = simulations.simulate("many", {"rtt": 50, "aps": aps, "others": case.parameters["others"], "best": "last" if aps <= WITH_ROLES else "first",
                                               **simulations.settings_of(arm, sender), "seed": seed, "seconds": 200, "warmup": 30})
        return Measurement({SHARE.name: 100 * result["share"], USED.name: float(simulations.used(result))},
                           {**simulations.told(result), "knobs": simulations.knob_words(arm)})

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        return {OPTIMUM.name: {SHARE.name: 100.0}}

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        rows: list[tuple[Case, list[Run]]] = []
        for sender in SENDERS:
            for others in ("poor", "mixed"):
                own = [case for case in cases if case.parameters.get("sender") == sender.name and case.parameters["others"] == others
                       and case.parameters["aps"] <= WITH_ROLES]
                if len(own) < 2 or own[0].parameters["aps"] != 1:
                    continue
                shown = {arm.name for arm in own[0].arms}
                goals = (Goal(TANDEM.name, ">=", 95, metric=KEPT.name, text="no drop beyond 5 %"), Goal(TANDEM.name, "<=", 4, metric=MOST.name, text="at most 4 used"))
                row = Case(f"{sender.name}, 1 to 8 {others}", tuple(arm for arm in ARMS if arm.name in shown and arm != OPTIMUM), (KEPT, MOST), own[0].seeds,
                           goals if TANDEM.name in shown and sender == OLIA else (), "linear drop" if sender == OLIA else "", {"pooled": True})
                made = []
                for arm in row.arms:
                    shares, counts = (simulations.over_cells(runs, own, arm, metric.name) for metric in (SHARE, USED))
                    made += simulations.failed_in(row.name, runs, own, arm)
                    made += [Run(row.name, arm.name, seed, 0, 0.0, {KEPT.name: 100 * min(values[1:]) / values[0], MOST.name: max(counts[seed])}, {"derived": True})
                             for seed, values in sorted(shares.items()) if values[0] > 0]
                rows.append((row, made))
        return rows

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        panels = {f"{sender.name}, others {others}": [case for case in cases if case.parameters["sender"] == sender.name and case.parameters["others"] == others]
                  for sender in SENDERS for others in ("poor", "mixed")}
        return ecn_pictures.against(self, panels, runs, SHARE, "aps", "access points", directory)


BENCH = EcnMany()
