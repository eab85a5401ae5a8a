"""The lab's own reading of a scenario, which with --no-air is the only one: what is wrong is told, with the value."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("common", "lab")]

from tandem_lab import cli, scenario  # noqa: E402
from tandem_lab.errors import BadInput  # noqa: E402
from tandem_lab.topology import WifiRouter  # noqa: E402


@pytest.mark.parametrize("text, said", [
    ("scenario = 3", "scenario: a table"), ("[[scenario]]\nname = 'x'", "scenario: a table"), ("[scenario]\nseed = 'x'", "scenario.seed = 'x'"),
    ("[scenario]\nseed = -5", "scenario.seed = -5"), ("[scenario]\nduration = '1.2.3s'", "duration = '1.2.3s'"), ("[scenario]\nduration = '.s'", "duration = '.s'"),
    ("[[ap]]\nuplink = '1.2.3Mbit'", 'uplink = "1.2.3Mbit"'), ("[[ap]]\nuplink = '3Mbit'\nuplink_queue = 'x'", "ap.uplink_queue = 'x'"),
    ("[[ap]]\nuplink_flows = -3", "ap.uplink_flows = -3")])
def test_bad_values_are_refused_and_named(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "s.toml"
    file.write_text(text)
    with pytest.raises(BadInput) as refused:
        scenario.load(file)
    assert str(file) in str(refused.value) and said in str(refused.value)


def test_good_values_are_taken(tmp_path: Path) -> None:
    file = tmp_path / "s.toml"
    file.write_text("[scenario]\nseed = 7\nduration = '1.5s'\n[[ap]]\nuplink = '2.5 Mbit'\nuplink_flows = 3\n")
    read = scenario.load(file)
    assert (read.seed, read.duration, read.uplinks["ap1"]) == (7, 1.5, scenario.Uplink(2.5e6, 100, 3))


@pytest.mark.parametrize("text, value", [("0.01", 0.01), ("true", True), ("60ms", "60ms"), ("{ p = 0.1, r = 1 }", {"p": 0.1, "r": 1}), ("nan", "nan"), ("-inf", "-inf"), ("2026-01-01", "2026-01-01"),
    ("{ p = nan }", "{ p = nan }"), ("[2026-01-01]", "[2026-01-01]"), ("[0.5, 1]", [0.5, 1])])
def test_a_value_is_one_that_the_emulator_can_be_told(text: str, value: object) -> None:
    """`tandem lab set wifi.loss 2026-01-01` ended in a traceback, "nan" in words about JSON."""
    assert scenario.parse_value(text) == value
    json.dumps(scenario.parse_value(text), allow_nan=False)


def test_a_name_that_no_file_can_have_is_refused() -> None:
    with pytest.raises(BadInput, match="File name too long"):
        scenario.find("a" * 300)


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="No such file"):
        scenario.load(tmp_path / "gone.toml")


def test_what_was_not_checked_is_not_said_to_be_good(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without the emulator nobody reads its values."""
    file = tmp_path / "s.toml"
    file.write_text("[scenario]\nname = 'x'\n[wifi]\nloss = 'banana'\n")
    assert cli.main(["check", "--no-air", str(file)]) == 0
    assert "without the air, whose values were not checked" in capsys.readouterr().out
    assert cli.main(["check", "--no-air", "--json", str(file)]) == 0
    assert json.loads(capsys.readouterr().out)["air"] is False


@pytest.mark.parametrize("text, said", [
    ("[wifi]\nfirewall = 'stateful'", "wifi.firewall = 'stateful': allowed: none, drop, reject"), ("[wifi]\nnat = 'off'", "wifi.nat = 'off': true or false"),
    ("[cell]\nnat = 'false'", "cell.nat = 'false': true or false"), ("[cell]\nenabled = 0", "cell.enabled = 0: true or false"),
    ("[scenario]\nrelay = 'no'", "scenario.relay = 'no'"), ("[scenario]\nmptcp = 1", "scenario.mptcp = 1"), ("[[ap]]\nname = 'lo'", 'ap.name = "lo"')])
def test_what_the_emulator_would_refuse_is_refused_without_it(tmp_path: Path, text: str, said: str) -> None:
    """"off" and "false" between quotes would pass for yes."""
    file = tmp_path / "s.toml"
    file.write_text(text + "\n")
    assert cli.main(["check", "--no-air", str(file)]) == 2
    with pytest.raises(BadInput) as refused:
        scenario.load(file)
    assert str(file) in str(refused.value) and said in str(refused.value)


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("nft"), reason="nft --check needs root")
def test_an_access_point_may_have_a_name_that_is_a_word_of_nft() -> None:
    rules = WifiRouter("nowhere", ["drop", "ip", "5g"], [("10.77.1.2", "fd77:1::2")]).rules("reject", True)
    done = subprocess.run(["nft", "--check", "-f", "-"], input=rules, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
