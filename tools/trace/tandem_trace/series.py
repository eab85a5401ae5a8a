"""From the packets of a flow to what a plot shows: numbers over time, marks with reasons. Pure."""

from __future__ import annotations

from typing import Any, Iterable

Point = tuple[float, ...]  # time, value, and what else is told of it
MOST_POINTS = 6000  # of a line; a screen has fewer columns
MOST_MARKS = 4000  # of a kind
MOST_ECHOES = 100_000  # clock values that wait for their echo; the oldest give way, since many are never echoed


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

    def add(self, at: float, value: float, *more: float) -> None:
        self._put(at, value, *more)
        while len(self.stretches) > self.most:
            self.width *= 2
            old, self.stretches = self.stretches, {}
            for points in old.values():
                for point in points:
                    self._put(*point)

    def _put(self, at: float, value: float, *more: float) -> None:
        point = (at, value, *more)
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


class Holes:
    """What is missing below the highest byte, with the sender's clock of the segment that first came behind it. Of very many the latest."""

    MOST = 256

    def __init__(self) -> None:
        self.open: list[tuple[int, int, int | None]] = []

    def add(self, begin: int, end: int, clock: int | None) -> None:
        self.open.append((begin, end, clock))
        del self.open[:-self.MOST]

    def fill(self, begin: int, end: int, clock: int | None) -> str:
        """What a segment below the highest byte is: `duplicate` when nothing of it was missing, `reordered` when it was sent before what came ahead of it, else `repeated`."""
        touched = [hole for hole in self.open if hole[0] < end and begin < hole[1]]
        if not touched:
            return "duplicate"
        rest = [(first, last, of) for left, right, of in touched for first, last in ((left, min(right, begin)), (max(left, end), right)) if first < last]
        self.open = sorted([hole for hole in self.open if hole not in touched] + rest, key=lambda hole: hole[:2])
        return "reordered" if all(_not_after(clock, of) for *_, of in touched) else "repeated"


def _not_after(clock: int | None, other: int | None) -> bool:
    """By RFC 7323 clocks, which wrap."""
    return clock is not None and other is not None and (other - clock) & 0xFFFFFFFF < 1 << 31


class Series:
    """Feed it packets; `told` is what the page and the picture are made of. Times are seconds since the start of the recording. `upload`: the data is what the laptop sends."""

    LINES = ("data", "ack", "edge", "rtt", "window", "rate", "flight")
    MARKS = ("repeated", "reordered", "duplicate", "sack", "dsack", "dup_ack", "zero_window", "control", "ecn", "push", "injected", "edited", "dropped", "request", "cell")

    def __init__(self, first_ns: int, slot: float = 0.1, upload: bool = False) -> None:
        self.first_ns, self.slot, self.upload = first_ns, slot, upload
        self.lines = {name: Thinned() for name in self.LINES}
        self.marks = {name: Marks() for name in self.MARKS}
        self.number = Unwrapped()
        self.holes = Holes()
        self.highest = 0
        self.scales: dict[str, int | None] = {}  # offered by the SYN of each way
        self.left: dict[int, float] = {}
        self.carried: dict[int, int] = {}
        self.last_ack: tuple[int, int] | None = None  # with its window
        self.same_acks = 0
        self.sampled = False  # copies of some of the data
        self.packets = 0

    def take(self, packet: dict[str, Any]) -> None:
        tcp = packet.get("tcp")
        if tcp is None:
            return
        self.packets += 1
        at, arrives = (packet["time_ns"] - self.first_ns) * 1e-9, packet["way"] == "in"
        self.sampled = self.sampled or packet["disposition"] == "observed"
        sent = tcp if arrives else packet.get("after_tcp", tcp)
        carries = arrives != self.upload
        if "S" in tcp["flags"]:
            self.scales[packet["way"]] = tcp.get("scale")
            if carries:
                self.number((tcp["seq"] + 1) & 0xFFFFFFFF)
        elif arrives:
            if "ts" in tcp and (left := self.left.pop(tcp["ts"][1], None)) is not None:
                self.lines["rtt"].add(at, (at - left) * 1e3)
        elif "ts" in sent and packet["disposition"] != "dropped":
            self.left.setdefault(sent["ts"][0], at)
            if len(self.left) > MOST_ECHOES:
                del self.left[next(iter(self.left))]
        if "S" not in tcp["flags"]:
            self._decision(at, packet, sent)
            if packet["disposition"] != "dropped":
                (self._data if carries else self._answer)(at, packet, sent)
        self._signs(at, packet, sent, carries)

    def _place(self, tcp: dict[str, Any], carries: bool) -> int:
        """Where it stands among the bytes of the data."""
        return self.number(tcp["seq"] if carries else tcp["ack"])

    def _signs(self, at: float, packet: dict[str, Any], tcp: dict[str, Any], carries: bool) -> None:
        flags = tcp["flags"]
        whose = "the laptop's" if packet["way"] == "out" else "the server's"
        if words := [word for letter, word in (("S", "SYN"), ("F", "FIN"), ("R", "RST")) if letter in flags]:
            self.marks["control"].add(at, self.highest, f"{whose} {' '.join(words)}", "", packet["number"])
        # On SYNs these flags ask whether ECN is wanted, and tell of no congestion.
        if "S" not in flags and (words := [word for there, word in ((tcp.get("ecn") == "ce", "CE"), ("E" in flags, "ECE"), ("W" in flags, "CWR")) if there]):
            self.marks["ecn"].add(at, self._place(tcp, carries), f"{whose} {' '.join(words)}", "", packet["number"])

    def _decision(self, at: float, packet: dict[str, Any], tcp: dict[str, Any]) -> None:
        if packet["way"] == "in" or "." not in tcp["flags"]:
            return
        what, why, place = packet["disposition"], packet["why"], self._place(tcp, self.upload)
        if what in ("injected", "edited", "dropped"):
            self.marks[what].add(at, place, packet.get("change") or why, why, packet["number"])
        if what != "dropped" and "cell" in (packet.get("after_link"), packet["link"] if what == "injected" else None):
            self.marks["cell"].add(at, place, packet["number"])

    def _data(self, at: float, packet: dict[str, Any], tcp: dict[str, Any]) -> None:
        if not tcp["length"]:
            return
        begin = self.number(tcp["seq"])
        end, clock = begin + tcp["length"], tcp["ts"][0] if "ts" in tcp else None
        if begin < self.highest:
            kind = self.holes.fill(begin, min(end, self.highest), clock)
            # Of copies some are missing: what was not seen may have arrived.
            self.marks["repeated" if self.sampled or (kind == "duplicate" and (self.upload or end > self.highest)) else kind].add(at, begin, end, packet["number"])
        else:
            if begin > self.highest:
                self.holes.add(self.highest, begin, clock)
            self.lines["data"].add(at, end, begin)
            if "P" in tcp["flags"]:
                self.marks["push"].add(at, end, packet["number"])
        self.carried[int(at / self.slot)] = self.carried.get(int(at / self.slot), 0) + tcp["length"]
        self.highest = max(self.highest, end)
        self._flight(at)

    def _answer(self, at: float, packet: dict[str, Any], tcp: dict[str, Any]) -> None:
        if "." not in tcp["flags"]:
            return
        ack = self.number(tcp["ack"])
        if tcp["length"]:
            self.marks["request"].add(at, ack, tcp["length"], packet["number"])
        if not tcp["window"]:
            self.marks["zero_window"].add(at, ack, packet["number"])
        same = self.last_ack is not None and ack == self.last_ack[0] and (tcp["window"] == self.last_ack[1] or "sack" in tcp)
        if same and not tcp["length"] and not {"F", "R"} & set(tcp["flags"]):
            self.same_acks += 1
            self.marks["dup_ack"].add(at, ack, self.same_acks, packet["number"])
        else:
            self.same_acks = 0
        self.last_ack = ack, tcp["window"]
        self.lines["ack"].add(at, ack)
        if len(self.scales) == 2:
            shift = 0 if None in self.scales.values() else self.scales[packet["way"]]
            self.lines["edge"].add(at, ack + (tcp["window"] << shift))
            self.lines["window"].add(at, tcp["window"] << shift)
        blocks = [(self.number(begin), self.number(end)) for begin, end in tcp.get("sack", [])]
        for place, (begin, end) in enumerate(blocks):
            # RFC 2883: the first block tells of what came twice when it is below the ACK number, or within the second.
            twice = place == 0 and (end <= ack or (len(blocks) > 1 and blocks[1][0] <= begin and end <= blocks[1][1]))
            self.marks["dsack" if twice else "sack"].add(at, begin, end, packet["number"])
        self._flight(at)

    def _flight(self, at: float) -> None:
        """What the laptop has sent and the server has not acknowledged; what the server has under way is not known here."""
        if self.upload and self.last_ack is not None:
            self.lines["flight"].add(at, max(0, self.highest - self.last_ack[0]))

    def told(self) -> dict[str, Any]:
        rate, before = self.lines["rate"], None
        for index in sorted(self.carried):
            # A pause is zero at both its ends, however long it is: a clock that was set makes it years.
            for silent in sorted({before + 1, index - 1}) if before is not None and index - before > 1 else ():
                rate.add(silent * self.slot, 0.0)
            rate.add(index * self.slot, self.carried[index] * 8e-6 / self.slot)
            before = index
        return {
            "lines": {name: line.points() for name, line in self.lines.items()},
            "marks": {name: marks.kept for name, marks in self.marks.items()},
            "left_out": {name: marks.count - len(marks.kept) for name, marks in self.marks.items() if marks.count > len(marks.kept)},
            "packets": self.packets,
            "upload": self.upload,
        }


def of_packets(packets: Iterable[dict[str, Any]], first_ns: int, upload: bool = False) -> dict[str, Any]:
    series = Series(first_ns, upload=upload)
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
