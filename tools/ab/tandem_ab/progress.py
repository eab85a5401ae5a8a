"""Progress while pairs are made: a line for each, and on a terminal what is under way."""

from __future__ import annotations

import sys
import time
from typing import Any, TextIO

from tandem_common import confidence
from tandem_common.duration import clock

from . import analysis
from .arms import Arm
from .quantities import count
from .report import Result, figure


class Progress:
    """`until` is the moment (time.monotonic()) at which the time is over."""

    def __init__(self, result: Result, until: float, stream: TextIO = sys.stderr):
        self._result, self._until, self._stream = result, until, stream
        self._live = stream.isatty()

    def done(self) -> bool:
        return analysis.enough(self._result.comparisons)

    def doing(self, what: str, arm: Arm | None) -> None:
        if self._live and arm:
            words = f"pair {len(self._result.pairs) + 1}: {'switching to' if what == 'switch' else 'measuring'} {arm.name} ..."
            self._stream.write(f"\r\x1b[K{words}")
            self._stream.flush()

    def clear(self) -> None:
        if self._live:
            self._stream.write("\r\x1b[K")
            self._stream.flush()

    def pair(self, pair: dict[str, Any]) -> None:
        self.clear()
        self._stream.write(self.line(pair, time.monotonic()) + "\n")
        self._stream.flush()

    def line(self, pair: dict[str, Any], now: float) -> str:
        """A pair in words, what is known by now, and how long it will go on."""
        head = f"pair {pair['number'] + 1}: "
        if pair["discarded"]:
            return f"{head}does not count: {pair['discarded']}"
        unit = self._result.head["unit"]
        told = ", ".join(f"{arm} {figure(pair['trials'][arm]['figure'])}" for arm in self._result.arms) + (f" {unit}" if unit else "")
        comparisons = self._result.comparisons
        so_far = "; ".join((f"{one.arm} " if len(comparisons) > 1 else "") + one.gain for one in comparisons)
        missing = confidence.LEAST - comparisons[0].pairs
        if missing > 0:
            return f"{head}{told}; so far {so_far}, {count(missing, 'pair')} until an interval"
        more = [one.to_width for one in comparisons]
        pace = sum(one["seconds"] for one in self._result.pairs) / max(1, comparisons[0].pairs)
        left = max(0.0, self._until - now)
        if all(number is not None for number in more):
            left = min(left, pace * max(number for number in more if number is not None))
        return f"{head}{told}; so far {so_far}" + (f", {clock(left)} left" if left else "")
