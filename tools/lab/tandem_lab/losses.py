"""The truth about losses: every TCP packet that the emulator lost or marked, as it wrote them down (DIR/losses.bin)."""

from __future__ import annotations

import ipaddress
import struct
from dataclasses import dataclass
from pathlib import Path

from .errors import LabError

MAGIC = b"tandem-losses 1\n"
_RECORD = struct.Struct("=qIIIIIHHHBBBBBB16s16s")
# What the emulator's DropReason says, in the words of its statistics.
_REASONS = ("queue_full", "retry_limit", "loss", "blackout", "not_associated", "aqm", "policed")
_MARKED, _REPAIRED = 255, 254
# Losses that a queue's overflow, its AQM or a policer caused; the others say nothing about congestion.
CONGESTION = frozenset(("queue_full", "aqm", "policed", "marked"))


@dataclass(frozen=True)
class Loss:
    """One packet. `at` is time.monotonic() at the moment of the loss (a mark: of the arrival)."""

    at: float
    reason: str  # queue_full, retry_limit, loss (random or bursty), blackout, not_associated, aqm, policed, marked
    link: str  # "wifi", "cell", or the server whose WAN pipe it was
    down: bool  # towards the client
    source: str
    source_port: int
    destination: str
    destination_port: int
    seq: int
    ack: int
    length: int  # payload bytes
    flags: int  # of TCP
    tsval: int  # 0 without timestamps
    queued: int  # packets that waited at that place
    queued_bytes: int

    @property
    def end(self) -> int:
        """Sequence number behind the payload."""
        return (self.seq + self.length) & 0xFFFFFFFF

    @property
    def congestion(self) -> bool:
        return self.reason in CONGESTION


@dataclass(frozen=True)
class Repair:
    """Lost data that the client has acknowledged since. `after` is the seconds from its first loss to that acknowledgement leaving the client."""

    at: float
    after: float
    reason: str  # of the first loss
    source: str
    source_port: int
    destination_port: int
    seq: int
    length: int


def read(path: Path, servers: list[str]) -> tuple[list[Loss], list[Repair]]:
    """All records of the file, oldest first; `servers` are the names of the scenario's servers in order.

    Raises LabError when the file is none that this emulator writes. A record under way is left for the next reading.
    """
    data = path.read_bytes()
    if data[:len(MAGIC)] != MAGIC:
        raise LabError(f"{path}: not a log of losses; is tandem-air of the same version as the lab?")
    links = ("wifi", "cell", *servers)
    found: list[Loss] = []
    repairs: list[Repair] = []
    whole = len(data) // _RECORD.size * _RECORD.size
    for at, seq, ack, tsval, queued, queued_bytes, length, sport, dport, flags, version, what, link, down, why, source, destination \
            in _RECORD.iter_unpack(data[_RECORD.size:whole]):
        width = 4 if version == 4 else 16
        if what == _REPAIRED:
            repairs.append(Repair(at / 1e9, queued_bytes / 1e6, _REASONS[why], str(ipaddress.ip_address(source[:width])), sport, dport, seq, length))
            continue
        found.append(Loss(at / 1e9, "marked" if what == _MARKED else _REASONS[what], links[link], bool(down),
                          str(ipaddress.ip_address(source[:width])), sport, str(ipaddress.ip_address(destination[:width])), dport,
                          seq, ack, length, flags, tsval, queued, queued_bytes))
    return found, repairs
