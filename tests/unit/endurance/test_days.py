"""A laptop left on: what the command line takes, and what a day that leaves too much is called."""

from __future__ import annotations

import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("endurance", "endurance/tandem_soak", "common", "lab")]

from tandem_soak import cli  # noqa: E402
from tandem_soak.days import LOG_A_DAY, SCENARIO, STATE_MOST, Days  # noqa: E402
from tandem_soak.run import Plan  # noqa: E402


@pytest.mark.parametrize("words, told", [(["--days", "0"], "--days 0"), (["--days", "367"], "--days 367"), (["--days", "2", "--for", "1h"], "--for"),
                                         (["--days", "2", "--plain", "--strip-mptcp"], "--plain, --strip-mptcp"), (["--days", "2", "--threads", "0"], "--threads 0"),
                                         (["--days", "2", "--held", "9"], "without --held"), (["--held", "-1"], "--held -1: allowed: 0 to 40000"), (["--opened", "2001"], "--opened 2001: allowed")])
def test_what_does_not_go_together_is_refused(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(words) == 2
    assert told in capsys.readouterr().err


@pytest.mark.parametrize("given", [["--json", "{}/a/report.json", "--log={}/daemon.log", "--keep", "{}/kept"], ["--js", "{}/report.json", "--keep={}/kept"]])
def test_what_is_written_inside_comes_out_where_it_was_asked_for(given: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    words = ["--days", "2", *(word.format(tmp_path) for word in given)]

    def run(argv: list[str], directories: list[Path], **_: object) -> SimpleNamespace:
        inside = cli.parser().parse_args(argv[1:])
        for path in (inside.json, inside.log, inside.keep):
            assert path is None or any(path.is_relative_to(one) for one in directories)
        inside.json.write_text('{"command": "inside", "good": true}')
        if inside.log:
            inside.log.write_text("words")
        inside.keep.mkdir()
        return SimpleNamespace(exit_code=1)

    monkeypatch.setattr(cli.machine, "run", run)
    monkeypatch.setattr(cli.system, "tandem_binary", lambda _: Path("bin/tandemd"))
    assert cli.main(words) == 1
    asked = cli.parser().parse_args(words)
    assert json.loads(asked.json.read_text()) == {"command": "tools/soak " + " ".join(words), "good": True}
    assert asked.log is None or asked.log.read_text() == "words"
    assert not asked.keep.exists(), "nothing went wrong"


@pytest.mark.parametrize("words", [["--for", "8h"], ["--days", "2"]])
def test_where_nothing_can_be_kept_is_told_at_the_start(words: list[str], handlers, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The packets of what went wrong after hours were lost."""
    (tmp_path / "file").touch()
    for start in ((cli.Soak, "run"), (cli.machine, "run")):
        monkeypatch.setattr(*start, lambda *_, **__: pytest.fail("it was begun"))
    monkeypatch.setattr(cli.system, "tandem_binary", lambda _: Path("bin/tandemd"))
    for keep in ("file", "file/below"):
        assert cli.main([*words, "--keep", str(tmp_path / keep)]) == 2
        assert f"--keep {tmp_path / 'file'}: cannot be written to" in capsys.readouterr().err


@pytest.fixture
def handlers():
    """As they were."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_what_is_temporary_goes_whatever_ends_it(number: int, handlers, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: object, directories: list[Path], **__: object) -> None:
        rooms.append(directories[0])
        os.kill(os.getpid(), number)
        time.sleep(5)

    rooms: list[Path] = []
    signal.signal(number, lambda *_: pytest.fail("nobody heard it"))
    monkeypatch.setattr(cli.machine, "run", run)
    monkeypatch.setattr(cli.system, "tandem_binary", lambda _: Path("bin/tandemd"))
    assert cli.main(["--days", "2", "--keep", str(tmp_path / "kept")]) == 130
    assert rooms and not rooms[0].exists()


@pytest.mark.parametrize("ignored", [False, True])
def test_a_closed_terminal_ends_it_in_order_unless_nohup_was_asked_for(ignored: bool, handlers, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed by it the run left its packets in /var/tmp."""
    def run(_: object, stop: threading.Event) -> None:
        os.kill(os.getpid(), signal.SIGHUP)
        heard.append(stop.wait(0.2))
        raise OSError("that is all")

    heard: list[bool] = []
    signal.signal(signal.SIGHUP, signal.SIG_IGN if ignored else lambda *_: pytest.fail("nobody heard it"))
    monkeypatch.setattr(cli.Soak, "run", run)
    assert cli.main(["--for", "5s"]) == 1 and heard == [not ignored]


def test_nobody_beacons_for_weeks() -> None:
    assert 'beacon_interval = "0ms"' in SCENARIO


@pytest.mark.parametrize("logged, on_disk, today, month, found", [
    (10, 10, 10_000_000, 50_000_000, ""), (LOG_A_DAY + 1, 10, 0, 0, "of log"), (10, STATE_MOST + 1, 0, 0, "on disk"), (10, 10, 10_000_001, 10, "in a day"), (10, 10, 10, 50_000_001, "in a month")])
def test_a_day_that_leaves_too_much_is_a_finding(tmp_path: Path, logged: int, on_disk: int, today: int, month: int, found: str) -> None:
    days = Days(Plan(86400.0, 1, "soak-", 1, False, 0.0, False, None, tmp_path), lambda _: None)
    (tmp_path / "evidence").mkdir()
    with open(tmp_path / "evidence" / "kept", "wb") as file:
        file.truncate(on_disk)
    answers = {"/v1/budget": {"today": {"used_bytes": today}, "month": {"used_bytes": month}}, "/v1/status": {"flows": {"count": 3}}}
    watched = SimpleNamespace(lab=SimpleNamespace(directory=tmp_path), daemon=SimpleNamespace(api=answers.get), resident=lambda: 1, descriptors=dict)
    days._note_day(0, watched, logged)  # noqa: SLF001
    assert len(days.outcome.findings) == (1 if found else 0)
    assert found in "".join(days.outcome.findings)
    assert days.outcome.days[0]["flows"] == 3


def test_what_was_spent_before_midnight_counts_for_the_day(tmp_path: Path) -> None:
    """The day is noted when the clock has begun the next one, whose budget is untouched."""
    days = Days(Plan(86400.0, 1, "soak-", 1, False, 0.0, False, None, tmp_path), lambda _: None)
    answers = {"/v1/budget": {"today": {"used_bytes": 10_000_001}, "month": {"used_bytes": 0}}, "/v1/status": {"flows": {"count": 3}}}
    watched = SimpleNamespace(lab=SimpleNamespace(directory=tmp_path), daemon=SimpleNamespace(api=answers.get), resident=lambda: 1, descriptors=dict)
    days._look_at_budget(watched)  # noqa: SLF001 - after a session
    answers["/v1/budget"]["today"]["used_bytes"] = 0
    for day in (0, 1):
        days._note_day(day, watched, 0)  # noqa: SLF001
    assert [one["cell_today"] for one in days.outcome.days] == [10_000_001, 0]
    assert len(days.outcome.findings) == 1 and "in a day" in days.outcome.findings[0]
