"""Where no module has a cause to act every packet passes as it came: compared before and behind the daemon, for all that TCP can look like."""

from __future__ import annotations

import hashlib
import os
import random
import socket
import struct
import threading
import time
from contextlib import contextmanager
from typing import Any, Callable, Iterator

import pytest
from conftest import need_built

from both_sides import both_sides, total, within
from tandem_lab import Lab, system

MODULES = ("offload", "freeze", "mirror", "ecn", "rate")
# Everything is queued, not only what modules ask for.
EVERYTHING = {"recorder": {"everything": True}}
MPTCP, TCP_MD5SIG, MSG_FASTOPEN = 262, 14, 0x20000000
# Less than offload needs to gain anything; a module that sees more has a cause to act.
SHORT, LONG = 60_000, 3_000_000


@pytest.fixture(scope="module")
def modules_needed(without_air: None) -> None:
    need_built(*MODULES)


@pytest.fixture(scope="module")
def lab(modules_needed, veth_lab: Lab) -> Lab:
    try:
        with both_sides(veth_lab.client):
            pass
    except Exception as error:  # noqa: BLE001
        pytest.skip(f"this kernel cannot log packets from nftables: {error}")
    return veth_lab


@contextmanager
def settings(lab: Lab, values: dict[str, int]) -> Iterator[None]:
    """Kernel settings of both hosts, as they were afterwards."""
    before = {place: {key: place.run(["sysctl", "-n", key]).stdout.strip() for key in values} for place in (lab.client, lab.server())}
    try:
        for place in before:
            for key, value in values.items():
                if place.run(["sysctl", "-qw", f"{key}={value}"], check=False).returncode != 0:
                    pytest.skip(f"this kernel does not know {key}={value}")
        yield
    finally:
        for place, old in before.items():
            for key, value in old.items():
                place.run(["sysctl", "-qw", f"{key}={value}"])


class Conversation:
    """One connection; both sides send random bytes at the same time, and each compares what it got with what was sent."""

    def __init__(self, lab: Lab, v6: bool, size: int, *, protocol: int = 0, prepare: Callable[[socket.socket, str], None] | None = None,
                 first: bytes = b"", urgent: bool = False, late: float = 0.0, small: bool = False) -> None:
        self._urgent, self._late, self._small = urgent, late, small
        family = socket.AF_INET6 if v6 else socket.AF_INET
        server, client = lab.server(), lab.client
        self._ends = (client.ipv6, server.ipv6) if v6 else (client.ipv4, server.ipv4)

        def listening() -> socket.socket:
            listener = socket.socket(family, socket.SOCK_STREAM, protocol)
            if prepare:
                prepare(listener, self._ends[0])
            listener.bind((self._ends[1], 0))
            listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_FASTOPEN, 5) if first else None
            listener.listen(1)
            return listener

        def connecting() -> socket.socket:
            ours = socket.socket(family, socket.SOCK_STREAM, protocol)
            if prepare:
                prepare(ours, self._ends[1])
            target = (self._ends[1], listener.getsockname()[1])
            ours.sendto(first, MSG_FASTOPEN, target) if first else ours.connect(target)
            ours.settimeout(30)
            return ours

        listener = within(server.namespace, listening)
        listener.settimeout(30)
        self.ours = within(client.namespace, connecting)
        self.theirs, _ = listener.accept()
        listener.close()
        self.theirs.settimeout(30)
        if first:
            assert self._exactly(self.theirs, len(first)) == first
        self.sent = {side: os.urandom(size) for side in (self.ours, self.theirs)}
        self.got = {side: hashlib.sha256() for side in (self.ours, self.theirs)}

    @staticmethod
    def _exactly(side: socket.socket, count: int) -> bytes:
        data = b""
        while len(data) < count:
            data += side.recv(count - len(data))
        return data

    def _send(self, side: socket.socket) -> None:
        data = self.sent[side]
        if self._small:
            side.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for at in range(0, len(data), 97):
                side.sendall(data[at:at + 97])
        elif self._urgent:
            for at in range(0, len(data), 10_000):
                side.send(data[at:at + 1], socket.MSG_OOB)
                side.sendall(data[at + 1:at + 10_000])
        else:
            side.sendall(data)
        side.shutdown(socket.SHUT_WR)

    def _receive(self, side: socket.socket) -> None:
        time.sleep(self._late)
        while data := side.recv(1 << 16):
            self.got[side].update(data)

    def run(self) -> None:
        if self._urgent:
            for side in self.sent:
                side.setsockopt(socket.SOL_SOCKET, socket.SO_OOBINLINE, 1)
        work = [threading.Thread(target=what, args=(side,)) for side in self.sent for what in (self._send, self._receive)]
        for thread in work:
            thread.start()
        for thread in work:
            thread.join()
        for side, other in ((self.ours, self.theirs), (self.theirs, self.ours)):
            side.close()
            assert self.got[side].digest() == hashlib.sha256(self.sent[other]).digest(), "other bytes arrived than were sent"


def simple(lab: Lab, v6: bool, size: int, **options: Any) -> None:
    Conversation(lab, v6, size, **options).run()


def md5(lab: Lab, v6: bool, size: int) -> None:
    def sign(side: socket.socket, peer: str) -> None:
        family = socket.AF_INET6 if v6 else socket.AF_INET
        address = struct.pack("=HH", family, 0) + (bytes(4) if v6 else b"") + socket.inet_pton(family, peer)
        try:
            # struct tcp_md5sig: sockaddr_storage, flags, prefix length, key length, interface, key.
            side.setsockopt(socket.IPPROTO_TCP, TCP_MD5SIG, address.ljust(128, b"\0") + struct.pack("=BBHi80s", 0, 0, 6, 0, b"secret"))
        except OSError as error:
            pytest.skip(f"TCP-MD5: {error}")

    simple(lab, v6, size, prepare=sign)


def mptcp(lab: Lab, v6: bool, size: int) -> None:
    if lab.client.run(["sysctl", "-n", "net.mptcp.enabled"], check=False).stdout.strip() != "1":
        pytest.skip("this kernel has no MPTCP")
    simple(lab, v6, size, protocol=MPTCP)


def fast_open(lab: Lab, v6: bool, size: int) -> None:
    """The first connection brings the cookie, the second one uses it."""
    for _ in range(2):
        simple(lab, v6, size, first=b"GET / HTTP/1.0\r\n")


def closed_windows(lab: Lab, v6: bool, size: int) -> None:
    """Neither side reads for a while, so that windows close and are probed; keep-alives are on."""
    def tight(side: socket.socket, _: str) -> None:
        side.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        side.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, 1)

    simple(lab, v6, max(size, 100_000) // 2, prepare=tight, late=0.7)


def tiny_segments(lab: Lab, v6: bool, size: int) -> None:
    def tiny(side: socket.socket, _: str) -> None:
        side.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, 400)

    simple(lab, v6, min(size, SHORT * 400 // 1448), prepare=tiny, small=True)  # as many segments as the others


def aborted(lab: Lab, v6: bool, size: int) -> None:
    """Resets from either side, with data on the way."""
    for number in range(4):
        conversation = Conversation(lab, v6, 20_000)
        first, second = (conversation.ours, conversation.theirs)[::1 if number % 2 else -1]
        second.sendall(conversation.sent[second])
        first.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        first.close()
        second.close()


CONVERSATIONS: dict[str, tuple[dict[str, int], Callable[[Lab, bool, int], None]]] = {
    **{f"timestamps{a}-sack{b}-scale{c}": ({"net.ipv4.tcp_timestamps": a, "net.ipv4.tcp_sack": b, "net.ipv4.tcp_window_scaling": c}, simple)
       for a in (0, 1) for b in (0, 1) for c in (0, 1)},
    "ecn": ({"net.ipv4.tcp_ecn": 1}, simple),
    "accecn": ({"net.ipv4.tcp_ecn": 3}, simple),
    "mptcp": ({}, mptcp),
    "md5": ({}, md5),
    "fast-open": ({"net.ipv4.tcp_fastopen": 3}, fast_open),
    "urgent": ({}, lambda lab, v6, size: simple(lab, v6, size, urgent=True)),
    "closed-windows": ({}, closed_windows),
    "tiny-segments": ({}, tiny_segments),
    "aborted": ({}, aborted),
}


# How often a conversation is had again in which a segment was lost on the way, which is a cause to act.
ATTEMPTS = 4


def account(daemon) -> dict[str, int]:
    return daemon.api("/v1/status")["datapath"]


def assert_clear(before: dict[str, int], after: dict[str, int]) -> None:
    """Nothing was changed, made up, dropped or led elsewhere by its own account either."""
    assert [after[key] - before[key] for key in ("edited", "dropped", "injected", "rerouted", "cell_bytes")] == [0, 0, 0, 0, 0], after


def retransmitted(lab: Lab) -> int:
    return sum(lab.tcp_counters(role)["RetransSegs"] for role in ("client", "srv1"))


def test_a_change_would_be_seen(lab):
    """The planted fault: a module with a cause to act. Without it the tests below would prove nothing."""
    eager = {"added_delay_free": "2s", "goodput_loss_limit": 1.0}
    access_point = lab.endpoint("ap1")
    access_point.run("tc qdisc replace dev air0 root tbf rate 60mbit burst 16kb latency 40ms".split())  # as slow as Wi-Fi
    try:
        with lab.daemon(["offload"], {**EVERYTHING, "modules": {"offload": eager}}) as running, both_sides(lab.client) as log:
            download = lab.start_download("100G", seconds=15)

            def acted() -> bool:
                counters = running.api("/v1/status")["datapath"]
                return counters["rerouted"] + counters["edited"] + counters["dropped"] > 0

            there = system.wait_until(acted, 14)
            download.stop()
    finally:
        access_point.run("tc qdisc del dev air0 root".split())
    assert there
    assert any("only " in line for line in log.differences())


@pytest.fixture(scope="module", params=["on", "off"])
def daemon(request, lab: Lab) -> Iterator[tuple[Any, int]]:
    """With all modules on, and with all loaded and off; how much a connection carries for that. Behind the test above, which has one of its own."""
    on = request.param == "on"
    with lab.daemon(MODULES if on else (), {**EVERYTHING, **({} if on else {"modules": {name: {"enabled": False} for name in MODULES}})}) as running:
        entries = {entry["name"]: entry["enabled"] for entry in running.api("/v1/modules")}
        assert {name: entries.get(name) for name in MODULES} == dict.fromkeys(MODULES, on)
        yield running, SHORT if on else LONG


@pytest.mark.parametrize("mix", CONVERSATIONS)
def test_a_connection_passes_as_it_is(lab, daemon, mix):
    running, size = daemon
    values, talk = CONVERSATIONS[mix]
    for _ in range(ATTEMPTS):
        before, lost = account(running), retransmitted(lab)
        with settings(lab, values), both_sides(lab.client) as log:
            for v6 in (False, True):
                talk(lab, v6, size)
        if retransmitted(lab) == lost:
            break
    assert log.differences() == []
    seen = {name: place.packets for name, place in log.places.items()}
    assert all(seen.values()), seen
    after = account(running)
    assert_clear(before, after)
    assert after["queued"] > before["queued"] + 10, "the daemon saw nothing of it"


# Options that no conversation of this kernel's has: unknown, experimental, broken, misplaced, too many.
def odd_options(chance: random.Random) -> bytes:
    kinds: list[Callable[[], bytes]] = [
        lambda: b"", lambda: b"\1" * chance.randrange(1, 41), lambda: b"\0" + chance.randbytes(chance.randrange(8)),
        lambda: bytes([8, 10]) + chance.randbytes(8), lambda: bytes([5, 8 * chance.randrange(1, 5) + 2]) + chance.randbytes(32),
        lambda: bytes([2, 4]) + chance.randbytes(2), lambda: bytes([3, 3, chance.randrange(256)]), lambda: bytes([4, 2]),
        lambda: bytes([30, chance.randrange(2, 30)]) + chance.randbytes(28), lambda: bytes([19, 18]) + chance.randbytes(16),
        lambda: bytes([29, 16]) + chance.randbytes(14), lambda: bytes([34, 10]) + chance.randbytes(8), lambda: bytes([172, 11]) + chance.randbytes(9),
        lambda: bytes([chance.choice((77, 100, 253, 254, 255)), chance.randrange(2, 41)]) + chance.randbytes(38),
        lambda: bytes([chance.randrange(256), chance.choice((0, 1, 200))]), lambda: chance.randbytes(chance.randrange(1, 41))]
    options = b"".join(chance.choice(kinds)() for _ in range(chance.randrange(1, 4)))[:40]
    return options + bytes(-len(options) % 4)


def odd_packet(chance: random.Random, number: int, source: str, target: str, v6: bool) -> bytes:
    """A packet as no sender makes it, with a right checksum as a rule. Each has ports of its own."""
    options, payload = odd_options(chance), chance.randbytes(chance.choice((0, 0, 1, 7, 100, 1200)))
    offset = 5 + len(options) // 4 if chance.random() < 0.95 else chance.randrange(16)
    flags = chance.choice((0x10, 0x10, 0x18, 0x11, 0x30, 0x02, 0x12, 0x04, 0x14, 0xD0, 0x1D0, chance.randrange(512)))
    reserved = chance.randrange(8) if chance.random() < 0.2 else 0
    ports = (20_000 + number, 30_000 + number % 7)
    header = struct.pack("!HHIIHHHH", *ports, chance.randrange(1 << 32), chance.randrange(1 << 32), offset << 12 | reserved << 9 | flags,
                         chance.randrange(1 << 16), 0, chance.randrange(1 << 16) if chance.random() < 0.3 else 0)
    segment = header + options + payload
    family = socket.AF_INET6 if v6 else socket.AF_INET
    ends = socket.inet_pton(family, source) + socket.inet_pton(family, target)
    check = 0xFFFF - total(ends + struct.pack("!II", len(segment), 6) + segment) if chance.random() < 0.95 else chance.randrange(1 << 16)
    segment = segment[:16] + struct.pack("!H", check) + segment[18:]
    traffic_class, hops = chance.randrange(256), chance.randrange(20, 256)
    if v6:
        extension = bytes([6, 0, 1, 4, 0, 0, 0, 0]) if chance.random() < 0.1 else b""
        return struct.pack("!IHBB", 6 << 28 | traffic_class << 20 | chance.randrange(1 << 20), len(extension) + len(segment), 60 if extension else 6, hops) + ends + extension + segment
    ip_options = b"\1\1\1\0" if chance.random() < 0.1 else b""
    fragment = chance.choice((0x4000, 0, 0, 0x2000, 0x2008) if chance.random() < 0.3 else (0x4000, 0))
    ip = struct.pack("!BBHHHBBH", 0x45 + len(ip_options) // 4, traffic_class, 20 + len(ip_options) + len(segment), number & 0xFFFF or 1, fragment, hops, 6, 0) + ends + ip_options
    return ip[:10] + struct.pack("!H", 0xFFFF - total(ip)) + ip[12:] + segment


def test_what_no_tcp_sends_passes_as_it_is(lab, daemon):
    """3,000 packets each way, seeded: answers of either kernel included."""
    running, _ = daemon
    chance = random.Random(18)
    before = account(running)
    raw = {(place, v6): within(place.namespace, lambda v6=v6: socket.socket(socket.AF_INET6 if v6 else socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW))
           for place in (lab.client, lab.server()) for v6 in (False, True)}
    with both_sides(lab.client) as log:
        for number in range(6000):
            source, target = (lab.client, lab.server())[::1 if number % 2 else -1]
            v6 = number % 4 > 1
            ends = (source.ipv6, target.ipv6) if v6 else (source.ipv4, target.ipv4)
            raw[source, v6].sendto(odd_packet(chance, number, *ends, v6), (ends[1], 0))
            if number % 50 == 0:
                time.sleep(0.005)  # buffers are finite
    for sender in raw.values():
        sender.close()
    assert log.differences() == []
    assert log.places["out before"].packets > 2500 and log.places["in before"].packets > 2500
    after = account(running)
    assert_clear(before, after)
    assert after["queued"] > before["queued"] + 2000
