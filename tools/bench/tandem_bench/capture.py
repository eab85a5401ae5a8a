"""Reads a packet capture: when which data of which download arrived. Pure; the capture itself is the lab's."""

from __future__ import annotations

import heapq
import struct
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

_MICRO, _NANO = 0xA1B2C3D4, 0xA1B23C4D
_SYN, _WRAP = 0x02, 1 << 32


class Unreadable(Exception):
    """The file is not what the lab captures; the text says in what."""


@dataclass
class Flow:
    """What arrived on one connection, in order of arrival. Times in seconds of the capture's clock, sequence numbers from 0 at the SYN + 1.

    arrivals    (time, first byte, byte behind the last, TSval or None) of every segment with payload, repeated data included
    progress    (time, bytes in order so far) after every arrival that moved it
    first_arrivals (time, length) of every segment that had not arrived before, in order or not
    """

    port: int
    arrivals: list[tuple[float, int, int, int | None]] = field(default_factory=list)
    progress: list[tuple[float, int]] = field(default_factory=list)
    first_arrivals: list[tuple[float, int]] = field(default_factory=list)
    in_order: int = 0
    repeated_bytes: int = 0  # payload that had arrived before
    _base: int | None = None
    _highest: int = 0
    _ahead: list[tuple[int, int]] = field(default_factory=list)  # heap of ranges beyond in_order

    def take(self, time: float, seq: int, length: int, syn: bool, tsval: int | None) -> None:
        """One segment from the server."""
        if syn:
            self._base = (seq + 1) % _WRAP
            return
        if self._base is None:  # the capture began later than the connection
            self._base = seq
        if length == 0:
            return
        near = (seq - self._base - self._highest) % _WRAP
        first = self._highest + (near - _WRAP if near >= _WRAP // 2 else near)
        last = first + length
        self._highest = max(self._highest, last)
        self.arrivals.append((time, first, last, tsval))
        before = self.in_order
        if last <= before or any(start <= first and last <= end for start, end in self._ahead):
            self.repeated_bytes += length
            return
        self.first_arrivals.append((time, length))
        if first > before:
            heapq.heappush(self._ahead, (first, last))
            return
        self.in_order = last
        while self._ahead and self._ahead[0][0] <= self.in_order:
            self.in_order = max(self.in_order, heapq.heappop(self._ahead)[1])
        self.progress.append((time, self.in_order))


@dataclass(frozen=True)
class Frame:
    """A captured TCP segment. Times in seconds of the capture's clock; TSval and SACK blocks as far as the frame was kept."""

    time: float
    source: int
    destination: int
    seq: int
    ack: int
    length: int  # of the payload, on the wire
    flags: int
    tsval: int | None
    sack: tuple[tuple[int, int], ...]


def read(path: Path) -> list[Flow]:
    """The connections of a capture of what a server's port sent, by the client's port."""
    flows: dict[int, Flow] = {}
    for frame in frames(path):
        flow = flows.get(frame.destination)
        if flow is None:
            flow = flows[frame.destination] = Flow(frame.destination)
        flow.take(frame.time, frame.seq, frame.length, bool(frame.flags & _SYN), frame.tsval)
    return [flows[port] for port in sorted(flows)]


def frames(path: Path) -> Iterator[Frame]:
    """The TCP segments of a capture. Ethernet, IPv4 and IPv6, as tcpdump writes it.

    Raises Unreadable for another format. A capture cut in its last packet counts up to there.
    """
    data = path.read_bytes()
    if len(data) < 24:
        raise Unreadable(f"{path}: {len(data)} bytes, not a capture")
    magic = struct.unpack_from("<I", data)[0]
    if magic not in (_MICRO, _NANO) or struct.unpack_from("<I", data, 20)[0] & 0xFFFF != 1:
        raise Unreadable(f"{path}: not a little-endian Ethernet capture")
    unit = 1e-9 if magic == _NANO else 1e-6
    header = struct.Struct("<IIII").unpack_from
    place, end = 24, len(data)
    while place + 16 <= end:
        seconds, fraction, kept, _whole = header(data, place)
        place += 16
        if place + kept > end:
            break
        frame = _segment(seconds + fraction * unit, data, place, kept)
        if frame is not None:
            yield frame
        place += kept


def _segment(time: float, data: bytes, start: int, kept: int) -> Frame | None:
    """One captured frame; None for anything but TCP."""
    kind = int.from_bytes(data[start + 12:start + 14], "big")
    ip = start + 14
    if kind == 0x0800 and data[ip + 9] == 6:
        tcp = ip + 4 * (data[ip] & 15)
        over = ip + int.from_bytes(data[ip + 2:ip + 4], "big")
    elif kind == 0x86DD and data[ip + 6] == 6:
        tcp = ip + 40
        over = tcp + int.from_bytes(data[ip + 4:ip + 6], "big")
    else:
        return None
    if tcp + 20 > start + kept:
        return None
    source, destination, seq, ack = struct.unpack_from(">HHII", data, tcp)
    options = tcp + 4 * (data[tcp + 12] >> 4)
    tsval, sack = _options(data, tcp + 20, min(options, start + kept))
    return Frame(time, source, destination, seq, ack, over - options, data[tcp + 13], tsval, sack)


def _options(data: bytes, place: int, end: int) -> tuple[int | None, tuple[tuple[int, int], ...]]:
    """TSval and SACK blocks."""
    tsval: int | None = None
    sack: tuple[tuple[int, int], ...] = ()
    while place + 1 < end:
        kind = data[place]
        if kind == 0:
            break
        if kind == 1:
            place += 1
            continue
        length = max(2, data[place + 1])
        if kind == 8 and place + 10 <= end:
            tsval = int.from_bytes(data[place + 2:place + 6], "big")
        elif kind == 5 and place + length <= end:
            sack = tuple(struct.unpack_from(">II", data, at) for at in range(place + 2, place + length - 7, 8))
        place += length
    return tsval, sack
