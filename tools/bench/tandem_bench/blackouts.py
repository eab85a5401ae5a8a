"""What a download did after each blackout, judged from what arrived at the client. Pure: same arrivals, same figures."""

from __future__ import annotations

import bisect
from dataclasses import dataclass
from typing import Any, Sequence

from .capture import Flow

WINDOW = 3.0  # seconds after link-up over which delivery is judged
_TICK = 0.001  # of a server's TSval clock
_SLACK = 0.001  # TSval is cut to whole ticks


@dataclass(frozen=True)
class Blackout:
    """One blackout as carried out; times in seconds on the arrivals' clock."""

    begin: float
    up: float

    @property
    def duration(self) -> float:
        return self.up - self.begin


class Delivered:
    """Bytes in order of one or more connections over time."""

    def __init__(self, flows: Sequence[Flow]):
        steps: list[tuple[float, int]] = []
        for flow in flows:
            before = 0
            for time, total in flow.progress:
                steps.append((time, total - before))
                before = total
        steps.sort()
        self.times = [time for time, _ in steps]
        self._sums = [0]
        for _, count in steps:
            self._sums.append(self._sums[-1] + count)

    def by(self, time: float) -> int:
        """Bytes in order up to and including that moment."""
        return self._sums[bisect.bisect_right(self.times, time)]

    def between(self, begin: float, end: float) -> int:
        return self.by(end) - self.by(begin)

    def longest_stall(self, begin: float, end: float) -> float:
        """Longest time without progress between two moments, in seconds."""
        inside = self.times[bisect.bisect_left(self.times, begin):bisect.bisect_right(self.times, end)]
        marks = [begin, *inside, end]
        return max(later - earlier for earlier, later in zip(marks, marks[1:]))

    def series(self, begin: float, end: float, step: float) -> list[int]:
        """Bytes since `begin` at begin, begin + step, ... for plots."""
        first = self.by(begin)
        return [self.by(begin + number * step) - first for number in range(int((end - begin) / step) + 1)]


def capacity(delivered: Delivered, begin: float, end: float, window: float = WINDOW) -> float:
    """Bytes that an undisturbed download delivers in `window` seconds: the median of the windows from begin to end, half a second apart."""
    counts = sorted(delivered.between(begin + 0.5 * number, begin + 0.5 * number + window)
                    for number in range(max(1, int((end - begin - window) / 0.5) + 1)))
    middle = len(counts) // 2
    return float(counts[middle]) if len(counts) % 2 else (counts[middle - 1] + counts[middle]) / 2


def sent_offset(flow: Flow, one_way: float) -> float | None:
    """Seconds to add to TSval x 1 ms for the moment at which the server sent a segment, not later than that moment.

    The segment that was under way for the shortest time took `one_way` seconds. None without timestamps.
    """
    least: float | None = None
    for time, _first, _last, tsval in flow.arrivals:
        if tsval is not None:
            behind = time - tsval * _TICK
            least = behind if least is None or behind < least else least
    return None if least is None else least - one_way


def after(flows: Sequence[Flow], delivered: Delivered, blackouts: Sequence[Blackout], end: float, rtt: float, buffered: bool,
          link_capacity: float) -> list[dict[str, Any]]:
    """One record per blackout.

    first_ms       first payload that arrived after link-up, of any connection
    fresh_ms       first payload that the server sent after link-up (by its TSval)
    data_ms        the one that counts: fresh_ms when the access point had held data back (`buffered`), first_ms otherwise
    held_ms        last payload before fresh_ms that the server had sent before link-up: until then the link was busy with what was withheld
    slowest_ms     data_ms of the connection that waited longest
    censored       nothing came until the next blackout (or the end); the times are then this long, and longer in truth
    bytes          new bytes in order in the 3 s after link-up
    bytes_any      new bytes of that time in any order: more than `bytes` where a hole held them back, less where one was filled that had
    share          the smaller of the two, of `link_capacity` bytes: what the link brought in that time and the application could use
    """
    offsets = {flow.port: sent_offset(flow, rtt / 2) for flow in flows}
    records: list[dict[str, Any]] = []
    for number, blackout in enumerate(blackouts):
        until = blackouts[number + 1].begin if number + 1 < len(blackouts) else end
        first: dict[int, float] = {}
        fresh: dict[int, float] = {}
        stale: list[float] = []
        for flow in flows:
            offset = offsets[flow.port]
            place = bisect.bisect_left(flow.arrivals, (blackout.up,))
            for time, _from, _to, tsval in flow.arrivals[place:]:
                if time > until:
                    break
                first.setdefault(flow.port, time - blackout.up)
                if tsval is None or offset is None or tsval * _TICK + offset >= blackout.up - _SLACK:
                    fresh[flow.port] = time - blackout.up
                    break
                stale.append(time - blackout.up)
        waited = until - blackout.up
        counted = fresh if buffered else first
        record = {
            "duration_s": round(blackout.duration, 4),
            "first_ms": 1e3 * min(first.values(), default=waited),
            "fresh_ms": 1e3 * min(fresh.values(), default=waited),
            "held_ms": 1e3 * max((time for time in stale if time < min(fresh.values(), default=waited)), default=0.0),
            "data_ms": 1e3 * min(counted.values(), default=waited),
            "slowest_ms": 1e3 * max((counted.get(flow.port, waited) for flow in flows), default=waited),
            "censored": not counted,
            "bytes": delivered.between(blackout.up, blackout.up + WINDOW),
            "bytes_any": sum(length for flow in flows for time, length in flow.first_arrivals if blackout.up < time <= blackout.up + WINDOW),
        }
        record["data_rtts"] = record["data_ms"] / (1e3 * rtt)
        record["share"] = min(record["bytes"], record["bytes_any"]) / link_capacity if link_capacity > 0 else 0.0
        records.append({key: round(value, 5) if isinstance(value, float) else value for key, value in record.items()})
    return records
