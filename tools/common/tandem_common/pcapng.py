"""Blocks of pcapng as the daemon writes it (src/trace/pcapng_writer.h): little endian. Pure."""

from __future__ import annotations

import struct
from typing import Iterator

SECTION, INTERFACE, PACKET = 0x0A0D0D0A, 1, 6
INPUT = 0x8054444D  # for local use: what entered the chain besides packets
COMMENT, FLAGS, DROP_COUNT = 1, 2, 4  # options; the last two of packets


def options(data: bytes, place: int, end: int | None = None) -> Iterator[tuple[int, bytes]]:
    """Those from a place of a block on, up to the length at the block's end (at `end`; the end of `data` when it is not given)."""
    if end is None:
        end = len(data) - 4
    while place + 4 <= end:
        code, length = struct.unpack_from("<HH", data, place)
        if code == 0:
            return
        yield code, data[place + 4:place + 4 + length]
        place += 4 + length + -length % 4
