"""Progress while a bench runs: a bar with the time left on a terminal, a line per run otherwise."""

from __future__ import annotations

import shutil
import sys
import threading
import time
from typing import Sequence, TextIO

from tandem_common.duration import clock

from .model import Arm, Bench, Case, Run


def outcome(case: Case, run: Run) -> str:
    """The run's values in short, or why it failed."""
    if run.error is not None:
        return "FAILED: " + run.error.splitlines()[0]
    shown = [f"{run.values[metric.name]:.{metric.digits}f} {metric.unit}".rstrip() for metric in case.metrics if metric.name in run.values]
    return ", ".join(shown[:3])


class Progress:
    """Told of every begin and end. The time left is the estimates of what is to come, corrected by how they have held so far."""

    def __init__(self, bench: Bench, cases: Sequence[Case], quick: bool, stream: TextIO = sys.stderr, jobs: int = 1, taken_over: Sequence[Run] = ()):
        self._bench, self._quick, self._stream = bench, quick, stream
        self._bar = stream.isatty()
        self._jobs = jobs
        known = {case.name: {run.seed for run in taken_over if run.case == case.name} for case in cases}
        self._left = sum(self._guess(case, arm) * (case.seeds - len(known[case.name])) for case in cases for arm in bench.measured_arms(case))
        self._total = sum((case.seeds - len(known[case.name])) * len(bench.measured_arms(case)) for case in cases)
        self._guessed = self._done = 0.0
        self._count = 0
        self._began = self._since = time.monotonic()
        self._now = ""
        self._current = 0.0
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._ticker = threading.Thread(target=self._tick, daemon=True)

    def _guess(self, case: Case, arm: Arm) -> float:
        return self._bench.estimate(case, arm, self._quick)

    def __enter__(self) -> "Progress":
        self._say(f"{self._bench.name}: {self._total} runs, about {clock(self._left / self._jobs)}")
        if self._bar:
            self._ticker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._bar:
            self._ticker.join()
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def __call__(self, what: str, case: Case, arm: Arm, run: Run | None) -> None:
        with self._lock:
            if what == "begin":
                self._now, self._current, self._since = f"{case.name} / {arm.name}", self._guess(case, arm), time.monotonic()
                return
            assert run is not None
            guess = self._guess(case, arm)
            self._left -= guess
            if run.error is None:  # a failure tells nothing about the pace
                self._guessed += guess
                self._done += run.seconds
            self._count += 1
            self._current = 0.0
        self._say(f"[{self._count}/{self._total}] {case.name} / {arm.name}, seed {run.seed}: {outcome(case, run)}"
                  + ("" if self._bar else f"  ({clock(self.remaining())} left)"))

    def remaining(self) -> float:
        """Seconds to go."""
        pace = self._done / self._guessed if self._guessed > 0 else 1.0
        under_way = min(time.monotonic() - self._since, self._current * pace) if self._current else 0.0
        return max(0.0, (self._left * pace - under_way) / self._jobs)

    def _say(self, line: str) -> None:
        self._stream.write(("\r\x1b[K" if self._bar else "") + line + "\n")
        self._stream.flush()

    def _tick(self) -> None:
        while not self._stop.wait(0.25):
            with self._lock:
                left = self.remaining()
                passed = time.monotonic() - self._began
                share = passed / (passed + left) if passed + left > 0 else 0.0
                width = max(10, min(40, shutil.get_terminal_size().columns - 60))
                filled = int(width * share)
                text = f"[{'#' * filled}{'.' * (width - filled)}] {share * 100:3.0f} %  {clock(left)} left  {self._now}"
                self._stream.write("\r\x1b[K" + text[:shutil.get_terminal_size().columns - 1])
                self._stream.flush()
