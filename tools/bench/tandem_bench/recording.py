"""Reads the daemon's flight recorder (GET /v1/recording, pcapng): which packet of the client left when, and what was decided about it. Pure."""

from __future__ import annotations

import ipaddress
import re
import struct
from dataclasses import dataclass

from tandem_common.pcapng import COMMENT, FLAGS, PACKET, SECTION, options

_MAGIC = 0x1A2B3C4D
_OUTBOUND = 2
_WAS = "was: "


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
    if len(data) < 28 or struct.unpack_from("<I", data)[0] != SECTION or struct.unpack_from("<I", data, 8)[0] != _MAGIC:
        raise Unreadable(f"{len(data)} bytes that are no pcapng section of this machine's byte order")
    found: list[Ack] = []
    offset = 0.0
    place = 0
    while place + 12 <= len(data):
        kind, length = struct.unpack_from("<II", data, place)
        if length < 12 or place + length > len(data):
            break
        if kind == SECTION:
            for code, value in options(data, place + 24, place + length - 4):
                if code == COMMENT and (match := re.search(rb"realtime offset ns: (-?\d+)", value)):
                    offset = int(match[1]) * 1e-9
        elif kind == PACKET and (ack := _packet(data, place, length, offset)):
            found.append(ack)
        place += length
    return found


def _packet(data: bytes, place: int, length: int, offset: float) -> Ack | None:
    high, low, kept = struct.unpack_from("<III", data, place + 12)
    begin = place + 28
    comment, was, flags = "", "", 0
    for code, value in options(data, begin + (kept + 3 & ~3), place + length - 4):
        if code == COMMENT:
            text = value.decode(errors="replace")
            if text.startswith(_WAS):
                was = text
            else:
                comment = text
        elif code == FLAGS:
            flags = struct.unpack("<I", value)[0]
    if flags & 3 != _OUTBOUND or comment == "observed":
        return None
    at = (high << 32 | low) * 1e-9 - offset
    return _segment(before(data[begin:begin + kept], was), at, comment)


def before(packet: bytes, was: str) -> bytes:
    """The packet before it was edited, by the second comment of an edited one: "was: LINK OFFSET:BYTES ..." (src/trace/original.h). Raises Unreadable."""
    original = bytearray(packet)
    for item in was.split()[2:]:
        offset, _, digits = item.partition(":")
        try:
            place, old = int(offset), bytes.fromhex(digits)
        except ValueError:
            raise Unreadable(f"a comment {was!r}, in which {item} is no OFFSET:BYTES") from None
        original[place:place + len(old)] = old
    return bytes(original[:len(packet)])


def _segment(data: bytes, at: float, comment: str) -> Ack | None:
    end = len(data)
    if end < 20:
        return None
    if data[0] >> 4 == 4 and data[9] == 6:
        tcp, address = 4 * (data[0] & 15), data[16:20]
    elif data[0] >> 4 == 6 and end >= 40 and data[6] == 6:
        tcp, address = 40, data[24:40]
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
