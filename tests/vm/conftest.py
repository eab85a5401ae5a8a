"""Fixtures for tests on Debian's stock kernel in a virtual machine. Where it cannot run, they are skipped by name, with the reason."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any, Callable

import pytest

sys.dont_write_bytecode = True
HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
sys.path.insert(0, str(HERE))

import vmrun  # noqa: E402

GUEST = HERE / "guest"
Guest = Callable[..., vmrun.Result]


@pytest.fixture(scope="session")
def machine() -> None:
    """The test needs the virtual machine."""
    try:
        vmrun.requirements()
    except vmrun.Unavailable as reason:
        pytest.skip(f"no virtual machine: {reason}")


@pytest.fixture(scope="session")
def guest(machine: None) -> Guest:
    """guest("survey.sh", "argument", timeout=60): runs a script of guest/ in a fresh machine."""

    def run(script: str, *arguments: str, timeout: float = 150.0, **options: Any) -> vmrun.Result:
        result = vmrun.run([str(GUEST / script), *arguments], timeout=timeout, **options)
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
