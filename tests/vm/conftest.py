"""Fixtures for tests on Debian's stock kernel in a virtual machine. Where it cannot run, they are skipped by name, with the reason.

In virtual time (tools/test vm --time virtual) a test runs inside such a kernel already, one that nobody else uses: scripts run there."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Sequence

import pytest

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path[:0] = [str(HERE), str(ROOT / "tools" / "lab")]

from tandem_lab import virtual  # noqa: E402
import vmrun  # noqa: E402

GUEST = HERE / "guest"
PATIENCE = 2  # the machine has what a test of the lab beside it leaves; alone each is done in less than half of its time
Guest = Callable[..., vmrun.Result]


@pytest.fixture(scope="session")
def machine() -> None:
    """The test needs the virtual machine."""
    if virtual.inside():
        return
    try:
        vmrun.requirements()
    except vmrun.Unavailable as reason:
        pytest.skip(f"no virtual machine: {reason}")


def run_here(command: Sequence[str], *, timeout: float, modules: Sequence[str] = ()) -> vmrun.Result:
    """As vmrun.run(), in the kernel that this runs in; all modules are built into it."""
    began = time.monotonic()
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, timeout=timeout)
    return vmrun.Result(done.returncode, done.stdout, time.monotonic() - began, 0.0, "")


@pytest.fixture(scope="session")
def guest(machine: None) -> Guest:
    """guest("survey.sh", "argument", timeout=60): runs a script of guest/ in a fresh machine."""

    def run(script: str, *arguments: str, timeout: float = 150.0, **options: Any) -> vmrun.Result:
        result = (vmrun.run if not virtual.inside() else run_here)([str(GUEST / script), *arguments], timeout=timeout * PATIENCE, **options)
        print(f"{script}: exit code {result.exit_code} after {result.seconds:.1f} s, {result.boot_seconds:.1f} s of it until the script started")
        print(result.output)
        return result

    return run


@pytest.fixture(scope="session")
def programs() -> Path:
    """The directory with tandemd and tandem."""
    directory = Path(os.environ.get("TANDEM_BIN_DIR") or ROOT / "build" / "bin")
    if missing := [name for name in ("tandemd", "tandem") if not os.access(directory / name, os.X_OK)]:
        pytest.skip(f"not built: {', '.join(str(directory / name) for name in missing)}")
    return directory


@pytest.fixture(scope="session")
def probe() -> Path:
    """The program feeder_probe."""
    program = Path(os.environ.get("TANDEM_FEEDER_PROBE") or ROOT / "build" / "tests" / "feeder_probe")
    if not os.access(program, os.X_OK):
        pytest.skip(f"not built: {program}")
    return program
