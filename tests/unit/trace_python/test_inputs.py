"""Whatever one may give to `tandem trace`: link layers, clocks, cut and damaged files, what is no TCP, what is long."""

from __future__ import annotations

import json
import os
import resource
import struct
import subprocess
from pathlib import Path

import captures
import pytest

from tandem_trace import reader

BASE = "radio-silent.pcap"


def trace(*words: object, **options) -> subprocess.CompletedProcess:
    return subprocess.run([reader.program(), "trace", *map(str, words)], capture_output=True, text=True, errors="replace", timeout=280, **options)


def trace_of_bytes(*words: object) -> subprocess.CompletedProcess:
    return subprocess.run([reader.program(), "trace", *map(os.fsencode, map(str, words))], capture_output=True, text=True, errors="replace", timeout=60)


def stories(file: Path) -> list[dict]:
    done = trace("explain", "--stalls", "--json", file)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)["flows"]


@pytest.fixture
def conversation(golden) -> list[captures.Packet]:
    return captures.read(golden / BASE)


# -- what can be analysed is analysed


@pytest.mark.parametrize("name", captures.WRAPPED)
def test_every_link_layer_tells_the_same(conversation, golden, tmp_path, name) -> None:
    link_type, wrap = captures.WRAPPED[name]
    assert stories(captures.write(tmp_path / "x.pcap", conversation, link_type, wrap)) == stories(golden / BASE)


@pytest.mark.parametrize("nanoseconds, order", [(True, "<"), (True, ">"), (False, ">")])
def test_clocks_and_byte_orders(conversation, golden, tmp_path, nanoseconds, order) -> None:
    assert stories(captures.write(tmp_path / "x.pcap", conversation, nanoseconds=nanoseconds, order=order)) == stories(golden / BASE)


def test_nanoseconds_are_kept(conversation, tmp_path) -> None:
    file = captures.write(tmp_path / "x.pcap", [(time_ns + 7, *rest) for time_ns, *rest in conversation], nanoseconds=True)
    assert all(json.loads(line)["time_ns"] % 1000 == 7 for line in trace("print", "--json", file).stdout.splitlines())


def test_a_clock_that_is_set_meanwhile_ends_nothing(conversation, tmp_path) -> None:
    half = len(conversation) // 2
    for ahead in (40 * 365 * 86400, -40 * 365 * 86400):
        moved = [*conversation[:half], *((time_ns + ahead * 1_000_000_000, *rest) for time_ns, *rest in conversation[half:])]
        file = captures.write(tmp_path / "x.pcap", moved)
        assert sum(flow["packets"] for flow in stories(file)) == len(conversation)
        done = trace("plot", file, "-o", tmp_path / "x.html")
        assert done.returncode == 0 and (tmp_path / "x.html").stat().st_size < 1_000_000, done.stderr
        assert trace("plot", file, "-o", tmp_path / "x.png").returncode == 0


def test_without_handshake_the_rest_is_explained(conversation, golden, tmp_path) -> None:
    flow, = stories(captures.write(tmp_path / "x.pcap", conversation[3:]))
    whole, = stories(golden / BASE)
    assert not flow["handshake"] and flow["bytes_in"] == whole["bytes_in"] and [stall["cause"] for stall in flow["stalls"]] == [stall["cause"] for stall in whole["stalls"]]
    assert trace("plot", tmp_path / "x.pcap", "-o", tmp_path / "x.html").returncode == 0


def udp(ip: bytes) -> bytes:
    return ip[:9] + b"\x11" + ip[10:]


def test_what_is_no_tcp_is_passed_over(conversation, golden, tmp_path) -> None:
    mixed = [packet for time_ns, ip, length in conversation for packet in ((time_ns, ip, length), (time_ns, udp(ip), length), (time_ns, b"\x00" * 20, 20), (time_ns, b"\x45", 1))]
    file = captures.write(tmp_path / "x.pcap", mixed)
    assert stories(file) == stories(golden / BASE)
    for action in (["print"], ["explain"], ["replay", "--module", "freeze"], ["plot", "-o", tmp_path / "x.html"], ["anonymise", "-o", tmp_path / "y.pcapng"], ["diff", golden / BASE]):
        assert trace(*action, file).returncode == 0, action


def test_with_nothing_but_other_traffic_it_says_so(conversation, tmp_path) -> None:
    file = captures.write(tmp_path / "x.pcap", [(time_ns, udp(ip), length) for time_ns, ip, length in conversation])
    assert "no TCP segment" in trace("explain", "--stalls", file).stdout
    done = trace("plot", file, "-o", tmp_path / "x.html")
    assert done.returncode == 2 and "holds no TCP segment" in done.stderr and not (tmp_path / "x.html").exists()


@pytest.mark.parametrize("name", captures.CLOSED)
def test_frames_that_cannot_be_read_are_none(conversation, tmp_path, name) -> None:
    file = captures.write(tmp_path / "x.pcap", conversation[:20], 127, captures.CLOSED[name])
    assert stories(file) == [] and "no IP packet (link type 127)" in trace("print", file).stdout
    done = trace("plot", file, "-o", tmp_path / "x.html")
    assert done.returncode == 2 and "holds no TCP segment" in done.stderr and "Wi-Fi frames" in done.stderr and "encrypted" in done.stderr, "and what to do"


def test_what_is_behind_a_packet_is_no_part_of_it(conversation, tmp_path) -> None:
    """Ethernet pads to 60 bytes, and many cards leave the check sequence of 802.11: neither is counted, nor copied."""
    raw = json.loads(trace("explain", "--json", captures.write(tmp_path / "raw.pcap", conversation)).stdout)
    ethernet = captures.WRAPPED["Ethernet"][1]
    padded = captures.write(tmp_path / "padded.pcap", conversation, 1, lambda ip: ethernet(ip) + bytes(max(0, 60 - len(ethernet(ip)))))
    checked = captures.write(tmp_path / "checked.pcap", conversation, *captures.WRAPPED["radiotap, check sequence"])
    for file in (padded, checked):
        assert json.loads(trace("explain", "--json", file).stdout)["bytes"] == raw["bytes"], file


def test_headers_that_were_not_captured_whole_are_told(conversation, golden, tmp_path) -> None:
    """SYNs and ACKs with SACK have more options than others: 68 bytes of each frame lose the handshake, and what tells of losses."""
    short = captures.write(tmp_path / "x.pcap", [(time_ns, ip[:54], length) for time_ns, ip, length in conversation])
    for action in (["explain"], ["explain", "--stalls"], ["replay", "--module", "freeze"]):
        assert "55 packets were captured too short for the headers" in trace(*action, short).stdout, action
    none = captures.write(tmp_path / "x.pcap", [(time_ns, ip[:39], length) for time_ns, ip, length in conversation])
    done = trace("plot", none, "-o", tmp_path / "x.html")
    assert done.returncode == 2 and "holds no TCP segment" in done.stderr and "tcpdump -s 200" in done.stderr


def test_a_name_of_any_bytes_is_plotted(golden, tmp_path) -> None:
    file = tmp_path / os.fsdecode(b"caf\xe9.pcap")
    file.write_bytes((golden / BASE).read_bytes())
    done = trace_of_bytes("plot", file, "-o", tmp_path / "x.html")
    assert done.returncode == 0 and "<title>caf\ufffd.pcap, flow 1</title>" in (tmp_path / "x.html").read_text(encoding="utf-8"), done.stderr


# -- cut and damaged files


COMMANDS = [["print"], ["print", "--json", "--bytes"], ["explain"], ["explain", "--stalls", "--json"], ["replay", "--module", "freeze"], ["anonymise", "-o", "OUT.pcapng"], ["plot", "-o", "OUT.html"],
            ["diff", "BASE"]]


@pytest.mark.parametrize("name", [BASE, "tandem.pcapng"])
def test_a_file_that_is_cut_anywhere_is_read_up_to_there(golden, tmp_path, name) -> None:
    whole = (golden / name).read_bytes()
    for size in (0, 1, 3, 4, 10, 23, 24, 25, 30, 40, 100, 130, 500, 5001, len(whole) // 2, len(whole) - 1):
        file = tmp_path / "cut"
        file.write_bytes(whole[:size])
        for action in (["print"], ["explain", "--stalls"]):
            done = trace(*action, file)
            assert done.returncode in (0, 2) and bool(done.stderr.strip()) == (done.returncode == 2), (size, action, done.returncode, done.stderr)
            assert "Traceback" not in done.stderr


@pytest.mark.parametrize("action", COMMANDS, ids=lambda words: " ".join(words[:3]))
def test_damage_ends_every_command_with_words(golden, tmp_path, action) -> None:
    whole = (golden / BASE).read_bytes()
    words = [golden / BASE if word == "BASE" else tmp_path / word if word.startswith("OUT") else word for word in action]
    for damage in (whole[:20_000], whole[:20_000] + b"\xff" * 64 + whole[20_064:], b"", b"\x0a\x0d\x0d\x0a" + b"\xff" * 100, b"GIF89a" + bytes(100)):
        file = tmp_path / "damaged"
        file.write_bytes(damage)
        done = trace(*words, file)
        assert done.returncode == 2 and done.stderr.strip() and "Traceback" not in done.stderr, (action, done.returncode, done.stderr)
    done = trace(*words, tmp_path)
    assert done.returncode == 2 and "is a directory" in done.stderr


def test_a_frame_that_says_it_is_huge_takes_no_memory(tmp_path) -> None:
    file = tmp_path / "x.pcap"
    file.write_bytes(struct.pack("<IHHiIII", 0xA1B2C3D4, 2, 4, 0, 0, 262144, 101) + struct.pack("<IIII", 1, 0, 0x7FFFFFFF, 0x7FFFFFFF) + b"x" * 100)
    done = trace("explain", file, preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (512 << 20, 512 << 20)))
    assert done.returncode == 2 and "x.pcap" in done.stderr


# -- long ones


def download(packets: int) -> list[captures.Packet]:
    """One flow, every segment acknowledged; payload as long as it is captured."""
    made = []
    local, remote = bytes([10, 0, 0, 2]), bytes([192, 0, 2, 1])

    def segment(number: int, out: bool, seq: int, ack: int, flags: int, payload: int, options: bytes) -> None:
        data = 20 + len(options)
        head = struct.pack(">BBHHHBBH4s4s", 0x45, 0, 20 + data + payload, number & 0xFFFF, 0, 64, 6, 0, *((local, remote) if out else (remote, local)))
        tcp = struct.pack(">HHIIBBHHH", *((40000, 80) if out else (80, 40000)), seq, ack, data // 4 << 4, flags, 60000, 0, 0) + options
        made.append((1_700_000_000_000_000_000 + number * 100_000, head + tcp + FILL[:payload], 20 + data + payload))

    syn = b"\x02\x04\x05\xb4\x01\x03\x03\x07"
    segment(0, True, 999, 0, 2, 0, syn)
    segment(1, False, 4999, 1000, 0x12, 0, syn)
    segment(2, True, 1000, 5000, 0x10, 0, b"")
    segment(3, True, 1000, 5000, 0x18, 100, b"")
    for number in range(4, packets):
        if number % 3:
            segment(number, False, (5000 + (number - 4) // 3 * 2920 + (number % 3 - 1) * 1460) & 0xFFFFFFFF, 1100, 0x10, 1460, b"")
        else:
            segment(number, True, 1100, (5000 + (number - 3) // 3 * 2920) & 0xFFFFFFFF, 0x10, 0, b"")
    return made


FILL = b"x" * 1460


def test_300_megabytes_are_plotted_within_bounds(tmp_path) -> None:
    """290,000 packets; 1 GB of memory for each process must do, and they must not take as much as the file."""
    file = captures.write(tmp_path / "long.pcap", download(290_000))
    assert file.stat().st_size > 290e6
    bound = 1 << 30
    done = trace("plot", file, "-o", tmp_path / "long.html", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (bound, bound)))
    file.unlink()
    assert done.returncode == 0, done.stderr
    assert "290000 packets" in done.stdout and (tmp_path / "long.html").stat().st_size < 2_000_000
