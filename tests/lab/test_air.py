"""Real TCP over the emulated air: what the scenario says is what the traffic meets, and downloads survive it."""

from __future__ import annotations

import json
import shutil
import socket
import subprocess
import time
from typing import Any

import pytest

from tandem_lab import BadInput, system

AIR = pytest.mark.usefixtures("with_air")
pytestmark = AIR

# Two access points; the test hands the client over when it wants to.
HANDOFF = """
[scenario]
name = "two-aps"
summary = "a handoff 1 s after the start"
[wifi]
profile = "wifi-g"
[[ap]]
name = "ap1"
channel = 1
[[ap]]
name = "ap2"
channel = 6
[[server]]
name = "srv1"
[[timeline]]
at = "1s"
what = "handoff"
ap = "ap2"
gap = "60ms"
"""

BLACKOUT = """
[scenario]
name = "one-blackout"
summary = "1.5 s without Wi-Fi, 1 s after the start"
[wifi]
profile = "wifi-g"
[[server]]
name = "srv1"
[[timeline]]
at = "1s"
for = "1500ms"
what = "blackout"
mode = "drop"
"""

GATEWAY = """
[scenario]
name = "gateway"
summary = "filter and translation switched by the timeline"
[[server]]
name = "srv1"
[[timeline]]
at = "0ms"
for = "1s"
what = "source_filter"
[[timeline]]
at = "500ms"
what = "nat"
"""

SERVERS = """
[scenario]
name = "servers"
summary = "three servers, three congestion controls, one far away"
[[server]]
name = "srv1"
congestion = "cubic"
[[server]]
name = "srv2"
congestion = "reno"
[[server]]
name = "srv3"
congestion = "bbr"
delay = "80ms"
"""


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_download_is_whole(air_lab, v6):
    result = air_lab.download("random", v6=v6, sha256=True)
    assert result.sha256 == air_lab.random_file["sha256"]


def test_https_download_is_whole(air_lab):
    assert air_lab.download("random", tls=True, sha256=True).sha256 == air_lab.random_file["sha256"]


def test_round_trip_times_are_the_scenarios(air_lab):
    """20 ms each way on the WAN; on top 20 ms each way for LTE (jitter 3 ms), next to nothing for idle Wi-Fi."""
    wifi = sorted(air_lab.ping(count=9))
    cell = sorted(air_lab.ping(count=9, device="cell0"))
    assert 40 <= wifi[4] < 50
    assert 80 <= cell[4] < 100


def test_goodput_is_that_of_the_air(air_lab):
    """802.11g at 54 Mb/s carries less than 30 Mb/s of UDP; TCP with its ACKs on the same air, well below, but not nothing."""
    result = air_lab.download(seconds=4, warmup=1.5)
    assert 15 < result.goodput_mbps < 30
    assert result.interfaces["cell0"]["packets_in"] < 50


def test_ack_free_air_carries_more(make_lab, prefix):
    """The limit that offloading is measured against: with the ACKs off the air, the same air carries visibly more."""
    other = prefix[:-1] + "f-"
    rates = {}
    for free in (False, True):
        lab = make_lab("plain", prefix=other, overrides={"wifi.ack_free": free})
        rates[free] = lab.download(seconds=4, warmup=1.5).goodput_mbps
        lab.down()
    assert rates[True] > 1.1 * rates[False]


def test_emulator_and_kernel_agree_on_packets(air_lab):
    before = air_lab.counters()["wlan0"]["packets_in"]
    port_before = _to_kernel(air_lab, "wlan0")
    air_lab.download("1M")
    time.sleep(0.2)
    assert air_lab.counters()["wlan0"]["packets_in"] - before == _to_kernel(air_lab, "wlan0") - port_before > 0


def _to_kernel(lab, device: str) -> int:
    return next(port["to_kernel"] for port in lab.stats()["ports"] if port["name"] == device)


def test_loss_set_while_traffic_runs(make_lab):
    lab = make_lab("plain", congestion="reno")
    download = lab.start_download(seconds=30)
    download.wait_bytes(4 << 20)
    before = _lost(lab)  # a group-addressed frame has no retry and may be lost without this setting
    assert before <= 5
    lab.set("wifi.loss_down", 0.02)
    time.sleep(2.0)
    retransmitted = lab.sock_stats()[0].retrans
    download.stop()
    # 2 % of some hundred segments at least, and TCP had to send them again.
    assert _lost(lab) >= before + 3
    assert retransmitted >= 3


def _lost(lab) -> int:
    return lab.stats()["wifi"]["nodes"]["ap1"]["drops"]["loss"]


def test_bad_live_change_is_refused(air_lab):
    with pytest.raises(BadInput, match="wifi.los"):
        air_lab.set("wifi.los", 0.1)
    with pytest.raises(BadInput):
        air_lab.set("wifi.loss", 1.5)


def test_handoff_keeps_the_download(make_lab):
    lab = make_lab(HANDOFF)
    lab.start_timeline()
    # More than 1 s on this air, so the handoff falls into the middle.
    download = lab.start_download("random", sha256=True)
    event = lab.wait_event("handoff", timeout=10)
    assert event["ap"] == "ap2"
    assert "dev ap2" in lab.endpoint("wan").run(["ip", "route", "get", lab.client.ipv4]).stdout
    at_handoff = download.progress()[1]
    assert 0 < at_handoff < lab.random_file["size"]
    result = download.wait()
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    # The new access point carried the rest.
    carried = lab.stats()["wifi"]["nodes"]["ap2"]["bytes"]
    assert carried > (lab.random_file["size"] - at_handoff) / 2


def test_blackout_stops_and_the_download_resumes(make_lab):
    lab = make_lab(BLACKOUT)
    lab.start_timeline()
    download = lab.start_download("random", sha256=True)
    lab.wait_event("blackout", timeout=10, phase="begin")
    time.sleep(0.3)
    frozen = download.progress()[1]
    time.sleep(0.8)
    assert download.progress()[1] == frozen
    result = download.wait()
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    assert 1.2 < result.longest_gap() < 6.0  # the blackout itself, and the retransmission timer behind it


def test_timeline_switches_filter_and_translation(make_lab):
    lab = make_lab(GATEWAY)
    rules = ["nft", "list", "table", "inet", "tandem_lab_gateway"]
    assert " drop" not in lab.gateway.run(rules).stdout and "masquerade" not in lab.gateway.run(rules).stdout
    lab.start_timeline()
    lab.wait_event("source_filter", phase="begin")
    assert "name \"filtered\" drop" in lab.gateway.run(rules).stdout
    lab.wait_event("nat", phase="begin")
    both = lab.gateway.run(rules).stdout
    assert "masquerade" in both and "name \"filtered\" drop" in both
    lab.wait_event("source_filter", phase="end")
    last = lab.gateway.run(rules).stdout
    assert "masquerade" in last and "name \"filtered\" drop" not in last


def test_every_server_has_its_own_tcp_and_distance(make_lab):
    lab = make_lab(SERVERS)
    downloads = [lab.start_download(seconds=20, server=name) for name in ("srv1", "srv2", "srv3")]
    for download in downloads:
        download.wait_bytes(200_000)
    found = {name: lab.sock_stats(name)[0] for name in ("srv1", "srv2", "srv3")}
    for download in downloads:
        download.stop()
    assert {name: entry.congestion for name, entry in found.items()} == {"srv1": "cubic", "srv2": "reno", "srv3": "bbr"}
    assert found["srv3"].min_rtt_ms >= 160 > found["srv1"].min_rtt_ms


def test_ecn_marks_reach_tcp(make_lab):
    lab = make_lab("plain", overrides={"wan.ecn": "mark", "wan.rate": "8Mbit", "wan.threshold": "5ms"})
    download = lab.start_download(seconds=30)  # marked from the first round trips on, so it may be slow
    download.wait_bytes(1 << 20)
    entry = lab.sock_stats()[0]
    download.stop()
    assert entry.delivered_ce > 0
    assert lab.stats()["wan"]["srv1"]["down"]["marked"] > 0


def test_radiotap_stream_is_readable(air_lab):
    """The frames socket speaks pcap with radiotap headers: tcpdump reads it."""
    if not shutil.which("tcpdump"):
        pytest.skip("tcpdump: not found; install it: apt-get install tcpdump")
    data = b""
    with socket.socket(socket.AF_UNIX) as frames:
        frames.connect(str(air_lab.directory / "frames.sock"))
        frames.settimeout(3)
        download = air_lab.start_download("1M")
        while download.running():
            data += frames.recv(65536)  # beacons keep it coming
        download.wait()
    listed = subprocess.run(["tcpdump", "-n", "-r", "-", "-c", "500"], input=data, capture_output=True).stdout.decode()
    assert len(listed.splitlines()) == 500
    assert "Mb/s" in listed and "signal" in listed


@pytest.mark.parametrize("survey", [True, False])
def test_how_busy_the_air_is_reaches_the_daemon(make_lab, survey):
    """By a survey as drivers have it, in the stream of frames; with `survey = false` nobody knows."""
    lab = make_lab("plain", overrides={"wifi.survey": survey})
    with lab.daemon([], {"detector": {"watch": "always"}, "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}}) as daemon:
        def surveys() -> list[dict[str, Any]]:
            return daemon.api("/v1/links")["wifi"].get("surveys", [])

        def busy() -> float:
            """Share of 2 s."""
            before = surveys()[0]
            time.sleep(2)
            after = surveys()[0]
            return (after["busy_ms"] - before["busy_ms"]) / (after["active_ms"] - before["active_ms"])

        download = lab.start_download(seconds=9)
        download.wait_bytes(1_000_000)
        known = system.wait_until(lambda: surveys() and surveys()[0]["in_use"], 5.0)
        assert known is survey, surveys()
        if survey:
            # The download fills the air.
            assert len(surveys()) == 1 and busy() > 0.6
        download.stop()
        if survey:
            assert busy() < 0.25
        else:
            assert not surveys()


def test_shipped_scenarios_are_good(command):
    listed = json.loads(command("list", "--json").stdout)
    assert {"plain", "demo", "lossy", "blackout", "handoff", "filtered", "nat", "slow-cell"} <= {entry["name"] for entry in listed}
    for entry in listed:
        done = command("check", entry["name"])
        assert done.returncode == 0, done.stderr
        assert entry["summary"]


def test_run_ends_in_a_table_and_json(command):
    done = command("run", "plain", "--seconds", "2", "--set", "cell.delay=60ms", "--seed", "9", "--json")
    assert done.returncode == 0, done.stderr
    report = json.loads(done.stdout)
    assert report["seed"] == 9 and report["goodput_mbps"] > 3 and report["interfaces"]["wlan0"]["acks_out"] > 100
    table = command("run", "plain", "--seconds", "2")
    assert table.returncode == 0 and "goodput" in table.stdout and "pure ACKs out" in table.stdout
    assert table.stderr.count("Mb/s") >= 2  # progress as plain lines


EXACT = """
[scenario]
name = "exact"
summary = "20 Mb/s, a queue of half a bandwidth-delay product, 0.5 % loss behind it"
[wifi]
profile = "wifi-pipe"
rate_down = "20Mbit"
queue = 100000
queue_bytes = "50kB"
loss_down = 0.005
[[server]]
name = "srv1"
congestion = "bbr"
"""


def settled_losses(lab):
    """The emulator's counts of losses downwards and the losses it told, once both stand still: what was under way when the download
    was stopped is still lost for a while, and asking for the two takes two questions."""
    for _ in range(50):
        drops = lab.stats()["wifi"]["down"]["drops"]
        told = lab.losses(data=False)
        if lab.stats()["wifi"]["down"]["drops"] == drops:
            return drops, told
        time.sleep(0.1)
    raise AssertionError("packets are still being lost 5 s after the download")


def test_exact_wifi_carries_its_rate_and_every_loss_is_told(make_lab, prefix):
    """Goodput is bounded by the rate; the log has each lost packet, and the server had to send at least those again."""
    lab = make_lab(EXACT, prefix=prefix[:-1] + "x-", seed=5)
    result = lab.download(seconds=5, warmup=1)
    drops, every = settled_losses(lab)
    told = [loss for loss in every if loss.length > 0]
    assert 8 < result.goodput_mbps <= 20 * 1448 / 1500 * 1.02
    assert len(every) == drops["loss"] + drops["queue_full"] > 10
    assert {loss.reason for loss in told} <= {"loss", "queue_full"} and any(loss.reason == "loss" for loss in told)
    port = result.flows[0]["local_port"]
    for loss in told:
        assert (loss.link, loss.down, loss.source, loss.source_port, loss.destination_port) == ("wifi", True, lab.server().ipv4, 80, port)
        assert 0 < loss.length <= 1448 and loss.queued_bytes <= 50_000
        assert result.began <= loss.at <= result.began + result.seconds + 1
        assert loss.reason != "queue_full" or loss.queued_bytes > 50_000 - 1500
    repairs = lab.repairs()
    lost, repaired = {loss.seq for loss in told}, {repair.seq for repair in repairs}
    assert repaired <= lost and len(repairs) <= len(told)  # the loss of a repetition is told, too, and repaired with the first one
    assert 0.04 < sorted(repair.after for repair in repairs)[len(repairs) // 2] < 1.0  # the repetition takes a round trip
    # The last ones may still have been under way to be repeated when the download was stopped.
    end = result.began + result.seconds
    assert {loss.seq for loss in told if loss.at < end - 1.5} <= repaired and len(repaired) > 10
    assert lab.tcp_counters()["RetransSegs"] >= len(repaired)
