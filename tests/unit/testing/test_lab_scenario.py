"""The lab's own reading of a scenario, which with --no-air is the only one: what is wrong is told, with the value."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("common", "lab")]

from tandem_lab import cli, scenario  # noqa: E402
from tandem_lab.errors import BadInput  # noqa: E402


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
