"""Reads the daemon's flight recorder (GET /v1/recording, pcapng): which packet of the client left when, and what was decided about it. Pure."""

from __future__ import annotations

import ipaddress
import re
import struct
from dataclasses import dataclass
from typing import Iterator

_SECTION, _PACKET = 0x0A0D0D0A, 6
_MAGIC = 0x1A2B3C4D
_COMMENT, _FLAGS = 1, 2
_OUTBOUND = 2


class Unreadable(Exception):
    """Not a recording of tandemd; the text says why."""


@dataclass(frozen=True)
class Ack:
    """A TCP packet that left the client (or was thinned), as it came from the kernel or was injected. `at` is CLOCK_MONOTONIC in seconds; `comment` is disposition, part and reason."""

    at: float
    server: str
    server_port: int
    port: int  # of the client
    ack: int
    sacked: tuple[tuple[int, int], ...]  # blocks above `ack`: a hole lies before them
    flags: int
    comment: str

    @property
    def flow(self) -> tuple[str, int, int]:
        return self.server, self.server_port, self.port


def acks(data: bytes) -> list[Ack]:
    """The client's packets, oldest first; of an edited one the packet as it was before. A recording cut in its last block counts up to there.

    Raises Unreadable.
    """
    if len(data) < 28 or struct.unpack_from("<I", data)[0] != _SECTION or struct.unpack_from("<I", data, 8)[0] != _MAGIC:
        raise Unreadable(f"{len(data)} bytes that are no pcapng section of this machine's byte order")
    found: list[Ack] = []
    offset = 0.0
    place = 0
    while place + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if length < 12 or place + length > len(data):
            break
        if kind == _SECTION:
            for code, value in _options(data, place + 24, place + length - 4):
                if code == _COMMENT and (match := re.search(rb"realtime offset ns: (-?\d+)", value)):
                    offset = int(match[1]) * 1e-9
        elif kind == _PACKET and (ack := _packet(data, place, length, offset)):
            found.append(ack)
        place += length
    return found


def _options(data: bytes, place: int, end: int) -> Iterator[tuple[int, bytes]]:
    while place + 4 <= end:
        code, length = struct.unpack_from("<HH", data, place)
        if code == 0:
            return
        yield code, data[place + 4:place + 4 + length]
        place += 4 + (length + 3 & ~3)


def _packet(data: bytes, place: int, length: int, offset: float) -> Ack | None:
    high, low, kept = struct.unpack_from("<III", data, place + 12)
    begin = place + 28
    comment, flags = "", 0
    for code, value in _options(data, begin + (kept + 3 & ~3), place + length - 4):
        if code == _COMMENT:
            comment = value.decode(errors="replace")
        elif code == _FLAGS:
            flags = struct.unpack("<I", value)[0]
    head, _, _ = comment.partition(": ")
    if flags & 3 != _OUTBOUND or head.endswith(", after"):
        return None
    at = (high << 32 | low) * 1e-9 - offset
    return _segment(data, begin, begin + kept, at, comment)


def _segment(data: bytes, ip: int, end: int, at: float, comment: str) -> Ack | None:
    if ip + 20 > end:
        return None
    if data[ip] >> 4 == 4 and data[ip + 9] == 6:
        tcp, address = ip + 4 * (data[ip] & 15), data[ip + 16:ip + 20]
    elif data[ip] >> 4 == 6 and ip + 40 <= end and data[ip + 6] == 6:
        tcp, address = ip + 40, data[ip + 24:ip + 40]
    else:
        return None
    if tcp + 20 > end:
        return None
    port, server_port, _seq, number = struct.unpack_from(">HHII", data, tcp)
    sacked: list[tuple[int, int]] = []
    option, options_end = tcp + 20, min(end, tcp + 4 * (data[tcp + 12] >> 4))
    while option + 1 < options_end:
        kind = data[option]
        if kind == 0:
            break
        if kind == 1:
            option += 1
            continue
        size = max(2, data[option + 1])
        if kind == 5:
            for block in range(option + 2, min(option + size, options_end) - 7, 8):
                first, last = struct.unpack_from(">II", data, block)
                if 0 < (first - number & 0xFFFFFFFF) < 1 << 31:  # at or below: a duplicate is reported (RFC 2883)
                    sacked.append((first, last))
        option += size
    return Ack(at, str(ipaddress.ip_address(address)), server_port, port, number, tuple(sacked), data[tcp + 13], comment)
