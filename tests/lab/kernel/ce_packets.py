#!/usr/bin/python3
"""Packets of every kind that the CE rule looks at. `send DEVICE MAC COUNT` sends COUNT of each kind by DEVICE to MAC;
`receive` prints "ready", counts what the kernel delivers until its standard input closes, and prints the counts by kind as JSON."""

from __future__ import annotations

import json
import selectors
import socket
import struct
import sys
import time

from conftest import CLIENT4, CLIENT6

NOT_ECT, ECT1, ECT0 = 0, 1, 2
MPTCP, TIMESTAMP = (30, b"\x20\x00"), ("Timestamp", (1, 2))
# name: (destination port, IP version, ECN field, TCP option, payload bytes)
KINDS = {
    "ect0": (9001, 4, ECT0, MPTCP, 100),
    "ect0 v6": (9002, 6, ECT0, MPTCP, 100),
    "ect1": (9003, 4, ECT1, MPTCP, 100),
    "not ect": (9004, 4, NOT_ECT, MPTCP, 100),
    "not ect v6": (9005, 6, NOT_ECT, MPTCP, 100),
    "plain tcp": (9006, 4, ECT0, TIMESTAMP, 100),
    "plain tcp v6": (9007, 6, ECT0, TIMESTAMP, 100),
    "merged": (9008, 4, ECT0, MPTCP, 8000),
}
DSCP = 0x28  # must survive


def send(device: str, mac: str, count: int) -> None:
    from scapy.layers.inet import IP, TCP
    from scapy.layers.inet6 import IPv6
    from scapy.layers.l2 import Ether

    frames = []
    for port, version, ecn, option, length in KINDS.values():
        tcp = TCP(sport=80, dport=port, flags="A", options=[option]) / (b"x" * length)
        ip = IP(src="10.71.1.1", dst=CLIENT4, tos=DSCP | ecn) if version == 4 else IPv6(src="fd71:1::1", dst=CLIENT6, tc=DSCP | ecn)
        frames.append(bytes(Ether(dst=mac) / ip / tcp))
    out = socket.socket(socket.AF_PACKET, socket.SOCK_RAW)
    out.bind((device, 0))
    for i in range(count):
        for frame in frames:
            out.send(frame)
        if i % 50 == 49:
            time.sleep(0.01)  # the receiver's buffers are finite


def checksum_right(header: bytes) -> bool:
    total = sum(struct.unpack(f"!{len(header) // 2}H", header))
    return (total & 0xffff) + (total >> 16) == 0xffff


def receive() -> None:
    names = {port: name for name, (port, *_) in KINDS.items()}
    seen = {name: {"ecn": [0, 0, 0, 0], "bad": 0} for name in KINDS}
    four = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_TCP)
    six = socket.socket(socket.AF_INET6, socket.SOCK_RAW, socket.IPPROTO_TCP)
    six.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_RECVTCLASS, 1)
    selector = selectors.DefaultSelector()
    for one in (four, six):
        one.setsockopt(socket.SOL_SOCKET, 33, 32 << 20)  # SO_RCVBUFFORCE
        one.setblocking(False)
        selector.register(one, selectors.EVENT_READ)
    selector.register(sys.stdin, selectors.EVENT_READ)
    print("ready", flush=True)
    while ready := [key.fileobj for key, _ in selector.select()]:
        if ready == [sys.stdin]:
            break
        for source in (four, six):
            try:
                packet, ancillary, _, _ = source.recvmsg(65536, 64)  # type: ignore[union-attr]
            except BlockingIOError:
                continue
            header, tos = (packet[:20], packet[1]) if source is four else (b"", struct.unpack("i", ancillary[0][2])[0])
            name = names.get(struct.unpack_from("!H", packet, len(header) + 2)[0])
            if name:
                seen[name]["ecn"][tos & 3] += 1
                seen[name]["bad"] += tos & 0xfc != DSCP or (len(header) > 0 and not checksum_right(header))
    print(json.dumps(seen), flush=True)


if __name__ == "__main__":
    if sys.argv[1] == "send":
        send(sys.argv[2], sys.argv[3], int(sys.argv[4]))
    else:
        receive()
