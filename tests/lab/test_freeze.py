"""modules/freeze between real TCPs: that nothing is lost, whatever the strategy and whenever the daemon ends."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from contextlib import contextmanager
from typing import Iterator

import pytest
from conftest import need_built

from tandem_lab import system

MSS = 1448
STRATEGIES = {  # and a reason that its decisions must show
    "auto": "freeze: resume ACK",
    "resume_acks": "freeze: resume ACK",
    "paced_release": "freeze: paced release by cellular",
    "lcd": "freeze: resume ACK",
    "proactive": "freeze: window closed, blackout predicted",
    "zero_window": "freeze: window closed by cellular",
}
# What follows a bulk part on one connection: a request, timed, whenever a line comes in; a line in answer to each.
KEPT_CONNECTION = r"""
import json, socket, sys, time
connection = socket.create_connection((sys.argv[1], 80), timeout=30)
connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
def fetch(path):
    began = time.perf_counter()
    connection.sendall(f"GET {path} HTTP/1.1\r\nHost: server\r\n\r\n".encode())
    data = b""
    while b"\r\n\r\n" not in data:
        data += connection.recv(65536)
    head, _, rest = data.partition(b"\r\n\r\n")
    left = next(int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:")) - len(rest)
    while left > 0:
        part = connection.recv(min(left, 262144))
        if not part: sys.exit("connection closed early")
        left -= len(part)
    return 1e3 * (time.perf_counter() - began)
for line in sys.stdin:
    print(json.dumps([fetch(path) for path in line.split()]), flush=True)
"""


@pytest.fixture(scope="module")
def module_needed(with_air: None) -> None:
    """The test needs the daemon and the module."""
    need_built("freeze")


@pytest.fixture
def lab(air_lab, module_needed):
    yield air_lab
    for key, value in (("wifi.blackout", "none"), ("wan.delay", "20ms"), ("cell.source_filter", False), ("cell.nat", False)):
        air_lab.set(key, value)


class Kept:
    """A connection that outlives its requests."""

    def __init__(self, lab):
        self._process = lab.client.popen(["/usr/bin/python3", "-c", KEPT_CONNECTION, lab.server().ipv4],
                                         stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def fetch(self, *paths: str) -> list[float]:
        """One request right after the other; their times in ms."""
        self._process.stdin.write(" ".join(paths) + "\n")
        self._process.stdin.flush()
        return json.loads(self._process.stdout.readline())

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


@contextmanager
def kept_connection(lab) -> Iterator[Kept]:
    connection = Kept(lab)
    try:
        yield connection
    finally:
        connection.close()


def config(strategy: str, **knobs) -> dict:
    return {"modules": {"freeze": {"strategy": strategy, **knobs}}}


def module(daemon) -> dict:
    return next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "freeze")


def decisions(daemon) -> dict[str, int]:
    return module(daemon)["decisions"]


def facts(daemon) -> dict:
    """What the module says of the flow that has moved most."""
    flows = [flow for flow in daemon.api("/v1/flows") if "freeze" in flow["modules"]]
    return max(flows, key=lambda flow: flow["delivered_bytes"])["modules"]["freeze"] if flows else {}


def held(daemon) -> float:
    """Bytes whose acknowledgement is withheld."""
    return facts(daemon).get("withheld (bytes)", 0.0)


def clean(daemon) -> None:
    """The guard had nothing to object to, and the module was not taken out."""
    entry = module(daemon)
    assert entry["violations"] == {} and entry["excluded"] == 0 and entry["faults"] == 0


def sent_again(lab) -> int:
    """Bytes that the server retransmitted on its richest connection."""
    return lab.sock_stats("srv1")[0].bytes_retrans


def through_a_blackout(lab, daemon, *, announced: bool = False, validated: bool = False, holds: bool = False, seconds: float = 0.5, **download):
    """The random file, with a blackout in its middle."""
    going = lab.start_download("random", sha256=True, **download)
    going.wait_bytes(lab.random_file["size"] // 3)
    if validated:
        assert system.wait_until(lambda: facts(daemon).get("cellular") == "validated", 2), decisions(daemon)
        # In a recovery nothing is withheld.
        assert system.wait_until(lambda: not holds or held(daemon) > 0, 2)
    if announced:
        daemon.api("/v1/links/wifi/announce", "POST", {"what": "risk", "for_s": 2})
        time.sleep(0.2)
    lab.set("wifi.blackout", "drop")
    time.sleep(seconds)
    lab.set("wifi.blackout", "none")
    result = going.wait()
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    assert result.longest_gap() >= seconds - 0.2, "there was no blackout"  # sampled every 0.1 s, and queues end later
    return result


def with_a_closed_window(lab, daemon):
    """A download of the random file, a third done, whose window is closed for a predicted blackout."""
    going = lab.start_download("random", sha256=True)
    going.wait_bytes(lab.random_file["size"] // 3)
    daemon.api("/v1/links/wifi/announce", "POST", {"what": "risk", "for_s": 10})
    assert system.wait_until(lambda: facts(daemon).get("phase") == "closed", 2)
    return going


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_blackout_loses_nothing(lab, strategy):
    with lab.daemon(["freeze"], config(strategy)) as daemon:
        through_a_blackout(lab, daemon, announced=strategy == "proactive", validated=strategy in ("paced_release", "zero_window"), holds=strategy == "paced_release")
        assert STRATEGIES[strategy] in decisions(daemon), decisions(daemon)
        clean(daemon)


def test_blackout_over_ipv6(lab):
    with lab.daemon(["freeze"]) as daemon:
        through_a_blackout(lab, daemon, v6=True)
        assert decisions(daemon)["freeze: resume ACK"] >= 1
        clean(daemon)


def test_blackout_without_cellular(lab):
    with lab.daemon(["freeze"], {"links": {"cell": "none"}}) as daemon:
        result = through_a_blackout(lab, daemon)
        assert decisions(daemon)["freeze: resume ACK"] >= 1
        assert result.interfaces["cell0"]["acks_out"] == 0
        clean(daemon)


def test_blackout_with_offload(lab):
    """Both modules validate the cellular path, and neither spoils the other's validation for good."""
    more = {"added_delay_free": "2s", "goodput_loss_limit": 1.0}
    with lab.daemon(["freeze", "offload"], {"modules": {"freeze": {"strategy": "paced_release"}, "offload": more}}) as daemon:
        through_a_blackout(lab, daemon)
        assert decisions(daemon)["freeze: resume ACK"] >= 1
        for entry in daemon.api("/v1/modules"):
            assert entry["violations"] == {} and entry["excluded"] == 0 and entry["faults"] == 0, entry


def test_a_nat_resets_nothing_when_a_long_blackout_was_predicted(lab):
    """The window that was closed is given back at the deadline. By cellular the server would hear of it from an address it does not know, and its reset
    has the number that the ACK had: all that has arrived would be the very number that the laptop waits for."""
    lab.set("cell.nat", True)
    with lab.daemon(["freeze"], config("proactive", deadline="1s")) as daemon:
        going = with_a_closed_window(lab, daemon)
        time.sleep(0.4)  # what stands in queues arrives
        lab.set("wifi.blackout", "buffer")
        assert system.wait_until(lambda: facts(daemon).get("why") == "freeze: blackout too long, left to TCP", 4), facts(daemon)
        time.sleep(0.3)
        lab.set("wifi.blackout", "none")
        result = going.wait()
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        clean(daemon)


def test_two_blackouts_and_a_filter(lab):
    """The cellular path is not validated: nothing but the copies is sent by it, and the flow recovers all the same."""
    lab.set("cell.source_filter", True)
    with lab.daemon(["freeze"], config("paced_release")) as daemon:
        going = lab.start_download("random", sha256=True)
        for part in (1, 2):
            going.wait_bytes(part * lab.random_file["size"] // 3)
            lab.set("wifi.blackout", "drop")
            time.sleep(0.6)
            lab.set("wifi.blackout", "none")
        result = going.wait()
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert "freeze: path probe by cellular" in decisions(daemon)
        assert "freeze: paced release by cellular" not in decisions(daemon)
        clean(daemon)


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_end_of_the_daemon_while_a_reserve_is_held(lab, end):
    """Killed: the server sends again what was withheld, no more. Stopped: nothing."""
    lab.set("wan.delay", "150ms")  # the server's tail loss probe comes after two round trips
    with lab.daemon(["freeze"], config("resume_acks", release_after="1s", withheld_queue=0, withheld_share=0.1)) as daemon, kept_connection(lab) as kept:
        kept.fetch("/1M", "/1M", "/1M")
        before = sent_again(lab)
        reserve = held(daemon)
        assert reserve >= MSS, facts(daemon)
        assert lab.sock_stats("srv1")[0].unacked > 0, "the server knows all"
        if end == "killed":
            daemon.kill()
        else:
            assert daemon.stop() == 0
        assert system.wait_until(lambda: lab.sock_stats("srv1")[0].unacked == 0, 5)
        time.sleep(0.5)
        again = sent_again(lab) - before
        print(f"{end}: {reserve:g} bytes were withheld, {again} sent again")
        if end == "killed":
            # Usually the last segment alone: whatever arrives twice makes the local TCP say all.
            assert again <= reserve + MSS, f"{again} bytes sent again, {reserve:g} were withheld"
        else:
            assert again == 0
        assert kept.fetch("/1k", "/100k")  # the connection is well


def test_killed_while_a_reserve_is_held_in_a_download(lab):
    """The download goes on, and the next ACK of the local TCP says all."""
    with lab.daemon(["freeze"], config("resume_acks")) as daemon:
        going = lab.start_download("random", sha256=True)
        going.wait_bytes(lab.random_file["size"] // 3)
        assert system.wait_until(lambda: held(daemon) > 0, 3)
        daemon.kill()
        result = going.wait()
        assert result.error is None and result.sha256 == lab.random_file["sha256"]


@pytest.mark.parametrize("end", ["killed", "stopped"])
def test_end_of_the_daemon_while_the_window_is_closed(lab, end):
    """The server asks for the window, and the local TCP tells it."""
    with lab.daemon(["freeze"], config("proactive", closed_longest="10s")) as daemon:
        going = with_a_closed_window(lab, daemon)
        time.sleep(0.8)  # what stands in queues arrives
        before = going.progress()[1]
        time.sleep(0.3)
        assert going.progress()[1] - before < 150_000, "the window is open"
        began = time.monotonic()
        if end == "killed":
            daemon.kill()
        else:
            assert daemon.stop() == 0
        result = going.wait()
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert time.monotonic() - began < 20


def test_request_after_a_bulk_part_is_not_delayed(lab):
    """On a kept connection a short request follows a bulk part at once, while a part of it is still unacknowledged."""
    paths = [f"/{name}" for _ in range(3) for name in ("1M", "1k")]
    with kept_connection(lab) as kept:
        plain = kept.fetch(*paths)[1::2]
    with lab.daemon(["freeze"], config("resume_acks")) as daemon:
        with kept_connection(lab) as kept:
            with_module = kept.fetch(*paths)[1::2]
        assert decisions(daemon)["freeze: ACK withheld"] > 0
        clean(daemon)
    assert statistics.median(with_module) <= 1.5 * statistics.median(plain) + 20, (plain, with_module)


def test_an_address_that_goes_and_comes_back_is_a_blackout(lab) -> None:
    """As an interface that is set down, or a machine that sleeps: nobody may speak meanwhile, and the server is asked at once when it is back."""
    client = lab.client
    [address] = [word for line in client.run(["ip", "-4", "-o", "addr", "show", "dev", "wlan0"]).stdout.splitlines() for word in line.split() if "/" in word][:1]
    resumed = "freeze: resume ACK"
    routes = client.run(["ip", "-4", "route", "show", "default", "dev", "wlan0"]).stdout.split("\n")
    with lab.daemon(["freeze"]) as daemon:
        going = lab.start_download("100G", seconds=60)
        time.sleep(2.0)
        before = decisions(daemon)
        lab.set("wifi.blackout", "drop")
        client.run(["ip", "addr", "del", address, "dev", "wlan0"])
        time.sleep(2.0)
        away = decisions(daemon)
        client.run(["ip", "addr", "add", address, "dev", "wlan0"])
        for route in filter(None, routes):
            client.run(["ip", "route", "add", *route.split(), "dev", "wlan0"])
        lab.set("wifi.blackout", "none")
        system.wait_until(lambda: decisions(daemon).get(resumed, 0) > before.get(resumed, 0), 5)
        assert away.get(resumed, 0) == before.get(resumed, 0), "in the name of an address that was gone"
        assert decisions(daemon).get(resumed, 0) > before.get(resumed, 0)
        going.stop()
        clean(daemon)
