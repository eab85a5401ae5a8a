#!/usr/bin/python3
"""Writes down what one download's receiver said: record.py CAPTURE.pcap SECONDS "WHAT IT IS" >NAME.acks

The capture is one of the client's Wi-Fi interface in the lab (lab.capture()). sender_watch_test.cc plays the result. Words: `rtt` between the SYNs in
microseconds, the SYN/ACK's `options` in order, its `mss`, then one word for each pure ACK: microseconds since the one before, how far the number moved, how
far TSecr moved, and the SACK blocks relative to the number.
"""

from __future__ import annotations

import struct
import sys
from typing import Iterator

_WRAP = 1 << 32


def packets(path: str) -> Iterator[tuple[int, bytes]]:
    """(microseconds, IPv4 packet)."""
    with open(path, "rb") as file:
        head = file.read(24)
        nano = struct.unpack("<I", head[:4])[0] == 0xA1B23C4D
        while record := file.read(16):
            seconds, part, length, _ = struct.unpack("<IIII", record)
            yield seconds * 1_000_000 + part // (1000 if nano else 1), file.read(length)[14:]


def options_of(header: bytes) -> Iterator[tuple[int, bytes]]:
    at = 20
    while at < len(header) and header[at] != 0:
        length = 1 if header[at] == 1 else header[at + 1]
        yield header[at], header[at + 2:at + length]
        at += length


def words(path: str, seconds: float) -> Iterator[str]:
    began = last = number = echo = None
    for when, packet in packets(path):
        tcp = packet[(packet[0] & 15) * 4:]
        source, _, seq, ack, flags = struct.unpack(">HHIIH", tcp[:14])
        header = tcp[:(flags >> 12) * 4]
        options = list(options_of(header))
        values = dict(options)
        payload = struct.unpack(">H", packet[2:4])[0] - (packet[0] & 15) * 4 - len(header)
        if began is None:
            began = when
        elif flags & 2:
            order = "".join(f"{min(kind, 15):x}" for kind, _ in options)
            yield f"rtt {when - began} options {order} mss {struct.unpack('>H', values[2])[0]}"
            number = (seq + 1) % _WRAP
        elif source != 80 and payload == 0 and not flags & 7 and number is not None:
            if when - began > seconds * 1e6:
                return
            value = struct.unpack(">II", values[8])[1] if 8 in values else 0
            blocks = [struct.unpack(">II", values[5][at:at + 8]) for at in range(0, len(values.get(5, b"")), 8)]
            shown = "".join(f",{(left - ack) % _WRAP}-{(right - ack) % _WRAP}" for left, right in blocks if (right - ack) % _WRAP < _WRAP // 2)
            moved = value - echo if echo is not None else 0
            yield f"{when - (last or began)},{(ack - number) % _WRAP},{moved}{shown}"
            last, number, echo = when, ack, value


def main() -> int:
    if len(sys.argv) != 4:
        print(__doc__, file=sys.stderr)
        return 2
    print(f"# {sys.argv[3]}")
    line = ""
    for word in words(sys.argv[1], float(sys.argv[2])):
        if len(line) + len(word) > 150:
            print(line.strip())
            line = ""
        line += f" {word}"
    print(line.strip())
    return 0


if __name__ == "__main__":
    sys.exit(main())
