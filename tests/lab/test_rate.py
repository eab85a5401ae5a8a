"""modules/rate between real kernels: windows before a handoff, and R0 kept by the cellular link of an MPTCP download."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from conftest import need_built

from tandem_lab import system

pytestmark = pytest.mark.usefixtures("with_air")


@pytest.fixture(autouse=True)
def _built() -> None:
    need_built("rate")


def config(lab, **more: Any) -> dict[str, Any]:
    knobs = more.pop("rate", {})
    return {"links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "mptcp": {"setup": True}, "modules": {"rate": knobs}, **more}


def module(daemon) -> dict[str, Any]:
    return next(one for one in daemon.api("/v1/modules") if one["name"] == "rate")


def windows(capture: Path, client: str) -> list[tuple[float, int, int]]:
    """Of the client's ACKs: when (seconds since 1970), acknowledgement number, window. Of the first connection that is whole."""
    fields = ["frame.time_epoch", "ip.src", "tcp.stream", "tcp.ack", "tcp.window_size", "tcp.flags.syn", "tcp.flags.reset"]
    text = subprocess.run(["tshark", "-r", str(capture), "-T", "fields", *[word for field in fields for word in ("-e", field)]],
                          capture_output=True, text=True, check=True).stdout
    rows = [line.split("\t") for line in text.splitlines()]
    flag = ("1", "True")
    first = next(row[2] for row in rows if row[5] in flag and row[1] == client)
    return [(float(row[0]), int(row[3]), int(row[4])) for row in rows
            if row[1] == client and row[2] == first and row[5] not in flag and row[6] not in flag]


def test_the_window_is_short_before_a_handoff_and_its_edge_never_moves_back(leaving):
    """Real kernel TCP: bounded once the signal falls, never taken back, as the kernel has it before and after."""
    lab = leaving
    with lab.daemon(["rate"], config(lab)) as daemon, lab.capture("client", "wlan0", "tcp port 80") as capture:
        time.sleep(1)
        lab.start_timeline()
        began = time.time()
        download = lab.start_download(seconds=13)
        stages = set()
        while time.time() < began + 12:
            download.progress(0.1)
            stages.add(module(daemon)["report"].get("stage"))
        result = download.wait()
        told = module(daemon)
    assert result.error is None and result.longest_gap() < 2
    assert {"stationary", "pre-handoff"} <= stages, stages
    assert told["faults"] == 0 and told["violations"] == {} and told["decisions"]["rate: window bounded before a handoff"] > 100
    acks = windows(capture, lab.info["interfaces"]["wlan0"]["ipv4"])
    edge = newest = 0
    for when, ack, window in acks:
        if ack < newest:  # overtaken by a FIN that nobody queues: a sender takes no window from it (RFC 9293, SND.WL2)
            continue
        newest = ack
        assert ack + window >= edge, f"after {when - began:.3f} s: the right edge moved back by {edge - ack - window} bytes"
        edge = max(edge, ack + window)
    # At its least the path has 30 ms; what the air carries then is some 10 Mb/s. The window of before has first to be used up, which takes
    # longer where this machine is slow: how long before the handoff it is short is the benches' question.
    before = [window for when, _, window in acks if began + 7.5 < when < began + 7.95]
    plain = [window for when, _, window in acks if began + 0.8 < when < began + 1.2]
    after = [window for when, _, window in acks if began + 11 < when < began + 12]
    assert max(before[-20:]) < 0.7 * min(plain), (before[-20:], min(plain))
    assert min(before) >= 14_000, min(before)
    assert min(after) > 1.4 * min(before), (min(after), min(before))


def test_with_nothing_to_do_every_packet_passes_unchanged(leaving):
    lab = leaving
    with lab.daemon(["rate"], config(lab)) as daemon:
        assert lab.download("random", sha256=True).sha256 == lab.random_file["sha256"]
        path = daemon.api("/v1/status")["datapath"]
        assert path["queued"] > 100 and path["edited"] == path["dropped"] == path["injected"] == 0, path
        assert module(daemon)["decisions"] == {}


def carried(lab) -> tuple[int, int]:
    now = lab.counters()
    return now["wlan0"]["bytes_in"], now["cell0"]["bytes_in"]


def rates(lab, download, seconds: float) -> tuple[float, float]:
    """Mb/s on the wire by Wi-Fi and by cellular from now on."""
    before, began = carried(lab), time.monotonic()
    while time.monotonic() < began + seconds:
        download.progress(0.1)
    after, took = carried(lab), time.monotonic() - began
    return (after[0] - before[0]) * 8e-6 / took, (after[1] - before[1]) * 8e-6 / took


# TCP payload in what the interface counts: 1398 of 1514 bytes and a little.
PAYLOAD = 0.92


def test_r0_is_held_by_the_difference_and_cellular_is_saved_while_wifi_suffices(both):
    lab = both
    with lab.daemon(["rate"], config(lab, rate={"promise": True, "r0": "16Mbit"})) as daemon:
        download = lab.start_download(seconds=22, mptcp=True)
        rates(lab, download, 1)
        wifi, cell = rates(lab, download, 4)
        assert wifi > 20 and cell < 0.05, (wifi, cell)
        assert daemon.api("/v1/status")["datapath"]["cell_bytes"] == 0
        lab.set("wifi.rate_down", "8Mbit")
        rates(lab, download, 2.5)
        wifi, cell = rates(lab, download, 8)
        print("with Wi-Fi at 8 Mb/s:", wifi, cell, module(daemon)["report"])
        assert wifi < 8.6
        # 7.5 without the promise, 25 with both links all the time; how near it comes to 16 is the bench's (promise).
        assert PAYLOAD * (wifi + cell) > 12, (wifi, cell)
        assert PAYLOAD * cell < 12, (wifi, cell)
        assert module(daemon)["report"]["R0 held"] == "yes"
        # What is counted against the budget is what the interface carried.
        counted, there = module(daemon)["cell_bytes"], carried(lab)[1]
        assert 0.9 * there < counted < 1.1 * there, (counted, there)
        lab.set("wifi.rate_down", "25Mbit")
        rates(lab, download, 2.5)
        wifi, cell = rates(lab, download, 2)
        assert wifi > 20 and cell < 0.3, (wifi, cell)
        assert download.wait().error is None
        assert module(daemon)["faults"] == 0


def endpoints(lab) -> list[str]:
    return [line for line in lab.client.run(["ip", "mptcp", "endpoint", "show"]).stdout.splitlines() if "cell0" in line]


WIFI_ADDRESS = "10.77.1.2"


def wifi_endpoint(lab) -> bool:
    return f"{WIFI_ADDRESS} " in lab.client.run(["ip", "mptcp", "endpoint", "show"]).stdout


def with_own_endpoints(lab, daemon) -> None:
    """The lab makes one for the Wi-Fi address, and Tandem takes away only what it made: call before, with the lab's endpoint gone."""
    assert system.wait_until(lambda: wifi_endpoint(lab) and len(endpoints(lab)) == 2, 10), lab.client.run(["ip", "mptcp", "endpoint", "show"]).stdout
    assert daemon.api("/v1/status")["steering"]["endpoints_deleted"] == 0


def wifi_gone(lab, daemon, gone: bool) -> float:
    """Nothing comes by Wi-Fi, and the daemon knows; or it is back. Gives the time."""
    lab.set("wifi.blackout", "drop" if gone else "none")
    daemon.api("/v1/links/wifi/announce", "POST", {"what": "down" if gone else "up", "for_s": 20 if gone else 0.1})
    return time.monotonic()


def test_a_wifi_that_is_gone_loses_its_endpoint_and_cellular_goes_on_at_once(both):
    """The server is told by cellular, and sends there at once what was under way by Wi-Fi. Without it the stream waits for the server's timer."""
    lab = both
    lab.client.run(["ip", "mptcp", "endpoint", "flush"])
    with lab.daemon(["rate"], config(lab, rate={"promise": True})) as daemon:
        with_own_endpoints(lab, daemon)
        download = lab.start_download(seconds=12, mptcp=True, interval=0.02)
        rates(lab, download, 4)
        gone = wifi_gone(lab, daemon, True)
        assert system.wait_until(lambda: not wifi_endpoint(lab), 2)
        rates(lab, download, 2)
        assert not wifi_endpoint(lab)
        back = wifi_gone(lab, daemon, False)
        assert system.wait_until(lambda: wifi_endpoint(lab), 2)
        rates(lab, download, 2.5)
        wifi, _ = rates(lab, download, 1)
        assert wifi > 10, "the subflow by Wi-Fi is there again"
        result = download.wait()
        steering = daemon.api("/v1/status")["steering"]
        told = module(daemon)
    assert result.error is None and told["faults"] == 0 and told["violations"] == {}
    assert steering["refused"] == [] and told["decisions"]["rate: Wi-Fi is gone, cellular carries what was under way there"] == 1
    came = [(result.began + second, count) for second, count in result.samples]
    while_gone = max(count for second, count in came if second <= back) - max(count for second, count in came if second <= gone + 0.1)
    # 0.5 MB and less where the endpoint stays: what was under way by Wi-Fi comes when the server's timer has run out, and cellular's waits for it.
    assert while_gone > 1.5e6, while_gone
    assert not wifi_endpoint(lab), "undone at the daemon's end"


def test_a_wifi_that_is_gone_keeps_its_endpoint_while_a_budget_limits_cellular(both):
    """A download without another subflow could not be stopped when the budget is spent."""
    lab = both
    lab.client.run(["ip", "mptcp", "endpoint", "flush"])
    with lab.daemon(["rate"], config(lab, rate={"promise": True}, budget={"cell_bytes": "3MB"})) as daemon:
        with_own_endpoints(lab, daemon)
        download = lab.start_download(seconds=10, mptcp=True)
        rates(lab, download, 3)
        wifi_gone(lab, daemon, True)
        rates(lab, download, 4)
        assert wifi_endpoint(lab)
        told = module(daemon)
        assert 1e6 < told["cell_bytes"] < 3.8e6, told["cell_bytes"]
        assert told["report"]["promise"] == "rate: the cellular budget is spent"
        wifi_gone(lab, daemon, False)
        download.stop()


@pytest.mark.parametrize("both_killed", [False, True])
def test_an_endpoint_that_was_taken_away_leaves_no_trace_of_a_killed_daemon(both, both_killed):
    lab = both
    lab.client.run(["ip", "mptcp", "endpoint", "flush"])
    with lab.daemon(["rate"], config(lab, rate={"promise": True})) as daemon:
        with_own_endpoints(lab, daemon)
        download = lab.start_download(seconds=6, mptcp=True)
        rates(lab, download, 3)
        wifi_gone(lab, daemon, True)
        assert system.wait_until(lambda: not wifi_endpoint(lab), 2)
        if both_killed:
            daemon.signal(signal.SIGSTOP)
            keeper = int(lab.client.run(["pgrep", "-P", str(daemon.pid)]).stdout.split()[0])
            os.kill(keeper, signal.SIGKILL)
        daemon.kill()
        lab.set("wifi.blackout", "none")
        download.stop()
        daemon.start()  # undoes what the killed one left, and makes its own again
        assert system.wait_until(lambda: wifi_endpoint(lab) and len(endpoints(lab)) == 2, 10)
        # An endpoint by which some connection has its only subflow would stay (decision 0010).
        assert system.wait_until(lambda: all(line.startswith("TIME-WAIT") for line in lab.client.run(["ss", "-Htan", "dport = :80"]).stdout.splitlines()), 20)
    assert system.wait_until(lambda: lab.client.run(["ip", "mptcp", "endpoint", "show"]).stdout.strip() == "", 5)


def test_the_budget_ends_it_and_says_so(both):
    """Nothing more comes by cellular once it is spent, not even as a backup; and what cannot be held is told."""
    lab = both
    lab.set("wifi.rate_down", "6Mbit")
    with lab.daemon(["rate"], config(lab, rate={"promise": True}, budget={"cell_bytes": "4MB"})) as daemon:
        assert system.wait_until(lambda: len(endpoints(lab)) == 2, 10)
        download = lab.start_download(seconds=14, mptcp=True)
        rates(lab, download, 9)
        wifi, cell = rates(lab, download, 3)
        told = module(daemon)
        assert download.wait().error is None
        assert 1e6 < told["cell_bytes"] < 4.8e6, told["cell_bytes"]
        assert cell < 0.05 and wifi > 5, (wifi, cell)
        assert told["report"]["R0 held"] == "no" and told["report"]["promise"] == "rate: the cellular budget is spent", told["report"]


def test_links_that_carry_less_are_told(both):
    lab = both
    lab.set("wifi.rate_down", "5Mbit")
    lab.set("cell.rate_down", "4Mbit")
    with lab.daemon(["rate"], config(lab, rate={"promise": True})) as daemon:
        download = lab.start_download(seconds=30, mptcp=True)
        told: dict[str, Any] = {}

        def said() -> bool:
            told.update(module(daemon)["report"])
            return told.get("R0 held") == "no"

        assert system.wait_until(said, 25), told
        rates(lab, download, 2)
        told = module(daemon)["report"]
        download.stop()
    assert told["R0 held"] == "no" and told["promise"] == "rate: R0 is more than Wi-Fi and cellular carry now", told
    assert 3 < told["R1 (Mb/s)"] < 8 and 2 < told["R2 (Mb/s)"] < 6, told  # what arrives in bursts is measured a little higher


@pytest.mark.parametrize("line, words", [
    ('r0 = 0', 'modules.rate.r0 = 0: a number from 100000 to 10000000000 bit/s is needed'),
    ('r0 = "-3Mbit"', 'modules.rate.r0 = "-3Mbit": '),
    ('r0 = "18MB"', 'modules.rate.r0 = "18MB": '),
    ('r0 = "50Mbit"', "modules.rate: R0 is 50 Mb/s; the links carry at most 43 Mb/s together"),
    ('r1h = "30Mbit"', "modules.rate: R1h must be between 0 and C1, 25 Mb/s"),
    ('delta2 = 0', "modules.rate.delta2 = 0: "),
    ('noise = 20', "modules.rate.noise = 20: "),
    ('delta3 = 4', "modules.rate.delta3 = 4: no such knob; rate has: strategy, promise, roam, uploads, r0"),
])
def test_bad_knobs_are_told_with_place_and_value(tmp_path, line, words):
    file = tmp_path / "t.toml"
    file.write_text(f"[modules.rate]\n{line}\n")
    done = subprocess.run([str(system.tandem_binary("tandemd")), "--check", "-c", str(file)], capture_output=True, text=True, timeout=30)
    assert done.returncode == 2, done.stdout
    assert f"{file}:2: {words}" in done.stderr, done.stderr


def test_knobs_are_turned_while_it_runs(leaving):
    lab = leaving
    with lab.daemon([], {}) as daemon:
        tandem = str(system.tandem_binary("tandem"))

        def call(*words: str) -> subprocess.CompletedProcess:
            return lab.client.run([tandem, "--socket", str(daemon.socket), *words], check=False)

        assert call("module", "rate", "on").returncode == 0
        assert module(daemon)["enabled"]
        done = call("set", "rate.r0", "50Mbit")
        assert done.returncode != 0 and 'rate.r0 = "50Mbit": R0 is 50 Mb/s; the links carry at most 43 Mb/s together' in done.stderr, done.stderr
        assert call("set", "rate.c2", "30Mbit").returncode == 0
        assert call("set", "rate.r0", "50Mbit").returncode == 0
        assert call("set", "rate.promise", "on").returncode == 0
        report = json.loads(call("module", "rate", "--json").stdout)["report"]
        assert report["held at a handoff (Mb/s)"] == 35, report
        assert "rate: " in call("status").stdout
        assert call("module", "rate", "off").returncode == 0


def test_saved_knobs_that_fit_together_no_more_do_not_keep_the_daemon_from_starting(leaving):
    """They were fine above what the configuration said then; and they are forgotten together, whatever their order."""
    lab = leaving
    directory = {"daemon": {"saved_directory": str(lab.directory / "saved")}}
    tandem = str(system.tandem_binary("tandem"))
    with lab.daemon(["rate"], directory) as daemon:
        for knob, value in (("c2", "30Mbit"), ("r0", "50Mbit")):
            lab.client.run([tandem, "--socket", str(daemon.socket), "set", f"rate.{knob}", value, "--save"])
    with lab.daemon(["rate"], {**directory, "modules": {"rate": {"c1": "10Mbit", "r0": "18Mbit"}}}) as daemon:
        assert "the links carry at most 40 Mb/s together" in daemon.log.read_text()
        lab.client.run([tandem, "--socket", str(daemon.socket), "set", "rate.promise", "on"])
        assert "at most 40 Mb/s" in module(daemon)["report"]["promise"] or not module(daemon)["enabled"]
        lab.client.run([tandem, "--socket", str(daemon.socket), "saved", "--forget", "all"])
        knobs = {knob["name"]: knob["value"] for knob in module(daemon)["knobs"]}
        assert knobs["c2"] == "18000000" and knobs["r0"] == "18000000", knobs
