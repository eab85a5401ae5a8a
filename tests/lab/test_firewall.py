"""ACKs by cellular beside a router on the way of the data that keeps the state of connections, as most homes have one: it must hear of them, or it drops what
it takes for beyond the window, or resets the connection (docs/decisions/0042)."""

from __future__ import annotations

import random
import time

import pytest
from conftest import need_built

from tandem_lab import system, topology

ALL = ["offload", "freeze", "mirror", "ecn"]
# A path of any delay is accepted: these tests are about what the router sees, not about whether it pays.
ANY_DELAY = {"modules": {"offload": {"added_delay_free": "2s", "goodput_loss_limit": 1.0}}}


@pytest.fixture(scope="module", autouse=True)
def modules_needed(with_air: None) -> None:
    for module in ALL:
        need_built(module)


def router(make_lab, firewall: str, **more):
    return make_lab("plain", overrides={"wifi.firewall": firewall, "wifi.rate": "18", **more.pop("overrides", {})}, **more)


# Each two of them meet.
@pytest.mark.parametrize(("modules", "congestion", "v6"), [(["offload"], "cubic", False), (["offload"], "bbr", True), (ALL, "bbr", False), (ALL, "cubic", True)],
                         ids=["offload-ipv4-cubic", "offload-ipv6-bbr", "all-ipv4-bbr", "all-ipv6-cubic"])
def test_no_packet_is_beyond_the_window(make_lab, modules, congestion, v6):
    lab = router(make_lab, "reject", congestion=congestion)
    by_cell = 0
    with lab.daemon(modules, ANY_DELAY) as daemon:
        for _ in range(3):  # what a sender loses in its first second keeps the ACKs of some downloads on Wi-Fi
            result = lab.download("random", sha256=True, v6=v6)
            assert result.error is None and result.sha256 == lab.random_file["sha256"]
            by_cell += result.interfaces["cell0"]["acks_out"]
            if by_cell > 500:
                break
        told = daemon.api("/v1/status")["datapath"]["own_way_told"]
    assert by_cell > 500
    assert 1 <= told < by_cell / 4, "they take air"
    seen = lab.router_counters()
    assert seen["invalid"] == 0 and seen["strange"] == 0 and seen["passed"] > 5000, seen


def test_that_it_keeps_the_state_shows(make_lab):
    """What the other tests find would be worth nothing with a router that lets all pass. The kernel itself sends the ACKs of this download by cellular."""
    lab = router(make_lab, "drop")
    lab.client.run(["ip", "rule", "add", "fwmark", "1", "lookup", "77"])
    lab.client.run(["ip", "route", "add", "default", "via", topology.CELL_GATEWAY[0], "dev", "cell0", "table", "77"])
    lab.client.run(["nft", "-f", "-"], input="""table inet away {
        chain out {
            type route hook output priority mangle; policy accept;
            tcp dport 80 ct original packets > 500 meta mark set 1
        }
    }
    """)
    download = lab.start_download("100M", seconds=30)
    assert system.wait_until(lambda: lab.router_counters()["invalid"] > 0, 20), lab.router_counters()
    download.stop()


@pytest.mark.parametrize("modules", [["offload"], ALL], ids=["offload", "all"])
def test_where_the_laptop_offers_little_its_acks_stay_on_wifi(make_lab, modules):
    lab = router(make_lab, "reject")
    digest = lab.add_file("four", random.Random(4).randbytes(4_000_000))  # as slow as it is, that takes longer than "random" elsewhere
    system.set_sysctls(lab.client.namespace, {"net.ipv4.tcp_rmem": "4096 32768 32768"})
    with lab.daemon(modules, ANY_DELAY) as daemon:
        result = lab.download("four", sha256=True)
        facts = next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "offload")
    assert result.error is None and result.sha256 == digest
    assert lab.router_counters()["invalid"] == 0
    assert facts["violations"] == {} and facts["faults"] == 0


@pytest.mark.parametrize("modules", [["offload"], ALL], ids=["offload", "all"])
def test_behind_a_nat_at_home_nothing_goes_by_cellular(make_lab, modules):
    """The server knows the router's address; a copy with the laptop's own is of no connection of its."""
    lab = router(make_lab, "reject", overrides={"wifi.nat": True})
    with lab.daemon(modules, ANY_DELAY) as daemon:
        result = lab.download("random", sha256=True)
        seen = next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "offload")["decisions"]
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    assert "offload: by cellular" not in seen
    assert seen["offload: path not validated (filtered, NAT or too slow)"] >= 1
    assert lab.router_counters()["translated"] >= 1


@pytest.mark.parametrize("firewall", ["drop", "reject"])
def test_a_blackout_passes(make_lab, firewall):
    """What was told into it may never have been heard."""
    lab = router(make_lab, firewall)
    with lab.daemon(ALL, ANY_DELAY) as daemon:
        download = lab.start_download("100M", seconds=25)
        download.wait_bytes(4_000_000)
        for _ in range(3):
            lab.set("wifi.loss", 1.0)
            time.sleep(0.7)
            lab.set("wifi.loss", 0.0)
            download.wait_bytes(download.progress()[1] + 2_000_000)
        assert download.stop().error is None
    assert lab.router_counters()["invalid"] == 0
