"""The life of a lab as files and processes: where its state lies, whether it runs, and how every trace of it goes."""

from __future__ import annotations

import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from . import system, topology
from .errors import BadInput, LabError
from .system import ProcessId


@dataclass(frozen=True)
class LabState:
    """The state directory of one prefix, 0700 below /run."""

    prefix: str

    def __post_init__(self) -> None:
        if not topology.PREFIX_PATTERN.fullmatch(self.prefix):
            raise BadInput(f'prefix "{self.prefix}"; allowed: a small letter, up to nine small letters or digits, and "-"')

    @property
    def directory(self) -> Path:
        return system.STATE_ROOT / self.prefix

    @property
    def file(self) -> Path:
        return self.directory / "state.json"

    @property
    def events(self) -> Path:
        return self.directory / "events.jsonl"

    def create(self) -> None:
        system.STATE_ROOT.mkdir(mode=0o700, exist_ok=True)
        self.directory.mkdir(mode=0o700)

    def read(self) -> dict[str, Any] | None:
        """What the supervisor wrote when the lab became ready; None without a lab."""
        try:
            return json.loads(self.file.read_text())
        except (OSError, ValueError):
            return None

    def supervisor(self) -> ProcessId | None:
        """The supervisor, if it is alive."""
        try:
            record = json.loads((self.directory / "supervisor.json").read_text())
        except (OSError, ValueError):
            return None
        process = ProcessId(record["pid"], record["start"])
        return process if process.alive() else None

    def claim(self) -> None:
        """Writes this process down as the one that owns the lab."""
        me = ProcessId.of(os.getpid())
        assert me is not None
        system.write_json(self.directory / "supervisor.json", {"pid": me.pid, "start": me.start})

    def record_process(self, name: str, pid: int) -> None:
        """Notes a process so that it can be found and ended even after the supervisor was killed."""
        process = ProcessId.of(pid)
        if process is not None:
            with open(self.directory / "processes.jsonl", "a") as file:
                file.write(json.dumps({"name": name, "pid": process.pid, "start": process.start}) + "\n")

    def processes(self) -> list[tuple[str, ProcessId]]:
        """Every recorded process that is still alive."""
        try:
            lines = (self.directory / "processes.jsonl").read_text().splitlines()
        except OSError:
            return []
        found = [json.loads(line) for line in lines]
        return [(entry["name"], process) for entry in found if (process := ProcessId(entry["pid"], entry["start"])).alive()]

    def exists(self) -> bool:
        """Whether anything of this prefix is there, whole or in ruins."""
        return self.directory.exists() or bool(topology.namespaces_with(self.prefix))


def refuse_others(prefix: str) -> None:
    """Raises LabError where namespaces have the prefix and no lab made them: one has its state directory before the first of them, and until the last is gone.
    The caller holds system.machine_lock()."""
    if not LabState(prefix).directory.exists() and (others := topology.namespaces_with(prefix)):
        raise LabError(f"the prefix {prefix} is somebody else's: there is no lab of it, but network namespaces of such names: {', '.join(others)}; choose another with --prefix")


def is_running(prefix: str) -> bool:
    return LabState(prefix).supervisor() is not None


def sweep(prefix: str) -> None:
    """Removes everything of a prefix: recorded processes, processes in its namespaces, namespaces, state, machine settings.

    Works from any ruin that a kill left. The caller holds system.machine_lock(), and no supervisor is alive
    (or it is the caller).
    """
    state = LabState(prefix)
    namespaces = topology.namespaces_with(prefix)
    for namespace in namespaces:
        topology.end_connections(namespace)
    for _, process in state.processes():
        process.end(grace=0.5)
    _kill_in(namespaces)
    topology.delete_namespaces(namespaces)
    system.MachineSettings().release(prefix, is_running)
    shutil.rmtree(state.directory, ignore_errors=True)
    try:
        system.STATE_ROOT.rmdir()
    except OSError:
        pass  # other labs live there, or it never was


def _kill_in(namespaces: list[str]) -> None:
    """Ends what still runs in namespaces: one with a process in it would live on without its name."""
    mine = os.getpid()

    def gone() -> bool:
        pids = [pid for pid in topology.processes_in(namespaces) if pid != mine]
        for pid in pids:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
        return not pids

    if not system.wait_until(gone, 5.0):
        raise LabError(f"{', '.join(namespaces)}: processes in them do not end")


def remove(prefix: str) -> bool:
    """Takes a lab down, whole or in ruins. False when there was nothing."""
    state = LabState(prefix)
    if not state.exists():
        return False
    supervisor = state.supervisor()
    if supervisor and supervisor.pid != os.getpid():
        supervisor.end(grace=20.0)
    with system.machine_lock():  # nobody is just making it, or removing it
        refuse_others(prefix)
        sweep(prefix)
    return True
