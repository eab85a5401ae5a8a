"""What the running daemon records, look by look: each packet once, however often looks repeat.

A recording states how many packets and entries the recorder had before the first one in it (src/trace/pcapng_writer.h), and each entry is one block: so
it is known what is new, and what was overwritten between two looks.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass, field
from typing import Iterator

from tandem_common.errors import Failure
from tandem_common.pcapng import COMMENT, DROP_COUNT, INPUT, INTERFACE, PACKET, SECTION, options

_DAMAGED = "the daemon's recording is damaged: tandem and tandemd may be of different versions"


@dataclass(frozen=True)
class Block:
    kind: int
    raw: bytes


def blocks(recording: bytes) -> Iterator[Block]:
    """Of a pcapng file as the daemon writes it: little endian, times in nanoseconds. Raises Failure for anything else."""
    at = 0
    while at < len(recording):
        kind, length = struct.unpack_from("<II", recording, at) if at + 12 <= len(recording) else (0, 0)
        if length < 12 or length % 4 or at + length > len(recording) or (at == 0 and kind != SECTION):
            raise Failure(_DAMAGED)
        yield Block(kind, recording[at:at + length])
        at += length


def packet(raw: bytes) -> bytes:
    """The bytes kept of a packet block's packet, from the IP header on."""
    return raw[28:28 + struct.unpack_from("<I", raw, 20)[0]]


def comment(raw: bytes) -> str:
    """A packet's decision and reason, "edited: freeze: ACK withheld"; the first of its comments."""
    kept = struct.unpack_from("<I", raw, 20)[0]
    return next((text.decode(errors="replace") for code, text in options(raw, 28 + kept + -kept % 4) if code == COMMENT), "")


def with_drop_count(raw: bytes, lost: int) -> bytes:
    """The packet block with the number of packets that are missing before it."""
    kept = struct.unpack_from("<I", raw, 20)[0]
    at = 28 + kept + -kept % 4
    size = struct.pack("<I", len(raw) + 12)
    return raw[:4] + size + raw[8:at] + struct.pack("<HHQ", DROP_COUNT, 8, lost) + raw[at:-4] + size


@dataclass(frozen=True)
class _Head:
    seed: str  # another one after a restart
    offset_ns: int  # from the daemon's clock to the time since 1970, as it was at this look
    packets: int
    entries: int

    @classmethod
    def of(cls, raw: bytes) -> _Head:
        told = next((text.decode(errors="replace") for code, text in options(raw, 24) if code == COMMENT), "")
        lines = dict(line.split(": ", 1) for line in told.splitlines() if ": " in line)
        try:
            return cls(lines["seed"], int(lines["realtime offset ns"]), int(lines["packets before"]), int(lines["entries before"]))
        except (KeyError, ValueError):
            raise Failure(_DAMAGED) from None


@dataclass
class News:
    """What a look brought. `head` is to be written before the rest; all times are by the clocks of the first look."""

    head: bytes = b""
    entries: list[Block] = field(default_factory=list)  # packets and inputs of the chain, in their order
    lost: int = 0  # packets that are missing before the first one of these
    lost_inputs: int = 0
    restarted: bool = False  # it is another recorder: nothing of this look is told; ask for all


class Looks:
    """What is new in each recording. Pure: who uses it asks for target()."""

    def __init__(self, since_s: float | None = None) -> None:
        """Begins with what the recorder has, or with its last `since_s` seconds."""
        self._first = "/v1/recording" + (f"?last_s={since_s}" if since_s else "")
        self._seed = ""
        self._packets = self._entries = self._offset_ns = self._lost = 0
        self._known: dict[bytes, int] = {}  # interfaces as they were described, and their numbers in what was told
        self._section_told = self._begun = False

    @property
    def begun(self) -> bool:
        return self._section_told

    def target(self) -> str:
        """What to ask the daemon for."""
        return f"/v1/recording?after={self._entries}" if self._begun else self._first

    def news(self, recording: bytes) -> News:
        told = list(blocks(recording))
        if not told:
            raise Failure(_DAMAGED)
        head = _Head.of(told[0].raw)
        if self._begun and (head.seed != self._seed or head.entries < self._entries):
            self._begun, self._first = False, "/v1/recording"
            return News(restarted=True)
        news = News()
        if self._begun:
            self._lost += head.packets - self._packets
            news.lost_inputs = head.entries - self._entries - (head.packets - self._packets)
        self._begun, self._seed, self._packets, self._entries = True, head.seed, head.packets, head.entries
        if not self._section_told:
            self._section_told, self._offset_ns, news.head = True, head.offset_ns, told[0].raw
        heads, numbers = [news.head], []
        for block in told:
            if block.kind == INTERFACE:
                if block.raw not in self._known:
                    self._known[block.raw] = len(self._known)
                    heads.append(block.raw)
                numbers.append(self._known[block.raw])
            elif block.kind == PACKET:
                news.entries.append(Block(PACKET, self._placed(block.raw, numbers, self._offset_ns - head.offset_ns)))
                self._packets += 1
            elif block.kind == INPUT:
                news.entries.append(block)
        news.head = b"".join(heads)
        self._entries += len(news.entries)
        if self._packets > head.packets:
            news.lost, self._lost = self._lost, 0
        return news

    @staticmethod
    def _placed(raw: bytes, numbers: list[int], later_ns: int) -> bytes:
        """With the interface's number in what was told, and the time by the clocks of the first look."""
        number, high, low = struct.unpack_from("<III", raw, 8)
        if number >= len(numbers):
            raise Failure(_DAMAGED)
        time_ns = (high << 32 | low) + later_ns
        return raw[:8] + struct.pack("<III", numbers[number], time_ns >> 32, time_ns & 0xFFFFFFFF) + raw[20:]
