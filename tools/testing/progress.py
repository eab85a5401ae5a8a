"""What a person sees while it runs: one line for each thing that ended, and a sign of life when nothing did for a while."""

from __future__ import annotations

import selectors
import subprocess
import time
from typing import Iterator, Sequence

SIGN_OF_LIFE = 20.0  # seconds without a line


class Progress:
    """Lines with the time since the start."""

    def __init__(self) -> None:
        self._start = time.monotonic()

    def elapsed(self) -> float:
        return time.monotonic() - self._start

    def note(self, text: str) -> None:
        minutes, seconds = divmod(int(self.elapsed()), 60)
        print(f"[{minutes:2d}:{seconds:02d}] {text}", flush=True)

    def ended(self, layer: str, name: str, how: str, seconds: float) -> None:
        self.note(f"{layer:<6} {name:<34} {how}  ({seconds:.1f} s)")

    def waiting(self, layer: str, name: str, seconds: float) -> None:
        self.note(f"{layer:<6} {name:<34} running for {seconds:.0f} s")


def lines_of(command: Sequence[str], environment: dict[str, str] | None = None) -> Iterator[str | None]:
    """The lines a command prints, None when it has been silent for SIGN_OF_LIFE. The exit code is sent out as StopIteration's value."""
    with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, env=environment) as process:
        assert process.stdout
        pending = b""
        try:
            with selectors.DefaultSelector() as selector:
                selector.register(process.stdout, selectors.EVENT_READ)
                spoke = time.monotonic()
                while True:
                    if not selector.select(max(0.0, spoke + SIGN_OF_LIFE - time.monotonic())):
                        spoke = time.monotonic()
                        yield None
                        continue
                    if not (piece := process.stdout.read1(65536)):
                        break
                    pending += piece
                    *whole, pending = pending.split(b"\n")
                    if whole:
                        spoke = time.monotonic()
                    for line in whole:
                        yield line.decode(errors="replace") + "\n"
            if pending:
                yield pending.decode(errors="replace") + "\n"
        except BaseException:
            process.terminate()
            raise
    return process.returncode

