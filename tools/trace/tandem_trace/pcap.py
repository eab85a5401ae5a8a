"""Packets out of a capture and into one that says no more than they do, comments of Tandem's included.

What is written is pcapng of link type RAW in nanoseconds; interfaces keep their names wifi, cell and other, everybody else's are left out.
"""

from __future__ import annotations

import json
import struct
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, Iterable, Iterator

from .errors import BadInput
from .reader import program

INTERFACES = ("wifi", "cell", "other")


def interface(name: str) -> int:
    return INTERFACES.index(name) if name in INTERFACES else len(INTERFACES) - 1


@dataclass
class Packet:
    """One packet, from the IP header on; an edited one as it left, with what it was before."""

    ip: bytes
    time_ns: int
    interface: int = 2
    comment: str = ""
    direction: int = 0  # pcapng: 1 in, 2 out
    before: bytes | None = None
    came_by: str = ""
    length: int = 0  # on the wire

    @classmethod
    def told(cls, line: dict[str, Any]) -> Packet:
        """Of a line of `tandem trace print --json --bytes`."""
        decision, edited = line["disposition"], "after_ip" in line
        return cls(bytes.fromhex(line["after_ip" if edited else "ip"]), line["time_ns"], interface(line["after_link" if edited else "link"]),
                   "" if decision == "-" else decision + (f": {line['why']}" if line["why"] else ""), {"in": 1, "out": 2}.get(line["direction"], 0),
                   bytes.fromhex(line["ip"]) if edited else None, line["link"], line["length"])


def differences(before: bytes, after: bytes) -> str:
    """As src/trace/original.cc writes them: " 28:000007d0 34:01f4"."""
    text, at, size = "", 0, min(len(before), len(after))
    while at < size:
        end = at
        while end < size and before[end] != after[end]:
            end += 1
        if end > at:
            text += f" {at}:{before[at:end].hex()}"
        at = end + 1
    return text


@dataclass
class Capture:
    fault: str = ""
    lines: Iterator[str] = iter(())

    def __iter__(self) -> Iterator[Packet]:
        for line in self.lines:
            yield Packet.told(json.loads(line))

    @staticmethod
    def block(out: BinaryIO, kind: int, body: bytes) -> None:
        size = struct.pack("<I", len(body) + 12)
        out.write(struct.pack("<I", kind) + size + body + size)

    @staticmethod
    def option(code: int, value: bytes) -> bytes:
        return struct.pack("<HH", code, len(value)) + value + b"\0" * (-len(value) % 4)

    def begin(self, out: BinaryIO) -> None:
        self.block(out, 0x0A0D0D0A, struct.pack("<IHHq", 0x1A2B3C4D, 1, 0, -1) + self.option(4, b"tandem trace anonymise") + self.option(0, b""))
        for name in INTERFACES:
            self.block(out, 1, struct.pack("<HHI", 101, 0, 0) + self.option(2, name.encode()) + self.option(9, b"\x09") + self.option(0, b""))

    def write(self, out: BinaryIO, packet: Packet, head: bytes, length: int, before: bytes | None) -> None:
        options = self.option(1, packet.comment.encode()) if packet.comment else b""
        if before is not None:
            options += self.option(1, f"was: {packet.came_by}{differences(before, head)}".encode())
        if packet.direction:
            options += self.option(2, struct.pack("<I", packet.direction))
        self.block(out, 6, struct.pack("<IIIII", packet.interface, packet.time_ns >> 32 & 0xFFFFFFFF, packet.time_ns & 0xFFFFFFFF, len(head), length)
                   + head + b"\0" * (-len(head) % 4) + options + self.option(0, b""))


@contextmanager
def opened(file: Path) -> Iterator[Capture]:
    """The packets as Tandem's own reader finds them: as they left, where they were edited. `fault` is told after the last one."""
    command = [program(), "trace", "print", "--bytes", "--json", str(file)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        first = process.stdout.readline()
        if not first and (fault := process.stderr.read().strip().removeprefix("tandem trace: ")):
            raise BadInput(fault)
        capture = Capture(lines=chain_of(first, process.stdout))
        yield capture
        capture.fault = process.stderr.read().strip().removeprefix(f"tandem trace: {file}: ")


def chain_of(first: str, rest: Iterable[str]) -> Iterator[str]:
    if first:
        yield first
        yield from rest
