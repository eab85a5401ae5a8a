"""What `tandem lab` refuses before it makes anything."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[3] / "tools" / "lab"))

from tandem_lab import cli  # noqa: E402


@pytest.mark.parametrize("word, allowed", [
    ("--seconds=0", "above 0"), ("--seconds=-1", "above 0"), ("--seconds=nan", "above 0"), ("--seconds=inf", "above 0"), ("--seconds=x", "above 0"),
    ("--flows=0", "from 1"), ("--flows=1.5", "from 1"), ("--seed=-1", "from 0")])
def test_numbers_that_cannot_be_are_wrong_usage(monkeypatch, capsys, word: str, allowed: str) -> None:
    monkeypatch.setitem(cli._COMMANDS, "run", lambda options: pytest.fail("a lab was made"))
    with pytest.raises(SystemExit) as ended:
        cli.main(["run", "plain", word])
    assert ended.value.code == 2 and f"{word.partition('=')[2]}: allowed: " in (said := capsys.readouterr().err) and allowed in said
