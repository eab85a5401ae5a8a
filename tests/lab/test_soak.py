"""The endurance run, short; and what its long runs have found, by itself."""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest
from conftest import ROOT

sys.path.insert(0, str(ROOT / "tools" / "endurance"))

from tandem_lab import LabError, system  # noqa: E402
from tandem_lab.life import LabState  # noqa: E402
from tandem_soak.captures import Captures  # noqa: E402
from tandem_soak.packets import ACK, RST  # noqa: E402
from tandem_soak.resets import decisive, resets  # noqa: E402

SOAK = ROOT / "tools" / "soak"


@pytest.fixture(autouse=True)
def daemon_needed(without_air: None) -> None:
    try:
        system.tandem_binary("tandemd")
    except LabError as error:
        pytest.skip(str(error))


def soak(prefix: str, *words: str, **options: object) -> subprocess.Popen:
    return subprocess.Popen([str(SOAK), "--prefix", prefix, *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **options)


def test_a_short_run_finds_nothing(with_air, leaves_nothing, prefix, tmp_path):
    """Everything at once for some seconds. How much gets through is not the matter, nor whether a connection broke (docs/results/soak.md says why),
    but that nothing was changed, hung or leaked."""
    running = soak(prefix, "--for", "6s", "--seed", "5", "--threads", "6", "--no-mptcp", "--json", str(tmp_path / "report.json"))
    said, errors = running.communicate(timeout=280)
    report = json.loads((tmp_path / "report.json").read_text()) if (tmp_path / "report.json").exists() else {}
    zero = {what: count for what, count in report.get("zero", {"no report": 1}).items() if what != "broken"}
    assert not any(zero.values()), said + errors
    assert running.returncode == (1 if report["zero"]["broken"] or report["lab_errors"] else 0), said + errors
    assert report["transfers"]["whole"] > 0 and report["lives"] > 1
    for befell in ("module toggles", "kill -9 of the daemon", "SIGSTOPs of the daemon", "flaps of wlan0", "reloads", "blackouts of Wi-Fi", "upgrades", "suspends", "fades of the signal"):
        assert report["disturbances"].get(befell, 0) > 0, befell
    assert report["daemon"]["sleeps noticed"] > 0, "CLOCK_BOOTTIME leapt, and no daemon has seen it"


def test_a_reset_is_kept_with_its_origin_and_interrupted_it_cleans_up(with_air, leaves_nothing, prefix, tmp_path):
    running = soak(prefix, "--for", "10min", "--no-mptcp", "--json", str(tmp_path / "report.json"), start_new_session=True)
    assert system.wait_until(lambda: (LabState(prefix).directory / "tandemd.sock").exists() or running.poll() is not None, 60)

    def kept() -> list[dict]:
        """Transfers that the server reset."""
        faults = [json.loads(file.read_text()) for file in tmp_path.glob("report-kept/*/fault.json")]
        return [fault for fault in faults if fault.get("reset", "").startswith("the server") and "not seen" not in fault["reset"]]

    def planted() -> list[dict]:
        system.call(["ss", "-K", "state", "established", "sport", "=", ":80"], namespace=f"{prefix}srv1")
        return kept()

    system.wait_until(planted, 60, pause=2.0)
    os.killpg(running.pid, signal.SIGINT)
    said, errors = running.communicate(timeout=120)
    assert running.returncode == 130, said + errors
    assert "interrupted" in said and not LabState(prefix).exists()
    assert kept(), said + errors
    fault = kept()[0]
    assert fault["outcome"] == "broken" and fault["daemon"]["life"] >= 1 and fault["disturbances"]
    place = next(tmp_path.glob(f"report-kept/*-port-{fault['port']}"))
    assert all((place / name).stat().st_size > 24 for name in ("client.pcap", "srv1.pcap", "daemon.log"))
    reported = {one["port"]: one for one in json.loads((tmp_path / "report.json").read_text())["bad"]}
    assert all(reported[one["port"]]["reset"] == one["reset"] and Path(reported[one["port"]]["packets"]).is_dir() for one in kept())
    assert f"reset by: {fault['reset']}" in said and str(place) in said


def forged(source: str, source_port: int, to: str, to_port: int, number: int, flags: int) -> bytes:
    """An IPv4 packet for a raw socket, which completes it. The checksum of its TCP is wrong, so nobody believes it."""
    ends = socket.inet_aton(source) + socket.inet_aton(to)
    return struct.pack("!BBHHHBBH", 0x45, 0, 40, 0, 0, 64, 6, 0) + ends + struct.pack("!HHIIBBHHH", source_port, to_port, number, 0, 5 << 4, flags, 0, 1, 0)


def test_origins_of_resets(veth_lab):
    """One that is in nobody's capture but the client's, and one that the client sends but not its kernel."""
    client, server = veth_lab.client, veth_lab.server()
    with Captures(client, server, "origins-") as captures, system.inside(client.namespace), socket.create_connection((server.ipv4, 80), 10) as connection:
        here, port = connection.getsockname()
        with system.inside(f"{veth_lab.prefix}wan"), socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
            raw.sendto(forged(server.ipv4, 80, here, port, 1001, RST), (here, 0))
        with socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_RAW) as raw:
            raw.sendto(forged(here, port, server.ipv4, 80, 1002, RST | ACK), (server.ipv4, 0))
        files, read, ports = captures.flow(port, mptcp=False)
        told = captures.kernel.told()
        found = resets(read["client"], read[server.role], told, ports)
        assert {one.first.seq: one.taken for one in found} == {1001: False, 1002: False}, found
        by = {one.first.seq: one.origin for one in found}
        assert by[1001].startswith("something between client and server")
        assert by[1002].startswith("the client, by a raw socket" if told is not None else "the client, its kernel or the daemon")
        assert all(len(data) > 24 for data in files.values())

        server.run(["ss", "-K", "dport", "=", str(port)])
        files, read, ports = captures.flow(port, mptcp=False)
        last = decisive(resets(read["client"], read[server.role], captures.kernel.told(), ports))
        assert last and last.taken and last.origin.startswith("the server"), last
        assert told is None or "its kernel" in last.origin


@pytest.mark.parametrize("words", [("--for", "soon"), ("--for", "10min", "--threads", "0")])
def test_wrong_usage_is_two(words):
    done = subprocess.run([str(SOAK), *words], capture_output=True, text=True)
    assert done.returncode == 2 and "allowed:" in done.stderr


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR1])
def test_a_request_while_it_starts_waits(tmp_path: Path, number):
    """A reload in the first moments ended the daemon, and a service manager takes SIGHUP's death for an orderly end."""
    file, lock, log = tmp_path / "tandem.toml", tmp_path / "run" / "tandemd.lock", tmp_path / "log"
    file.write_text(f'[links]\ncell = "none"\n[daemon]\nsocket = "{tmp_path}/run/control.sock"\nsaved_directory = "{tmp_path}/saved"\n'
                    f'[recorder]\ndirectory = "{tmp_path}"\n[evidence]\nshare = 0\npaths = false\n[budget]\ncell_day = ""\ncell_month = ""\n')
    with open(log, "wb") as output:
        daemon = subprocess.Popen(["unshare", "--net", str(system.tandem_binary("tandemd")), "-c", str(file)], stdin=subprocess.DEVNULL, stdout=output, stderr=output)
    try:
        assert system.wait_until(lambda: lock.exists() and lock.read_text().strip() == str(daemon.pid) or daemon.poll() is not None, 20, pause=0.0005)
        deadline = time.monotonic() + 20
        while "ready, control socket" not in log.read_text() and daemon.poll() is None and time.monotonic() < deadline:
            daemon.send_signal(number)
            time.sleep(0.001)
        done = "taken over" if number == signal.SIGHUP else "recording saved"
        assert system.wait_until(lambda: done in log.read_text() or daemon.poll() is not None, 20)
        assert daemon.poll() is None, log.read_text()
    finally:
        daemon.terminate()
        daemon.wait(20)


def test_setting_of_the_cellular_interface_is_given_back_after_both_were_killed(veth_lab):
    """With daemon and keeper gone at once nobody put arp_announce back, and the next run took Tandem's value for the user's."""
    file = "net.ipv4.conf.cell0.arp_announce"

    def value() -> str:
        return veth_lab.client.run(["sysctl", "-n", file]).stdout.strip()

    veth_lab.client.run(["sysctl", "-qw", f"{file}=1"])
    try:
        with veth_lab.daemon(["offload"]) as daemon:
            assert system.wait_until(lambda: value() == "2", 10)
            for pid in (daemon.api("/v1/status")["keeper"]["pid"], daemon.pid):
                os.kill(pid, signal.SIGKILL)
            daemon.process.wait()
            assert value() == "2"
        with veth_lab.daemon(["offload"]) as daemon:
            assert system.wait_until(lambda: value() == "2", 10)
            daemon.stop()
            assert value() == "1"
    finally:
        veth_lab.client.run(["sysctl", "-qw", f"{file}=0"])
