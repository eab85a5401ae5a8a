"""Who reset a connection: from captures of both ends, and from what the kernels tell."""

from __future__ import annotations

import hashlib
import socket
import struct
import sys
from collections import deque
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("endurance", "common", "lab")]

from tandem_soak import captures  # noqa: E402
from tandem_soak.packets import ACK, RST, SYN, Packet, Unreadable, read, subflows  # noqa: E402
from tandem_soak.resets import decisive, resets, told_by_kernel  # noqa: E402

CLIENT, CARRIER, SERVER, PORT = "10.77.1.2", "10.77.200.2", "10.77.10.1", 40000


def packet(time: float, interface: str, out: bool, ends: tuple[str, int, str, int], seq: int, ack: int = 0, flags: int = ACK, length: int = 0) -> Packet:
    return Packet(time, interface, out, *ends, seq, ack, flags, length)


UP, DOWN = (CLIENT, PORT, SERVER, 80), (SERVER, 80, CLIENT, PORT)
HEAD = struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 276)


def sent(time: float, ends: tuple[str, int, str, int], reason: str = "NO_SOCKET"):
    line = f"  nginx-7  [000] ..s2. {time:.6f}: tcp_send_reset: skbaddr=1 skaddr=2 src={ends[0]}:{ends[1]} dest={ends[2]}:{ends[3]} state=UNKNOWN reason={reason}"
    return told_by_kernel(line, 0.0)


def taken(time: float, ends: tuple[str, int, str, int]):
    return told_by_kernel(f"  <idle>-0 [001] ..s2. {time:.6f}: tcp_receive_reset: family=AF_INET sport={ends[1]} dport={ends[3]} saddr={ends[0]} daddr={ends[2]} "
                          f"saddrv6=::ffff:{ends[0]} daddrv6=::ffff:{ends[2]} sock_cookie=1", 0.0)


def behind_a_nat() -> tuple[list[Packet], list[Packet]]:
    """An ACK that left by cellular came to the server from the carrier's address; the server does not know that connection."""
    client = [packet(10.00, "wlan0", False, DOWN, 1000, 500, length=1000), packet(10.01, "cell0", True, UP, 500, 2000), packet(10.06, "wlan0", False, DOWN, 2000, 0, RST)]
    server = [packet(9.98, "eth0", True, DOWN, 1000, 500, length=1000), packet(10.03, "eth0", False, (CARRIER, 61000, SERVER, 80), 500, 2000),
              packet(10.031, "eth0", True, (SERVER, 80, CARRIER, 61000), 2000, 0, RST)]
    return client, server


def test_the_server_answers_a_translated_ack() -> None:
    client, server = behind_a_nat()
    [one] = resets(client, server, [sent(10.031, (SERVER, 80, CARRIER, 61000)), taken(10.06, UP)], {PORT})
    assert one.taken
    assert one.words() == (f"the server, its kernel: NO_SOCKET (seq 2000, arrived by wlan0), in answer to ack 2000 of {CARRIER} port 61000, "
                           f"which is a NAT's for {CLIENT} port {PORT}, sent by cell0")


def test_of_several_acks_with_one_number() -> None:
    """It is the one with that window and those SACK blocks. That a listener answered the kernel does not tell."""
    client, server = behind_a_nat()
    others = [replace(client[1], time=10.012, interface="wlan0", window=99), replace(client[1], time=10.013, interface="wlan0", sack=b"\5\x0aabcdabcd")]
    [one] = resets([*client[:2], *others, client[2]], server, [taken(10.06, UP)], {PORT})
    assert one.origin == "the server" and one.taken and one.evoked.endswith("sent by cell0")


def test_without_the_kernels_word_the_numbers_decide() -> None:
    client, server = behind_a_nat()
    [one] = resets(client, server, None, {PORT})
    assert one.taken and one.words().startswith("the server (seq 2000")
    early = [client[0], client[1], packet(10.06, "wlan0", False, DOWN, 1998, 0, RST)]
    [one] = resets(early, [*server[:2], packet(10.031, "eth0", True, DOWN, 1998, 0, RST)], None, {PORT})
    assert not one.taken, "it lies before what was acknowledged"


def test_a_reset_that_the_server_never_sent() -> None:
    client, server = behind_a_nat()
    [one] = resets(client, server[:2], [], {PORT})
    assert one.origin.startswith("something between client and server") and not one.taken


@pytest.mark.parametrize(("word", "origin"), [("kernel", "the client's kernel: TCP_ABORT_ON_DATA"), ("raw", "the client, by a raw socket"), ("none", "the client, its kernel or the daemon")])
def test_the_clients_own(word: str, origin: str) -> None:
    client, server = [packet(5.0, "wlan0", True, UP, 500, 2000, RST | ACK)], [packet(5.02, "eth0", False, UP, 500, 2000, RST | ACK)]
    told = {"kernel": [sent(5.0, UP, "TCP_ABORT_ON_DATA"), taken(5.02, DOWN)], "raw": [], "none": None}[word]
    [one] = resets(client, server, told, {PORT})
    assert one.origin.startswith(origin) and one.taken == (word == "kernel")


def test_the_first_that_was_taken_decides() -> None:
    client, server = behind_a_nat()
    closing = packet(10.07, "wlan0", True, UP, 500, 0, RST)
    found = resets([*client, closing], server, [taken(10.06, UP)], {PORT})
    assert len(found) == 2 and decisive(found) is found[0]
    assert decisive([]) is None


def test_what_is_another_flows() -> None:
    other = (SERVER, 80, CLIENT, PORT + 1)
    assert resets([packet(1.0, "wlan0", False, other, 7, 0, RST)], [packet(0.9, "eth0", True, other, 7, 0, RST)], [], {PORT}) == []


def frame(number: int, kind: int, source: str, to: str, tcp: bytes) -> bytes:
    six = ":" in source
    family = socket.AF_INET6 if six else socket.AF_INET
    ends = socket.inet_pton(family, source) + socket.inet_pton(family, to)
    ip = struct.pack("!IHBB", 6 << 28, len(tcp), 6, 64) + ends if six else struct.pack("!BBHIBBH", 0x45, 0, 20 + len(tcp), 0, 64, 6, 0) + ends
    whole = struct.pack("!HHIHBB8x", 0x86DD if six else 0x0800, 0, number, 1, kind, 6) + ip + tcp
    return struct.pack("<IIII", 7, 500000, len(whole), len(whole)) + whole


def tcp(source: int, to: int, seq: int, ack: int, flags: int, options: bytes = b"", data: bytes = b"") -> bytes:
    return struct.pack("!HHIIBBHHH", source, to, seq, ack, (20 + len(options)) // 4 << 4, flags, 100, 0, 0) + options + data


def test_both_families_are_read_and_a_cut_end_is_no_fault() -> None:
    stamps = b"\1\1\x08\x0a" + struct.pack("!II", 77, 66)
    data = HEAD + frame(2, 4, CLIENT, SERVER, tcp(PORT, 80, 5, 6, ACK, stamps, b"abc")) + frame(3, 0, "fd77:10::1", "fd77:1::2", tcp(80, PORT, 8, 0, RST))
    first, second = read(data + data[24:60], {2: "wlan0"})
    assert (first.time, first.interface, first.out, first.source, first.to_port, first.length, first.ts_value) == (7.5, "wlan0", True, CLIENT, 80, 3, 77)
    assert (second.interface, second.out, second.to, second.reset, second.length) == ("if3", False, "fd77:1::2", True, 0)
    with pytest.raises(Unreadable):
        list(read(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 1), {}))


def test_subflows_of_an_mptcp_connection() -> None:
    key = b"serverky"
    token = hashlib.sha256(key).digest()[:4]
    capable = Packet(1.0, "wlan0", False, *DOWN, 1, 2, SYN | ACK, 0, None, b"\x1e\x0c\x01\x01" + key)
    join = Packet(1.1, "cell0", True, "10.77.2.2", 50000, SERVER, 80, 1, 0, SYN, 0, None, b"\x1e\x0c\x10\x02" + token + b"abcd")
    other = Packet(1.2, "cell0", True, "10.77.2.2", 50001, SERVER, 80, 1, 0, SYN, 0, None, b"\x1e\x0c\x10\x02" + b"zzzz" + b"abcd")
    assert subflows([capable, join, other], PORT) == {PORT, 50000}
    assert subflows([join, other], PORT) == {PORT}


def test_a_clock_that_jumps_later_moves_no_word_of_the_kernel(monkeypatch) -> None:
    """Else a reset of the kernel's own is not found for its packet, and is told to be the daemon's."""
    word = captures.KernelWord.__new__(captures.KernelWord)
    word._lines, word._trace = deque(), SimpleNamespace(ended=lambda: False)
    wall = [1000.0]
    monkeypatch.setattr(captures.time, "time", lambda: wall[0])
    monkeypatch.setattr(captures.time, "monotonic", lambda: 100.0)
    word._take("          <idle>-0       [000] ..s1.   100.000000: tcp_send_reset: skbaddr=0 skaddr=0 src=10.0.0.1:80 dest=10.0.0.2:4711 state=TCP_CLOSE")
    wall[0] += 40 * 86400.0
    told, = word.told() or []
    assert told.time == 1000.0
    assert word.lines(4711) or word.lines(80)
