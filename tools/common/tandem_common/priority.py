"""Processor time that others come first for, also where the scheduler groups processes by session."""

from __future__ import annotations

import os
from pathlib import Path

_GROUP = Path("/proc/self/autogroup")  # sched(7), "The autogroup feature"
LOWEST = 19


def lower_session(nice: int) -> None:
    """Gives this process's session the weight of `nice` (1 to 19); for a preexec_fn of a process with start_new_session.

    With sched_autogroup_enabled, as Debian sets it, the scheduler shares the processors among sessions first: nice values and SCHED_IDLE
    count among the processes of one session only, so that an idle compiler in a session of its own gets as much as a test. Where sessions
    are not grouped there is nothing to lower.
    """
    try:
        _GROUP.write_text(str(nice))
    except OSError:
        pass


def idle_session() -> None:
    """Of the whole session: only what nobody else wants, whether sessions are grouped or not; for a preexec_fn, as above."""
    lower_session(LOWEST)
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
