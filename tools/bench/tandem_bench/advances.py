"""What each ACK told a server at once, and what the server sent for it, from a capture there of both directions. Pure."""

from __future__ import annotations

from bisect import bisect_left, insort
from dataclasses import dataclass, field
from typing import Iterable

from .capture import Frame

_WRAP = 1 << 32
_FIN, _RST, _ACK = 0x01, 0x04, 0x10
_WHILE = 1e-3  # seconds that count as at once: what leaves within them stands in the queue of any path of these benches together
_SEGMENT = 1448  # bytes of a full segment with timestamps (Ethernet)


@dataclass
class Server:
    """A server that is told what of its data has arrived, by ACK numbers and SACK blocks together: what a block has told an ACK number over
    it does not tell again. Sequence numbers from 0 at the first byte of data.
    """

    told: int = 0  # highest ACK number
    blocks: list[tuple[int, int]] = field(default_factory=list)  # reported above it, in order, apart
    advances: list[tuple[float, int]] = field(default_factory=list)  # (time, bytes) of each ACK that told something
    sent: list[tuple[float, int]] = field(default_factory=list)  # (time, bytes) of each segment with payload
    repeated: int = 0  # bytes sent again
    over: bool = False
    base: int | None = None
    highest: int = 0

    def near(self, number: int) -> int:
        offset = (number - (self.base or 0) - self.highest) % _WRAP
        return self.highest + (offset - _WRAP if offset >= _WRAP // 2 else offset)

    def send(self, frame: Frame) -> None:
        if self.base is None:
            self.base = frame.seq
        first = self.near(frame.seq)
        self.sent.append((frame.time, frame.length))
        self.repeated += max(0, min(frame.length, self.highest - first))
        self.highest = max(self.highest, first + frame.length)

    def hear(self, frame: Frame) -> None:
        # A reset's number is none; with the client's FIN the download is over.
        self.over = self.over or bool(frame.flags & (_FIN | _RST))
        if self.base is None or self.over or not frame.flags & _ACK:
            return
        news = self._above(self.near(frame.ack))
        for left, right in frame.sack:
            news += self._block(self.near(left), self.near(right))
        if news > 0:
            self.advances.append((frame.time, news))

    def _above(self, ack: int) -> int:
        if ack <= self.told:
            return 0
        news = ack - self.told
        while self.blocks and self.blocks[0][0] < ack:
            left, right = self.blocks.pop(0)
            news -= min(right, ack) - left
            if right > ack:
                self.blocks.insert(0, (ack, right))
        self.told = ack
        return news

    def _block(self, left: int, right: int) -> int:
        left = max(left, self.told)
        if right <= left:  # a DSACK, or of an ACK that was overtaken
            return 0
        news = right - left
        place = max(0, bisect_left(self.blocks, (left, left)) - 1)
        while place < len(self.blocks) and self.blocks[place][0] <= right:
            if self.blocks[place][1] < left:
                place += 1
                continue
            first, last = self.blocks.pop(place)
            news -= max(0, min(last, right) - max(first, left))
            left, right = min(left, first), max(right, last)
        insort(self.blocks, (left, right))
        return news


def watch(frames: Iterable[Frame], port: int = 80) -> Server:
    """The connection that sent most from `port`."""
    servers: dict[int, Server] = {}
    for frame in frames:
        if frame.source == port and frame.length > 0:
            servers.setdefault(frame.destination, Server()).send(frame)
        elif frame.destination == port and frame.source in servers:
            servers[frame.source].hear(frame)
    return max(servers.values(), key=lambda server: server.highest, default=Server())


def most_at_once(events: Iterable[tuple[float, int]]) -> float:
    """The most bytes within a millisecond, as full segments."""
    best, total = 0, 0
    window: list[tuple[float, int]] = []
    first = 0
    for time, size in events:
        window.append((time, size))
        total += size
        while window[first][0] < time - _WHILE:
            total -= window[first][1]
            first += 1
        best = max(best, total)
    return best / _SEGMENT


def details(server: Server) -> dict[str, float]:
    """For a run: in segments, what one ACK told at most, what was told within a millisecond at most, and sent; p99.9 of ACKs; repeated bytes."""
    sizes = sorted(size for _, size in server.advances)
    largest = max(server.advances, key=lambda advance: advance[1], default=(0.0, 0))
    burst = sum(size for time, size in server.sent if largest[0] <= time <= largest[0] + _WHILE)
    return {"largest_advance": round(largest[1] / _SEGMENT, 1), "burst_after": round(burst / _SEGMENT, 1),
            "advance_p999": round(sizes[int(0.999 * (len(sizes) - 1))] / _SEGMENT, 1) if sizes else 0.0,
            "told_at_once": round(most_at_once(server.advances), 1), "sent_at_once": round(most_at_once(server.sent), 1), "acks": len(sizes), "repeated_segments": round(server.repeated / _SEGMENT)}
