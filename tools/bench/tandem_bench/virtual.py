"""Rounds in virtual time: each in a kernel of its own, several side by side, one a core.

The process that was started plans, shows and writes; the rounds run inside, by the hidden command `_round NUMBER ARGUMENTS...` with the
same arguments, which choose the same cases. What a run gave comes out as a line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
import sys
import time
from pathlib import Path
from typing import Any, Sequence

from tandem_lab import system
from tandem_lab.errors import LabError
from tandem_lab import virtual_machine as machine

from .model import Arm, Bench, Case, Options, Run
from .runner import Listener, measure_round, rounds

_ENTRY = Path(__file__).resolve().parents[1] / "bench.py"
_LOOK_EVERY = 0.05


class _Round:
    """One round under way in a guest, and what it has told so far."""

    def __init__(self, index: int, case: Case, seed: int, arguments: Sequence[str], cpu: int | None, directories: Sequence[Path]):
        self.index, self.case, self.seed = index, case, seed
        self.runs: list[Run] = []
        self.told: list[tuple[str, str, Run | None]] = []  # ("begin" | "end", arm, run), to be handed on
        self._rest = b""
        self._words = b""
        self.machine = machine.Machine([system.PYTHON, str(_ENTRY), "_round", str(index), *arguments], seed=seed, cpu=cpu, say=self._hear,
                                       directories=directories, environment={"TANDEM_BIN_DIR": str(system.tandem_binary("tandemd").parent)})

    def _hear(self, name: str, data: bytes) -> None:
        if name != "events":
            self._words = (self._words + data)[-4000:]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            run = Run(**event["run"]) if event["run"] else None
            if run is not None:
                self.runs.append(run)
            if not (run and run.details.get("derived")):
                self.told.append((event["what"], event["arm"], run))

    def conclude(self, bench: Bench) -> None:
        """After its end: arms without a run failed with the guest."""
        done = {run.arm for run in self.runs}
        if not (missing := [arm for arm in bench.measured_arms(self.case) if arm.name not in done]):
            return
        try:
            words = f"the round ended with code {self.machine.result().exit_code}: {self._words.decode(errors='replace').strip()[-500:]}"
        except LabError as error:
            words = str(error)
        for arm in missing:
            self.runs.append(Run(self.case.name, arm.name, self.seed, 0, 0.0, error=words))
            self.told.append(("end", arm.name, self.runs[-1]))


def execute(bench: Bench, cases: Sequence[Case], first_seed: int, options: Options, runs: list[Run], listen: Listener, jobs: int,
            arguments: Sequence[str]) -> None:
    """As runner.execute(), `jobs` rounds at a time. The runs are in the order of the plan, whichever was done first."""
    plan = rounds(cases, first_seed)
    waiting = list(enumerate(plan))
    cores = sorted(os.sched_getaffinity(0))
    free = list(range(jobs))
    active: dict[int, _Round] = {}
    done: dict[int, list[Run]] = {}
    directories = [Path(options.keep_logs)] if options.keep_logs else []
    try:
        while waiting or active:
            while waiting and free:
                slot = free.pop(0)
                index, (case, _, seed) = waiting.pop(0)
                # A guest is one thread at a time and hands over between its processes at every step: on one core that is cheap.
                active[slot] = _Round(index, case, seed, arguments, cores[slot % len(cores)], directories)
            time.sleep(_LOOK_EVERY)
            for slot, current in list(active.items()):
                alive = current.machine.running()
                if not alive:
                    current.machine.running()  # the last words
                    current.conclude(bench)
                done[current.index] = current.runs
                _hand_on(current, listen)
                if not alive:
                    current.machine.close()
                    del active[slot]
                    free.append(slot)
    finally:
        for current in active.values():
            current.machine.close()
        for index in sorted(done):
            runs += [dataclasses.replace(run, order=len(runs) + place) for place, run in enumerate(done[index])]


def _hand_on(current: _Round, listen: Listener) -> None:
    for what, arm, run in current.told:
        listen(what, current.case, current.case.arm(arm), run)
    current.told.clear()


def inside(bench: Bench, cases: Sequence[Case], first_seed: int, options: Options, index: int) -> int:
    """The round of that number, in the guest."""
    case, number, seed = rounds(cases, first_seed)[index]

    def tell(what: str, arm: str, run: Run | None) -> None:
        # Closed each time: that brings it out of the guest.
        with open(f"{machine.SHARED}/events", "a") as file:
            file.write(json.dumps({"what": what, "arm": arm, "run": dataclasses.asdict(run) if run else None}, default=str) + "\n")

    def listen(what: str, _: Case, arm: Arm, run: Run | None) -> None:
        tell(what, arm.name, run)

    for run in measure_round(bench, case, number, seed, options, listen):
        if run.details.get("derived"):
            tell("end", run.arm, run)
    return 0
