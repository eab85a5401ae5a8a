"""What minislot-1 to 3 share: slot plans of Giustiniano et al., section VI-C, by the round-trip models."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Mapping, Sequence

from . import simulations, slot_pictures
from .model import Arm, Case, Goal, Measurement, Metric, Options, Run, Unavailable
from .plot import COLOURS
from .rate_pictures import curves
from .simulations import program

MIN_MAX, BLIND, TANDEM, BOUND = Arm("min-max", "published"), Arm("blind", "blind"), Arm("Tandem", "tandem"), Arm("upper bound", "limit")
ARMS = (MIN_MAX, BLIND, TANDEM, BOUND)
STRATEGIES = {MIN_MAX.name: "min-max", BLIND.name: "blind", TANDEM.name: "delay-aware", BOUND.name: "upper-bound"}

GAIN = Metric("largest gain over no policy", "x", 3)
LEAST = Metric("least gain over no policy", "x", 3)
SHARE = Metric("least share of the upper bound", "%", 2)
SEARCHES = Metric("searches", "", 0)
AWAY, LENGTH = Metric("longest disconnection", "ms", 1), Metric("slot", "ms", 1)
PLAN = Metric("CPU time of a plan", "us", 0)

DELAYS = range(0, 151, 5)  # ms, the axis of the published figures as far as the text names delays
MODELS = {"published": "round-trip model as published", "self-clocked": "self-clocked window"}
PUBLISHED_GAIN = 1.5
SHOWN_DELAY = 30  # ms, of the slots in the picture: "Tandem" plans by the delay


@dataclass(frozen=True)
class Published:
    """One of the paper's cases, and what it prints of it."""

    duty: Sequence[float]
    slot_ms: float
    more_ms: Sequence[float]  # of each access point's delay above the first one's
    searches: int | None  # min-max
    all_searches: int | None  # equation 2
    gain: float | None
    figure: str
    slots_ms: Sequence[float]
    away_ms: Sequence[float] = ()  # longest disconnection of each access point, min-max


CASES: Mapping[int, Published] = {
    1: Published((0.5, 0.125, 0.125, 0.125, 0.125), 15, (0, 0, 0, 0, 0), None, None, PUBLISHED_GAIN, "8", (15, 15, 15, 15, 15)),
    2: Published((0.5, 0.125, 0.375), 12.5, (0, 20, 40), 6, 280, PUBLISHED_GAIN, "9", (12.5, 12.5, 12.5), (12.5, 87.5, 37.5)),
    3: Published((0.65, 0.25, 0.10), 10, (0, 0, 0), 7, 252, None, "10", (10.8, 12.5, 10)),
}


def words(numbers: Sequence[float]) -> str:
    return ",".join(f"{number:g}" for number in numbers)


def plan_times(seconds: float) -> dict[tuple[int, int], tuple[float, int]]:
    """(access points, spread) -> (CPU time, us; slots), by Google Benchmark. Raises Unavailable without its program."""
    try:
        place = program.find().with_name("tandem-bench-slot-plan")
    except simulations.SimError as error:
        raise Unavailable(str(error)) from error
    if not place.exists():
        place = Path(__file__).resolve().parents[1] / place.name  # installed: beside the benches
    if not place.exists():
        raise Unavailable("no program tandem-bench-slot-plan: it is built where Google Benchmark is installed (libbenchmark-dev)")
    done = subprocess.run([str(place), "--benchmark_format=json", f"--benchmark_min_time={seconds}"], capture_output=True, text=True, check=True)
    made: dict[tuple[int, int], tuple[float, int]] = {}
    for entry in json.loads(done.stdout)["benchmarks"]:
        keys = dict(part.split(":") for part in entry["name"].split("/")[1:])
        made[int(keys["aps"]), int(keys["spread"])] = (entry["cpu_time"], int(entry["slots"]))
    return made


class Minislot(simulations.SimulatorBench):
    """One of the three published cases."""

    columns = ("published", "blind", "tandem", "limit")
    headings = {"published": "min-max as published", "blind": "blind (equation 2)", "limit": "upper bound"}

    def __init__(self, number: int) -> None:
        self.number, self.published = number, CASES[number]
        self.name = f"minislot-{number}"
        duty = ", ".join(f"{share:g}" for share in self.published.duty)
        self.summary = f"slots for {len(self.published.duty)} access points by one card, duty cycles {duty}, SlotTime {self.published.slot_ms:g} ms (simulator)"
        self.notes = (
            f"Case {number} and figure {self.published.figure} of Giustiniano et al., section VI-C: one long TCP flow at each access point, wired delays of 0 to 150 ms in steps of 5"
            + (f", {' / '.join(f'{more:g}' for more in self.published.more_ms)} ms more at the three access points" if any(self.published.more_ms) else ", the same for all")
            + ". Throughput by Mathis at 0.32 % congestion signals. The gain is the sum over all access points, over that of slots in one piece for each (\"no policy\"), largest and least over the delays.",
            "\"round-trip model as published\": section IV-B, 10,000 samples a point. ACKs come exponentially distributed over the connection; the paper prints no mean, taken is the connection's length (cut off at its end).",
            "\"self-clocked window\": no distribution; a window of packets goes round, one after the other over the air, and back after the wired delay (22 packets on average, 0.5 ms each).",
            "\"min-max\": the printed algorithm; equal choices are resolved by the first in lexicographic order. \"blind\": equation 2 over all allocations. \"upper bound\": for each delay the best of all allocations, with the delays known. "
            "\"Tandem\": the delays known, no search through all allocations.",
            "Searches: for \"min-max\" those of the first access point that differ by more than a rotation or a reflection, then every choice of the slots that are left, then 1. The share of the upper bound is by expectation, without samples.",
            "Rows \"figure ..a\": slots and longest disconnection of each access point, over all delays (\"Tandem\" plans anew for each). Picture of the slots: at a wired delay of "
            f"{SHOWN_DELAY} ms.",
            "CPU time of a plan: Google Benchmark; 16 access points with duty cycles that rise evenly to 1, 3 and 8 times the least one. The largest of the three.",
        )

    def cases(self, quick: bool) -> list[Case]:
        made: list[Case] = []
        rounds = 3 if quick else 8
        for model, title in MODELS.items():
            goals = [Goal(TANDEM.name, ">=", 98, metric=SHARE.name, text="within 2 % of the upper bound"), Goal(TANDEM.name, ">=", 0.98, MIN_MAX.name, metric=GAIN.name, text="at least the published one's largest gain, within 2 %")]
            metrics = [GAIN, LEAST, SHARE]
            published = f"up to {self.published.gain:g} x" if self.published.gain else "no figure printed"
            if model == "published":
                metrics.append(SEARCHES)
                if self.published.gain:
                    goals.append(Goal(MIN_MAX.name, ">=", 0.95 * self.published.gain, metric=GAIN.name, text=f"the printed gain of {self.published.gain:g} within 5 %"))
                if self.published.searches:
                    published += f"; {self.published.searches} and {self.published.all_searches} searches"
                    for arm, count in ((MIN_MAX, self.published.searches), (BLIND, self.published.all_searches)):
                        goals += [Goal(arm.name, sense, float(count or 0), metric=SEARCHES.name, text=f"{arm.name}: {count}") for sense in (">=", "<=")]
            made.append(Case(title, ARMS, tuple(metrics), rounds, tuple(goals), published, {"model": model}))
        made.append(Case("16 access points", (TANDEM,), (PLAN,), 3, (Goal(TANDEM.name, "<=", 1000, metric=PLAN.name, text="under 1 ms"),), "", {"plan": True, "quick": quick, "pooled": True}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 5.0 if case.parameters.get("plan") else 1.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        if case.parameters.get("plan"):
            times = plan_times(0.02 if options.quick else 0.1)
            return Measurement({PLAN.name: max(time for (aps, _), (time, _) in times.items() if aps == 16)},
                               {"plans": [{"aps": aps, "spread": spread, "us": round(time, 1), "slots": slots} for (aps, spread), (time, slots) in times.items()]})
        result = simulations.simulate("slots", {"duty": words(self.published.duty), "slot": self.published.slot_ms, "more": words(self.published.more_ms), "delays": words(DELAYS),
                                                "strategy": STRATEGIES[arm.name], "model": case.parameters["model"], "seed": seed})
        points = result["points"]
        gains = [point["mbps"] / point["no_policy_mbps"] for point in points]
        return Measurement({GAIN.name: max(gains), LEAST.name: min(gains), SHARE.name: 100 * min(point["expected_mbps"] / point["bound_mbps"] for point in points),
                            SEARCHES.name: float(points[0]["searches"])},
                           {"period_ms": result["period_ms"], "slots": result["slots"], "lengths_ms": result["lengths_ms"], "points": points,
                            "curve": [[point["delay_ms"], round(gain, 4)] for point, gain in zip(points, gains)]})

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """Figure (a): slots and disconnections of each access point, as printed beside as computed. They do not hang on the model."""
        known = {arm.name: [run for run in runs if run.arm == arm.name and run.case == MODELS["published"] and "points" in run.details] for arm in (MIN_MAX, BLIND, TANDEM)}
        rows: list[tuple[Case, list[Run]]] = []
        for ap, slot in enumerate(self.published.slots_ms):
            title = f"figure {self.published.figure}a, access point {ap + 1}"
            made = [Run(title, arm, run.seed, 0, 0.0, {AWAY.name: max(point["disconnection_ms"][ap] for point in run.details["points"]), LENGTH.name: run.details["lengths_ms"][ap]}, {"derived": True})
                    for arm, own in known.items() for run in own]
            if not made:
                continue
            goals, published = [], f"slots of {slot:g} ms"
            if self.published.away_ms:
                away = self.published.away_ms[ap]
                published = f"{away:g} ms away; {published}"
                goals = [Goal(MIN_MAX.name, sense, away + more, metric=AWAY.name, text=f"min-max: {away:g} ms") for sense, more in ((">=", -0.05), ("<=", 0.05))]
            rows.append((Case(title, (MIN_MAX, BLIND, TANDEM), (AWAY, LENGTH), 1, tuple(goals), published, {"pooled": True}), made))
        return rows

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        """Figures (a), which slot is whose, and (b), the gain over the wired delay."""
        lines = {MIN_MAX.name: (COLOURS["published"], "-"), BLIND.name: ("#009E73", ":"), TANDEM.name: (COLOURS["tandem"], "-"), BOUND.name: (COLOURS["limit"], "--")}
        made = curves(self, [case for case in cases if "model" in case.parameters], runs, "curve", lines, "end-to-end wired delay, ms", "throughput over no policy", directory, level=1.0)
        planned = {run.arm: run.details for run in runs if run.case == MODELS["published"] and run.arm in (MIN_MAX.name, TANDEM.name) and "points" in run.details}
        return made + slot_pictures.slots(planned, SHOWN_DELAY, directory, f"{self.name}-slots")
