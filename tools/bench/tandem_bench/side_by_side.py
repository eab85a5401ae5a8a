"""Several rounds at the same time, whoever makes them: processes of this machine (parallel.py) or guests in virtual time (virtual.py)."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Callable, Sequence

from .model import Bench, Case, Options, Run
from .runner import Listener, measure_round, rounds, to_make

_LOOK_EVERY = 0.05  # seconds

# What a round tells: "begin" or "end", the arm, and with "end" the run.
Tell = Callable[[str, str, "Run | None"], None]


class Round:
    """One round under way. Who derives from it says how it is made; what it tells is kept until it is handed on."""

    def __init__(self, case: Case, seed: int):
        self.case, self.seed = case, seed
        self.runs: list[Run] = []
        self.told: list[tuple[str, str, Run | None]] = []

    def hear(self, what: str, arm: str, run: Run | None) -> None:
        if run is not None:
            self.runs.append(run)
        if not (run and run.details.get("derived")):
            self.told.append((what, arm, run))

    def look(self) -> bool:
        """Hears what was told since; False when it has ended and all of it was heard."""
        raise NotImplementedError

    def reason(self) -> str:
        """After its end: how it ended, for the arms that it did not bring."""
        raise NotImplementedError

    def spoilt(self) -> str:
        """After its end: why none of its figures can be trusted, though it brought them; empty when nothing is known against them."""
        return ""

    def close(self) -> None:
        """Ends it, whatever it does."""
        raise NotImplementedError

    def conclude(self, bench: Bench) -> None:
        """After its end: arms without a run failed with it, and all did in a round that was spoilt."""
        if why := self.spoilt():
            self.runs = [replace(run, values={}, details={}, error=run.error or why) for run in self.runs if not run.details.get("derived")]
        done = {run.arm for run in self.runs}
        for arm in bench.measured_arms(self.case):
            if arm.name not in done:
                self.hear("end", arm.name, Run(self.case.name, arm.name, self.seed, 0, 0.0, error=self.reason()))


# Begins a round: its place among those at the same time, its number in the plan, case, number of the case's round, seed.
Start = Callable[[int, int, Case, int, int], Round]


def execute(bench: Bench, cases: Sequence[Case], first_seed: int, runs: list[Run], listen: Listener, jobs: int, start: Start) -> None:
    """As runner.execute(), `jobs` rounds at a time. The runs are in the order of the plan, whichever was done first."""
    planned = rounds(cases, first_seed)
    left = to_make(planned, runs)
    waiting = [(index, entry) for index, entry in enumerate(planned) if entry in left]
    free = list(range(jobs))
    active: dict[int, Round] = {}
    begun: list[Round] = []
    try:
        while waiting or active:
            while waiting and free:
                index, (case, number, seed) = waiting.pop(0)
                begun.append(start(free[0], index, case, number, seed))
                active[free.pop(0)] = begun[-1]
            time.sleep(_LOOK_EVERY)
            for place, current in list(active.items()):
                alive = current.look()
                if not alive:
                    current.conclude(bench)
                for what, arm, run in current.told:
                    listen(what, current.case, current.case.arm(arm), run)
                current.told.clear()
                if not alive:
                    current.close()
                    del active[place]
                    free.append(place)
    finally:
        for current in active.values():
            current.close()
        for current in begun:
            runs += [replace(run, order=len(runs) + place) for place, run in enumerate(current.runs)]


def make(bench: Bench, case: Case, number: int, seed: int, options: Options, tell: Tell) -> None:
    """Makes a round and tells all of it, also what follows from its runs."""
    for run in measure_round(bench, case, number, seed, options, lambda what, _, arm, run: tell(what, arm.name, run)):
        if run.details.get("derived"):
            tell("end", run.arm, run)
