"""What the kernel's tracepoints tell."""

from __future__ import annotations

import subprocess
import threading
from contextlib import suppress
from typing import Callable, Sequence

from . import system

# It ends, and its instance goes, when its input does: also when whoever listens is killed. Left there, the kernel would trace for ever.
_TRACE = """{{ test -d /sys/kernel/tracing/instances || mount -t tracefs nodev /sys/kernel/tracing; }} && mkdir -p /sys/kernel/tracing/instances/{name} || exit 1
trap 'kill -9 $reader; wait $reader; cd / && rmdir /sys/kernel/tracing/instances/{name}' EXIT
trap '' INT TERM HUP
cd /sys/kernel/tracing/instances/{name} || exit 1
echo mono > trace_clock || exit 1
{settings}
cat trace_pipe &
reader=$!
read -r nothing"""
_GONE = 10.0  # s, until it has ended when its input has


class Tracepoints:
    """An instance of its own, in a mount namespace of its own, so that nobody else's trace changes. `settings` are commands in its directory, all of which must work; each line goes to
    `heard`, in a thread."""

    def __init__(self, name: str, settings: Sequence[str], heard: Callable[[str], None]):
        script = _TRACE.format(name=name, settings="\n".join(f"{one} || exit 1" for one in settings))
        self._process = subprocess.Popen([system.tool("unshare"), "--mount", "sh", "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        self._heard = heard
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._heard(line)

    def ended(self) -> bool:
        """Where the kernel has no such tracepoints, or may not be asked."""
        return self._process.poll() is not None

    def close(self) -> None:
        assert self._process.stdin
        with suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(_GONE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
