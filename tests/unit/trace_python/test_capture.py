"""What `tandem trace capture` writes: each packet once with its reason, what was asked for and nothing else, and whatever is lost is said."""

from __future__ import annotations

import io
import os
import signal
import socket
import struct
import subprocess
import sys
import threading
import time

import pytest
from conftest import ROOT, Recorder

from tandem_common.control import Daemon
from tandem_common.errors import Failure
from tandem_common.pcapng import DROP_COUNT, INPUT, PACKET, SECTION, options
from tandem_trace import capture, cli
from tandem_trace.capture import LONGEST_S, SHORTEST_S, Capture
from tandem_trace.errors import BadInput
from tandem_trace.looks import Block, Looks, blocks, comment, packet
from tandem_trace.selection import Selection, peer

SERVER = "10.77.1.2"


def bare(told: list[Block]) -> list[bytes]:
    return [block.raw[20:] for block in told if block.kind == PACKET]


def drop_counts(told: bytes) -> list[int]:
    found = []
    for block in blocks(told):
        if block.kind == PACKET:
            kept = struct.unpack_from("<I", block.raw, 20)[0]
            found += [struct.unpack("<Q", value)[0] for code, value in options(block.raw, 28 + kept + -kept % 4) if code == DROP_COUNT]
    return found


# -- looks


def test_looks_that_overlap_tell_each_entry_once(recorder) -> None:
    looks, told = Looks(), []
    for at in (300, 301, 301, 700, 900):
        recorder.at = at
        news = looks.news(recorder.look(looks.target().partition("?")[2]))
        told += news.entries
        assert (news.lost, news.lost_inputs, news.restarted) == (0, 0, False) and bool(news.head) == (at == 300)
    assert [block.raw[20:] for block in told] == [block.raw[20:] for block in recorder.entries[:900]]
    assert recorder.asked == ["", "after=300", "after=301", "after=301", "after=700"]


def test_what_is_overwritten_between_two_looks_is_counted(recorder) -> None:
    looks = Looks()
    recorder.at, recorder.ring = 100, 50
    assert looks.news(recorder.look()).lost == 0, "before the first look nothing was lost to it"
    recorder.at = 300
    news = looks.news(recorder.look(looks.target().partition("?")[2]))
    assert news.lost == len(recorder.packets(250, 100)) and news.lost_inputs == 150 - news.lost > 0 and bare(news.entries) == recorder.packets(300, 250)
    recorder.at = recorder.ring = 310
    assert looks.news(recorder.look(looks.target().partition("?")[2])).lost == 0


def test_a_loss_is_told_with_the_next_packet(recorder) -> None:
    looks = Looks()
    recorder.at, recorder.ring = 100, 50
    looks.news(recorder.look())
    recorder.at, recorder.ring = 300, 0  # all of it has expired
    assert looks.news(recorder.look("after=100")).lost == 0
    recorder.at, recorder.ring = 310, 10
    assert looks.news(recorder.look("after=300")).lost == len(recorder.packets(300, 100))


def test_times_stay_by_the_clocks_of_the_first_look(recorder) -> None:
    looks, told = Looks(), []
    for at in (10, 20, 30):
        recorder.at, recorder.offset_ns = at, recorder.offset_ns + 3_000_000_000  # the wall clock is set
        told += looks.news(recorder.look(looks.target().partition("?")[2])).entries
    whole = Recorder((ROOT / "tests/golden/trace/tandem.pcapng").read_bytes())
    whole.at, whole.offset_ns = 30, 3_000_000_000
    assert [block.raw for block in told if block.kind == PACKET] == [block.raw for block in blocks(whole.look()) if block.kind == PACKET]


def test_an_interface_is_described_once_and_keeps_its_number(recorder) -> None:
    looks, wifi2 = Looks(), bytearray(recorder._heads[0].replace(b"wifi", b"wif2"))
    recorder.at = 10
    first = looks.news(recorder.look())
    heads = list(recorder._heads)
    recorder._heads, recorder.at = [bytes(wifi2), *heads], 20  # the numbers of the others are moved by one
    news = looks.news(recorder.look("after=10"))
    assert news.head == bytes(wifi2) and {struct.unpack_from("<I", block.raw, 8)[0] for block in news.entries if block.kind == PACKET} <= {3, 0, 1}
    assert [struct.unpack_from("<I", block.raw, 8)[0] for block in first.entries if block.kind == PACKET].count(0) > 0
    recorder._heads, recorder.at = heads, 30
    assert looks.news(recorder.look("after=20")).head == b"" and not looks.news(recorder.look("after=30")).entries


def test_another_recorder_is_noticed(recorder) -> None:
    looks = Looks()
    recorder.at = 100
    looks.news(recorder.look())
    recorder.at = 50
    assert looks.news(recorder.look("after=100")).restarted and looks.target() == "/v1/recording"
    assert bare(looks.news(recorder.look()).entries) == recorder.packets(50)
    recorder.seed, recorder.at = 2, 500
    assert looks.news(recorder.look("after=50")).restarted


@pytest.mark.parametrize("recording", [b"", b"x" * 40, b"\x0a\x0d\x0d\x0a\xff\xff\xff\x7f" + b"\0" * 20, b"\x0a\x0d\x0d\x0a" + struct.pack("<IIHHqI", 28, 0x1A2B3C4D, 1, 0, -1, 28)])
def test_what_is_no_recording_is_refused(recording: bytes) -> None:
    with pytest.raises(Failure, match="damaged"):
        Looks().news(recording)


# -- selection


def ipv4(source: str, destination: str, ports: bytes = b"", protocol: int = 6, fragment: int = 0) -> bytes:
    return struct.pack(">BBHHHBBH4s4s", 0x45, 0, 40, 0, fragment, 64, protocol, 0, socket.inet_aton(source), socket.inet_aton(destination)) + ports


def ipv6(source: str, destination: str, ports: bytes, header: int = 6, options_: bytes = b"") -> bytes:
    return struct.pack(">IHBB", 6 << 28, 20, header, 64) + socket.inet_pton(socket.AF_INET6, source) + socket.inet_pton(socket.AF_INET6, destination) + options_ + ports


def block(ip: bytes, words: str = "passed") -> bytes:
    text = words.encode()
    return struct.pack("<IIIIIII", 6, 0, 0, 0, 0, len(ip), len(ip)) + ip + b"\0" * (-len(ip) % 4) + struct.pack("<HH", 1, len(text)) + text + b"\0" * (-len(text) % 4) + b"\0" * 8


PORTS = struct.pack(">HH", 40000, 443)


@pytest.mark.parametrize("wanted, ip, taken", [
    ("192.0.2.1", ipv4("10.0.0.1", "192.0.2.1", PORTS), True), ("192.0.2.1", ipv4("192.0.2.1", "10.0.0.1", PORTS[::-1]), True), ("192.0.2.1", ipv4("192.0.2.11", "10.0.0.1", PORTS), False),
    ("192.0.2.1:443", ipv4("10.0.0.1", "192.0.2.1", PORTS), True), ("192.0.2.1:40000", ipv4("10.0.0.1", "192.0.2.1", PORTS), False), ("192.0.2.1:443", ipv4("192.0.2.1", "10.0.0.1", PORTS), False),
    ("192.0.2.1:443", ipv4("10.0.0.1", "192.0.2.1", PORTS, protocol=17), False), ("192.0.2.1", ipv4("10.0.0.1", "192.0.2.1", protocol=1), True),
    ("192.0.2.1:443", ipv4("10.0.0.1", "192.0.2.1", PORTS, fragment=100), False), ("192.0.2.1:443", ipv4("10.0.0.1", "192.0.2.1", PORTS[:3]), False),
    ("2001:db8::1", ipv6("fd00::2", "2001:db8::1", PORTS), True), ("[2001:db8::1]:443", ipv6("fd00::2", "2001:db8::1", PORTS), True), ("[2001:db8::1]:80", ipv6("fd00::2", "2001:db8::1", PORTS), False),
    ("[2001:db8::1]:443", ipv6("fd00::2", "2001:db8::1", PORTS, 0, bytes([6, 0, 1, 4, 0, 0, 0, 0])), True), ("192.0.2.1", b"", False), ("192.0.2.1", b"\x45\0\0", False), ("::", b"\x60" * 30, False)])
def test_flows_are_chosen_by_the_other_end(wanted: str, ip: bytes, taken: bool) -> None:
    assert Selection((peer(wanted),)).takes(block(ip)) is taken


def test_a_name_stands_for_all_its_addresses() -> None:
    chosen = Selection((peer("example.org:443", lambda host: {"example.org": ["192.0.2.1", "2001:db8::1", "192.0.2.1"]}[host]), peer("192.0.2.9")))
    assert chosen.takes(block(ipv4("10.0.0.1", "192.0.2.1", PORTS))) and chosen.takes(block(ipv6("fd00::2", "2001:db8::1", PORTS)))
    assert chosen.takes(block(ipv4("10.0.0.1", "192.0.2.9", b"\0" * 4))) and not chosen.takes(block(ipv4("10.0.0.1", "192.0.2.8", PORTS)))


@pytest.mark.parametrize("text", ["", ":443", "host:", "host:0", "host:70000", "[host]:4", "[::1", "1::2::3", "a b:c:d", "no.such.name.invalid"])
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(BadInput, match="--flow"):
        peer(text)


@pytest.mark.parametrize("words, taken", [("edited: freeze: ACK withheld", True), ("injected: freeze: window open", True), ("passed: freeze", True), ("passed", False), ("dropped: offload: as freeze: does", False),
                                          ("passed: freezer: x", False), ("fault: truncated_ip", False), ("", False)])
def test_modules_are_chosen_by_the_reason(words: str, taken: bool) -> None:
    assert Selection(modules=("freeze", "mirror")).takes(block(ipv4("10.0.0.1", "192.0.2.1", PORTS), words)) is taken


# -- the capture


class Clock:
    """Ends the capture after `turns` waits; the recorder goes on by `step` meanwhile."""

    def __init__(self, recorder: Recorder, step: int, turns: int = 1 << 30):
        self.recorder, self.step, self.turns, self.now, self.waits = recorder, step, turns, 0.0, []

    def wait(self, timeout: float) -> bool:
        self.waits.append(timeout)
        self.now += timeout
        self.recorder.at = min(self.recorder.at + self.step, len(self.recorder.entries))
        return len(self.waits) >= self.turns

    def is_set(self) -> bool:
        return False


def run(control, recorder, clock: Clock, selection: Selection = Selection(), for_s: float | None = None) -> tuple[bytes, Capture]:
    control.recording = recorder.look
    out = io.BytesIO()
    work = Capture(Daemon(str(control.path)), out, selection, for_s, clock, clock=lambda: clock.now)
    work.run()
    return out.getvalue(), work


def test_it_begins_now_and_ends_with_a_last_look(control, recorder) -> None:
    recorder.at = 100
    clock = Clock(recorder, 150, 3)
    told, work = run(control, recorder, clock)
    assert [one.raw[20:] for one in blocks(told) if one.kind in (PACKET, INPUT)] == [one.raw[20:] for one in recorder.entries[100:550]]
    assert sum(one.kind == SECTION for one in blocks(told)) == 1 and work.tally.kept == work.tally.seen == len(recorder.packets(550, 100)) and drop_counts(told) == []


def test_it_ends_in_time(control, recorder) -> None:
    clock = Clock(recorder, 10)
    _, work = run(control, recorder, clock, for_s=3.2)
    assert clock.now == pytest.approx(3.2) and len(recorder.asked) == len(clock.waits) + 1


def test_a_selection_keeps_the_packets_whole_and_no_inputs(control, recorder) -> None:
    told, work = run(control, recorder, Clock(recorder, 400, 3), Selection(modules=("freeze",)))
    expected = [one.raw[20:] for one in recorder.entries if one.kind == PACKET and ": freeze: " in comment(one.raw)]
    assert bare(list(blocks(told))) == expected and len(expected) == 79 and not any(one.kind == INPUT for one in blocks(told))
    assert work.tally.words().startswith("79 packets of 926 recorded packets")


def test_a_selection_of_flows(control, recorder) -> None:
    ports = {struct.unpack_from(">HH", packet(one.raw), 20) for one in recorder.entries if one.kind == PACKET}
    assert len(ports) == 2, "one download, both ways"
    server = next(socket.inet_ntoa(packet(one.raw)[16:20]) for one in recorder.entries if one.kind == PACKET)
    assert run(control, recorder, Clock(recorder, 1200, 1), Selection((peer(server),)))[1].tally.kept == 926
    recorder.at = 0
    assert run(control, recorder, Clock(recorder, 1200, 1), Selection((peer("192.0.2.77"),)))[1].tally.kept == 0


def test_lost_packets_are_told_in_the_file_and_it_looks_more_often(control, recorder) -> None:
    recorder.ring = 100
    clock = Clock(recorder, 150, 6)
    told, work = run(control, recorder, clock)
    assert work.tally.lost == sum(drop_counts(told)) > 0
    assert work.tally.seen + work.tally.lost == len(recorder.packets(900)) and "LOST" in work.tally.words()
    assert clock.waits[0] == LONGEST_S and clock.waits[-1] == SHORTEST_S


def test_a_loss_is_kept_for_the_next_packet_that_is_taken(control, recorder) -> None:
    recorder.ring = 5
    told, work = run(control, recorder, Clock(recorder, 15, 74), Selection(modules=("freeze",)))
    assert 0 < work.tally.kept < 79 and 0 < sum(drop_counts(told)) <= work.tally.lost


def capture_command(control, *words: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, "-B", str(ROOT / "tools/trace/trace.py"), "capture", "--socket", str(control.path), *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_signal_ends_it_with_what_is_there(control, recorder, tmp_path) -> None:
    control.recording = recorder.look
    outs = {end: tmp_path / f"{end.name}.pcapng" for end in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    processes = {end: capture_command(control, "-o", str(out)) for end, out in outs.items()}
    _until(lambda: len(control.asked) >= 3 and all(out.with_name(out.name + ".new").exists() for out in outs.values()))
    _until(lambda: all(out.with_name(out.name + ".new").stat().st_size > 0 for out in outs.values()))
    recorder.at = 100
    asked = len(control.asked)
    _until(lambda: len(control.asked) >= asked + 4)  # at least one of them has looked twice
    recorder.at = 200
    for end, process in processes.items():
        process.send_signal(end)
    for end, out in outs.items():
        _, said = processes[end].communicate(timeout=20)
        assert processes[end].returncode == 0 and bare(list(blocks(out.read_bytes()))) == recorder.packets(200), said
        assert said.decode() == f"{out}: {len(recorder.packets(200))} packets, {_size(out)}\n"
        assert out.stat().st_mode & 0o777 == 0o600
    assert {one.name for one in tmp_path.iterdir() if one.suffix != ".sock"} == {out.name for out in outs.values()}


def _size(file) -> str:
    from tandem_common.amounts import size

    return size(file.stat().st_size)


def _until(done) -> None:
    until = time.monotonic() + 20
    while not done():
        assert time.monotonic() < until
        time.sleep(0.01)


def test_standard_output_until_the_reader_has_enough(control, recorder) -> None:
    recorder.at, control.recording = 10, recorder.look
    process = capture_command(control, "-o", "-", "--for", "300ms")
    _until(lambda: control.asked)
    recorder.at = 60
    told, said = process.communicate(timeout=20)
    assert process.returncode == 0 and bare(list(blocks(told))) == recorder.packets(60, 10) and said.decode().startswith("-: "), said
    process = capture_command(control, "-o", "-")
    process.stdout.close()
    _until(lambda: process.poll() is not None)
    assert process.returncode == 0, process.stderr.read()


def test_a_daemon_that_ends_leaves_what_was_there(control, recorder, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(capture, "LONGEST_S", SHORTEST_S)  # how often it looks is another test's
    out = tmp_path / "dl.pcapng"

    def look(wanted: str) -> bytes | None:
        recorder.at += 50
        return recorder.look(wanted) if recorder.at < 250 else None

    control.recording = look
    assert cli.main(["capture", "--socket", str(control.path), "-o", str(out), "--for", "1min"]) == 1
    said = capsys.readouterr().err
    assert "no such path" in said and str(out) in said and bare(list(blocks(out.read_bytes()))) == recorder.packets(200, 50)
    recorder.at, control.recording = 100, recorder.look
    threading.Timer(0.4, lambda: setattr(recorder, "seed", 2)).start()
    assert cli.main(["capture", "--socket", str(control.path), "-o", str(out), "--for", "1min"]) == 1 and "started anew" in capsys.readouterr().err


def test_a_full_disk_leaves_whole_looks(control, recorder, monkeypatch, tmp_path, capsys) -> None:
    monkeypatch.setattr(capture, "LONGEST_S", SHORTEST_S)  # likewise
    out, room = tmp_path / "dl.pcapng", [20_000]

    def look(wanted: str) -> bytes:
        recorder.at += 20
        return recorder.look(wanted)

    class Full(io.FileIO):
        def write(self, content) -> int:
            if room[0] <= 0:
                raise OSError(28, "No space left on device")
            count = super().write(content[:room[0]])
            room[0] -= count
            return count

    monkeypatch.setattr("builtins.open", lambda file, mode, buffering: Full(file, "w"))
    control.recording = look
    assert cli.main(["capture", "--socket", str(control.path), "-o", str(out), "--for", "1min"]) == 1
    monkeypatch.undo()
    said = capsys.readouterr().err
    told = list(blocks(out.read_bytes()))
    kept = len(told) - 4  # without section and interfaces
    assert "No space left on device" in said and kept > 20 and kept % 20 == 0 and [one.raw[20:] for one in told[4:]] == [one.raw[20:] for one in recorder.entries[20:20 + kept]]


@pytest.mark.parametrize("words, code, says", [
    (["--for", "soon"], 2, "--for soon"), (["--flow", "host:0"], 2, "--flow host:0"), (["--module", "frieze"], 2, "no such module; there are freeze, offload"), ([], 1, "the flight recorder is off")])
def test_it_is_said_before_anything_is_written(control, tmp_path, capsys, words, code, says) -> None:
    control.answers = {"/v1/modules": [{"name": "freeze"}, {"name": "offload"}], "/v1/recording": None}
    control.faults = {"/v1/recording": "the flight recorder is off; set recorder.seconds in the configuration"}
    (tmp_path / "out").write_text("old")
    assert cli.main(["capture", "--socket", str(control.path), "-o", str(tmp_path / "out"), *words]) == code
    assert says in capsys.readouterr().err and (tmp_path / "out").read_text() == "old" and not (tmp_path / "out.new").exists()


def test_a_device_is_not_replaced_by_a_file(control, golden, tmp_path, capsys) -> None:
    pipe = tmp_path / "pipe"  # as /dev/null, which root could replace
    os.mkfifo(pipe)
    for words in (["capture", "--socket", str(control.path), "-o", str(pipe), "--for", "100ms"], ["anonymise", str(golden / "queue.pcap"), "-o", str(pipe)]):
        assert cli.main(words) == 2 and "is no file, and would be replaced" in capsys.readouterr().err
    assert pipe.is_fifo() and not control.asked
