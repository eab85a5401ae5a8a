"""All modules on, as they are by default: whatever befalls a download, every byte arrives, and no module is found at fault."""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import need_built

from tandem_lab import Lab, foreign, system

MODULES = ("offload", "freeze", "mirror", "ecn")
SCENARIO = """
[scenario]
name = "together"
duration = "600s"
seed = 5
[wifi]
profile = "wifi-g"
{wifi}
[cell]
profile = "lte"
{cell}
[wan]
delay = "20ms"
[[server]]
name = "srv1"
congestion = "cubic"
{tables}
"""
BLACKOUT = '[[timeline]]\nat = "1500ms"\nfor = "1500ms"\nwhat = "blackout"\nmode = "{mode}"\n'
NEIGHBOUR = '[[station]]\nname = "sta1"\ndirection = "up"\nload = "saturated"\n'
WALK = """
[[ap]]
name = "ap1"
channel = 1
[[ap]]
name = "ap2"
channel = 6
[[ap]]
name = "ap3"
channel = 1
[[timeline]]
at = "0s"
what = "signal"
ap = "ap1"
points = [["0s", -45], ["1500ms", -78]]
[[timeline]]
at = "0s"
what = "signal"
ap = "ap2"
points = [["1500ms", -62], ["2200ms", -50], ["3s", -78]]
[[timeline]]
at = "1500ms"
what = "handoff"
ap = "ap2"
gap = "60ms"
[[timeline]]
at = "3s"
what = "handoff"
ap = "ap3"
gap = "60ms"
"""
TROUBLES: dict[str, dict[str, str]] = {
    "loss": {"wifi": "loss_down = 0.01\n"},
    "blackout": {"tables": BLACKOUT.format(mode="drop")},
    "blackout-buffered": {"tables": BLACKOUT.format(mode="buffer")},
    "walk": {"wifi": 'rate = "minstrel"\n', "tables": WALK},
    "busy": {"tables": NEIGHBOUR},
    "filtered": {"cell": "source_filter = true\n", "tables": BLACKOUT.format(mode="drop")},
    "nat": {"cell": "nat = true\n", "tables": BLACKOUT.format(mode="drop")},
    "everything": {"wifi": 'rate = "minstrel"\nloss_down = 0.003\n', "cell": "nat = true\n", "tables": WALK + NEIGHBOUR + BLACKOUT.format(mode="drop")},
}


@pytest.fixture(scope="module")
def modules_needed(with_air: None) -> None:
    """The tests need the daemon and every module."""
    need_built(*MODULES)


def scenario(trouble: str) -> str:
    return SCENARIO.format(**{"wifi": "", "cell": "", "tables": "", **TROUBLES[trouble]})


def happened(lab: Lab, trouble: str, result: Any) -> bool:
    """Whether the download met what the scenario is about; a test that met nothing proves nothing."""
    events = [event.get("event") for event in lab.events()]
    return {
        "loss": lambda: sum(loss.reason == "loss" for loss in lab.losses()) > 20,
        "walk": lambda: events.count("handoff") >= 2,
        "busy": lambda: result.goodput_mbps < 20,
        "filtered": lambda: "blackout" in events and lab.gateway_counters()["filtered"] > 0,
        "nat": lambda: "blackout" in events and sum(lab.gateway_counters().values()) > 0,
        "everything": lambda: events.count("handoff") >= 2 and "blackout" in events and len(lab.losses()) > 10,
    }.get(trouble, lambda: "blackout" in events)()


def without_fault(daemon) -> dict[str, dict[str, int]]:
    """Decisions by module; no module was excluded, failed or overruled."""
    entries = {entry["name"]: entry for entry in daemon.api("/v1/modules")}
    assert set(MODULES) <= set(entries) and all(entries[name]["enabled"] for name in MODULES)
    for name, entry in entries.items():
        assert entry["violations"] == {} and entry["excluded"] == 0 and entry["faults"] == 0, (name, entry)
    return {name: entry["decisions"] for name, entry in entries.items()}


@pytest.mark.parametrize("trouble", TROUBLES)
def test_every_byte_arrives_whatever_happens(make_lab, modules_needed, trouble):
    lab = make_lab(scenario(trouble))
    with lab.daemon(MODULES) as daemon:
        lab.start_timeline()
        result = lab.download("random", sha256=True, timeout=60)
        assert result.sha256 == lab.random_file["sha256"]
        assert happened(lab, trouble, result), (lab.events(), lab.gateway_counters(), result.goodput_mbps)
        decided = without_fault(daemon)
        assert any(decided[name] for name in MODULES), decided


@pytest.mark.parametrize("congestion, trouble", [("reno", "loss"), ("bbr", "everything")])
def test_other_senders_and_ipv6(make_lab, modules_needed, trouble, congestion):
    lab = make_lab(scenario(trouble), congestion=congestion)
    with lab.daemon(MODULES) as daemon:
        lab.start_timeline()
        result = lab.download("random", sha256=True, v6=True, timeout=60)
        assert result.sha256 == lab.random_file["sha256"]
        without_fault(daemon)


@pytest.mark.parametrize("trouble", ["loss", "blackout"])
def test_a_sender_that_is_not_linux(make_lab, modules_needed, trouble):
    if why := foreign.missing("gvisor"):
        pytest.skip(why)
    lab = make_lab(scenario(trouble), overrides={"wifi.loss_down": 0.003 if trouble == "loss" else 0})
    digest = lab.add_file("three", random.Random(6).randbytes(3_000_000))
    with lab.foreign_server("gvisor") as server, lab.daemon(MODULES) as daemon:
        lab.start_timeline()
        first = lab.download("three", server=server, sha256=True, timeout=90)
        second = lab.download("three", server=server, sha256=True, timeout=90)
        assert {first.sha256, second.sha256} == {digest}
        assert trouble != "loss" or sum(loss.reason == "loss" for loss in lab.losses()) > 3
        assert trouble != "blackout" or "blackout" in [event.get("event") for event in lab.events()]
        without_fault(daemon)


def test_up_switches_all_modules_on(air_lab, modules_needed, tmp_path):
    """`tandem up` on a machine without a configuration file."""
    tandem = [str(system.tandem_binary("tandem")), "--socket", str(tmp_path / "control.sock")]
    if Path("/etc/tandem/tandem.toml").exists():
        pytest.skip("/etc/tandem/tandem.toml: this machine has a configuration of its own")
    try:
        done = air_lab.client.run([*tandem, "up", "--wifi", "wlan0", "--cell", "cell0"])
        for name in MODULES:
            assert name in done.stdout.split("modules on:")[1], done.stdout
        assert air_lab.download("1M", sha256=True).error is None
    finally:
        subprocess.run(air_lab.client.argv([*tandem, "down"]), capture_output=True)
