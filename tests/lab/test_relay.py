"""Behind a NAT at home and a carrier's NAT, through tunnels by both links to a relay of one's own, set up with the files of `tandem relay` (docs/relay.md).
Where this kernel has no WireGuard the whole file runs in virtual time, whose kernel has."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import need_built

from tandem_lab import relay, system, topology, virtual
from tandem_lab import virtual_machine as machine
from tandem_lab.errors import LabError

ALL = ["offload", "freeze", "mirror", "ecn"]
ANY_DELAY = {"modules": {"offload": {"added_delay_free": "2s", "goodput_loss_limit": 1.0}}}
# A queue in which BBR loses nothing: with losses it may stay on Wi-Fi, by chance and by design (offload: losses keep ACKs on Wi-Fi).
NATS = {"scenario.relay": True, "wifi.firewall": "reject", "wifi.nat": True, "cell.nat": True, "wifi.rate": "18", "wifi.queue": 400}


def has_wireguard() -> bool:
    return subprocess.run(["unshare", "-n", "ip", "link", "add", "wg9", "type", "wireguard"], capture_output=True).returncode == 0


HERE = has_wireguard()
needs_wireguard = pytest.mark.skipif(not HERE, reason="this kernel has no WireGuard; in virtual time, see test_in_virtual_time")


@pytest.mark.skipif(HERE, reason="this kernel has WireGuard")
def test_in_virtual_time() -> None:
    if virtual.inside():
        pytest.fail("the lab's kernel has no WireGuard")
    try:
        machine.requirements()
    except LabError as error:
        pytest.skip(str(error))
    done = subprocess.run([sys.executable, "-B", str(Path(__file__).with_name("virtual_run.py")), Path(__file__).name, "-k", "not virtual_time"],
                          capture_output=True, text=True, timeout=500, env=dict(os.environ))
    assert done.returncode == 0 and " passed" in done.stdout and " skipped" not in done.stdout, done.stdout[-3000:] + done.stderr[-1000:]


@pytest.fixture
def lab(make_lab, with_air: None):
    for module in ALL:
        need_built(module)
    return make_lab("plain", overrides=NATS)


def sent_by(lab, device: str) -> tuple[int, int]:
    """Packets and bytes that left by an interface of the client, as its counters have it."""
    counted = json.loads(lab.client.run(["ip", "-s", "-j", "link", "show", device]).stdout)[0]["stats64"]["tx"]
    return counted["packets"], counted["bytes"]


def rules(lab) -> str:
    return lab.client.run(["ip", "rule"]).stdout + lab.client.run(["ip", "-6", "rule"]).stdout


@needs_wireguard
@pytest.mark.parametrize("congestion, v6", [("cubic", False), ("bbr", True)], ids=["cubic-ipv4", "bbr-ipv6"])
def test_acks_leave_by_cellular_and_nothing_is_damaged(make_lab, with_air, v6, congestion):
    lab = make_lab("plain", overrides=NATS, congestion=congestion)
    with lab.daemon(ALL, ANY_DELAY) as daemon:
        result = lab.download("random", sha256=True, v6=v6)
        status = daemon.api("/v1/status")
        modules = daemon.api("/v1/modules")
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    assert sent_by(lab, relay.CELL)[0] > 500, [entry["decisions"] for entry in modules if entry["name"] == "offload"]
    assert all(entry["violations"] == {} and entry["faults"] == 0 for entry in modules), modules
    assert status["links"]["wifi"]["interface"] == relay.WIFI and status["links"]["wifi"]["lower"] == "wlan0" and not status["hands_off"]
    # What costs is counted with all that is around it, and not beyond all measure.
    assert sent_by(lab, "cell0")[1] * 0.95 < status["links"]["cell"]["bytes_out"] < sent_by(lab, "cell0")[1] * 1.6
    # The relay's tunnels are all that the routers see.
    assert lab.router_counters()["invalid"] == 0 and lab.gateway_counters()["untranslatable"] == 0
    assert "8483" not in rules(lab) and "8484" not in rules(lab)


@needs_wireguard
def test_behind_nats_it_takes_the_relay(make_lab, with_air):
    """What the others find would be worth little if ACKs could leave by cellular without it."""
    lab = make_lab("plain", overrides={**NATS, "scenario.relay": False})
    with lab.daemon(ALL, ANY_DELAY):
        result = lab.download("random", sha256=True)
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    assert sent_by(lab, "cell0")[0] < 200


@needs_wireguard
def test_without_the_tunnel_by_cellular_nothing_leaves_there(lab):
    lab.client.run(["wg-quick", "down", str(lab.directory / "relay" / "laptop" / f"{relay.CELL}.conf")])
    with lab.daemon(ALL, ANY_DELAY) as daemon:
        before = sent_by(lab, "cell0")[0]
        result = lab.download("random", sha256=True)
        cell = daemon.api("/v1/status")["links"]["cell"]
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    assert sent_by(lab, "cell0")[0] - before <= 3, "neighbour discovery at most"
    assert "is not there" in cell["why"] and cell["interface"] == ""


@needs_wireguard
def test_flows_go_by_wifi_directly_once_the_tunnel_is_gone(lab):
    with lab.daemon(ALL, ANY_DELAY) as daemon:
        assert lab.download("1M").error is None
        lab.client.run(["wg-quick", "down", str(lab.directory / "relay" / "laptop" / f"{relay.WIFI}.conf")])
        assert system.wait_until(lambda: daemon.api("/v1/status")["links"]["wifi"]["interface"] == "wlan0", 5)
        result = lab.download("random", sha256=True)
        flows = daemon.api("/v1/flows")
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert any(flow["local"].startswith(topology.WIFI_CLIENT[0]) and flow["delivered_bytes"] > 1_000_000 for flow in flows)
        lab.client.run(["wg-quick", "up", str(lab.directory / "relay" / "laptop" / f"{relay.WIFI}.conf")])
        assert system.wait_until(lambda: daemon.api("/v1/status")["links"]["wifi"]["interface"] == relay.WIFI, 5)
        again = lab.download("random", sha256=True)
        assert again.error is None and again.sha256 == lab.random_file["sha256"]
        assert not daemon.api("/v1/status")["hands_off"]


@needs_wireguard
def test_doctor_says_which_tunnel_has_a_mark_that_leads_it_elsewhere(lab):
    with lab.daemon(ALL, ANY_DELAY) as daemon:
        def told() -> tuple[str, str]:
            check = next(check for check in daemon.api("/v1/doctor")["checks"] if check["name"] == "relay")
            return check["health"], check["found"]

        def mark(tunnel: str, value: str) -> None:
            lab.client.run(["wg", "set", tunnel, "fwmark", value])

        marks = next(check for check in daemon.api("/v1/doctor")["checks"] if check["name"].startswith("mark bits"))
        assert marks["health"] == "ok", marks  # "not fwmark 0xca6c" of wg-quick: who has Tandem's bits has not that mark either
        chosen = lab.client.run(["wg", "show", relay.WIFI, "fwmark"]).stdout.strip()
        assert told() == ("ok", f"by {relay.WIFI} and {relay.CELL}")
        mark(relay.CELL, "off")
        assert told() == ("warn", f"{relay.CELL} has no firewall mark (FwMark), not 0x54: its own packets do not find the modem")
        mark(relay.CELL, "0x55")
        assert told()[1].startswith(f"{relay.CELL} has the firewall mark 0x55 (FwMark), not 0x54")
        mark(relay.CELL, "0x54")
        mark(relay.WIFI, "0x54")
        assert told()[0] == "warn" and told()[1].endswith("its own packets leave by the modem")
        mark(relay.WIFI, "0x10000001")
        assert told()[0] == "warn" and "of which 0x10000000 is Tandem's" in told()[1]
        mark(relay.WIFI, chosen)
        assert told()[0] == "ok"


@needs_wireguard
def test_blackouts_are_those_of_the_card_below(lab):
    with lab.daemon(ALL, ANY_DELAY) as daemon:
        download = lab.start_download("100M", seconds=14)
        download.wait_bytes(2_000_000)
        lab.set("wifi.blackout", "drop")
        assert system.wait_until(lambda: not daemon.api("/v1/status")["links"]["wifi"]["up"], 5)
        lab.set("wifi.blackout", "none")
        assert system.wait_until(lambda: daemon.api("/v1/status")["links"]["wifi"]["up"], 5)
        carried = download.progress(0.1)[1]
        assert system.wait_until(lambda: download.progress(0.2)[1] > carried + 1_000_000, 5)
        assert daemon.api("/v1/status")["links"]["wifi"]["blackout"]["verdicts"]["silence"] >= 1
        download.stop()
