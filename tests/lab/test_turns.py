"""A laptop whose Wi-Fi interfaces are one card that takes turns between two channels: access points that keep what they have, switches that cost 5 ms, kernel MPTCP."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT

from tandem_lab import Lab, virtual

pytestmark = pytest.mark.usefixtures("with_air")

TWO_CHANNELS = """
[scenario]
name = "two-channels"
summary = "access points on channels 1 and 11, the first one slow, and one card"
mptcp = true
seed = 5
[wifi]
profile = "wifi-g"
[cell]
enabled = false
[wan]
delay = "12.5ms"
[[ap]]
name = "ap1"
channel = 1
interface = "wlan0"
rate = "6"
[[ap]]
name = "ap2"
channel = 11
interface = "wlan1"
rate = "24"
[[server]]
name = "srv1"
congestion = "cubic"
"""


@pytest.fixture
def probe() -> Path:
    if not Path("/proc/sys/net/mptcp/enabled").exists():
        pytest.skip("this kernel has no MPTCP (CONFIG_MPTCP)")
    program = Path(os.environ.get("TANDEM_TURNS_PROBE") or ROOT / "build" / "tests" / "turns_probe")
    if not os.access(program, os.X_OK):
        pytest.skip(f"not built: {program} (cmake --build build --target turns_probe)")
    return program


def take_turns(lab: Lab, probe: Path, seconds: float, *words: str) -> list[dict[str, Any]]:
    """What the program says, to its end; subflows become backups as it wants."""
    process = lab.client.popen([str(probe), "lab", str(lab.directory / "control.sock"), "wlan0", "wlan1", "--seconds", str(seconds), *words],
                               stdout=subprocess.PIPE, text=True)
    lines = []
    for text in process.stdout:
        lines.append(line := json.loads(text))
        for number, interface in enumerate(("wlan0", "wlan1"), 1) if "backup" in line else ():
            lab.mptcp_backup(interface, number in line["backup"])
    assert process.wait() == 0 and lines, lines
    return lines


def present(lines: list[dict[str, Any]], interface: str) -> list[bool]:
    return [line["present"] for line in lines if line.get("interface") == interface]


def test_orders_are_carried_out_one_channel_at_a_time(make_lab, probe):
    """Without traffic the card goes to and fro for ever; in between, what is sent to it waits, and nothing is lost."""
    lab = make_lab(TWO_CHANNELS)
    ping = lab.client.popen(["ping", "-q", "-i", "0.05", "-c", "40", "-I", "wlan0", lab.server().ipv4], stdout=subprocess.PIPE, text=True)
    lines = take_turns(lab, probe, 2.5)
    told = ping.communicate(timeout=30)[0]
    assert " 0% packet loss" in told, told
    longest = float(told.rsplit("= ", 1)[1].split("/")[2])
    assert 90 < longest < 260, told  # a slot of the other channel, and 25 ms of WAN
    assert lines[-1]["failed"] == 0 and lines[-1]["orders"] > 20 and not lines[-1]["problem"], lines[-1]
    for interface in ("wlan0", "wlan1"):
        states = present(lines, interface)
        assert all(a != b for a, b in zip(states, states[1:])), states
    assert lines[-1]["longest_ms"] >= 5  # what a switch costs


def test_a_download_is_whole_and_stays_where_it_is_best(make_lab, probe):
    lab = make_lab(TWO_CHANNELS)
    download = lab.start_download("random", sha256=True)
    lines = take_turns(lab, probe, 6)
    result = download.wait()
    assert result.sha256 == lab.random_file["sha256"]
    assert [1] in [line["backup"] for line in lines if "backup" in line], lines
    shares = result.shares()
    assert shares["wlan1"] > shares["wlan0"] > 0.01, shares


def test_an_emulator_that_is_not_there_is_said(probe, tmp_path):
    done = subprocess.run([str(probe), "lab", str(tmp_path / "none"), "wlan0"], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2 and "is the lab up" in done.stderr


@pytest.mark.parametrize(("rate", "times"), [("6", 1.2), ("24", 1.0)])
def test_slots_for_ever_cost_more_than_staying_on_the_best_channel(probe, capsys, rate, times):
    """What docs/results/channels.md has: goodput over 20 s, the first 6 of which compare and empty, and what a switch costs."""
    if not virtual.inside():
        pytest.skip("80 s of downloads: in virtual time (tests/lab/virtual_run.py test_turns.py)")
    told: dict[str, Any] = {"rate": rate}
    for name, words in (("alone", None), ("turns", []), ("slots", ["--always"]), ("slots_20_ms", ["--always", "--cost", "20"])):
        with Lab(TWO_CHANNELS.replace('rate = "6"', f'rate = "{rate}"'), prefix="turns-") as lab:
            download = lab.start_download(seconds=20, warmup=6, interface="wlan1" if words is None else "")
            lines = take_turns(lab, probe, 20.5, *words) if words is not None else []
            result = download.wait()
            late = [{key: lines[-1][key] for key in ("orders", "late", "failed", "longest_ms")}] if lines else []
            told[name] = [round(result.goodput_mbps, 2), round(result.longest_gap(), 2), *late]
    with capsys.disabled():
        print(json.dumps(told))
    assert told["turns"][0] > times * told["slots"][0] and told["turns"][0] > 0.6 * told["alone"][0], told
