"""What tshark makes of a recording with Tandem's dissector."""

from __future__ import annotations

import shutil
import subprocess

import pytest
from conftest import needs_scripts

from tandem_trace import cli, wireshark

pytestmark = pytest.mark.skipif(not shutil.which("tshark"), reason="tshark is not installed")


@pytest.fixture
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    monkeypatch.setattr(wireshark, "extcap_directory", lambda: tmp_path / "extcap")
    needs_scripts(tmp_path)
    return tmp_path


def shown(file, *words):
    return subprocess.run(["tshark", "-n", "-r", str(file), *words], capture_output=True, text=True, check=True).stdout.splitlines()


def test_install_gives_fields_columns_and_colours(home, golden):
    assert cli.main(["wireshark", "--install"]) == 0
    file = golden / "tandem.pcapng"
    fields = ["-T", "fields", "-e", "tandem.module", "-e", "tandem.disposition", "-e", "tandem.reason", "-e", "tandem.flow"]
    lines = set(shown(file, "-Y", 'tandem.disposition == "edited"', *fields))
    assert "freeze\tedited\twindow stays closed\t1" in lines
    assert set(shown(file, "-Y", 'tandem.disposition == "passed"', *fields)) >= {"\tpassed\t\t1"}
    # The profile's columns; its colours are read without complaint.
    listed = shown(file, "-C", "Tandem", "--color", "-Y", 'tandem.module == "freeze" && tandem.disposition == "injected"')
    assert listed and all("freeze" in line and "injected" in line for line in listed)


def test_an_edited_packet_stands_once(home, golden):
    cli.main(["wireshark", "--install"])
    edited = shown(golden / "tandem.pcapng", "-Y", 'tandem.disposition == "edited"', "-T", "fields", "-e", "frame.number", "-e", "tandem.was", "-e", "tcp.analysis.retransmission")
    assert edited and all(line.split("\t")[1].startswith("wifi ") for line in edited)
    assert all(line.split("\t")[2] == "" for line in edited)


def test_other_captures_have_none_of_it(home, golden):
    cli.main(["wireshark", "--install"])
    assert shown(golden / "queue.pcap", "-Y", "tandem") == []


def test_remove_leaves_nothing(home):
    cli.main(["wireshark", "--install"])
    assert all(target.exists() for target in wireshark.places().values())
    assert cli.main(["wireshark", "--remove"]) == 0
    assert not any(target.exists() for target in wireshark.places().values())
    assert not (home / ".config/wireshark/profiles/Tandem").exists() and not list((home / "extcap").iterdir())
