"""Captures as other programs write them, made of one conversation."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Callable, Iterable, Iterator

Packet = tuple[int, bytes, int]  # nanoseconds since 1970; from the IP header on, as far as it was kept; its length on the wire

ADDRESSES = bytes(range(12))
RADIOTAP = struct.pack("<BBHI", 0, 0, 24, 0x2F) + bytes(8) + b"\x00\x6c" + struct.pack("<HHbb", 2437, 0xC0, -50, 0)
LLC = b"\xaa\xaa\x03\0\0\0"


def ethertype(ip: bytes) -> bytes:
    return b"\x08\x00" if ip[0] >> 4 == 4 else b"\x86\xdd"


def wifi(ip: bytes, control: int = 0x08, flags: int = 0x02, behind: bytes = b"", fragment: int = 0) -> bytes:
    fourth = ADDRESSES[:6] if flags & 3 == 3 else b""
    return bytes([control, flags]) + b"\0\0" + ADDRESSES + ADDRESSES[:6] + bytes([fragment, 0]) + fourth + behind + LLC + ethertype(ip) + ip


def radiotap(flags: int = 0) -> bytes:
    return RADIOTAP[:16] + bytes([flags]) + RADIOTAP[17:]


# Name: link type, and what stands before a packet.
WRAPPED: dict[str, tuple[int, Callable[[bytes], bytes]]] = {
    "Ethernet": (1, lambda ip: ADDRESSES + ethertype(ip) + ip),
    "Ethernet with VLAN": (1, lambda ip: ADDRESSES + b"\x81\x00\x00\x07" + ethertype(ip) + ip),
    "raw IP": (101, lambda ip: ip),
    "raw IP as DLT": (12, lambda ip: ip),
    "Linux cooked v1": (113, lambda ip: struct.pack(">HHH", 0, 1, 6) + bytes(8) + ethertype(ip) + ip),
    "Linux cooked v2": (276, lambda ip: ethertype(ip) + struct.pack(">HIHBB", 0, 3, 1, 0, 6) + bytes(8) + ip),
    "BSD loopback": (0, lambda ip: struct.pack("<I", 2) + ip),
    "802.11": (105, wifi),
    "802.11 QoS": (105, lambda ip: wifi(ip, 0x88, 0x01, b"\x05\0")),
    "802.11 QoS with HT control": (105, lambda ip: wifi(ip, 0x88, 0x81, b"\x05\0\0\0\0\0")),
    "802.11 between access points": (105, lambda ip: wifi(ip, 0x08, 0x03)),
    "radiotap": (127, lambda ip: RADIOTAP + wifi(ip)),
    "radiotap, padded": (127, lambda ip: radiotap(0x20) + wifi(ip, 0x88, 0x01, b"\x05\0\0\0")),
    "radiotap, check sequence": (127, lambda ip: radiotap(0x10) + wifi(ip) + b"\1\2\3\4"),
    "radiotap, two words present": (127, lambda ip: struct.pack("<BBHII", 0, 0, 25, 0x80000003, 0) + bytes(4) + bytes(8) + b"\x20" + wifi(ip, 0x88, 0x01, b"\x05\0\0\0")),
}
# Those of which nothing can be known.
CLOSED: dict[str, Callable[[bytes], bytes]] = {
    "encrypted": lambda ip: RADIOTAP + wifi(ip, flags=0x42), "management": lambda ip: RADIOTAP + wifi(ip, 0x80), "without data": lambda ip: RADIOTAP + wifi(ip, 0x48),
    "damaged": lambda ip: radiotap(0x40) + wifi(ip), "a later fragment": lambda ip: RADIOTAP + wifi(ip, fragment=1), "an aggregate": lambda ip: RADIOTAP + wifi(ip, 0x88, 0x01, b"\x80\0"),
    "a header that is longer than the frame": lambda ip: b"\0\0\xff\xff" + RADIOTAP[4:] + wifi(ip), "radiotap alone": lambda _: RADIOTAP, "half a header": lambda _: RADIOTAP[:5]}


def read(file: Path) -> list[Packet]:
    """Of a little-endian pcap of Ethernet in microseconds."""
    data, at, found = file.read_bytes(), 24, []
    while at < len(data):
        seconds, micros, kept, length = struct.unpack_from("<IIII", data, at)
        found.append((seconds * 1_000_000_000 + micros * 1000, data[at + 30:at + 16 + kept], length - 14))
        at += 16 + kept
    return found


def write(file: Path, packets: Iterable[Packet], link_type: int = 101, wrap: Callable[[bytes], bytes] = bytes, nanoseconds: bool = False, order: str = "<") -> Path:
    def parts() -> Iterator[bytes]:
        yield struct.pack(f"{order}IHHiIII", 0xA1B23C4D if nanoseconds else 0xA1B2C3D4, 2, 4, 0, 0, 262144, link_type)
        for time_ns, ip, length in packets:
            frame = wrap(ip)
            yield struct.pack(f"{order}IIII", time_ns // 1_000_000_000, time_ns % 1_000_000_000 // (1 if nanoseconds else 1000), len(frame), len(frame) - len(ip) + length) + frame

    with file.open("wb") as out:
        out.writelines(parts())
    return file
