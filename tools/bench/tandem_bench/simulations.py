"""What the benches that run in the simulator share: a run of tandem-sim, the senders, the arms. Needs no root and no lab."""

from __future__ import annotations

import json
import statistics
from dataclasses import dataclass
from typing import Any, Callable, Mapping, Sequence

from tandem_simulator import program
from tandem_simulator.program import SimError

from .model import Arm, Bench, Case, Metric, Run, Unavailable

MODULE = "ecn"

ALONE = Arm("MPTCP alone", "plain")
PUBLISHED = Arm("as published", "published")
LETTER = Arm("to the letter", "letter")
TURNS = Arm("on-off", "on-off")
TANDEM = Arm("Tandem", "tandem")
BLIND = Arm("Tandem, no survey", "blind")
MEASURED = Arm("Tandem, measured times", "measured")
OPTIMUM = Arm("optimum", "limit")
BY_AP1, BY_AP2 = Arm("TCP by AP1", "ap1"), Arm("TCP by AP2", "ap2")
COLUMNS = ("ap1", "ap2", "plain", "published", "letter", "on-off", "blind", "measured", "tandem", "limit")
HEADINGS = {"ap1": "TCP by AP1", "ap2": "TCP by AP2", "plain": "MPTCP alone", "letter": "to the letter", "on-off": "on-off", "blind": "Tandem, no survey", "measured": "Tandem, measured times", "limit": "optimum"}

# Marks are as published when every sender gets them, whatever it does with them. The paper says neither which round-trip time
# equation 5 takes nor what it gives below its pole: "as published" takes the readings that serve it best, "to the letter" the others.
KNOBS: Mapping[str, Mapping[str, float]] = {
    PUBLISHED.name: {"strategy": 1, "sender": 1},
    LETTER.name: {"strategy": 1, "sender": 1, "rtt": 1, "below_pole": 1},
    TURNS.name: {"strategy": 2},
    BLIND.name: {},
    MEASURED.name: {},
    TANDEM.name: {},
}

NOTE_ARMS = ("\"MPTCP alone\": no module. \"as published\": marks by equation 5 from the least round-trip time, 5 % below its pole; \"to the letter\": from the smoothed one, with what "
             "the formula gives as printed. \"on-off\": one access point at a time by MP_PRIO (sections 5 and 7). \"Tandem\": the module's defaults; \"no survey\": with a driver that does not tell how much of the air is in use.")
NOTE_SENDERS = ("OLIA is the paper's sender, LIA the other coupled one. CUBIC couples nothing and is scheduled as upstream Linux does; marks that a sender of that kind gets "
                "\"as published\" only slow it down. Goals are about OLIA.")


class SimulatorBench(Bench):
    """A bench whose runs are tandem-sim's."""

    columns = COLUMNS
    headings = HEADINGS
    needs_root = False
    parallel = True


@dataclass(frozen=True)
class SenderKind:
    """How the MPTCP server sends."""

    name: str
    cc: str
    scheduler: str = "lowest-rtt"


OLIA, LIA = SenderKind("OLIA", "olia"), SenderKind("LIA", "lia")
CUBIC = SenderKind("uncoupled CUBIC", "cubic", "linux-like")
SENDERS = (OLIA, LIA, CUBIC)


def simulate(scenario: str, settings: Mapping[str, Any], description: Any = None) -> dict[str, Any]:
    """One run of tandem-sim. Raises Unavailable when there is no such program, SimError for what it says."""
    try:
        place = program.find()
    except SimError as error:
        raise Unavailable(str(error)) from error
    process, text = program.begin(place, scenario, settings, description)
    with process:
        try:
            output, errors = process.communicate(text)
        except BaseException:
            process.kill()
            raise
    if process.returncode != 0:
        raise SimError((errors.strip().splitlines() or [f"tandem-sim ended with code {process.returncode}"])[-1])
    return json.loads(output)


def knobs_of(arm: Arm) -> dict[str, float] | None:
    """Of the module, with its name; None: the arm runs without it."""
    return {f"{MODULE}.{name}": value for name, value in KNOBS[arm.name].items()} if arm.name in KNOBS else None


def knob_words(arm: Arm) -> str | None:
    """For the header."""
    if arm.name not in KNOBS:
        return None
    return f"{MODULE}: " + (" ".join(f"{name}={value:g}" for name, value in KNOBS[arm.name].items()) or "defaults")


def settings_of(arm: Arm, sender: SenderKind) -> dict[str, Any]:
    """Options of tandem-sim's scenarios for an arm."""
    if arm.name in (BY_AP1.name, BY_AP2.name):
        return {"arm": "ap1" if arm.name == BY_AP1.name else "ap2"}
    settings: dict[str, Any] = {"cc": sender.cc, "scheduler": sender.scheduler}
    if arm.name == BLIND.name:
        settings["survey"] = False
    if arm.name == MEASURED.name:
        settings["estimator"] = True
    if (knobs := knobs_of(arm)) is not None:
        settings["modules"] = MODULE
        if knobs:
            settings["knobs"] = ",".join(f"{name}={value:g}" for name, value in knobs.items())
    return settings


def module_of(arm: Arm) -> dict[str, Any]:
    """The same for a description."""
    knobs = knobs_of(arm)
    return {} if knobs is None else {"modules": [MODULE], "knobs": knobs, "survey": arm.name != BLIND.name}


def told(result: Mapping[str, Any]) -> dict[str, Any]:
    """What a run leaves in the JSON beside its values."""
    client = result["client"]
    return {"subflows": [round(subflow["mbps"], 3) for subflow in result["flows"][0]["subflows"]],
            "flows": [round(flow["mbps"], 3) for flow in result["flows"]], "mean": client.get("mean", []), "marked": client.get("marked", []),
            "reasons": client.get("reasons", {})}


def used(result: Mapping[str, Any], least_share: float = 0.01) -> int:
    """Access points in use: not left out for most of the time, and with more than a hundredth of the bytes."""
    subflows, means = result["flows"][0]["subflows"], result["client"].get("mean", [])
    whole = sum(subflow["mbps"] for subflow in subflows)
    left_out = [mean["backup"] > 0.5 for mean in means] + [False] * (len(subflows) - len(means))
    return sum(1 for subflow, out in zip(subflows, left_out) if whole > 0 and subflow["mbps"] > least_share * whole and not out)


Figure = Callable[[Sequence[float]], float]


def over_cells(runs: Sequence[Run], cells: Sequence[Case], arm: Arm, metric: str) -> dict[int, list[float]]:
    """Seed -> the values of all cells, for the seeds that have them all."""
    names = {case.name for case in cells}
    found: dict[int, dict[str, float]] = {}
    for run in runs:
        if run.arm == arm.name and run.case in names and run.error is None and metric in run.values:
            found.setdefault(run.seed, {})[run.case] = run.values[metric]
    return {seed: [values[case.name] for case in cells] for seed, values in found.items() if len(values) == len(names)}


def failed_in(row: str, runs: Sequence[Run], cells: Sequence[Case], arm: Arm) -> list[Run]:
    """Of a row over many cells: a failed run for each seed on which the arm failed in a cell. over_cells() has none of these seeds, and a goal that the others meet
    is not met for certain."""
    names = {case.name for case in cells}
    failed = {run.seed for run in runs if run.case in names and run.arm == arm.name and run.error is not None}
    return [Run(row, arm.name, seed, 0, 0.0, {}, {"derived": True}, "failed in one of the cells") for seed in sorted(failed)]


def together(case: Case, runs: Sequence[Run], cells: Sequence[Case], metric: str, figures: Mapping[str, Figure], worst: Metric | None = None) -> list[Run]:
    """Runs of a row over many cells: each seed's figures over its cells, and of all seeds together the worst run."""
    made: list[Run] = []
    for arm in case.arms:
        by_seed = over_cells(runs, cells, arm, metric)
        made += failed_in(case.name, runs, cells, arm)
        for number, (seed, values) in enumerate(sorted(by_seed.items())):
            row = {name: figure(values) for name, figure in figures.items()}
            if worst is not None and number == 0:
                row[worst.name] = min(value for own in by_seed.values() for value in own)
            made.append(Run(case.name, arm.name, seed, 0, 0.0, row, {"derived": True}))
    return made


def mean(values: Sequence[float]) -> float:
    return statistics.fmean(values)


def capped_mean(values: Sequence[float]) -> float:
    """No cell counts for more than its optimum."""
    return statistics.fmean(min(100.0, value) for value in values)
