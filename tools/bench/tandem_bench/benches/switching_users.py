"""1 to 10 users on three channels: section 7.1 of Croitoru et al. (NSDI 2015)."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Sequence

from .. import simulations
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..plot import COLOURS
from ..rate_pictures import curves
from ..statistics import values_of

RULE, PHASE, STAY = Arm("alpha 2", "published"), Arm("Tandem", "tandem"), Arm("stay or move", "stay")
ARMS = (RULE, PHASE, STAY)
RULES = {RULE.name: "published", PHASE.name: "phase-shift", STAY.name: "stay-or-move"}
SHARE = Metric("share of the optimum", "%", 1)
JAIN = Metric("Jain's index", "", 3)
PRINTED = {1: 100, 2: 80, 3: 64, 4: 70, 5: 76, 7: 81, 10: 87}
WITHIN = 7  # points: the printed figures are of one simulator run each, with details that are not printed

SETUPS = {"as printed": {}, "5 ms for a switch": {"cost": 5}, "users arrive over 60 s": {"arrive": 60, "seconds": 180, "warmup": 70}}


class SwitchingUsers(simulations.SimulatorBench):
    name = "switching-users"
    summary = "1 to 10 users on three channels of 22 Mb/s: equation 6 as published, and slots that find their times without a message (simulator)"
    columns = ("published", "tandem", "stay")
    headings = {"published": "alpha 2, as published", "tandem": "Tandem (phase shift)", "stay": "stay or move"}
    notes = (
        "The paper's simplified model, in steps of 1 ms: no switching overhead, a channel's 22 Mb/s shared equally by the users on it at that moment. C = 200 ms; every switch comes 1 to 10 ms late, uniformly drawn. "
        "120 s, of which the first 20 do not count. The optimum: every user, up to three, has a channel's whole rate.",
        "\"alpha 2\": equation 6 from what the last cycle brought, all users visit the channels in the same order and begin at a random time in the first slot. The paper does not print these two.",
        "\"Tandem (phase shift)\": slots of C / 3 on each user's own clock (wrong by up to 50 ppm); whoever gets less in the first halves of its slots than in the second begins its cycle later, and earlier the other way round. "
        "\"stay or move\": no slots; a user stays on its channel while it has it alone, and else moves by chance, less and less likely.",
        "\"5 ms for a switch\": nothing is received meanwhile, but the optimum counts it as lost. \"users arrive\": evenly over the first 60 s, counted from 70 s on.",
    )

    def cases(self, quick: bool) -> list[Case]:
        made: list[Case] = []
        for setup, settings in SETUPS.items():
            for users in range(1, 11):
                goals = [Goal(PHASE.name, ">=", 90, text="at least 90 %")]
                if not settings:
                    goals.append(Goal(STAY.name, ">=", 90, text="stay or move: at least 90 %"))
                    if users in PRINTED:
                        goals += [Goal(RULE.name, sense, PRINTED[users] + sign * WITHIN, text=f"alpha 2: the printed {PRINTED[users]} % within {WITHIN} points") for sense, sign in ((">=", -1), ("<=", 1))]
                published = f"{PRINTED[users]} %" if users in PRINTED and not settings else ""
                made.append(Case(f"{setup}, {users} user{'s' if users > 1 else ''}", ARMS, (SHARE, JAIN), 3 if quick else 12, tuple(goals), published, {"users": users, "setup": setup, **settings}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.1

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        settings = {key: value for key, value in case.parameters.items() if key != "setup"}
        result = simulations.simulate("users", {**settings, "rule": RULES[arm.name], "seed": seed})
        return Measurement({SHARE.name: 100 * result["share"], JAIN.name: result["jain"]}, {"mbps": [round(one, 3) for one in result["mbps"]]})

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        panels: list[Case] = []
        points: list[Run] = []
        for setup in SETUPS:
            own = [case for case in cases if case.parameters["setup"] == setup]
            if not own:
                continue
            panels.append(Case(setup, ARMS, (SHARE,), 1))
            for arm in ARMS:
                curve = [[case.parameters["users"], sum(values) / len(values)] for case in own if (values := list(values_of(runs, case.name, arm.name, SHARE.name).values()))]
                if curve:
                    points.append(Run(setup, arm.name, 1, 0, 0.0, {}, {"curve": curve}))
        lines = {RULE.name: (COLOURS["published"], "o-"), PHASE.name: (COLOURS["tandem"], "o-"), STAY.name: ("#009E73", "o:")}
        return curves(self, panels, points, "curve", lines, "users", "% of the optimum", directory, level=90.0, printed={"as printed": {RULE.name: sorted(PRINTED.items())}})


BENCH = SwitchingUsers()
