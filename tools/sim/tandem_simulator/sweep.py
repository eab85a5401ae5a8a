"""Many runs on all cores, each once: what is in the table already is not run again."""

from __future__ import annotations

import itertools
import json
import os
import shutil
import subprocess
import sys
import threading
import time
import tomllib
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Mapping, Sequence, TextIO

from tandem_common.duration import clock

from . import program as programs
from .program import SIM_DIR, BadSweep
from .table import Table, flatten

SCENARIOS = ("grid", "uplink", "many", "single", "run")
ALONE = ("slots", "rtts", "visits", "users", "switching", "handoff")  # scenarios that no sweep runs: their options are lists, or their results curves


@dataclass
class Sweep:
    """Every combination of the values in `vary`, with the settings in `fix`; several blocks follow each other."""

    scenario: str
    vary: dict[str, list[Any]] = field(default_factory=dict)
    fix: dict[str, Any] = field(default_factory=dict)
    description: Any = None

    def settings(self) -> list[dict[str, Any]]:
        return [self.fix | dict(zip(self.vary, values)) for values in itertools.product(*self.vary.values())]


def value_of(text: str) -> Any:
    """A number, true, false, or a word."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text


def values_of(text: str, place: str) -> list[Any]:
    """"1,2,4", "1..6" or both mixed."""
    out: list[Any] = []
    for part in text.split(","):
        first, dots, last = part.partition("..")
        if dots:
            try:
                out += range(int(first), int(last) + 1)
            except ValueError:
                raise BadSweep(f"{place}: {part}: a range of whole numbers like 1..6 is needed") from None
        elif part:
            out.append(value_of(part))
    if not out:
        raise BadSweep(f"{place}: at least one value is needed")
    return out


def named() -> dict[str, Path]:
    """The sweeps that come with the simulator."""
    return {path.stem: path for path in sorted((SIM_DIR / "sweeps").glob("*.toml"))}


def load(name: str) -> list[Sweep]:
    """From a TOML file or by the name of one that comes along; a scenario's name is an empty sweep of it."""
    if name in SCENARIOS and name != "run":
        return [Sweep(name)]
    path = named().get(name, Path(name))
    try:
        text = tomllib.loads(path.read_text())
    except OSError as error:
        raise BadSweep(f"{name}: {error.strerror}; it is no file, no scenario ({', '.join(SCENARIOS[:-1])}), and none of: "
                       f"{', '.join(named())}") from error
    except tomllib.TOMLDecodeError as error:
        raise BadSweep(f"{path}: {error}") from error
    blocks = text.pop("sweep", None)
    text.pop("summary", None)
    if text or not isinstance(blocks, list) or not blocks:
        raise BadSweep(f"{path}: blocks [[sweep]] are needed" + (f"; {next(iter(text))} is not known" if text else ""))
    out = []
    for number, block in enumerate(blocks):
        place = f"{path}: sweep {number + 1}"
        if not isinstance(block, dict) or block.get("scenario") not in SCENARIOS:
            raise BadSweep(f"{place}: scenario must be one of: {', '.join(SCENARIOS)}")
        if unknown := set(block) - {"scenario", "vary", "fix", "description"}:
            raise BadSweep(f"{place}: {', '.join(sorted(unknown))}: not known")
        vary = block.get("vary", {})
        for key, values in vary.items():
            if isinstance(values, str):
                vary[key] = values_of(values, f"{place}: vary.{key}")
            elif not isinstance(values, list) or not values:
                raise BadSweep(f"{place}: vary.{key}: a list of values is needed")
        if (block["scenario"] == "run") != ("description" in block):
            raise BadSweep(f"{place}: scenario \"run\", and no other, has a [sweep.description]")
        out.append(Sweep(block["scenario"], vary, block.get("fix", {}), block.get("description")))
    return out


def check_settings(sweeps: Sequence[Sweep], program: Path) -> None:
    """Raises BadSweep for a setting that the scenario does not have: each of the runs would fail by it."""
    known: dict[str, set[str]] = {}
    for sweep in sweeps:
        if sweep.scenario == "run":
            continue  # its settings are places in its description
        if sweep.scenario not in known:
            known[sweep.scenario] = programs.settings_of(program, sweep.scenario)
        for key in (*sweep.fix, *sweep.vary):
            if key not in known[sweep.scenario]:
                raise BadSweep(f"{key}: {sweep.scenario} has no such setting; allowed: {', '.join(sorted(known[sweep.scenario]))}")


class Progress:
    """A bar with the time left on a terminal, plain lines otherwise."""

    def __init__(self, total: int, skipped: int, stream: TextIO = sys.stderr):
        self._total, self._stream, self._bar = total, stream, stream.isatty()
        self._began = self._said = time.monotonic()
        self._done = 0
        self._say(f"{total} runs" + (f", {skipped} more are in the table already" if skipped else ""))

    def __call__(self, done: int) -> None:
        self._done = done
        passed = time.monotonic() - self._began
        left = passed / done * (self._total - done) if done else 0.0
        if self._bar:
            width = max(10, min(40, shutil.get_terminal_size().columns - 40))
            filled = int(width * done / self._total)
            self._stream.write(f"\r\x1b[K[{'#' * filled}{'.' * (width - filled)}] {done}/{self._total}  {clock(left)} left")
            self._stream.flush()
        elif time.monotonic() - self._said >= 5 or done == self._total:
            self._said = time.monotonic()
            self._say(f"[{done}/{self._total}] {clock(passed)} passed, {clock(left)} left")

    def note(self, text: str) -> None:
        self._say(text)

    def end(self) -> None:
        if self._bar:
            self._stream.write("\n")
            self._stream.flush()

    def _say(self, line: str) -> None:
        self._stream.write(("\r\x1b[K" if self._bar else "") + line + "\n")
        self._stream.flush()


class Runner:
    """Starts runs in threads that wait for them, and ends those under way when it is over."""

    def __init__(self, program: Path):
        self._program = program
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[str]] = set()
        self._over = False

    def __call__(self, sweep: Sweep, settings: Mapping[str, Any]) -> tuple[dict[str, Any], str | None]:
        with self._lock:
            if self._over:
                return {}, "interrupted"
            process, text = programs.begin(self._program, sweep.scenario, settings, sweep.description)
            self._running.add(process)
        try:
            output, errors = process.communicate(text)
        finally:
            with self._lock:
                self._running.discard(process)
        if process.returncode != 0:
            # The options' parser names what it refuses, and where to read on behind it.
            said = [line for line in errors.strip().splitlines() if line != "Run with --help for more information."]
            return {}, (said or [f"ended with code {process.returncode}"])[-1]
        return flatten(json.loads(output)), None

    def stop(self) -> None:
        with self._lock:
            self._over = True
            for process in self._running:
                process.kill()


def execute(sweeps: Sequence[Sweep], table: Table, jobs: int, stream: TextIO = sys.stderr) -> tuple[set[str], list[str]]:
    """Runs what is missing. Returns the keys of all runs of the sweeps, and what failed."""
    program = programs.find()
    mark = programs.fingerprint(program)
    have = table.done(mark)
    plan: dict[str, tuple[Sweep, dict[str, Any]]] = {}
    for sweep in sweeps:
        for settings in sweep.settings():
            plan[Table.key(sweep.scenario, settings, sweep.description)] = (sweep, settings)
    missing = [key for key in plan if key not in have]
    progress = Progress(len(missing), len(plan) - len(missing), stream)
    failed: list[str] = []
    runner = Runner(program)
    waiting = iter(missing)
    pending: dict[Future[tuple[dict[str, Any], str | None]], str] = {}
    done = 0
    with ThreadPoolExecutor(jobs) as pool:
        try:
            while True:
                for key in itertools.islice(waiting, 2 * jobs - len(pending)):
                    pending[pool.submit(runner, *plan[key])] = key
                if not pending:
                    break
                for future in wait(pending, return_when=FIRST_COMPLETED).done:
                    key = pending.pop(future)
                    sweep, settings = plan[key]
                    values, error = future.result()
                    table.add(key, mark, sweep.scenario, settings, values, error)
                    done += 1
                    if error is not None:
                        failed.append(f"{sweep.scenario} {settings}: {error}")
                        progress.note(f"FAILED: {failed[-1]}")
                    progress(done)
        finally:
            runner.stop()
            progress.end()
    return set(plan), failed


def default_jobs() -> int:
    return len(os.sched_getaffinity(0))
