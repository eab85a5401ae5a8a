"""The lab layer in virtual time, with guests that are made up: side by side, one total, nothing that went wrong is lost."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "testing"))

import run  # noqa: E402
import virtual_lab  # noqa: E402
from entries import Entry  # noqa: E402
from progress import Progress  # noqa: E402
from reports import Layer, Tally, Verdict  # noqa: E402

REPORT = '<testsuite><testcase classname="test_a" name="one"/><testcase classname="test_a" name="two">{}</testcase></testsuite>'
PASSED, FAILED, SKIPPED = "", '<failure message="wrong"/>', '<skipped message="not in virtual time"/>'


class Guest:
    """Ends when it was looked at three times; leaves a report as the entry's name says."""

    at_work = most = 0

    def __init__(self, argv: Any, *, cpu: int, directories: list[Path], say: Any, **_: Any):
        self._report = Path(argv[-1].removeprefix("--junitxml="))
        self._kind, self._say, self._looks, self._cpu = self._report.stem, say, 0, cpu
        assert self._report.parent in directories and cpu not in Guest.cores
        Guest.cores.add(cpu)
        Guest.most = max(Guest.most, len(Guest.cores))

    def running(self) -> bool:
        self._looks += 1
        if self._looks < 3 or self._kind in ("endless", "busy"):
            return True
        if self._kind != "silent":
            self._report.write_text(REPORT.format({"failed": FAILED, "skipped": SKIPPED}.get(self._kind, PASSED)))
        self._say("stdout", b"last words\n")
        return False

    def clock(self) -> float:
        return self._looks * 250.0 if self._kind == "endless" else 1.0

    def cpu_seconds(self) -> float:
        return self._looks * 250.0 if self._kind == "busy" else 1.0

    def result(self) -> Any:
        if self._kind == "spins":
            raise virtual_lab.LabError("its clock stood")
        return virtual_lab.machine.Result(1 if self._kind == "failed" else 0, 1.0, 1.0)

    def close(self) -> None:
        Guest.cores.discard(self._cpu)

    cores: set[int] = set()


@pytest.fixture
def layer(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    def go(*kinds: str) -> Layer:
        Guest.cores, Guest.most = set(), 0
        entries = [Entry(f"lab.{kind}", frozenset({"lab"}), Path("python"), ("python", f"--junitxml={tmp_path}/{kind}.xml")) for kind in kinds]
        for entry in entries:
            entry.own_report().write_text(REPORT.format(PASSED))  # of an earlier run: it must not count
        return virtual_lab.run_virtual(tmp_path, entries, Progress())

    monkeypatch.setattr(virtual_lab.machine, "Machine", Guest)
    monkeypatch.setattr(virtual_lab.machine, "most_at_a_time", lambda: 2)
    monkeypatch.setattr(virtual_lab.os, "sched_getaffinity", lambda _: {0, 1, 2, 3})
    monkeypatch.setattr(virtual_lab, "_LOOK_EVERY", 0.0)
    return go


def test_one_total_over_guests_side_by_side(layer) -> None:
    done = layer("passed", "failed", "skipped", "more")
    assert done.tally() == Tally(6, 1, 1) and done.entries == 4
    assert Guest.most == 2 and not Guest.cores
    assert [case.why for case in done.cases if case.verdict is Verdict.skipped] == ["not in virtual time"]


@pytest.mark.parametrize(("kind", "why"), [("silent", "left no report"), ("spins", "its clock stood"), ("endless", "not done after 600 s of virtual time"),
                                           ("busy", "not done after 600 s of CPU time")])
def test_a_guest_that_does_not_bring_its_report_is_a_failure(layer, kind: str, why: str) -> None:
    done = layer("passed", kind, "more")
    failed = [case for case in done.cases if case.verdict is Verdict.failed]
    assert len(failed) == 1 and failed[0].name.startswith(f"lab.{kind}") and why in failed[0].why
    assert not Guest.cores


def test_virtual_time_is_for_the_lab_and_the_wifi_stack_alone(capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--time", "virtual"], ["fast", "--time", "virtual"], ["lab", "fast", "--time", "virtual"]):
        with pytest.raises(SystemExit) as wrong:
            run.main(words)
        assert wrong.value.code == 2 and "allowed: lab, vm, or both" in capsys.readouterr().err


def test_without_its_kernel_one_line_says_how_to_build_it(tmp_path: Path) -> None:
    done = subprocess.run([sys.executable, "-B", ROOT / "tools/testing/run.py", "lab", "--time", "virtual"], capture_output=True, text=True, timeout=60,
                          env={"PATH": "/usr/bin:/bin", "XDG_CACHE_HOME": str(tmp_path)})
    assert done.returncode == 1 and len(done.stderr.splitlines()) == 1
    assert "tools/lab/kernel build" in done.stderr
