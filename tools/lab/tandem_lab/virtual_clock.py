"""How far a guest in virtual time has come, seen from outside: its clock, read in its kernel's memory, and the CPU time that it took.

Nothing of it reaches the guest, so no figure depends on how often somebody looks.
"""

from __future__ import annotations

import functools
import os
import struct
import time
from pathlib import Path

_CLOCK = "time_travel_time"  # in arch/um/kernel/time.c: nanoseconds since boot
_SYMBOLS = 2  # SHT_SYMTAB
_TICKS = os.sysconf("SC_CLK_TCK")


@functools.lru_cache
def address(image: Path, name: str = _CLOCK) -> int:
    """Where a variable of a 64-bit program with a fixed place lies; 0 when it has none of that name."""
    data = image.read_bytes()
    (table,) = struct.unpack_from("<Q", data, 40)
    size, count = struct.unpack_from("<HH", data, 58)
    sections = [struct.unpack_from("<IIQQQQI", data, table + size * number) for number in range(count)]
    wanted = name.encode() + b"\0"
    for _, kind, _, _, start, length, link in sections:
        if kind == _SYMBOLS:
            names = sections[link][4]
            for name_at, _, _, _, value, _ in struct.iter_unpack("<IBBHQQ", data[start:start + length]):
                if data.startswith(wanted, names + name_at):
                    return value
    return 0


def _children(pid: int) -> list[int]:
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []  # ended meanwhile


def cpu_seconds(pid: int) -> float:
    """CPU time of a process and of all below it, ended ones included."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return sum(map(int, fields[11:15])) / _TICKS + sum(cpu_seconds(child) for child in _children(pid))


class Clock:
    """The clock of one guest."""

    def __init__(self, image: Path, first: int, limit: float):
        """first: the outermost process of the guest; limit: CPU seconds that it may compute while its clock stands"""
        self._image, self._first, self._limit = image, first, limit
        self._every = min(1.0, limit / 4)
        self._looked = time.monotonic()
        self._stood_at = -1
        self._computed_before = 0.0
        self.computed = 0.0  # CPU seconds since the clock last moved

    def nanoseconds(self) -> int | None:
        """Since its boot; None when it does not run yet or any more."""
        try:
            (shell,) = _children(self._first)
            (kernel,) = _children(shell)
            with open(f"/proc/{kernel}/mem", "rb", buffering=0) as memory:
                memory.seek(address(self._image))
                (now,) = struct.unpack("<Q", memory.read(8))
            return now
        except (OSError, ValueError, struct.error):
            return None

    def spins(self) -> bool:
        """Whether it has computed for the limit since its clock last moved. A guest that gets no CPU, or is stopped, does not spin."""
        if time.monotonic() - self._looked < self._every:
            return False
        self._looked = time.monotonic()
        if (now := self.nanoseconds()) is None:
            return False
        taken = cpu_seconds(self._first)
        if now != self._stood_at:
            self._stood_at, self._computed_before = now, taken
        self.computed = taken - self._computed_before
        return self.computed >= self._limit
