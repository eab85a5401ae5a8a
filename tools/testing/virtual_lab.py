"""Entries of the lab and vm layers in virtual time: each in a kernel of its own (docs/lab.md), one a core."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "lab"))

from entries import Entry, in_short  # noqa: E402
from progress import SIGN_OF_LIFE, Progress  # noqa: E402
from reports import Case, Layer, Outcome, Verdict, judge  # noqa: E402
from tandem_lab.errors import LabError  # noqa: E402
from tandem_lab import virtual_machine as machine  # noqa: E402

LAYER = "virtual"
RADIOS = 3  # simulated ones, for entries with the label "hwsim"
LONGEST = 600.0  # seconds of the guest's own clock, and of CPU time: ctest allows an entry as many real ones
_LOOK_EVERY = 0.1


def requirements() -> None:
    """Raises LabError naming what virtual time lacks here, and what to do."""
    machine.requirements()


class _Guest:
    """An entry under way."""

    def __init__(self, entry: Entry, cpu: int, log: Path):
        self.entry = entry
        self._log = log
        self._began = self._said = time.monotonic()
        self._why = ""
        report = entry.own_report()
        assert report, f"{entry.name} leaves no report"
        report.unlink(missing_ok=True)
        log.write_bytes(b"")
        self._machine = machine.Machine(entry.command, seed=1, cpu=cpu, directory=entry.directory, environment=entry.environment,
                                        directories=[report.parent], radios=RADIOS if "hwsim" in entry.labels else 0, say=self._hear)

    def _hear(self, name: str, data: bytes) -> None:
        if name in ("stdout", "stderr"):
            with open(self._log, "ab") as file:
                file.write(data)

    def running(self, progress: Progress) -> bool:
        if not self._machine.running():
            return False
        for seconds, of in ((self._machine.clock() or 0.0, "virtual"), (self._machine.cpu_seconds(), "CPU")):
            if seconds > LONGEST:
                self._why = f"not done after {LONGEST:.0f} s of {of} time"
                self._machine.close()
                return False
        if time.monotonic() - self._said > SIGN_OF_LIFE:
            self._said = time.monotonic()
            progress.waiting(LAYER, self.entry.name, self.seconds())
        return True

    def seconds(self) -> float:
        return time.monotonic() - self._began

    def outcome(self) -> Outcome:
        """After its end."""
        why = self._why
        if not why:
            try:
                if (code := self._machine.result().exit_code) == 0:
                    return Outcome(self.entry.name, Verdict.passed)
                why = f"exit code {code}"
            except LabError as error:
                why = str(error)
        return Outcome(self.entry.name, Verdict.failed, why, self._log.read_text(errors="replace"))

    def close(self) -> None:
        self._machine.close()


def run_virtual(build: Path, entries: list[Entry], progress: Progress) -> Layer:
    """Runs these entries, as many at a time as there are cores and memory for their guests."""
    result = Layer(LAYER, entries=len(entries))
    began = time.monotonic()
    logs = build / "reports" / LAYER
    logs.mkdir(parents=True, exist_ok=True)
    waiting = list(entries)
    cores = sorted(os.sched_getaffinity(0))[:machine.most_at_a_time()]
    active: dict[int, _Guest] = {}
    try:
        while waiting or active:
            for core in cores:
                if waiting and core not in active:
                    entry = waiting.pop(0)
                    try:
                        active[core] = _Guest(entry, core, logs / f"{entry.name}.log")
                    except LabError as error:
                        result.cases.append(Case(entry.name, Verdict.failed, str(error)))
            time.sleep(_LOOK_EVERY)
            for core, guest in list(active.items()):
                if guest.running(progress):
                    continue
                del active[core]
                outcome, report = guest.outcome(), guest.entry.own_report()
                guest.close()
                progress.ended(LAYER, guest.entry.name, in_short(outcome.verdict.value, report), guest.seconds())
                result.cases += [Case(f"{guest.entry.name}: {case.name}" if case.name != guest.entry.name else case.name, case.verdict, case.why)
                                 for case in judge(outcome, report, must_report=True)]
    finally:
        for guest in active.values():
            guest.close()
    result.seconds = time.monotonic() - began
    return result
