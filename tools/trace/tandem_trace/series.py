"""From the packets of a flow to what a plot shows: numbers over time, marks with reasons. Pure."""

from __future__ import annotations

from typing import Any, Iterable

Point = tuple[float, float]
MOST_POINTS = 6000  # of a line; a screen has fewer columns
MOST_MARKS = 4000  # of a kind


class Unwrapped:
    """32-bit numbers as distances from the first one, without wrap."""

    def __init__(self) -> None:
        self.first: int | None = None
        self.last = 0

    def __call__(self, raw: int) -> int:
        if self.first is None:
            self.first = raw
        ahead = (raw - self.first - self.last) & 0xFFFFFFFF
        value = self.last + (ahead - (1 << 32) if ahead >= 1 << 31 else ahead)
        self.last = max(self.last, value)
        return value


class Thinned:
    """At most about MOST_POINTS points of a line: of each stretch of time the first, the smallest, the largest and the last. Stretches double when there are too many."""

    def __init__(self, most: int = MOST_POINTS) -> None:
        self.most = max(1, most // 4)
        self.width = 1e-4
        self.stretches: dict[int, list[Point]] = {}

    def add(self, at: float, value: float) -> None:
        self._put(at, value)
        while len(self.stretches) > self.most:
            self.width *= 2
            old, self.stretches = self.stretches, {}
            for points in old.values():
                for point in points:
                    self._put(*point)

    def _put(self, at: float, value: float) -> None:
        point = (at, value)
        points = self.stretches.setdefault(int(at / self.width), [point])
        if points[-1] != point:
            points.append(point)
        if len(points) > 16:
            self._trim(points)

    @staticmethod
    def _trim(points: list[Point]) -> None:
        by_value = [min(points, key=lambda p: p[1]), max(points, key=lambda p: p[1])]
        points[:] = sorted({points[0], *by_value, points[-1]})

    def points(self) -> list[Point]:
        for points in self.stretches.values():
            self._trim(points)
        return [point for key in sorted(self.stretches) for point in self.stretches[key]]


class Marks:
    """Events worth a mark each. Of too many every second is left out, evenly, and counted."""

    def __init__(self, most: int = MOST_MARKS) -> None:
        self.most, self.step, self.count, self.kept = most, 1, 0, []

    def add(self, *mark: Any) -> None:
        if self.count % self.step == 0:
            self.kept.append(mark)
        self.count += 1
        if len(self.kept) > self.most:
            self.kept = self.kept[::2]
            self.step *= 2


class Series:
    """Feed it packets; `told` is what the page and the picture are made of. Times are seconds since the start of the recording."""

    LINES = ("data", "ack", "edge", "rtt", "window", "rate")
    MARKS = ("repeated", "sack", "injected", "edited", "dropped", "request", "cell")

    def __init__(self, first_ns: int, slot: float = 0.1) -> None:
        self.first_ns, self.slot = first_ns, slot
        self.lines = {name: Thinned() for name in self.LINES}
        self.marks = {name: Marks() for name in self.MARKS}
        self.number = Unwrapped()
        self.highest = 0
        self.shift: int | None = None
        self.offered: int | None = None
        self.left: dict[int, float] = {}
        self.arrived: dict[int, int] = {}
        self.packets = 0

    def take(self, packet: dict[str, Any]) -> None:
        tcp = packet.get("tcp")
        if tcp is None:
            return
        self.packets += 1
        at = (packet["time_ns"] - self.first_ns) * 1e-9
        way = self._arrives if packet["way"] == "in" else self._leaves
        way(at, packet, tcp)

    def _arrives(self, at: float, packet: dict[str, Any], tcp: dict[str, Any]) -> None:
        if "S" in tcp["flags"]:
            self.number((tcp["seq"] + 1) & 0xFFFFFFFF)
            self.shift = self.offered if "scale" in tcp and self.offered is not None else 0
            return
        if "ts" in tcp and (sent := self.left.pop(tcp["ts"][1], None)) is not None:
            self.lines["rtt"].add(at, (at - sent) * 1e3)
        if not tcp["length"]:
            return
        begin = self.number(tcp["seq"])
        end = begin + tcp["length"]
        if end <= self.highest or begin < self.highest:
            self.marks["repeated"].add(at, begin, end, packet["number"])
        else:
            self.lines["data"].add(at, end)
        self.arrived[int(at / self.slot)] = self.arrived.get(int(at / self.slot), 0) + tcp["length"]
        self.highest = max(self.highest, end)

    def _leaves(self, at: float, packet: dict[str, Any], tcp: dict[str, Any]) -> None:
        what, why = packet["disposition"], packet["why"]
        if "S" in tcp["flags"]:
            self.offered = tcp.get("scale")
            return
        left = packet.get("after_tcp", tcp)
        if "." not in tcp["flags"]:
            return
        ack = self.number(left["ack"])
        window = left["window"] << (self.shift or 0)
        if tcp["length"]:
            self.marks["request"].add(at, ack, tcp["length"], packet["number"])
        if what in ("injected", "edited", "dropped"):
            self.marks[what].add(at, ack, packet.get("change") or why, why, packet["number"])
        if what == "dropped":
            return
        if "cell" in (packet.get("after_link"), packet["link"] if what == "injected" else None):
            self.marks["cell"].add(at, ack, packet["number"])
        if "ts" in left and len(self.left) < 100_000:
            self.left.setdefault(left["ts"][0], at)
        self.lines["ack"].add(at, ack)
        if self.shift is not None:
            self.lines["edge"].add(at, ack + window)
            self.lines["window"].add(at, window)
        for begin, end in left.get("sack", []):
            self.marks["sack"].add(at, self.number(begin), self.number(end), packet["number"])

    def told(self) -> dict[str, Any]:
        rate, before = self.lines["rate"], None
        for index in sorted(self.arrived):
            # A pause is zero at both its ends, however long it is: a clock that was set makes it years.
            for silent in sorted({before + 1, index - 1}) if before is not None and index - before > 1 else ():
                rate.add(silent * self.slot, 0.0)
            rate.add(index * self.slot, self.arrived[index] * 8e-6 / self.slot)
            before = index
        return {
            "lines": {name: line.points() for name, line in self.lines.items()},
            "marks": {name: marks.kept for name, marks in self.marks.items()},
            "left_out": {name: marks.count - len(marks.kept) for name, marks in self.marks.items() if marks.count > len(marks.kept)},
            "packets": self.packets,
        }


def of_packets(packets: Iterable[dict[str, Any]], first_ns: int) -> dict[str, Any]:
    series = Series(first_ns)
    for packet in packets:
        series.take(packet)
    return series.told()


def spans(moments: list[dict[str, Any]], what: str, value: bool, begin: float, end: float) -> list[Point]:
    """When a member was this, from `begin` to `end`. Before the first moment nothing is known."""
    found: list[Point] = []
    for now, after in zip(moments, [*moments[1:], None]):
        start, stop = max(begin, now["at_s"]), min(end, after["at_s"] if after else end)
        if now[what] is not value or stop <= start:
            continue
        if found and found[-1][1] == start:
            found[-1] = (found[-1][0], stop)
        else:
            found.append((start, stop))
    return found


def of_links(story: dict[str, Any]) -> dict[str, Any]:
    """Of the Wi-Fi link while the flow lasted, as `explain` tells it of a recording of the daemon: its signal, when it was down, when that was predicted."""
    begin, end = story["begin_s"], story["end_s"]
    moments = [one for one in story.get("links", []) if one["link"] == "wifi"]
    signal, held = Thinned(), None
    for one in moments:
        if one["at_s"] < begin:
            held = one.get("signal_dbm")
            continue
        if held is not None:
            signal.add(begin, held)
            held = None
        if one["at_s"] <= end and "signal_dbm" in one:
            signal.add(one["at_s"], one["signal_dbm"])
    if held is not None:
        signal.add(begin, held)
    return {"signal": signal.points(), "down": spans(moments, "up", False, begin, end), "risk": spans(moments, "at_risk", True, begin, end)}
