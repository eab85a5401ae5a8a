"""Makes the runs of a bench, round by round, and keeps what came of each, also of those that failed."""

from __future__ import annotations

import fcntl
import time
from contextlib import contextmanager
from dataclasses import replace
from typing import Callable, Iterator, Sequence

from .model import Arm, Bench, Case, Options, Run
from .order import seeds_of, tossed

# What the runner says while it works: ("begin" | "end", case, arm, run or None).
Listener = Callable[[str, Case, Arm, "Run | None"], None]


@contextmanager
def turn(lock: str) -> Iterator[None]:
    """Holds a file lock, so that measurements that share a machine take turns. No file name: nothing."""
    if not lock:
        yield
        return
    with open(lock, "a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def rounds(cases: Sequence[Case], first_seed: int) -> list[tuple[Case, int, int]]:
    """(case, number of the round, seed), all first rounds before all second ones: an interrupted bench has something on every case."""
    most = max((case.seeds for case in cases), default=0)
    return [(case, number, seeds_of(first_seed, case.seeds)[number])
            for number in range(most) for case in cases if number < case.seeds]


def to_make(planned: Sequence[tuple[Case, int, int]], runs: Sequence[Run]) -> list[tuple[Case, int, int]]:
    """Of rounds() those without a run."""
    there = {(run.case, run.seed) for run in runs}
    return [entry for entry in planned if (entry[0].name, entry[2]) not in there]


def execute(bench: Bench, cases: Sequence[Case], first_seed: int, options: Options, runs: list[Run], listen: Listener,
            lock: str = "") -> None:
    """Makes every run and appends it to `runs`, which is complete up to the last finished run when an interrupt passes through. Rounds that
    have runs there already are not made again."""
    for case, number, seed in to_make(rounds(cases, first_seed), runs):
        with turn(lock):
            began = len(runs)

            def keep(what: str, case: Case, arm: Arm, run: Run | None) -> None:
                if run is not None:
                    run = replace(run, order=len(runs))
                    runs.append(run)
                listen(what, case, arm, run)

            done = measure_round(bench, case, number, seed, options, keep)
            runs += [replace(run, order=len(runs) + place) for place, run in enumerate(done[len(runs) - began:])]


def measure_round(bench: Bench, case: Case, number: int, seed: int, options: Options, listen: Listener) -> list[Run]:
    """Every arm of one round, told to `listen` one by one, and behind them what follows from them (derived runs, not told)."""
    arms = tossed(bench.measured_arms(case), case.name, seed)
    done: list[Run] = []

    def keep(run: Run, arm: Arm) -> None:
        done.append(run)
        listen("end", case, arm, run)

    try:
        with bench.session(case, seed, options) as session:
            for arm in arms:
                listen("begin", case, arm, None)
                began = time.monotonic()
                try:
                    result = bench.measure(session, case, arm, seed, options)
                    run = Run(case.name, arm.name, seed, 0, time.monotonic() - began, dict(result.values), dict(result.details))
                except Exception as error:  # whatever went wrong belongs into the report, not only what was foreseen
                    run = Run(case.name, arm.name, seed, 0, time.monotonic() - began, error=_words(error))
                keep(run, arm)
    except Exception as error:
        # The session itself failed: every arm that has no run of this round failed with it.
        for arm in arms:
            if arm.name not in [run.arm for run in done]:
                keep(Run(case.name, arm.name, seed, 0, 0.0, error=_words(error)), arm)
    try:
        derived = bench.derive(case, {run.arm: run.values for run in done if run.error is None})
    except Exception as error:  # one round's arithmetic, or a program that it asks, must not take what hours have measured with it
        measured = {arm.name for arm in arms}
        return done + [Run(case.name, arm.name, seed, 0, 0.0, {}, {"derived": True, "failed_here": True}, f"not derived: {_words(error)}")
                       for arm in case.arms if arm.name not in measured]
    return done + [Run(case.name, name, seed, 0, 0.0, values, {"derived": True}) for name, values in derived.items()]


def _words(error: Exception) -> str:
    return str(error).strip() or type(error).__name__
