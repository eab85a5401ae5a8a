"""The emulator seen from outside: its process and its control socket (one JSON object per line)."""

from __future__ import annotations

import json
import socket
import subprocess
from pathlib import Path
from typing import Any, Iterator, Mapping

from . import scenario as scenarios
from . import system
from .errors import BadInput, LabError


class AirControl:
    """A connection to the emulator's control socket."""

    def __init__(self, state: Path, timeout: float = 5.0):
        self.path = state / "control.sock"
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.settimeout(timeout)
        try:
            self._socket.connect(str(self.path))
        except OSError as error:
            self._socket.close()
            raise LabError(f"{self.path}: {error.strerror}; is the lab up, and with air?") from error
        self._lines = b""

    def fileno(self) -> int:
        return self._socket.fileno()

    def close(self) -> None:
        self._socket.close()

    def __enter__(self) -> "AirControl":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, command: Mapping[str, Any]) -> None:
        self._socket.sendall(json.dumps(command).encode() + b"\n")

    def receive(self) -> dict[str, Any]:
        """The next line, waiting for it. Raises LabError when the emulator closes the connection."""
        while b"\n" not in self._lines:
            try:
                data = self._socket.recv(65536)
            except TimeoutError as error:
                raise LabError(f"{self.path}: the emulator does not answer") from error
            if not data:
                raise LabError(f"{self.path}: the emulator closed the connection")
            self._lines += data
        line, _, self._lines = self._lines.partition(b"\n")
        return json.loads(line)

    def pending(self) -> Iterator[dict[str, Any]]:
        """What has come in, after at least one line is readable."""
        yield self.receive()
        while b"\n" in self._lines:
            yield self.receive()

    def ask(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        """One command and its answer. Raises LabError in the emulator's words when it refuses."""
        self.send({"cmd": cmd, **arguments})
        answer = self.receive()
        if answer.get("ok") is False or "error" in answer:
            raise BadInput(f"emulator: {cmd}: {answer.get('error', 'refused')}")
        return answer


def start(scenario_file: Path, prefix: str, state: Path, overrides: Mapping[str, Any] | None, seed: int | None) -> subprocess.Popen:
    """Starts the emulator and waits until its interfaces exist; it ends with the process that called this."""
    argv = [str(system.tandem_binary("tandem-air")), *scenarios.air_arguments(scenario_file, overrides, seed),
            "--prefix", prefix, "--state", str(state), "--die-with-parent"]
    log = state / "air.log"
    (state / "ready").unlink(missing_ok=True)
    with open(log, "ab") as output:
        process = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=output)

    def ready() -> bool:
        if process.poll() is not None:
            words = log.read_text().strip().splitlines()[-3:] or [f"exit code {process.returncode}"]
            failure = BadInput if process.returncode == 2 else LabError
            raise failure("tandem-air: " + "\n".join(words).removeprefix("tandem-air: "))
        return (state / "ready").exists()

    if not system.wait_until(ready, 15.0):
        process.kill()
        process.wait()
        raise LabError(f"tandem-air did not get ready within 15 s; see {log}")
    return process
