"""Rounds in virtual time: each in a kernel of its own, several side by side, one a core.

The process that was started plans, shows and writes; the rounds run inside, by the hidden command `_round NUMBER ARGUMENTS...` with the
same arguments, which choose the same cases. What a run gave comes out as a line of JSON.
"""

from __future__ import annotations

import dataclasses
import json
import os
from pathlib import Path
from typing import Sequence

from tandem_lab import system
from tandem_lab.errors import LabError
from tandem_lab import virtual_machine as machine

from .model import Bench, Case, Options, Run
from .runner import Listener, rounds
from . import side_by_side

_ENTRY = Path(__file__).resolve().parents[1] / "bench.py"


class _Guest(side_by_side.Round):
    """A round in a guest."""

    def __init__(self, index: int, case: Case, seed: int, arguments: Sequence[str], cpu: int, directories: Sequence[Path]):
        super().__init__(case, seed)
        self._rest = b""
        self._words = b""
        self._machine: machine.Machine | None = None
        try:
            self._machine = machine.Machine([system.PYTHON, str(_ENTRY), "_round", str(index), *arguments], seed=seed, cpu=cpu, say=self._hear,
                                            directories=directories, environment={"TANDEM_BIN_DIR": str(system.tandem_binary("tandemd").parent)})
        except LabError as error:  # no memory just now, say: the other rounds go on
            self._refused = str(error)

    def _hear(self, name: str, data: bytes) -> None:
        if name != "events":
            self._words = (self._words + data)[-4000:]
            return
        *lines, self._rest = (self._rest + data).split(b"\n")
        for line in lines:
            event = json.loads(line)
            self.hear(event["what"], event["arm"], Run(**event["run"]) if event["run"] else None)

    def look(self) -> bool:
        return self._machine is not None and self._machine.running()

    def reason(self) -> str:
        if self._machine is None:
            return self._refused
        try:
            return f"the round ended with code {self._machine.result().exit_code}: {self._words.decode(errors='replace').strip()[-500:]}"
        except LabError as error:
            return str(error)

    def spoilt(self) -> str:
        """The kernel ends whatever process asks for memory then, any of the lab's: what goes on without it is another network."""
        try:
            if self._machine:
                self._machine.result()
        except machine.NoMappings as error:
            return str(error)
        except LabError:
            pass  # of a round that is not whole: reason()
        return ""

    def close(self) -> None:
        if self._machine:
            self._machine.close()


def execute(bench: Bench, cases: Sequence[Case], first_seed: int, options: Options, runs: list[Run], listen: Listener, jobs: int,
            arguments: Sequence[str]) -> None:
    """As runner.execute(), `jobs` rounds at a time."""
    cores = sorted(os.sched_getaffinity(0))
    directories = [Path(options.keep_logs)] if options.keep_logs else []
    # A guest is one thread at a time and hands over between its processes at every step: on one core that is cheap.
    side_by_side.execute(bench, cases, first_seed, runs, listen, jobs, lambda place, index, case, _, seed: _Guest(
        index, case, seed, arguments, cores[place % len(cores)], directories))


def inside(bench: Bench, cases: Sequence[Case], first_seed: int, options: Options, index: int) -> int:
    """The round of that number, in the guest."""
    case, number, seed = rounds(cases, first_seed)[index]

    def tell(what: str, arm: str, run: Run | None) -> None:
        # Closed each time: that brings it out of the guest.
        with open(f"{machine.SHARED}/events", "a") as file:
            file.write(json.dumps({"what": what, "arm": arm, "run": dataclasses.asdict(run) if run else None}, default=str) + "\n")

    side_by_side.make(bench, case, number, seed, options, tell)
    return 0
