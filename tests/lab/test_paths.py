"""The two ways out of the client: routes, families, the cellular gateway's filter and translation, the servers' TCP."""

from __future__ import annotations

import subprocess
from contextlib import contextmanager

import pytest

from tandem_lab import topology

_LISTEN = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[1], 7000)); s.settimeout(1.0); print('listening', flush=True)
try: print(s.recvfrom(100)[1][0])
except TimeoutError: print('nothing')
"""
_SEND = """
import socket, sys
s = socket.socket(socket.AF_INET6 if ':' in sys.argv[1] else socket.AF_INET, socket.SOCK_DGRAM)
s.bind((sys.argv[2], 0)); s.sendto(b'x', (sys.argv[1], 7000))
"""
FAMILY = [pytest.param(0, id="ipv4"), pytest.param(1, id="ipv6")]


@contextmanager
def _by_cell(lab, family: int):
    """Routes what goes to the server over cell0, whatever its source address."""
    to = (lab.server().ipv4, lab.server().ipv6)[family]
    route = [f"{to}/{(32, 128)[family]}", "via", topology.CELL_GATEWAY[family], "dev", "cell0"]
    lab.client.run(["ip", "route", "add", *route])
    try:
        yield
    finally:
        lab.client.run(["ip", "route", "del", *route])


def _seen_source(lab, family: int, source: str) -> str:
    """Sends a datagram from `source` over cell0; the source address that the server sees, or "nothing"."""
    to = (lab.server().ipv4, lab.server().ipv6)[family]
    listener = lab.server().popen(["/usr/bin/python3", "-c", _LISTEN, to], stdout=subprocess.PIPE, text=True)
    assert listener.stdout.readline() == "listening\n"
    with _by_cell(lab, family):
        lab.client.run(["/usr/bin/python3", "-c", _SEND, to, source])
        return listener.communicate(timeout=5)[0].strip()


@pytest.fixture
def plain_gateway(veth_lab):
    yield veth_lab
    veth_lab.set("cell.nat", False)
    veth_lab.set("cell.source_filter", False)


@pytest.mark.parametrize("family", FAMILY)
def test_wifi_source_over_cell_passes_without_filter(plain_gateway, family):
    assert _seen_source(plain_gateway, family, topology.WIFI_CLIENT[family]) == topology.WIFI_CLIENT[family]


@pytest.mark.parametrize("family", FAMILY)
def test_source_filter_drops_the_wifi_source_only(plain_gateway, family):
    plain_gateway.set("cell.source_filter", True)
    assert _seen_source(plain_gateway, family, topology.WIFI_CLIENT[family]) == "nothing"
    assert plain_gateway.gateway_counters()["filtered"] >= 1
    assert _seen_source(plain_gateway, family, topology.CELL_CLIENT[family]) == topology.CELL_CLIENT[family]
    plain_gateway.set("cell.source_filter", False)
    assert _seen_source(plain_gateway, family, topology.WIFI_CLIENT[family]) == topology.WIFI_CLIENT[family]


@pytest.mark.parametrize("family", FAMILY)
def test_nat_translates(plain_gateway, family):
    plain_gateway.set("cell.nat", True)
    gateway = topology.Uplink("cgw", 200).gateway_side[family]
    assert _seen_source(plain_gateway, family, topology.WIFI_CLIENT[family]) == gateway
    assert _seen_source(plain_gateway, family, topology.CELL_CLIENT[family]) == gateway


def test_download_over_cell_behind_nat(plain_gateway):
    plain_gateway.set("cell.nat", True)
    with _by_cell(plain_gateway, 0):
        before = plain_gateway.counters()["cell0"]["bytes_in"]
        result = plain_gateway.download("random", sha256=True)
        assert plain_gateway.counters()["cell0"]["bytes_in"] - before > result.bytes
    assert result.sha256 == plain_gateway.random_file["sha256"]


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
@pytest.mark.parametrize("tls", [False, True], ids=["http", "https"])
def test_download_is_whole(veth_lab, v6, tls):
    result = veth_lab.download("random", v6=v6, tls=tls, sha256=True, flows=2)
    assert [flow["sha256"] for flow in result.flows] == [veth_lab.random_file["sha256"]] * 2
    assert result.bytes == 2 * veth_lab.random_file["size"]


def test_default_way_is_wifi_and_acks_are_counted(veth_lab):
    with veth_lab.capture("client", "wlan0", "tcp and dst port 80") as pcap:
        result = veth_lab.download("10M")
    assert result.interfaces["cell0"]["bytes_in"] < 10000
    assert result.interfaces["wlan0"]["bytes_in"] > 10 << 20
    # A second opinion: tcpdump's count of segments that carry nothing but an ACK.
    pure = "tcp[tcpflags] & (tcp-syn|tcp-fin|tcp-rst|tcp-push) == 0 and (ip[2:2] - ((ip[0]&0xf)<<2) - ((tcp[12]&0xf0)>>2)) == 0"
    listed = subprocess.run(["tcpdump", "-n", "-Z", "root", "-r", str(pcap), pure], capture_output=True, text=True, check=True).stdout
    assert result.interfaces["wlan0"]["acks_out"] == len(listed.splitlines()) > 0
    assert result.interfaces["cell0"]["acks_out"] == 0


def test_acks_that_leave_by_cell_are_counted_there(veth_lab):
    with _by_cell(veth_lab, 0):
        result = veth_lab.download("10M")
    assert result.interfaces["cell0"]["acks_out"] > 0
    assert result.interfaces["wlan0"]["acks_out"] == 0


@pytest.mark.parametrize("congestion", ["cubic", "reno", "bbr"])
def test_server_runs_the_asked_congestion_control(make_lab, without_air, prefix, congestion):
    lab = make_lab(air=False, congestion=congestion, prefix=prefix[:-1] + "c-")
    download = lab.start_download(seconds=20)
    download.wait_bytes(1 << 20)
    assert [entry.congestion for entry in lab.sock_stats("srv1")] == [congestion]
    download.stop()


def test_socket_figures_agree_with_the_download(limited_by_the_cpu, veth_lab):
    download = veth_lab.start_download(seconds=20)
    download.wait_bytes(10 << 20)
    [entry] = veth_lab.sock_stats("srv1")
    result = download.stop()
    assert entry.cwnd >= 10 and entry.mss in range(1400, 1461) and entry.peer == topology.WIFI_CLIENT[0]
    assert 10 << 20 <= entry.bytes_acked <= result.bytes + (64 << 20)
    assert entry.peer_port == result.flows[0]["local_port"]


def test_unreachable_server_is_an_error_not_a_zero(veth_lab):
    done = veth_lab.start_download("nonesuch").wait()
    assert done.error and "404" in done.error
