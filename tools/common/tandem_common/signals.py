"""The signals by which a user ends a program."""

from __future__ import annotations

import signal


def that_end() -> list[signal.Signals]:
    """Ctrl-C, that of kill(1), and that of a terminal which is closed: not where nohup(1) has it ignored."""
    return [number for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP) if number != signal.SIGHUP or signal.getsignal(number) != signal.SIG_IGN]
