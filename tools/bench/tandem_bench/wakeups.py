"""How often processes are woken: by the scheduler's tracepoints where they may be read, else by voluntary context switches."""

from __future__ import annotations

import os
import re
import threading
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Sequence

from tandem_lab import system
from tandem_lab.errors import LabError
from tandem_lab.tracepoints import Tracepoints

from . import helpers

# "  <idle>-0  [001] d.h2.  1234.567890: sched_waking: comm=tandemd pid=77 prio=120 target_cpu=000"
_WAKING = re.compile(r"^\s*(.+)-\d+\s+\[\d+\].* ([\d.]+): sched_waking: comm=(.*) pid=(\d+) ")
_FORK = re.compile(r": sched_process_fork: comm=.* pid=(\d+) child_comm=.* child_pid=(\d+)")
_LOST = re.compile(r"^CPU:\d+ \[LOST (\d+ )?EVENTS\]")
_BEGINS = 10.0  # s, for the trace to begin
_PIPE = 1.0  # s, until what was traced has been read


def tasks(pids: Sequence[int]) -> list[int]:
    return [task for pid in pids for task in helpers.threads_of(pid)]


def context_switches(pids: Sequence[int]) -> int:
    """Voluntary context switches of processes so far, of all their present threads."""
    count = 0
    for pid in pids:
        for task in helpers.threads_of(pid):
            with suppress(OSError):  # the thread ended just now
                count += int(Path(f"/proc/{pid}/task/{task}/status").read_text().split("\nvoluntary_ctxt_switches:", 1)[1].split(None, 1)[0])
    return count


@dataclass(frozen=True)
class WakeUp:
    at: float  # s, CLOCK_MONOTONIC
    task: int
    name: str
    by: str  # whoever ran then; <idle>: a timer, or a packet


@dataclass(frozen=True)
class Woken:
    """What a window of time has seen."""

    seconds: float
    count: int
    all: tuple[WakeUp, ...] | None  # None: only the count is known

    @property
    def in_ten_seconds(self) -> float:
        return self.count / self.seconds * 10

    @property
    def most_in_ten_seconds(self) -> int | None:
        if self.all is None:
            return None
        at = [one.at for one in self.all]
        return max((sum(begin <= other < begin + 10 for other in at) for begin in at), default=0)

    def said(self) -> str:
        """Who was woken by whom, the most frequent first."""
        if self.all is None:
            return f"{self.count} context switches"
        return ", ".join(f"{name} by {by}: {count}" for (name, by), count in Counter((one.name, one.by) for one in self.all).most_common()) or "nobody"


def woken(lines: Iterable[str], tasks: Iterable[int]) -> list[WakeUp]:
    """What a trace says of these tasks and of those that they start. It also tells of those whom they wake."""
    known, found = set(tasks), []
    for line in lines:
        if (fork := _FORK.search(line)) and int(fork.group(1)) in known:
            known.add(int(fork.group(2)))
        if (waking := _WAKING.match(line)) and int(waking.group(4)) in known:
            found.append(WakeUp(float(waking.group(2)), int(waking.group(4)), waking.group(3), waking.group(1)))
    return found


def lost_events(line: str) -> int:
    """How many events the kernel had no room for, as a line of its trace says; 0 for any other line. At least one where it does not say how many."""
    found = _LOST.match(line)
    return int(found.group(1) or 1) if found else 0


class Counting:
    """Of these processes and of what they start, while the `with` lasts. `traced`: the kernel's tracepoints can be read here."""

    def __init__(self, pids: Sequence[int]):
        self._pids = list(pids)
        self._known = set(tasks(pids))
        name = f"tandem-wakes-{os.getpid()}-{self._pids[0]}"
        self._lines: list[str] = []
        traced = " ".join(map(str, {*self._known, threading.get_native_id()}))  # and those that they start
        self._trace = Tracepoints(name, ["echo 1 > options/event-fork", f"echo {traced} > set_event_pid",
                                         "echo 1 > events/sched/sched_waking/enable", "echo 1 > events/sched/sched_process_fork/enable"], self._lines.append)
        self.traced = self._hears()
        if not self.traced:
            self.close()

    def __enter__(self) -> Counting:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        self._trace.close()

    def look(self, seconds: float) -> Woken:
        """Waits so long."""
        begin, before = time.monotonic(), context_switches(self._pids)
        time.sleep(seconds)
        end = time.monotonic()
        if not self.traced:
            return Woken(end - begin, context_switches(self._pids) - before, None)
        time.sleep(_PIPE)
        # What nobody has told is not what did not happen: a figure of few wake-ups is what this would look like.
        if self._trace.ended():
            raise LabError("the kernel's trace ended while wake-ups were counted")
        if lost := sum(map(lost_events, list(self._lines))):
            raise LabError(f"the kernel's trace lost {lost} events while wake-ups were counted")
        found = [one for one in woken(list(self._lines), self._known) if begin <= one.at <= end]
        return Woken(end - begin, len(found), tuple(found))

    def _hears(self) -> bool:
        """This thread is among the tasks, and each pause here wakes it."""
        return system.wait_until(lambda: self._trace.ended() or self._lines, _BEGINS, pause=0.05) and not self._trace.ended()
