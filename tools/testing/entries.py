"""Runs ctest's entries of some labels in one build directory and hands back their single test cases."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator, Mapping, Sequence

from progress import Progress, lines_of
from reports import BadReport, Case, Layer, Outcome, Verdict, judge, read_ctest, tally

# "2/9 Test #2: unit.crash .......................Subprocess aborted***Exception:   0.04 sec"
_ENDED = re.compile(r"^\s*\d+/\d+ Test\s+#\d+: (?P<name>\S+) \.*\s*(?P<how>.*?):?\s+(?P<seconds>[\d.]+) sec")
# add_test([=[unit.crash]=] "/where/it/is/crash" "--argument")
_ADDED = re.compile(r'^add_test\(\[=\[(.+?)\]=\] "([^"]*)"', re.MULTILINE)
# subdirs("src/wire")
_BELOW = re.compile(r'^subdirs\("?([^")]+)"?\)', re.MULTILINE)
_STARTED = re.compile(r"^\s*Start\s+\d+: (?P<name>\S+)")


@dataclass(frozen=True)
class Entry:
    """One test as ctest knows it."""

    name: str
    labels: frozenset[str]
    program: Path
    command: tuple[str, ...]  # empty when the program is not built
    directory: Path = Path()  # that it runs in
    environment: dict[str, str] = field(default_factory=dict)  # beside what is there

    def own_report(self) -> Path | None:
        """Where pytest writes its report, as the entry's command says."""
        for word in self.command:
            if word.startswith("--junitxml="):
                return Path(word.removeprefix("--junitxml="))
        return None


def ctest_files(directory: Path) -> Iterator[str]:
    """What ctest reads of a build directory, and nothing of another one inside it (build/distro)."""
    try:
        text = (directory / "CTestTestfile.cmake").read_text()
    except FileNotFoundError:
        return
    yield text
    for name in _BELOW.findall(text):
        yield from ctest_files(directory / name)


def list_entries(build: Path) -> list[Entry]:
    """All entries of a build directory. Raises RuntimeError when ctest cannot say."""
    done = subprocess.run(["ctest", "--test-dir", str(build), "--show-only=json-v1"], capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"ctest cannot list the tests of {build}: {done.stderr.strip()}")
    # ctest keeps quiet about the command of a test whose program is not built yet; the file it reads does not.
    programs = {name: program for text in ctest_files(build) for name, program in _ADDED.findall(text)}
    entries = []
    for test in json.loads(done.stdout)["tests"]:
        properties = {entry["name"]: entry["value"] for entry in test.get("properties", [])}
        command = tuple(test.get("command", []))
        program = command[0] if command else programs.get(test["name"], "")
        environment = dict(word.split("=", 1) for word in properties.get("ENVIRONMENT", []))
        entries.append(Entry(test["name"], frozenset(properties.get("LABELS", [])), Path(program), command,
                             Path(properties.get("WORKING_DIRECTORY", build)), environment))
    return entries


def run_entries(layers: Mapping[str, Sequence[Entry]], build: Path, jobs: int, progress: Progress, *,
                environment: dict[str, str] | None = None, wrapper: tuple[str, ...] = (), again: bool = False) -> list[Layer]:
    """Runs the entries of these layers of a build directory with one ctest, `jobs` at a time as their locks allow; `wrapper` goes before the ctest
    command. `again`: beside the reports of a first run."""
    results = {name: Layer(name, entries=len(mine)) for name, mine in layers.items()}
    layer_of = {entry.name: name for name, mine in layers.items() for entry in mine}
    entries = [entry for mine in layers.values() for entry in mine]
    began = time.monotonic()
    directory = build / "reports" / ("+".join(layers) + ("-again" if again else ""))
    shutil.rmtree(directory, ignore_errors=True)
    directory.mkdir(parents=True)
    reports: dict[str, Path] = {}
    for entry in entries:
        reports[entry.name] = entry.own_report() or directory / f"{entry.program.name}.xml"  # GoogleTest names it after the program
        if again and (first := reports[entry.name]).exists():
            first.replace(first.with_suffix(".first.xml"))
        reports[entry.name].unlink(missing_ok=True)

    summary = directory / "ctest.xml"
    names = "|".join(re.sub(r"([.+*()\[\]^$?|\\])", r"\\\1", entry.name) for entry in entries)
    command = [*wrapper, "ctest", "--test-dir", str(build), "-R", f"^({names})$", "-j", str(jobs), "--output-junit", str(summary)]
    how: dict[str, str] = {}
    running: dict[str, float] = {}
    with open(directory / "ctest.log", "w") as log:
        for line in lines_of(command, environment={**os.environ, "GTEST_OUTPUT": f"xml:{directory}/", **(environment or {})}):
            if line is None:
                for name, since in running.items():
                    progress.waiting(layer_of[name], name, time.monotonic() - since)
                continue
            log.write(line)
            if begun := _STARTED.match(line):
                running[begun["name"]] = time.monotonic()
            elif ended := _ENDED.match(line):
                how[ended["name"]] = ended["how"].replace("***", " ").strip()
                running.pop(ended["name"], None)
                results[layer_of[ended["name"]]].seconds = time.monotonic() - began
                progress.ended(layer_of[ended["name"]], ended["name"], in_short(ended["how"], reports.get(ended["name"])), float(ended["seconds"]))
    try:
        outcomes = {outcome.name: outcome for outcome in read_ctest(summary)}
    except BadReport as error:
        outcomes = {}
        progress.note(f"{', '.join(layers)}: ctest did not report: {error}")
    for entry in entries:
        report = reports[entry.name]
        outcome = outcomes.get(entry.name) or Outcome(entry.name, Verdict.failed, "ctest did not report on it")
        if outcome.verdict is Verdict.failed and how.get(entry.name):
            outcome = Outcome(outcome.name, outcome.verdict, f"{how[entry.name]} {outcome.why}".strip(), outcome.output, outcome.seconds)
        if report.exists() and list(reports.values()).count(report) > 1:
            outcome = Outcome(entry.name, Verdict.failed, f"several entries write {report.name}, so that one hides the other")
        cases = judge(outcome, report, must_report=entry.own_report() is not None)
        results[layer_of[entry.name]].cases += [Case(f"{entry.name}: {case.name}" if case.name != entry.name else case.name, case.verdict, case.why, entry.name) for case in cases]
    return list(results.values())


def in_short(how: str, report: Path | None) -> str:
    """For the progress line: what the report says, else what ctest says."""
    word = "passed" if how == "Passed" else how.replace("***", " ").strip().lower()
    try:
        return tally(judge(Outcome("", Verdict.passed), report)).text() if report and report.exists() and word in ("passed", "failed") else word
    except BadReport:
        return word
