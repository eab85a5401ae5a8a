"""What differs between two recordings."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tandem_trace import cli, difference

ROOT = Path(__file__).resolve().parents[3]


def test_the_same_recording_does_not_differ(golden, capsys) -> None:
    assert cli.main(["diff", str(golden / "queue.pcap"), str(golden / "queue.pcap")]) == 0
    text = capsys.readouterr().out
    assert text.count("nothing differs") == 2 and "only in" not in text and "%" not in text


def test_what_differs_is_told_with_its_cause(golden, capsys) -> None:
    words = ["diff", str(golden / "radio-silent.pcap"), str(golden / "tandem.pcapng")]
    assert cli.main(words) == 0
    text = capsys.readouterr().out
    assert "matched by server, port and order" in text and "flow 1: 10.77.10.1:9000" in text
    assert "radio silent           1, 1.439 s -> 0, 0.000 s" in text and "Tandem itself          0, 0.000 s -> 1, 0.884 s" in text
    assert "0 -> 31  freeze: ACK withheld" in text and "-> 2.69 Mbit/s  (+" in text and "arrived a second time    1 -> 0 segments" in text
    assert cli.main([*words, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    flow, = told["flows"]
    assert flow["stalls"]["radio_silent"] == {"a": {"count": 1, "seconds": pytest.approx(1.439, abs=1e-3)}, "b": {"count": 0, "seconds": 0.0}}
    assert flow["decisions"]["freeze: ACK withheld"] == {"a": 0, "b": 31} and flow["goodput_mbps"]["b"] > flow["goodput_mbps"]["a"]
    assert cli.main([*words, "--stall-ms", "5000"]) == 0 and "stalled" not in capsys.readouterr().out


def test_flows_without_a_partner_are_listed(golden, capsys) -> None:
    assert cli.main(["diff", str(golden / "queue.pcap"), str(golden / "radio-silent.pcap")]) == 0
    assert "only in A: flow 2, 10.77.10.1:9000, 1.200 MB" in capsys.readouterr().out


def test_an_anonymised_copy_is_matched_by_port(golden, tmp_path, capsys) -> None:
    copy = tmp_path / "copy.pcapng"
    assert cli.main(["anonymise", str(golden / "queue.pcap"), "-o", str(copy)]) == 0
    assert cli.main(["diff", str(golden / "queue.pcap"), str(copy)]) == 0
    text = capsys.readouterr().out
    assert "matched by port and order" in text and text.count("nothing differs") == 2 and ", in B " in text


@pytest.mark.parametrize("fault", ["", "cut"])
def test_output_that_cannot_be_written_is_told_once(golden, tmp_path, fault: str) -> None:
    other = golden / "queue.pcap"
    if fault:
        other = tmp_path / "cut.pcap"
        other.write_bytes((golden / "queue.pcap").read_bytes()[:50_000])
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, "-B", str(ROOT / "tools/trace/trace.py"), "diff", str(golden / "queue.pcap"), str(other)], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (1, "tandem trace: the output cannot be written: No space left on device\n")


def test_reasons_of_a_file_do_not_command_the_terminal() -> None:
    base = {"file": "x", "packets": 1, "first_ns": 0, "last_ns": 10, "flows": [{"flow": 1, "remote": "192.0.2.1:80", "begin_s": 0.0, "end_s": 1.0, "bytes_in": 9, "shortest_rtt_ms": None,
                                                                             "repeated_segments": 0, "stalls": [], "decisions": {}}]}
    other = json.loads(json.dumps(base))
    other["flows"][0]["decisions"] = {"freeze: \x1b]0;title\x07\x9b2J": 3}
    text = "\n".join(difference.lines(difference.compared(base, other)))
    assert "0 -> 3  freeze: ?]0;title??2J" in text and not set("\x1b\x07\x9b") & set(text)


def flow(number: int, remote: str, begin: float) -> dict:
    return {"flow": number, "remote": remote, "begin_s": begin}


def test_the_order_of_beginning_decides_among_equals() -> None:
    a = [flow(1, "192.0.2.1:80", 5.0), flow(2, "192.0.2.1:80", 1.0), flow(3, "[2001:db8::1]:443", 0.0)]
    b = [flow(1, "192.0.2.1:80", 0.0), flow(2, "[2001:db8::1]:443", 9.0), flow(3, "192.0.2.1:80", 2.0), flow(4, "192.0.2.9:80", 0.0)]
    pairs, only_a, only_b, _ = difference.matched(a, b)
    assert [(one["flow"], other["flow"]) for one, other in pairs] == [(3, 2), (2, 1), (1, 3)] and only_a == [] and [one["flow"] for one in only_b] == [4]


def test_a_damaged_file_is_compared_up_to_there_and_none_is_refused(golden, tmp_path, capsys) -> None:
    cut = tmp_path / "cut.pcap"
    cut.write_bytes((golden / "queue.pcap").read_bytes()[:50_000])
    assert cli.main(["diff", str(golden / "queue.pcap"), str(cut)]) == 2
    told = capsys.readouterr()
    assert "stalled" in told.out and "cut.pcap" in told.err and "compared" in told.err
    assert cli.main(["diff", str(golden / "queue.pcap"), str(tmp_path / "none")]) == 2
    assert "cannot be opened" in capsys.readouterr().err
