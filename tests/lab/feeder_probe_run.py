"""Runs feeder_probe_bus and waits for what it says."""

from __future__ import annotations

import json
import os
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable

import pytest

LONG_ENOUGH = 20.0  # for a busy machine

Line = dict[str, Any]


def program() -> Path:
    """The build's probe program; a test is skipped by name without it."""
    build = Path(os.environ.get("TANDEM_BIN_DIR", Path(__file__).resolve().parents[2] / "build" / "bin")).parent
    path = build / "tests" / "feeder_probe_bus"
    if not os.access(path, os.X_OK):
        pytest.skip(f"{path} is not built")
    return path


class Probe:
    """The program, and every line it has printed."""

    def __init__(self, *words: str, prefix: tuple[str, ...] = (), environment: dict[str, str] | None = None) -> None:
        self.lines: list[Line] = []
        self._process = subprocess.Popen([*prefix, str(program()), *words], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                                         text=True, env={**os.environ, **(environment or {})})
        self._reader = threading.Thread(target=self._read)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self.lines.append(json.loads(line))

    def wait(self, wanted: Callable[[Line], Any], after: int = 0) -> Line:
        """The first line from number `after` on that is wanted."""
        end = time.monotonic() + LONG_ENOUGH
        while time.monotonic() < end:
            for line in self.lines[after:]:
                if wanted(line):
                    return line
            time.sleep(0.02)
        raise AssertionError("not said:\n" + "\n".join(map(str, self.lines)))

    def mark(self) -> int:
        """For wait(after=...): only what is said from now on."""
        return len(self.lines)

    def close(self) -> int:
        """Asks for the end; the exit code."""
        assert self._process.stdin
        self._process.stdin.close()
        try:
            return self._process.wait(LONG_ENOUGH)
        finally:
            self._process.kill()
            self._process.wait()
            self._reader.join()
            assert self._process.stdout
            self._process.stdout.close()
