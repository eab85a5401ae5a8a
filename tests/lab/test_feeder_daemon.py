"""The daemon with sources that lie, break off, or fall silent: it keeps running, says what it distrusts, and traffic flows."""

from __future__ import annotations

import json
import os
import pty
import re
import select
import signal
import socket
import struct
import subprocess
import threading
import time
from pathlib import Path

import pytest
from conftest import need_built
from test_feeder_monitor import AP, BEACON, DATA_DOWN, frame

from tandem_lab import system


@pytest.fixture
def lab(air_lab):
    need_built()
    return air_lab


class Radio:
    """Stands in for the lab's stream of captured frames: sends what the test wants, with times of its own."""

    def __init__(self, path: Path) -> None:
        path.unlink(missing_ok=True)
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen()
        self._peers: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                peer, _ = self._listener.accept()
            except OSError:
                return
            peer.sendall(struct.pack("<IHHIIII", 0xA1B23C4D, 2, 4, 0, 0, 65535, 127))
            self._peers.append(peer)

    def heard(self) -> bool:
        return bool(self._peers)

    def send(self, record: bytes, at: float | None = None) -> None:
        at = time.time() if at is None else at
        head = struct.pack("<IIII", int(at), int(at % 1 * 1e9), len(record), len(record))
        for peer in self._peers:
            peer.sendall(head + record)

    def close(self) -> None:
        self._listener.close()
        for peer in self._peers:
            peer.close()


@pytest.fixture
def radio(lab, tmp_path):
    made = Radio(tmp_path / "radio.sock")
    yield made
    made.close()


def config(tmp_path: Path, **links) -> dict:
    return {"detector": {"watch": "always"}, "links": {"radio": f"lab:{tmp_path / 'radio.sock'}", "modem": "none", **links}}


def own_address(lab) -> str:
    return lab.client.run(["cat", "/sys/class/net/wlan0/address"]).stdout.strip()


def source(daemon) -> dict:
    return daemon.api("/v1/links")["wifi"]["sources"][0]


def ap(daemon) -> dict:
    """Our access point; empty while nothing is known of it."""
    return next((one for one in daemon.api("/v1/links")["wifi"]["aps"] if one["ap"] == AP), {})


def carries_traffic(lab, daemon) -> bool:
    return lab.download("1M").error is None and daemon.process.poll() is None


def with_rate(record: bytes, half_megabits: int, signal_dbm: int) -> bytes:
    """The same frame with another rate and signal in its radiotap header."""
    changed = bytearray(record)
    changed[9] = half_megabits
    changed[14] = signal_dbm & 0xFF
    return bytes(changed)


def test_truncated_and_senseless_radiotap_is_skipped(lab, radio, tmp_path):
    with lab.daemon([], config(tmp_path)) as daemon:
        assert system.wait_until(radio.heard, 5)
        whole = frame(DATA_DOWN, own_address(lab), AP, number=7)
        for length in range(len(whole)):
            radio.send(whole[:length])
        radio.send(struct.pack("<BBHI", 0, 0, 12, 0x80000000) + b"\xff\xff\xff\xff" + bytes(30))  # presence words without end
        radio.send(b"\x09" * 60)
        radio.send(whole)
        assert system.wait_until(lambda: source(daemon)["reports"] >= 1, 5)
        assert source(daemon)["skipped"] > 20 and source(daemon)["state"] == "fresh"
        assert carries_traffic(lab, daemon)


def test_impossible_signals_are_absent_and_said(lab, radio, tmp_path):
    with lab.daemon([], config(tmp_path)) as daemon:
        assert system.wait_until(radio.heard, 5)
        whole = frame(DATA_DOWN, own_address(lab), AP)
        for number in range(100):
            radio.send(with_rate(whole, 108, -127))
        assert system.wait_until(lambda: source(daemon)["rejected"].get("impossible signal", 0) == 100, 5), source(daemon)
        assert "signal_dbm" not in ap(daemon)
        for number in range(20):
            radio.send(with_rate(whole, 1, -50))  # 0.5 Mb/s: no PHY has it
        assert system.wait_until(lambda: source(daemon)["rejected"].get("impossible rate", 0) == 20, 5), source(daemon)
        assert ap(daemon)["signal_dbm"] == -50
        log = daemon.log.read_text()
        assert log.count("is not accepted: impossible signal") == 1 and log.count("is not accepted: impossible rate") == 1
        assert carries_traffic(lab, daemon)


def test_a_recording_whose_clock_jumps_is_played_and_said(lab, tmp_path):
    """Times of a capture are put on our clock by the source; a recording carries them, and a jump, into the daemon."""
    own = own_address(lab)
    with lab.daemon([], config(tmp_path, radio="none", record=str(tmp_path / "made.jsonl"))) as daemon:
        assert system.wait_until(lambda: (tmp_path / "made.jsonl").exists(), 5)
        time.sleep(0.3)
    header = (tmp_path / "made.jsonl").read_text().splitlines()[0]
    lines = [header]
    at = json.loads(header)["start_ns"]
    for number in range(300):
        if number == 150:
            at -= 3_600_000_000_000  # the machine slept, or somebody glued two recordings together
        at += 2_000_000
        lines.append(json.dumps({"at_ns": at, "source": "lab", "kind": "frame", "type": "data", "receiver": own, "transmitter": AP, "from_ap": True,
                                 "sequence": number, "retry": False, "to_ap": False, "damaged": False, "payload": True, "mbps": 54.0, "signal": -50.0,
                                 "bytes": 1528, "sent": 0}))
    lines.insert(100, "this is no record")
    recording = tmp_path / "jump.jsonl"
    recording.write_text("\n".join(lines) + "\n")
    with lab.daemon([], config(tmp_path, radio=f"replay:{recording}")) as daemon:
        assert system.wait_until(lambda: source(daemon)["reports"] == 300, 15), source(daemon)
        assert source(daemon)["skipped"] == 1
        assert carries_traffic(lab, daemon)


def test_silence_is_told_and_what_was_known_is_absent(lab, radio, tmp_path):
    with lab.daemon([], config(tmp_path)) as daemon:
        assert system.wait_until(radio.heard, 5)
        whole = own_address(lab)
        for number in range(200):
            radio.send(frame(DATA_DOWN, whole, AP, number=number))
        assert system.wait_until(lambda: ap(daemon).get("delivery") == 1.0, 3)
        assert system.wait_until(lambda: source(daemon)["state"] == "stale", 5)
        assert "delivery" not in ap(daemon) and "packet_time_us" not in ap(daemon)
        assert "has reported nothing for 1 s" in daemon.log.read_text()
        radio.send(frame(BEACON, "ff:ff:ff:ff:ff:ff", AP))
        assert system.wait_until(lambda: source(daemon)["state"] == "fresh", 5)


def test_what_was_recorded_can_be_played_again(lab, tmp_path):
    recording = tmp_path / "radio.jsonl"
    with lab.daemon([], {"detector": {"watch": "always"}, "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none",
                                                                     "record": str(recording)}}) as daemon:
        going = lab.start_download("100M", seconds=10)
        going.wait_bytes(3_000_000)
        known = next(one for one in daemon.api("/v1/links")["wifi"]["aps"] if one["associated"])
        going.stop()
    assert recording.stat().st_mode & 0o077 == 0
    with lab.daemon([], {"detector": {"watch": "always"}, "links": {"radio": f"replay:{recording}", "modem": "none"}}) as daemon:
        def same() -> bool:
            again = next((one for one in daemon.api("/v1/links")["wifi"]["aps"] if one["associated"]), {})
            return again.get("ap") == known["ap"] and again.get("mbps") == known["mbps"] and abs(again.get("delivery", 0) - known["delivery"]) < 0.15
        assert system.wait_until(same, 10)


def test_links_are_watched_on_a_terminal(lab):
    with lab.daemon([], {"detector": {"watch": "always"}, "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}}) as daemon:
        going = lab.start_download("100M", seconds=15)
        going.wait_bytes(1_000_000)
        master, slave = pty.openpty()
        command = [str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "links", "--watch"]
        process = subprocess.Popen(command, stdout=slave, stderr=slave, env={**os.environ, "TERM": "xterm"})
        os.close(slave)
        seen = b""
        try:
            until = time.monotonic() + 10
            # The second picture has a past to show.
            while time.monotonic() < until and not re.search(r"[▁▂▃▄▅▆▇█]{2}".encode(), seen):
                if select.select([master], [], [], 0.2)[0]:
                    seen += os.read(master, 65536)
        finally:
            process.terminate()
            process.wait()
            os.close(master)
            going.stop()
        text = seen.decode(errors="replace")
        for part in ("ACCESS POINT", "DELIVERY", "BEACONS LOST", " ms", "dBm", "frames"):
            assert part in text, text
        assert re.search("[▁▂▃▄▅▆▇█]{2}", text), text


def recording_of_networks(file: Path, networks: dict[float, str]) -> Path:
    """What the driver would tell: associated with one access point, whose network has these names from these seconds on."""
    def line(at: float, **what) -> str:
        return json.dumps({"at_ns": int(at * 1e9), "source": "nl80211", **what}) + "\n"

    last = max(networks)
    lines = [json.dumps({"format": "tandem-reports", "version": 1, "start_ns": 0}) + "\n", line(0, kind="wifi", change="connected", ap=AP)]
    for at, ssid in networks.items():
        lines.append(line(at, kind="candidate", ap=AP, ssid=ssid, frequency=2412, associated=True))
    file.write_text("".join(lines) + line(last + 60, kind="wifi", change="connected", ap=AP))
    return file


def test_a_profile_holds_in_its_network_and_is_taken_back_elsewhere(lab, tmp_path):
    """Module switches, knobs, the budget and the use of the cellular link, without a restart; what is set for this run stays above it."""
    leaves_after = 14.0
    radio = recording_of_networks(tmp_path / "networks.jsonl", {0.5: "Office", leaves_after: "Cafe"})
    office = {"ssid": ["Office"], "cell": {"use": "never"}, "budget": {"cell_day": "3MB"},
              "modules": {"freeze": {"enabled": True}, "offload": {"window_mss": 50}, "mirror": {"enabled": False}}}
    settings = {"detector": {"watch": "always"}, "links": {"radio": f"replay:{radio}", "modem": "none"}, "profile": {"office": office},
                "modules": {"offload": {"added_delay_free": "2s", "goodput_loss_limit": 1.0}, "mirror": {"enabled": True}}}

    def state() -> dict:
        return daemon.api("/v1/status")

    def on() -> set[str]:
        return {one["name"] for one in state()["modules"] if one["enabled"]}

    def window() -> tuple[str, str]:
        knobs = next(one for one in daemon.api("/v1/modules") if one["name"] == "offload")["knobs"]
        return next((one["value"], one["from"].partition(":")[0]) for one in knobs if one["name"] == "window_mss")

    with lab.daemon(["offload"], settings) as daemon:
        started = time.monotonic()
        assert system.wait_until(lambda: state()["profile"]["name"] == "office", 5), state()["profile"]
        told = state()
        assert told["profile"]["why"] == 'the Wi-Fi network is "Office"' and told["profile"]["from"].startswith(f"{daemon.config_file}:")
        assert on() == {"offload", "freeze"} and window() == ("50", str(daemon.config_file))
        assert told["links"]["cell"]["denied"] == "the profile office says never" and not told["links"]["cell"]["route"]
        assert daemon.api("/v1/budget")["today"]["limit_bytes"] == 3_000_000
        shown = subprocess.run([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "status"], capture_output=True, text=True, timeout=30).stdout
        assert 'profile office: the Wi-Fi network is "Office"; ' in shown and 'cell.use = "never"' in shown, shown
        assert lab.download("1M").error is None and state()["datapath"]["cell_bytes"] == 0
        # A reload that changes the profile, and a setting of this run above it.
        daemon.config_file.write_text(daemon.config_file.read_text().replace("window_mss = 50", "window_mss = 60"))
        daemon.signal(signal.SIGHUP)
        assert system.wait_until(lambda: window()[0] == "60", 5)
        daemon.api("/v1/modules/mirror", "PUT", {"enabled": True})
        assert on() == {"offload", "freeze", "mirror"}
        assert time.monotonic() - started < leaves_after - 1, "this machine is too slow for the recording"

        assert system.wait_until(lambda: state()["profile"]["name"] == "", leaves_after + 5), state()["profile"]
        assert state()["profile"]["why"] == 'the Wi-Fi network is "Cafe", which is in no profile'
        assert on() == {"offload", "mirror"} and window() == ("20", "built-in")
        assert state()["links"]["cell"]["denied"] == "" and daemon.api("/v1/budget")["today"]["limit_bytes"] is None
        assert lab.download("random").error is None and state()["datapath"]["cell_bytes"] > 0
    assert "the profile office holds: " in daemon.log.read_text() and "the profile office holds no longer" in daemon.log.read_text()
