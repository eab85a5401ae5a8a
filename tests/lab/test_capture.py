"""`tandem trace capture` and Wireshark's live interface on a real download: the flight recorder's packets, each once, none left out."""

from __future__ import annotations

import json
import signal
import struct
import subprocess
import sys
from pathlib import Path

from tandem_lab import system
from test_recorded import MODULES, WHOLE, replay, scenario
from test_together import modules_needed  # noqa: F401

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "tools/trace"), str(ROOT / "tools/common")]

from tandem_common.pcapng import DROP_COUNT, INPUT, PACKET, SECTION, options  # noqa: E402
from tandem_trace.looks import blocks, comment, packet  # noqa: E402

PACKET_ID = 5  # packet option


def packets(file: Path) -> dict[int, bytes]:
    """By their ids: all that the file says of a packet but its place and time. No id stands twice."""
    found: dict[int, bytes] = {}
    for block in blocks(file.read_bytes()):
        if block.kind == PACKET:
            kept = struct.unpack_from("<I", block.raw, 20)[0]
            number = next(struct.unpack("<Q", value)[0] for code, value in options(block.raw, 28 + kept + -kept % 4) if code == PACKET_ID)
            assert number not in found, f"packet {number} stands twice"
            found[number] = block.raw[20:]
    return found


def meanwhile(file: Path) -> Path:
    return file.with_name(file.name + ".new")


def begun(file: Path) -> bool:
    return file.exists() and file.stat().st_size > 0


def start(lab, daemon, *words: str) -> subprocess.Popen:
    return subprocess.Popen(lab.client.argv([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "trace", "capture", *words]), stderr=subprocess.PIPE, text=True)


def end(process: subprocess.Popen) -> str:
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[1]
    assert process.returncode == 0, said
    return said


def test_captures_of_a_download_through_a_blackout(make_lab, modules_needed, tmp_path):  # noqa: F811
    lab = make_lab(scenario("blackout"))
    server = lab.server("srv1").ipv4
    with lab.daemon(MODULES, WHOLE) as daemon:
        whole, frozen, one, live = (tmp_path / f"{name}.pcapng" for name in ("whole", "freeze", "flow", "live"))
        captures = [start(lab, daemon, "-o", str(whole)), start(lab, daemon, "-o", str(frozen), "--module", "freeze"), start(lab, daemon, "-o", str(one), "--flow", f"{server}:80", "--for", "3s")]
        extcap = subprocess.Popen([sys.executable, str(ROOT / "tools/trace/live.py"), "--capture", "--extcap-interface", "tandem", "--fifo", str(live), "--interval", "0.2", "--socket", str(daemon.socket)])
        assert system.wait_until(lambda: begun(live) and all(begun(meanwhile(file)) for file in (whole, frozen, one)), 20)
        lab.start_timeline()
        assert not lab.download("random", timeout=60).error
        captures[2].wait(timeout=30)
        extcap.terminate()
        extcap.wait(timeout=10)
        said = [end(process) for process in captures[:2]]
        everything = tmp_path / "recorder.pcapng"
        everything.write_bytes(daemon.recording())
    recorded = packets(everything)
    captured = packets(whole)
    assert len(captured) > 1000 and "LOST" not in said[0]
    assert captured == {number: recorded[number] for number in range(min(captured), max(captured) + 1)}, "each packet once, with its decision, none left out"
    assert sum(block.kind == SECTION for block in blocks(whole.read_bytes())) == 1 and sum(block.kind == INPUT for block in blocks(whole.read_bytes())) > 100

    seen = packets(live)
    assert len(seen) > 1000 and seen == {number: recorded[number] for number in range(min(seen), max(seen) + 1)}

    of_freeze = packets(frozen)
    assert of_freeze == {number: told for number, told in captured.items() if number >= min(of_freeze) and b": freeze: " in told} and len(of_freeze) > 5
    assert f"{len(of_freeze)}packetsof" in said[1].replace(" ", "")

    of_server = packets(one)
    assert len(of_server) > 100 and of_server.items() <= recorded.items()
    for block in blocks(one.read_bytes()):
        if block.kind == PACKET:
            ip = packet(block.raw)
            ports = struct.unpack_from(">HH", ip, (ip[0] & 15) * 4)
            assert 80 in ports and comment(block.raw)

    # The whole one replays to the same decisions, as the recorder does.
    code, report = replay(whole)
    assert code == 0 and report["same"] and report["compared"] > 100 and not report.get("fault")
    told = subprocess.run([str(system.tandem_binary("tandem")), "trace", "explain", "--stalls", "--json", str(one)], capture_output=True, text=True, check=True)
    assert all(flow["bytes_in"] >= 0 for flow in json.loads(told.stdout)["flows"])


def test_what_a_small_recorder_loses_is_said(make_lab, modules_needed, tmp_path):  # noqa: F811
    lab = make_lab("plain")
    with lab.daemon(MODULES, {"recorder": {"seconds": 30, "bytes": "64KiB"}}) as daemon:
        file = tmp_path / "some.pcapng"
        process = start(lab, daemon, "-o", str(file))
        assert system.wait_until(lambda: begun(meanwhile(file)), 20)
        lab.download("random", timeout=60)
        said = end(process)
    assert "LOST" in said and "recorder.bytes" in said
    told = [dict(options(block.raw, 28 + len(packet(block.raw)) + -len(packet(block.raw)) % 4)) for block in blocks(file.read_bytes()) if block.kind == PACKET]
    ids = [struct.unpack("<Q", one[PACKET_ID])[0] for one in told]
    missing = [struct.unpack("<Q", one.get(DROP_COUNT, bytes(8)))[0] for one in told]
    assert missing[1:] == [after - before - 1 for before, after in zip(ids, ids[1:])] and sum(missing) > 0
    _, report = replay(file)
    assert "are missing before packet" in report.get("fault", "")
