"""TCP packets of a capture made on all interfaces of a place at once (pcap, link type LINUX_SLL2, headers only). Pure."""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Iterator, Mapping

FIN, SYN, RST, ACK = 1, 2, 4, 16
LINK_TYPE = 276  # LINUX_SLL2: which interface, and which way
_OUTGOING = 4  # sll2_pkttype, as PACKET_OUTGOING
_MPTCP, _TIMESTAMPS, _SACK = 30, 8, 5  # TCP options
_MP_CAPABLE, _MP_JOIN = 0, 1  # RFC 8684


class Unreadable(Exception):
    """Not a capture of that kind."""


@dataclass(frozen=True)
class Packet:
    """One segment. Time in seconds of the wall clock; `out`: it left the place where it was captured."""

    time: float
    interface: str
    out: bool
    source: str
    source_port: int
    to: str
    to_port: int
    seq: int
    ack: int
    flags: int
    length: int
    ts_value: int | None = None
    mptcp: bytes = b""  # the option, as a whole
    window: int = 0  # unscaled
    sack: bytes = b""  # the option, as a whole

    @property
    def reset(self) -> bool:
        return bool(self.flags & RST)

    def same_segment(self, other: Packet) -> bool:
        """Whether both are one segment, wherever seen: a NAT changes addresses and ports, and nothing else of these."""
        return self._kept == other._kept

    @property
    def _kept(self) -> tuple[object, ...]:
        return self.seq, self.ack, self.flags, self.length, self.ts_value, self.window, self.sack


def read(data: bytes, interfaces: Mapping[int, str]) -> Iterator[Packet]:
    """The segments of a pcap file, in its order. `interfaces`: their names by number. One that is cut in its last packet counts up to there."""
    if len(data) < 24 or struct.unpack_from("<I", data)[0] != 0xA1B2C3D4 or struct.unpack_from("<I", data, 20)[0] & 0xFFFF != LINK_TYPE:
        raise Unreadable("not a little-endian capture of link type LINUX_SLL2")
    at = 24
    while at + 16 <= len(data):
        seconds, microseconds, kept, _ = struct.unpack_from("<IIII", data, at)
        at += 16
        if at + kept > len(data):
            return
        if (packet := _segment(seconds + microseconds * 1e-6, data[at:at + kept], interfaces)) is not None:
            yield packet
        at += kept


def _segment(time: float, frame: bytes, interfaces: Mapping[int, str]) -> Packet | None:
    """None for anything but TCP, and for what was captured too short."""
    if len(frame) < 60:
        return None
    protocol, number, kind = struct.unpack_from("!H2xI2xB", frame)
    ip = frame[20:]
    if protocol == 0x0800 and ip[9] == 6:
        tcp, end, source, to = 4 * (ip[0] & 15), struct.unpack_from("!H", ip, 2)[0], ip[12:16], ip[16:20]
    elif protocol == 0x86DD and ip[6] == 6:
        tcp, end, source, to = 40, 40 + struct.unpack_from("!H", ip, 4)[0], ip[8:24], ip[24:40]
    else:
        return None
    if len(ip) < tcp + 20:
        return None
    source_port, to_port, seq, ack, offset, flags, window = struct.unpack_from("!HHIIBBH", ip, tcp)
    options = dict(_options(ip[tcp + 20:tcp + 4 * (offset >> 4)]))
    timestamps = options.get(_TIMESTAMPS, b"")
    return Packet(time, interfaces.get(number, f"if{number}"), kind == _OUTGOING, str(ip_address(source)), source_port, str(ip_address(to)), to_port, seq, ack, flags,
                  max(0, end - tcp - 4 * (offset >> 4)), struct.unpack_from("!I", timestamps, 2)[0] if len(timestamps) == 10 else None, options.get(_MPTCP, b""),
                  window, options.get(_SACK, b""))


def _options(data: bytes) -> Iterator[tuple[int, bytes]]:
    at = 0
    while at + 1 < len(data) and data[at] != 0:
        if data[at] == 1:
            at += 1
            continue
        length = data[at + 1]
        if length < 2 or at + length > len(data):
            return
        yield data[at], data[at:at + length]
        at += length


def subflows(packets: list[Packet], port: int) -> set[int]:
    """The client's ports of an MPTCP connection, by that of its first subflow; as far as its handshakes are among the packets.

    A subflow that joins names the connection by a hash of the key that the server gave (RFC 8684 3.2).
    """
    tokens = {hashlib.sha256(one.mptcp[4:12]).digest()[:4] for one in packets
              if one.to_port == port and one.flags & (SYN | ACK) == SYN | ACK and len(one.mptcp) >= 12 and one.mptcp[2] >> 4 == _MP_CAPABLE}
    return {port} | {one.source_port for one in packets
                     if one.flags & (SYN | ACK) == SYN and len(one.mptcp) == 12 and one.mptcp[2] >> 4 == _MP_JOIN and one.mptcp[4:8] in tokens}
