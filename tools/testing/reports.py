"""What the reports say: single test cases out of GoogleTest's, pytest's and ctest's XML, and their sum.

Counted is what each report names as one case. An entry of ctest that leaves no report, or fails although no case of its report did
(a crash, a time-out, a broken start), is itself a failed case: nothing that went wrong can get lost in the sum.
"""

from __future__ import annotations

import xml.etree.ElementTree as xml
from collections import Counter
from dataclasses import dataclass, field
from enum import Enum
from pathlib import Path
from typing import Iterable


class Verdict(Enum):
    passed = "passed"
    failed = "failed"
    skipped = "skipped"


@dataclass(frozen=True)
class Case:
    """One test case: what is counted."""

    name: str
    verdict: Verdict
    why: str = ""  # of a failure or a skip
    entry: str = ""  # of ctest that it is of


@dataclass(frozen=True)
class Outcome:
    """What ctest says about one entry."""

    name: str
    verdict: Verdict
    why: str = ""
    output: str = ""
    seconds: float = 0.0


@dataclass
class Tally:
    """The sum over cases."""

    passed: int = 0
    failed: int = 0
    skipped: int = 0

    def text(self) -> str:
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"


@dataclass
class Layer:
    """One layer's share of the run."""

    name: str
    entries: int = 0
    cases: list[Case] = field(default_factory=list)
    seconds: float = 0.0
    first: list[Case] = field(default_factory=list)  # what had failed of the entries that ran again; not counted

    def tally(self) -> Tally:
        return tally(self.cases)


class BadReport(Exception):
    """A report that is not whole."""


def tally(cases: Iterable[Case]) -> Tally:
    count = Counter(case.verdict for case in cases)
    return Tally(count[Verdict.passed], count[Verdict.failed], count[Verdict.skipped])


def read_cases(path: Path) -> list[Case]:
    """The cases of a report by GoogleTest (--gtest_output=xml) or pytest (--junitxml). Raises BadReport."""
    return [_case(element) for element in _root(path).iter("testcase")]


def read_ctest(path: Path) -> list[Outcome]:
    """The entries of a report by ctest (--output-junit). Raises BadReport."""
    return [_outcome(element) for element in _root(path).iter("testcase")]


def judge(outcome: Outcome, report: Path | None, must_report: bool = False) -> list[Case]:
    """The cases of one ctest entry. `report` is None when it leaves none, as a plain program does; `must_report`: none would be a fault."""
    if report is None or not report.exists():
        if must_report and outcome.verdict is Verdict.passed:
            return [Case(outcome.name, Verdict.failed, "ended well, but left no report")]
        return [Case(outcome.name, outcome.verdict, _reason(outcome))]
    try:
        cases = read_cases(report)
    except BadReport as error:
        return [Case(outcome.name, Verdict.failed, f"{error}; {_reason(outcome)}".rstrip("; "))]
    if not cases:
        return [Case(outcome.name, outcome.verdict if outcome.verdict is Verdict.skipped else Verdict.failed,
                     _reason(outcome) or "ran no test at all")]
    if outcome.verdict is Verdict.failed and not tally(cases).failed:
        cases.append(Case(outcome.name, Verdict.failed, _reason(outcome) or "failed beside its test cases"))
    return cases


def _reason(outcome: Outcome) -> str:
    if outcome.verdict is Verdict.passed:
        return ""
    lines = outcome.output.strip().splitlines()[-40:] if outcome.verdict is Verdict.failed else []
    return "\n".join(part for part in (outcome.why, *lines) if part)


def _root(path: Path) -> xml.Element:
    try:
        return xml.parse(path).getroot()
    except (OSError, xml.ParseError) as error:
        raise BadReport(f"{path.name} is not a whole report ({error})") from error


def _case(element: xml.Element) -> Case:
    name = ".".join(part for part in (element.get("classname"), element.get("name")) if part)
    # An error is a failure in set-up or tear-down (pytest); both can stand beside a passed test.
    if faults := [child for child in element if child.tag in ("failure", "error")]:
        return Case(name, Verdict.failed, "\n".join(_text(fault) for fault in faults))
    if (skipped := element.find("skipped")) is not None:
        return Case(name, Verdict.skipped, skipped.get("message") or (skipped.text or "").strip() or _without_words(skipped))
    if element.get("status") == "notrun":  # GoogleTest, DISABLED_
        return Case(name, Verdict.skipped, "disabled in the source")
    return Case(name, Verdict.passed)


def _without_words(skipped: xml.Element) -> str:
    return "known to fail" if skipped.get("type") == "pytest.xfail" else "no reason given"


def _text(fault: xml.Element) -> str:
    message, text = (fault.get("message") or "").strip(), (fault.text or "").strip()
    return text if text.startswith(message) or message in text else f"{message}\n{text}".strip()


def _outcome(element: xml.Element) -> Outcome:
    name, status = element.get("name") or "?", element.get("status")
    output = element.findtext("system-out") or ""
    seconds = float(element.get("time") or 0)
    if status == "run":
        return Outcome(name, Verdict.passed, output=output, seconds=seconds)
    children = [child for child in element if child.tag in ("failure", "error", "skipped")]
    why = "; ".join(message for child in children if (message := (child.get("message") or "").strip()))
    if status == "disabled":
        return Outcome(name, Verdict.skipped, why or "disabled", output, seconds)
    # ctest says "notrun" both for a test that asked to be skipped and for one whose program is missing.
    if status == "notrun" and why.startswith(("SKIP_RETURN_CODE", "SKIP_REGULAR_EXPRESSION")):
        return Outcome(name, Verdict.skipped, output.strip().splitlines()[-1] if output.strip() else why, output, seconds)
    return Outcome(name, Verdict.failed, why or status or "failed", output, seconds)
