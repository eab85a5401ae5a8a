"""What the laptop itself sent into a blackout leaves again when the link is back, before its own timers fire (docs/decisions/0038)."""

from __future__ import annotations

import socket
import threading
import time
from contextlib import suppress
from typing import Any, Iterator

import pytest
from conftest import need_built

from both_sides import within
from test_recorded import WHOLE, replay
from tandem_lab import Lab, system

# A blackout ends just when a retransmission timer has doubled so often: 200 ms of a request to 1.6 s, 1 s of a SYN to 4 s. By then the next try is as
# far away.
DOUBLED, SYN_DOUBLED = 3, 2
AT_ONCE = 0.8  # s, from link-up: a round trip and what a busy machine takes
IP_RECVERR = 11


@pytest.fixture(scope="module")
def modules_needed(with_air: None) -> None:
    need_built("freeze")


@pytest.fixture
def lab(air_lab, modules_needed) -> Iterator[Lab]:
    # As kernels before Linux 6.5: a SYN is repeated after 1, 3 and 7 s.
    air_lab.client.run(["sysctl", "-qw", "net.ipv4.tcp_syn_linear_timeouts=0"], check=False)
    yield air_lab
    air_lab.set("wifi.blackout", "none")


class Echo:
    """A server that answers each byte string with itself."""

    def __init__(self, lab: Lab, v6: bool) -> None:
        server = lab.server()
        self._family = socket.AF_INET6 if v6 else socket.AF_INET
        self._client = lab.client

        def listening() -> socket.socket:
            listener = socket.socket(self._family)
            listener.bind((server.ipv6 if v6 else server.ipv4, 0))
            listener.listen(8)
            return listener

        self._listener = within(server.namespace, listening)
        self._listener.settimeout(30)
        self.place = self._listener.getsockname()
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                theirs, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(theirs,), daemon=True).start()

    @staticmethod
    def _answer(theirs: socket.socket) -> None:
        with theirs, suppress(OSError):  # the lab goes down with it
            while data := theirs.recv(4096):
                theirs.sendall(data)

    def socket(self) -> socket.socket:
        ours = within(self._client.namespace, lambda: socket.socket(self._family))
        ours.settimeout(30)
        return ours

    def connected(self) -> socket.socket:
        ours = self.socket()
        ours.connect(self.place)
        ours.sendall(b"first")
        assert ours.recv(4096) == b"first"
        return ours

    def close(self) -> None:
        self._listener.close()


@pytest.fixture(params=[False, True], ids=["v4", "v6"])
def echo(lab, request) -> Iterator[Echo]:
    server = Echo(lab, request.param)
    yield server
    server.close()


def said(daemon) -> dict[str, Any]:
    told = daemon.api("/v1/status")["datapath"]
    return {key: told[key] for key in ("own_syns", "own_kicks", "injected", "injected_failed")}


def dark(lab, daemon, on: bool) -> float:
    """Begins or ends a blackout of which the daemon is told; when."""
    lab.set("wifi.blackout", "drop" if on else "none")
    daemon.api("/v1/links/wifi/announce", "POST", {"what": "down" if on else "up", "for_s": 20})
    return time.monotonic()


def doubled(ours: socket.socket) -> int:
    """How often its retransmission timer has doubled (tcpi_backoff)."""
    return ours.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 8)[4]


def through_a_blackout(lab, daemon, ours, send, answered, times: int = DOUBLED) -> float:
    """Seconds from link-up to the answer to what `send` sends into the blackout."""
    dark(lab, daemon, True)
    time.sleep(0.1)
    send()
    assert system.wait_until(lambda: doubled(ours) >= times, 20, 0.02), doubled(ours)
    up = dark(lab, daemon, False)
    answered()
    return time.monotonic() - up


def request_late(lab, daemon, ours) -> float:
    return through_a_blackout(lab, daemon, ours, lambda: ours.sendall(b"request"), lambda: ours.recv(4096) == b"request" or pytest.fail("another answer"))


def test_a_request_sent_into_a_blackout(lab, echo):
    with lab.daemon(["freeze"]) as daemon, echo.connected() as ours:
        late = request_late(lab, daemon, ours)
        assert late < AT_ONCE and said(daemon)["own_kicks"] == 1, (late, said(daemon))
        # The connection is as good as before.
        ours.sendall(b"second")
        assert ours.recv(4096) == b"second"
        daemon.api("/v1/modules/freeze", "PUT", {"enabled": False})
        late = request_late(lab, daemon, ours)
        assert late > AT_ONCE and said(daemon)["own_kicks"] == 1, "without the module it waits for its own timer"


def opened_late(lab, daemon, echo) -> float:
    """Seconds from link-up until a connection is there that was begun in the blackout."""
    with echo.socket() as ours:
        connecting = threading.Thread(target=ours.connect, args=(echo.place,), daemon=True)
        late = through_a_blackout(lab, daemon, ours, connecting.start, connecting.join, SYN_DOUBLED)
        ours.sendall(b"first")
        assert ours.recv(4096) == b"first"
        return late


def test_a_connection_begun_in_a_blackout(lab, echo):
    with lab.daemon(["freeze"]) as daemon:
        late = opened_late(lab, daemon, echo)
        assert late < AT_ONCE and said(daemon)["own_syns"] == 1, (late, said(daemon))
        daemon.api("/v1/modules/freeze", "PUT", {"enabled": False})
        late = opened_late(lab, daemon, echo)
        assert late > AT_ONCE and said(daemon)["own_syns"] == 1, "without the module it waits for its own timer"


@pytest.mark.parametrize(("modules", "echo"), [(["freeze"], True), (["freeze", "rate"], False)], ids=["freeze-v6", "freeze rate-v4"], indirect=["echo"])
def test_a_request_on_a_connection_that_is_older_than_the_daemon(lab, echo, modules):
    """Neither its SYN nor what it has sent so far was seen; with `rate` what it sends into the blackout is, and of the answers only a sample."""
    with echo.connected() as ours, lab.daemon(modules) as daemon:
        ours.sendall(b"second")
        assert ours.recv(4096) == b"second"
        time.sleep(0.2)
        late = request_late(lab, daemon, ours)
        assert late < AT_ONCE and said(daemon)["own_kicks"] == 1, (late, said(daemon))


def test_it_is_in_a_recording_which_replays_to_the_same(lab, echo, tmp_path):
    with lab.daemon(["freeze"], WHOLE) as daemon, echo.connected() as ours:
        request_late(lab, daemon, ours)
        opened_late(lab, daemon, echo)
        told = said(daemon)
        assert told["own_kicks"] == told["own_syns"] == 1
        recording = tmp_path / "whole.pcapng"
        recording.write_bytes(daemon.recording())
    assert recording.read_bytes().count(b"chain: SYN again, the link is back") == 1
    code, report = replay(recording)
    assert code == 0 and report["same"] and report["whole"] and report["skipped"] == 0, report
    assert all(flow["not_replayed"] is None for flow in report["flows"]) and sum(flow["injected"] for flow in report["flows"]) == told["injected"], report


def test_an_upload_goes_on_and_every_byte_arrives(lab):
    echo = Echo(lab, False)
    data = bytes(range(256)) * 8000
    with lab.daemon(["freeze"]) as daemon, echo.connected() as ours:
        sending = threading.Thread(target=ours.sendall, args=(data,), daemon=True)
        got = bytearray()

        def receive() -> None:
            while len(got) < len(data):
                got.extend(ours.recv(65536))

        receiving = threading.Thread(target=receive, daemon=True)
        receiving.start()
        sending.start()
        assert system.wait_until(lambda: len(got) > 100_000, 10)
        dark(lab, daemon, True)
        assert system.wait_until(lambda: doubled(ours) >= DOUBLED, 20, 0.02)
        before = len(got)
        dark(lab, daemon, False)
        assert system.wait_until(lambda: len(got) > before, AT_ONCE), said(daemon)
        receiving.join(60)
        assert bytes(got) == data and said(daemon)["own_kicks"] >= 1
    echo.close()


def test_a_route_that_is_back_after_the_link(make_lab, modules_needed):
    """As NetworkManager does it: the carrier first, the route when DHCP is done."""
    lab = make_lab("plain")  # whose routes are no other test's
    echo = Echo(lab, False)

    def default(what: str, device: str) -> list[str]:
        lines = lab.client.run(["ip", "-4", "route", "show", "default", "dev", device]).stdout.split()
        lab.client.run(["ip", "route", what, *lines, "dev", device])
        return lines

    with lab.daemon(["freeze"]) as daemon, echo.connected() as ours:
        dark(lab, daemon, True)
        ours.sendall(b"request")
        default("del", "cell0")  # by which the kernel would send it now, from an address that is Wi-Fi's
        route = default("del", "wlan0")
        assert system.wait_until(lambda: doubled(ours) >= DOUBLED, 20, 0.02)
        dark(lab, daemon, False)
        assert system.wait_until(lambda: said(daemon)["own_kicks"] == 1, 2)
        time.sleep(0.3)
        lab.client.run(["ip", "route", "add", *route, "dev", "wlan0"])
        back = time.monotonic()
        assert ours.recv(4096) == b"request"
        assert time.monotonic() - back < AT_ONCE and said(daemon)["own_kicks"] == 2, (time.monotonic() - back, said(daemon))
    echo.close()


def test_who_wants_to_be_told_of_icmp_is_left_alone(lab):
    """A program with IP_RECVERR would be told that its host cannot be reached."""
    echo = Echo(lab, False)
    with lab.daemon(["freeze"]) as daemon, echo.connected() as ours:
        ours.setsockopt(socket.IPPROTO_IP, IP_RECVERR, 1)
        request_late(lab, daemon, ours)
        assert said(daemon)["own_kicks"] == 0
    echo.close()


def test_an_excluded_connection_waits_for_its_own_timer(lab, tmp_path):
    echo = Echo(lab, False)
    with lab.daemon(["freeze"], {"daemon": {"saved_directory": str(tmp_path / "saved")}}) as daemon:
        daemon.api("/v1/exclusions", "POST", {"kind": "to", "what": f"{echo.place[0]}/32"})
        with echo.connected() as ours:
            late = request_late(lab, daemon, ours)
            assert late > AT_ONCE and said(daemon)["own_kicks"] == 0
    echo.close()
