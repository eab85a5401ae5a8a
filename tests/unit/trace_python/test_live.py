"""Wireshark's live interface: nothing twice, nothing left out, and what is said when no daemon runs."""

from __future__ import annotations

import io
import os
import shutil
import subprocess
import sys
import time

import pytest
from conftest import ROOT, needs_scripts

from tandem_common.control import Daemon
from tandem_common.errors import Failure
from tandem_trace import cli, live, wireshark
from tandem_common.pcapng import PACKET
from tandem_trace.looks import blocks

with_tshark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")
PROGRAM = [sys.executable, str(ROOT / "tools/trace/live.py")]


def packets_of(told: bytes) -> list[bytes]:
    """Without their place and time."""
    return [block.raw[20:] for block in blocks(told) if block.kind == PACKET] if told else []


def test_a_daemon_that_is_gone_for_a_moment_is_waited_for(control, recorder) -> None:
    recorder.at = 10
    control.recording = recorder.look
    turns = []

    class Out:
        written = b""

        def write(self, content: bytes) -> None:
            Out.written += content
            if len(turns) == 8:
                raise BrokenPipeError

        def flush(self) -> None:
            pass

    def sleep(_: float) -> None:
        turns.append(1)
        recorder.at = 20
        control.recording = None if 2 <= len(turns) < 6 else recorder.look

    assert live.stream(Daemon(str(control.path)), Out(), 1.0, sleep) == 0 and packets_of(Out.written) == recorder.packets(20)
    control.recording = None
    with pytest.raises(Failure):
        live.stream(Daemon(str(control.path)), Out(), 1.0, sleep)


def test_a_daemon_that_was_started_anew_is_shown_from_its_beginning(control, recorder) -> None:
    recorder.at = 300
    control.recording = recorder.look
    out = io.BytesIO()

    def sleep(_: float) -> None:
        if recorder.seed == 2:
            raise KeyboardInterrupt
        recorder.seed, recorder.at = 2, 400

    with pytest.raises(KeyboardInterrupt):
        live.stream(Daemon(str(control.path)), out, 1.0, sleep)
    assert packets_of(out.getvalue()) == recorder.packets(300) + recorder.packets(400)
    assert out.getvalue().count(b"\x0a\x0d\x0d\x0a") == 1, "one section"


# -- as Wireshark sees it


def test_it_answers_what_wireshark_asks(capsys) -> None:
    assert live.main(["--extcap-interfaces", "--extcap-version=4.0"]) == 0 and "{display=Tandem (live)}" in capsys.readouterr().out
    assert live.main(["--extcap-interface", "tandem", "--extcap-dlts"]) == 0 and "number=101" in capsys.readouterr().out
    assert live.main(["--extcap-interface", "tandem", "--extcap-config"]) == 0 and "--interval" in capsys.readouterr().out
    assert live.main(["--extcap-interface", "tandem", "--extcap-capture-filter", "tcp"]) == 0 and "display filter" in capsys.readouterr().out
    assert live.main(["--extcap-interface", "eth0", "--capture"]) == 2


def test_without_a_daemon_it_says_what_to_do(tmp_path) -> None:
    done = subprocess.run([*PROGRAM, "--capture", "--extcap-interface", "tandem", "--fifo", "/dev/null", "--socket", str(tmp_path / "nothing")], capture_output=True, text=True)
    assert done.returncode == 1 and "is the daemon running? `tandem up` starts it" in done.stderr


@pytest.fixture
def installed(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(wireshark, "extcap_directory", lambda: tmp_path / "extcap")
    monkeypatch.setenv("WIRESHARK_EXTCAP_DIR", str(tmp_path / "extcap"))
    assert cli.main(["wireshark", "--install"]) == 0 and cli.main(["wireshark", "--install"]) == 0, "again"
    assert (tmp_path / "extcap/tandem-live").is_symlink()
    return tmp_path


def tshark(place, *words: str) -> subprocess.CompletedProcess:
    """With the programs of `place`. Of root it takes no word for where these are: there they are laid over its own, for this one process."""
    command = ["tshark", *words]
    if os.geteuid() == 0:
        told = subprocess.run(["tshark", "-G", "folders"], capture_output=True, text=True, check=True).stdout
        its_own = next(line.partition(":")[2].strip() for line in told.splitlines() if "extcap path" in line.lower() and "personal" not in line.lower())
        command = ["unshare", "-m", "sh", "-c", 'mount --bind "$0" "$1" && shift && exec "$@"', str(place / "extcap"), its_own, *command]
    return subprocess.run(command, capture_output=True, text=True, timeout=60)


@with_tshark
def test_tshark_lists_it_until_it_is_removed(installed) -> None:
    def listed() -> str:
        return tshark(installed, "-D").stdout

    assert "tandem (Tandem (live))" in listed()
    assert cli.main(["wireshark", "--remove"]) == 0 and "andem" not in listed()


@with_tshark
def test_tshark_shows_packets_as_they_come(installed, control, recorder, monkeypatch) -> None:
    needs_scripts(installed)  # its fields are a script's
    began: list[float] = []

    def recording(wanted: str) -> bytes:
        began.append(time.monotonic())
        recorder.at = int((began[-1] - began[0]) * 50) + 40
        recorder.ring = 100
        return recorder.look(wanted)

    control.recording = recording
    monkeypatch.setenv("TANDEM_SOCKET", str(control.path))
    done = tshark(installed, "-i", "tandem", "-c", "150", "-T", "fields", "-e", "tandem.disposition", "-e", "tcp.seq_raw", "-e", "tcp.ack_raw")
    lines = [line.split("\t") for line in done.stdout.splitlines()]
    assert len(lines) == 150 and {line[0] for line in lines} >= {"passed"}, done.stderr
    expected = subprocess.run(["tshark", "-r", str(ROOT / "tests/golden/trace/tandem.pcapng"), "-c", "150", "-T", "fields", "-e", "tcp.seq_raw", "-e", "tcp.ack_raw"],
                              capture_output=True, text=True, check=True)
    assert ["\t".join(line[1:]) for line in lines] == expected.stdout.splitlines()[:150]
    assert len(control.asked) >= 3, "in several pieces"


@with_tshark
def test_tshark_says_why_there_is_nothing(installed, tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TANDEM_SOCKET", str(tmp_path / "nothing"))
    done = tshark(installed, "-i", "tandem", "-c", "1")
    assert done.returncode != 0 and "is the daemon running?" in done.stderr


def test_a_directory_that_may_not_be_written_is_a_hint(installed, tmp_path, monkeypatch, capsys) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(wireshark, "extcap_directory", lambda: tmp_path / "file")
    assert cli.main(["wireshark", "--install"]) == 0
    assert "sudo ln -s" in capsys.readouterr().err


def test_the_users_own_place_is_preferred(monkeypatch, tmp_path) -> None:
    shark = tmp_path / "tshark"
    shark.write_text("#!/bin/sh\necho 'Personal Extcap path:\t/a/own'\necho 'Global Extcap path:\t/usr/x'\n")
    shark.chmod(0o755)
    monkeypatch.delenv("WIRESHARK_EXTCAP_DIR", raising=False)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    assert str(wireshark.extcap_directory()) == "/a/own"
    shark.write_text("#!/bin/sh\necho 'Extcap path:\t/usr/x'\n")
    assert str(wireshark.extcap_directory()) == "/usr/x"
