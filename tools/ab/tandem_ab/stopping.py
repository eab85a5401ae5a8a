"""How a measurement is ended by a signal."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import Iterator

from tandem_common import signals


class Stopped(KeyboardInterrupt):
    """Ctrl-C or SIGTERM: the measurement ends, everything else is brought to its end."""


def by_signal(fault: BaseException | None) -> bool:
    """Whether it arose while a signal was ending the measurement."""
    while fault is not None:
        if isinstance(fault, Stopped):
            return True
        fault = fault.__cause__ or fault.__context__
    return False


@contextmanager
def interruptible() -> Iterator[None]:
    """The first signal ends the measurement; further ones must not disturb putting back and writing. What nohup(1) has ignored stays so."""
    numbers = signals.that_end()
    before = {number: signal.getsignal(number) for number in numbers}

    def first(*_: object) -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)
        raise Stopped

    for number in numbers:
        signal.signal(number, first)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
