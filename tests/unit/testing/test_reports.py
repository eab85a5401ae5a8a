"""The sum of a test run, on reports that GoogleTest 1.12, pytest 7.2 and ctest 3.25 really wrote: failed, errored, skipped, crashed."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parents[2] / "tools" / "testing"))

from reports import Case, Outcome, Tally, Verdict, judge, read_cases, read_ctest, tally  # noqa: E402

SAMPLES = HERE / "samples"


def outcome(name: str) -> Outcome:
    return next(entry for entry in read_ctest(SAMPLES / "ctest.xml") if entry.name == name)


def verdicts(cases: list[Case]) -> dict[str, str]:
    return {case.name: case.verdict.value for case in cases}


def test_googletest_cases() -> None:
    cases = read_cases(SAMPLES / "gtest.xml")
    assert verdicts(cases) == {"Ground.Holds": "passed", "Ground.Gives": "failed", "Ground.NotHere": "skipped", "Ground.DISABLED_Later": "skipped",
                               "Crash.Here": "passed", "Some/Many.Positive/0": "passed", "Some/Many.Positive/1": "passed"}
    why = {case.name: case.why for case in cases}
    assert "adding up" in why["Ground.Gives"] and "Value of: false" in why["Ground.Gives"]
    assert "no radio in this machine" in why["Ground.NotHere"]
    assert why["Ground.DISABLED_Later"] == "disabled in the source"


def test_pytest_cases() -> None:
    cases = read_cases(SAMPLES / "pytest.xml")
    assert verdicts(cases) == {"test_sample.test_holds": "passed", "test_sample.test_gives": "failed", "test_sample.test_cannot_start": "failed",
                               "test_sample.test_not_here": "skipped", "test_sample.test_cleans_up_badly": "failed",
                               "test_sample.test_known": "skipped", "test_sample.test_many[1]": "passed", "test_sample.test_many[2]": "passed"}
    why = {case.name: case.why for case in cases}
    assert why["test_sample.test_not_here"] == "no QEMU on this machine"
    assert "no such device" in why["test_sample.test_cannot_start"]
    assert "a namespace stayed behind" in why["test_sample.test_cleans_up_badly"]
    assert why["test_sample.test_known"] == "known to fail"


def test_a_file_that_pytest_cannot_import_is_a_failure() -> None:
    assert tally(judge(outcome("lab.unreadable"), SAMPLES / "pytest_unreadable.xml")) == Tally(failed=1)


def test_ctest_entries() -> None:
    verdict = {entry.name: entry.verdict.value for entry in read_ctest(SAMPLES / "ctest.xml")}
    assert verdict == {"unit.sample": "failed", "unit.crash": "failed", "fuzz.plain": "passed", "lab.sample": "failed", "lab.unreadable": "failed",
                       "unit.missing": "failed", "lab.slow": "failed", "lab.skipped": "skipped", "lab.off": "skipped"}


def test_a_failed_entry_counts_its_cases_only() -> None:
    assert tally(judge(outcome("unit.sample"), SAMPLES / "gtest.xml")) == Tally(passed=4, failed=1, skipped=2)


def test_a_crashed_program_without_report_is_one_failure(tmp_path: Path) -> None:
    cases = judge(outcome("unit.crash"), tmp_path / "crash.xml")
    assert verdicts(cases) == {"unit.crash": "failed"}
    assert "Crash.Here" in cases[0].why  # the last it printed


def test_a_program_that_fails_behind_its_passed_cases_is_one_failure_more(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites><testsuite><testcase classname="A" name="b" status="run" result="completed"/></testsuite></testsuites>')
    cases = judge(Outcome("unit.leaky", Verdict.failed, output="LeakSanitizer: detected memory leaks"), report)
    assert verdicts(cases) == {"A.b": "passed", "unit.leaky": "failed"}
    assert "LeakSanitizer" in cases[1].why


def test_a_report_cut_short_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_bytes((SAMPLES / "gtest.xml").read_bytes()[:900])
    assert tally(judge(Outcome("unit.cut", Verdict.passed), report)) == Tally(failed=1)


def test_a_report_without_cases_is_a_failure(tmp_path: Path) -> None:
    report = tmp_path / "report.xml"
    report.write_text('<testsuites tests="0"/>')
    assert verdicts(judge(Outcome("unit.empty", Verdict.passed), report)) == {"unit.empty": "failed"}


def test_a_missing_report_where_one_is_due_is_a_failure(tmp_path: Path) -> None:
    assert tally(judge(Outcome("lab.silent", Verdict.passed), tmp_path / "none.xml", must_report=True)) == Tally(failed=1)


def test_a_program_without_report_is_one_case() -> None:
    assert tally(judge(outcome("fuzz.plain"), None)) == Tally(passed=1)


def test_a_program_that_is_not_built_is_a_failure() -> None:
    cases = judge(outcome("unit.missing"), None)
    assert tally(cases) == Tally(failed=1)
    assert "Unable to find executable" in cases[0].why


def test_an_entry_that_skips_itself_gives_the_reason() -> None:
    cases = judge(outcome("lab.skipped"), None)
    assert cases == [Case("lab.skipped", Verdict.skipped, "no tun device")]


def test_the_total_line() -> None:
    assert Tally(3, 0, 12).text() == "3 passed, 0 failed, 12 skipped"


@pytest.mark.parametrize("verdict", list(Verdict))
def test_every_verdict_is_counted_once(verdict: Verdict) -> None:
    count = tally([Case("x", verdict)])
    assert (count.passed, count.failed, count.skipped) == tuple(int(verdict is each) for each in (Verdict.passed, Verdict.failed, Verdict.skipped))
