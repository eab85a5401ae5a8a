"""Rounds in real time side by side, each in a lab and a process of its own: for benches that mostly wait."""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
from dataclasses import replace
from multiprocessing.connection import Connection
from typing import Sequence

from .model import Bench, Case, Options, Run
from .runner import Listener, turn
from . import side_by_side

_PR_SET_PDEATHSIG = 1


def prefix_of(prefix: str, number: int) -> str:
    """The prefix of the lab of a place: "bench-" gives "bench1-"."""
    return f"{prefix.removesuffix('-')}{number}-"


class _Process(side_by_side.Round):
    """A round in a process of its own. Its arms follow each other there: what is paired shares its neighbours."""

    def __init__(self, bench: Bench, case: Case, number: int, seed: int, options: Options, lock: str):
        super().__init__(case, seed)
        context = multiprocessing.get_context("fork")
        self._near, far = context.Pipe(duplex=False)
        self._process = context.Process(target=_work, args=(bench, case, number, seed, options, lock, far))
        self._process.start()
        far.close()

    def look(self) -> bool:
        alive = self._process.is_alive()
        try:
            while self._near.poll():
                self.hear(*self._near.recv())
        except (EOFError, OSError):
            pass  # all was heard, or the process died in the middle of a word
        return alive

    def reason(self) -> str:
        return f"the process that measured it ended with code {self._process.exitcode}"

    def close(self) -> None:
        if self._process.is_alive():
            self._process.terminate()  # it takes its lab down
        self._process.join()
        self._near.close()


def execute(bench: Bench, cases: Sequence[Case], first_seed: int, options: Options, runs: list[Run], listen: Listener, jobs: int,
            lock: str = "") -> None:
    """As runner.execute(), `jobs` rounds at a time."""
    side_by_side.execute(bench, cases, first_seed, runs, listen, jobs, lambda place, _, case, number, seed: _Process(
        bench, case, number, seed, replace(options, prefix=prefix_of(options.prefix, place + 1)), lock))


def _work(bench: Bench, case: Case, number: int, seed: int, options: Options, lock: str, end: Connection) -> None:
    """The life of the process."""
    parent = os.getppid()
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != parent:
        return
    try:
        with turn(lock):
            side_by_side.make(bench, case, number, seed, options, lambda *told: end.send(told))
    except KeyboardInterrupt:
        pass  # the parent reports
    finally:
        end.close()
