#!/usr/bin/python3
"""Every mix of TCP flags, as raw packets. `send egress|ingress` sends one of each from the namespace that it runs in: the client's own, or the
server's to the client. The peer's port is PORT0 plus the mix's number; `mixes()` lists them."""

from __future__ import annotations

import socket
import struct
import sys
import time
from dataclasses import dataclass

from conftest import CLIENT4, CLIENT6, SERVER4, SERVER6

PORT0 = 10_000
LOCAL_PORT = 9
FIN, SYN, RST, PSH, ACK, URG = 1, 2, 4, 8, 16, 32
TIMESTAMPS = bytes([1, 1, 8, 10]) + bytes(8)
SACK = bytes([1, 1, 5, 26]) + bytes(24)
DSS = bytes([30, 20, 0x20, 5]) + bytes(16)
FAST_OPEN = bytes([1, 1, 34, 10]) + bytes(8)
OPTIONS = (b"", TIMESTAMPS, TIMESTAMPS + SACK, TIMESTAMPS + DSS, DSS, FAST_OPEN, SACK, b"\1" * 40)


@dataclass(frozen=True)
class Mix:
    """One packet; `special` is what stands in its IP header."""

    egress: bool
    v6: bool
    flags: int
    payload: int
    options: bytes
    special: str = ""


def mixes() -> list[Mix]:
    found = []
    for egress in (True, False):
        for v6 in (False, True):
            for payload in (0, 10):
                for flags in range(512):
                    found.append(Mix(egress, v6, flags, payload, OPTIONS[(flags + flags // 8 + flags // 64) % len(OPTIONS)]))
            for flags in (ACK, ACK | PSH, ACK | FIN, RST, SYN, ACK | URG):
                found += [Mix(egress, v6, flags, 0, options) for options in OPTIONS]  # every header length that is used
                found += [Mix(egress, v6, flags, payload, TIMESTAMPS) for payload in (1, 48, 49, 1300)]  # around the rules' longest empty packet
                found += [Mix(egress, v6, flags, payload, TIMESTAMPS, "ip options") for payload in (0, 10, 1300)]
                found += [Mix(egress, v6, flags, 40, b"", "first fragment")]
    return found


def total(data: bytes) -> int:
    if len(data) % 2:
        data += b"\0"
    n = sum(struct.unpack(f"!{len(data) // 2}H", data))
    while n >> 16:
        n = (n & 0xffff) + (n >> 16)
    return n


def packet(mix: Mix, number: int) -> bytes:
    """From the IP header on, with right checksums: what arrives must not be dropped before it is looked at."""
    family = socket.AF_INET6 if mix.v6 else socket.AF_INET
    client, server = (socket.inet_pton(family, a) for a in ((CLIENT6, SERVER6) if mix.v6 else (CLIENT4, SERVER4)))
    source, target = (client, server) if mix.egress else (server, client)
    ports = (LOCAL_PORT, PORT0 + number) if mix.egress else (PORT0 + number, LOCAL_PORT)
    words = 5 + len(mix.options) // 4
    header = struct.pack("!HHIIHHHH", *ports, 1, 1, words << 12 | mix.flags, 500, 0, 0) + mix.options
    segment = header + b"x" * mix.payload
    check = 0xffff - total(source + target + struct.pack("!II", len(segment), 6) + segment)
    segment = segment[:16] + struct.pack("!H", check) + segment[18:]
    if mix.v6:
        first, extension = 6, b""
        if mix.special == "ip options":
            first, extension = 60, bytes([6, 0, 1, 4, 0, 0, 0, 0])  # destination options, padded
        elif mix.special:
            first, extension = 44, struct.pack("!BBHI", 6, 0, 1, number)
        return struct.pack("!IHBB", 6 << 28, len(extension) + len(segment), first, 64) + source + target + extension + segment
    options = b"\1\1\1\0" if mix.special == "ip options" else b""
    fragment = 0x2000 if mix.special == "first fragment" else 0
    length = 20 + len(options) + len(segment)
    ip = struct.pack("!BBHHHBBH", 0x45 + len(options) // 4, 0, length, number & 0xffff, fragment, 64, 6, 0) + source + target + options
    return ip[:10] + struct.pack("!H", 0xffff - total(ip)) + ip[12:] + segment


def send(egress: bool) -> None:
    four = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW)
    six = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_RAW)
    for number, mix in enumerate(mixes()):
        if mix.egress != egress:
            continue
        if mix.v6:
            six.sendto(packet(mix, number), (SERVER6 if egress else CLIENT6, 0))
        else:
            four.sendto(packet(mix, number), (SERVER4 if egress else CLIENT4, 0))
        if number % 20 == 0:
            time.sleep(0.002)  # buffers are finite


if __name__ == "__main__":
    send(sys.argv[1] == "egress")
