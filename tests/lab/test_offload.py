"""modules/offload between real TCPs: which way the ACKs go, and that nothing is lost whichever way that is."""

from __future__ import annotations

import random

import pytest
from conftest import need_built

from tandem_lab import system, topology

PIECE = 3_000_000  # bytes into a download: the window is above the threshold by then


@pytest.fixture(scope="module")
def module_needed(with_air: None) -> None:
    """The test needs the daemon and the module."""
    need_built("offload")


@pytest.fixture
def lab(air_lab, module_needed):
    yield air_lab
    for key, value in (("cell.source_filter", False), ("cell.nat", False), ("cell.delay", "20ms"), ("cell.down", False)):
        air_lab.set(key, value)


def offloads(daemon) -> list[dict]:
    """What the module says of every flow that has moved data."""
    return [flow["modules"]["offload"] for flow in daemon.api("/v1/flows")
            if flow["delivered_bytes"] > 500_000 and "offload" in flow["modules"]]


def phases(daemon) -> list[str]:
    return [facts["phase"] for facts in offloads(daemon)]


def module(daemon) -> dict:
    return next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "offload")


def decisions(daemon) -> dict[str, int]:
    return module(daemon)["decisions"]


def clean(daemon) -> None:
    """The guard had nothing to object to, and no module was taken out."""
    entry = module(daemon)
    assert entry["violations"] == {} and entry["excluded"] == 0 and entry["faults"] == 0


# A path of any delay is accepted: these tests are about validation, not about whether it pays.
ANY_DELAY = {"modules": {"offload": {"added_delay_free": "2s", "goodput_loss_limit": 1.0}}}


@pytest.mark.parametrize("congestion, v6", [("cubic", False), ("cubic", True), ("reno", True), ("bbr", False)], ids=["cubic-ipv4", "cubic-ipv6", "reno-ipv6", "bbr-ipv4"])
def test_acks_move_to_cellular_once_proved(make_lab, module_needed, congestion, v6):
    # A slow air, so that the file lasts: a probe that BBR's start makes fail is repeated after a pause, and at full rate
    # the third one may come after the end.
    lab = make_lab("plain", congestion=congestion, overrides={"wifi.rate": "18"})
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        going = lab.start_download("random", sha256=True, v6=v6)
        assert system.wait_until(lambda: "cellular" in phases(daemon) or not going.running(), 10) and going.running()
        result = going.wait()
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert result.interfaces["cell0"]["acks_out"] > 100
        clean(daemon)


@pytest.mark.parametrize("obstacle", ["cell.source_filter", "cell.nat"])
def test_no_way_means_wifi(lab, obstacle):
    lab.set(obstacle, True)
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        result = lab.download("random", sha256=True)
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        seen = decisions(daemon)
        assert "offload: by cellular" not in seen
        assert seen["offload: path not validated (filtered, NAT or too slow)"] >= 1
        # Probes are few: a handful of copies for each try, and the tries grow rarer.
        assert result.interfaces["cell0"]["acks_out"] <= 6 * seen["offload: probe begins"]
        clean(daemon)


def test_a_way_that_dies_is_left(lab):
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        going = lab.start_download("100M", seconds=12)
        assert system.wait_until(lambda: "cellular" in phases(daemon) or not going.running(), 10) and going.running()
        lab.set("cell.source_filter", True)
        assert system.wait_until(lambda: phases(daemon) != ["cellular"], 3)
        before = going.progress()[1]
        going.wait_bytes(before + PIECE)
        going.stop()
        seen = decisions(daemon)
        assert seen.get("offload: silence, back to Wi-Fi", 0) + seen.get("offload: path validation lost", 0) >= 1
        clean(daemon)


def test_a_nat_in_the_middle_resets_nothing(lab):
    """The server does not know the ACKs any more and answers each with an RST that carries its number; the last one stays the newest for a round trip."""
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        for _ in range(3):
            going = lab.start_download("100M", seconds=12)
            assert system.wait_until(lambda: "cellular" in phases(daemon) or not going.running(), 10) and going.running()
            lab.set("cell.nat", True)
            # No condition: while a loss is repaired all that matters leaves by Wi-Fi, and the dead path is not noticed.
            system.wait_until(lambda: "cellular" not in phases(daemon), 3)
            going.wait_bytes(going.progress()[1] + PIECE)
            assert going.running()
            assert going.stop().error is None
            lab.set("cell.nat", False)
        clean(daemon)


def test_cellular_interface_goes_down_while_away(lab):
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        going = lab.start_download("random", sha256=True)
        assert system.wait_until(lambda: "cellular" in phases(daemon) or not going.running(), 10) and going.running()
        lab.client.run(["ip", "link", "set", "cell0", "down"])
        try:
            assert system.wait_until(lambda: "cellular" not in phases(daemon), 3)
            result = going.wait()
            assert result.error is None and result.sha256 == lab.random_file["sha256"]
        finally:
            # The kernel forgets routes by an interface that goes down; whoever manages it brings them back.
            lab.client.run(["ip", "link", "set", "cell0", "up"])
            lab.client.run(["ip", "route", "replace", "default", "via", topology.CELL_GATEWAY[0], "dev", "cell0", "metric", "600"])
        clean(daemon)


def test_slower_way_is_proved_and_declined(lab):
    """120 ms more than Wi-Fi is more than the queue of this network holds: proved, perhaps, but not used."""
    lab.set("cell.delay", "150ms")
    with lab.daemon(["offload"]) as daemon:
        result = lab.download("random", sha256=True)
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert decisions(daemon).get("offload: by cellular", 0) < 200
        clean(daemon)


def test_budget_is_kept(lab):
    budget = 20_000
    with lab.daemon(["offload"], {"budget": {"cell_bytes": "20kB"}, **ANY_DELAY}) as daemon:
        result = lab.download("random", sha256=True)
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert 0 < daemon.api("/v1/status")["datapath"]["cell_bytes"] <= budget


def test_private_peers_never_go_by_cellular(lab):
    """The default, which the lab's daemons switch off: every address of the lab is a private one."""
    with lab.daemon(["offload"], {"links": {"private_peers": "never"}, **ANY_DELAY}) as daemon:
        going = lab.start_download("random", sha256=True)
        assert system.wait_until(lambda: any(flow.get("cell_denied") == "private-peer" for flow in daemon.api("/v1/flows")), 10)
        result = going.wait()
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert result.interfaces["cell0"]["acks_out"] == 0
        path = daemon.api("/v1/status")["datapath"]
        assert path["cell_bytes"] == 0 and path["private_peers"] >= 1
        assert decisions(daemon).get("offload: private-peer, never by cellular", 0) >= 1
        assert decisions(daemon).get("offload: probe begins", 0) == 0
        clean(daemon)


def test_short_transfers_are_left_alone(lab):
    with lab.daemon(["offload"]) as daemon:
        for _ in range(5):
            assert lab.download("1k").error is None
        assert decisions(daemon).get("offload: by cellular", 0) == 0
        assert decisions(daemon).get("offload: probe begins", 0) == 0


def test_published_strategy_splits_by_packet(lab):
    config = {"modules": {"offload": {"strategy": "fraction", "fraction": 0.5}}}
    with lab.daemon(["offload"], config):
        result = lab.download("random", sha256=True)
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        wifi, cell = result.interfaces["wlan0"]["acks_out"], result.interfaces["cell0"]["acks_out"]
        assert 0.3 < cell / (wifi + cell) < 0.7


def test_eight_downloads_at_once(lab):
    digest = lab.add_file("five", random.Random(8).randbytes(5_000_000))
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        going = [lab.start_download("five", sha256=True) for _ in range(4)]
        results = [one.wait() for one in going]
        assert all(result.error is None for result in results)
        assert {result.sha256 for result in results} == {digest}
        clean(daemon)


def test_acks_leave_by_both_links_where_cellular_is_too_slow_alone(make_lab, module_needed):
    """Aggregated frames: the access point keeps the air for several at a time, and ACKs by Wi-Fi come later than a copy by cellular would."""
    lab = make_lab("plain", overrides={"wifi.profile": "wifi-n", "cell.delay": "24ms"})
    with lab.daemon(["offload"]) as daemon:
        for _ in range(4):
            result = lab.download("random", sha256=True)
            assert result.error is None and result.sha256 == lab.random_file["sha256"]
            if decisions(daemon).get("offload: by cellular as well", 0) > 50:
                break
        assert decisions(daemon)["offload: by cellular as well"] > 50
        clean(daemon)


def test_acks_are_left_out_only_where_the_air_is_full(make_lab, module_needed):
    """Behind a wire that carries a third of what the air does nothing is saved by them (docs/results/thin-uplinks.md)."""
    lab = make_lab("plain", overrides={"cell.nat": True, "wan.rate_down": "8Mbit", "wan.queue_down": 200})
    content = random.Random(6).randbytes(7_000_000)

    def left_out(config: dict, size: int = len(content)) -> int:
        digest = lab.add_file("part", content[:size])
        with lab.daemon(["offload"], config) as daemon:
            result = lab.download("part", sha256=True)
            assert result.error is None and result.sha256 == digest
            clean(daemon)
            return decisions(daemon).get("offload: repeated by the next ACK", 0)

    survey = {"links": {"radio": f"lab:{lab.directory / 'frames.sock'}"}}
    unknown, room = left_out({}), left_out(survey)
    lab.set("wifi.rate", "6")
    full = left_out(survey, 4_000_000)
    # In the first second of a download no survey is known.
    assert unknown > 300 and full > 300 and room < unknown / 3, (unknown, room, full)
