#!/usr/bin/python3
"""Builds Tandem and runs its tests: tools/test runs this after installing what is needed."""

from __future__ import annotations

import argparse
import os
import platform
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Iterator, Sequence

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import builds  # noqa: E402
from entries import Entry, list_entries, run_entries  # noqa: E402
from progress import Progress  # noqa: E402
from reports import Case, Layer, Verdict, tally  # noqa: E402
import virtual_lab  # noqa: E402
from tandem_common.alone import locked  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PURE = ("unit", "golden", "sim", "fuzz")  # programs without network, quick
VIRTUAL = {"lab": "lab", "vm": "hwsim"}  # layers that can run in virtual time, and the label of the entries that do
LOCKS = 3  # of the entries of lab and vm: two and one (their CMakeLists.txt); those of lab wait three quarters of their time
ALL_BUT_PROGRAMS = "without_test_programs"  # a target of CMakeLists.txt
SHOWN_LINES = 30  # of one failure
# Entries of a layer that may have failed to run again; with more of them it was not by chance. The virtual machine has what others leave,
# and on a slower machine that may be too little for each of its entries: alone they take 20 minutes.
RUN_AGAIN = {"lab": 5, "vm": 9}


@dataclass(frozen=True)
class Build:
    """A preset and what is run of it: layer name -> labels. Test programs are those of the layers that need no network.

    `programs_only`: just the test programs are built and run; `without_programs`: all but them."""

    preset: str
    layers: dict[str, tuple[str, ...]]
    programs_only: bool = False
    without_programs: bool = False
    environment: dict[str, str] | None = None

    @property
    def directory(self) -> Path:
        return ROOT / ("build" if self.preset == "dev" else f"build-{self.preset}")


# Each test program is compiled once in a full run, for the sanitizers: they find all that the programs find without.
_SCRIPTS = Build("dev", {"scripts": PURE, "lab": ("lab",), "vm": ("vm",)}, without_programs=True)
_ASAN = Build("asan", {layer: (layer,) for layer in PURE}, programs_only=True,
              environment={"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"})
_TSAN = Build("tsan", {"tsan": ("tsan",)}, programs_only=True, environment={"TSAN_OPTIONS": "second_deadlock_stack=1"})
MEANING = {"scripts": "those tests of unit, golden and sim that are no programs of C++; unit, golden, sim and fuzz: the programs, "
                      "under address and undefined-behaviour sanitizers",
           "tsan": "the tests with two threads under the thread sanitizer",
           virtual_lab.LAYER: "in virtual time, each entry in a kernel of its own"}


def plan(what: list[str], virtual: bool = False) -> list[Build]:
    """What the words of the command line stand for."""
    if virtual:
        return [Build("dev", {virtual_lab.LAYER: tuple(VIRTUAL[word] for word in what)})]
    if "all" in what:
        return [_SCRIPTS, _ASAN, _TSAN]
    layers = [layer for word in ("fast", "lab", "vm") if word in what for layer in (PURE if word == "fast" else (word,))]
    return [Build("dev", {layer: (layer,) for layer in layers})]


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/test", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Installs what is needed, builds, runs the tests. The last line is the total.",
                                     epilog="fast: unit, golden, sim and fuzz (no root needed). lab: real TCP in network namespaces.\n"
                                            "vm: Debian's stock kernel in QEMU. all (default): these three, and the sanitizers.\n"
                                            "lab vm --time virtual: the lab's tests, and of vm those of the Wi-Fi stack, in kernels whose clock moves only\n"
                                            "when everything waits, one a core (docs/lab.md); a busy machine makes them longer, never different.\n"
                                            "Exit codes: 0 nothing failed, 1 something failed, 2 wrong usage.")
    parser.add_argument("what", nargs="*", choices=["fast", "lab", "vm", "all"], metavar="fast|lab|vm|all", default="all")
    parser.add_argument("--time", choices=["real", "virtual"], default="real", help="of lab and vm (default real); virtual needs tools/lab/kernel build")
    parser.add_argument("--no-install", action="store_true", help="do not look for missing packages")
    parser.add_argument("--only-check", action="store_true", help=argparse.SUPPRESS)  # by tools/test, before it installs
    options = parser.parse_args(arguments)
    what = [options.what] if isinstance(options.what, str) else options.what
    virtual = options.time == "virtual"
    if virtual and not set(what) <= VIRTUAL.keys():
        parser.error("--time virtual: allowed: lab, vm, or both")
    if options.only_check:
        return 0
    if virtual:
        try:
            virtual_lab.requirements()
        except virtual_lab.LabError as error:
            print(f"tools/test: {error}", file=sys.stderr)
            return 1

    try:
        with alone(ROOT / "build"):
            progress = Progress()
            print(_heading(), flush=True)
            results: list[Layer] = []
            building = plan(what, virtual)
            for number, build in enumerate(building, start=1):
                results += run_build(build, progress, building[number:])
            return conclude(results, progress)
    except NotAlone as error:
        print(f"tools/test: {error}", file=sys.stderr)
        return 1


class NotAlone(Exception):
    """Says who is in the way, and what to do."""


@contextmanager
def alone(build: Path) -> Iterator[None]:
    """One run at a time in a checkout: two would build in the same folders and take each other's reports away. Raises NotAlone."""
    place = build / "tests.lock"
    busy = NotAlone(f"another tools/test is at work in this checkout ({place} is locked); wait for its end, or use a checkout of its own")
    with ExitStack() as held:
        try:
            build.mkdir(exist_ok=True)
            held.enter_context(locked(place, busy))
        except OSError as error:
            raise NotAlone(f"{place}: {error.strerror}; the tests are built and report below {build}, which has to be writable") from error
        yield


def run_build(build: Build, progress: Progress, following: Sequence[Build] = ()) -> list[Layer]:
    """Builds a preset and runs its layers. A build that fails is a failed case; of the sanitizer builds the rest runs all the same.

    The tests of lab and vm wait most of the time: what is built next is begun beside them."""
    failed: list[Layer] = []

    def failure(error: Exception) -> None:
        progress.note(f"build  {build.preset}: FAILED")
        print(error, flush=True)
        failed.append(Layer("build", cases=[Case(f"build of preset {build.preset}", Verdict.failed, "its output is above")]))

    try:
        builds.configure(ROOT, build.preset, build.directory, progress)
        entries = list_entries(build.directory)
        entries, targets = share(build, entries)
        try:
            if targets or not build.programs_only:
                builds.compile_targets(build.preset, build.directory, targets, progress)
        except builds.BuildFailed as error:
            failure(error)
            if not build.programs_only:
                return failed
        names = {entry.name for entry in entries}
        entries = [entry for entry in list_entries(build.directory) if entry.name in names]  # with the programs that are there now
    except (builds.BuildFailed, RuntimeError, OSError, subprocess.SubprocessError) as error:
        failure(error)
        return failed
    results = failed
    for waits, layers in groupby(build.layers.items(), lambda item: item[0] in VIRTUAL):
        with beside(following if waits else (), progress):
            together = [dict(layers)] if waits else [{layer: labels} for layer, labels in layers]
            ran = [layer for some in together for layer in run_layers(some, build, entries, progress)]
        results += [run_again(layer, build, entries, progress) for layer in ran] if waits else ran
    return results


def run_again(layer: Layer, build: Build, entries: Sequence[Entry], progress: Progress) -> Layer:
    """Runs the entries with failures a second time, with nothing compiled beside them; then that is what counts of them, and the first
    failures are kept to be told.

    Tests of lab and vm go by real clocks: a processor that was away for a second looks like a fault of Tandem. What is wrong fails twice."""
    names = {case.entry for case in layer.cases if case.verdict is Verdict.failed}
    failed = [entry for entry in entries if entry.name in names]
    if not 0 < len(failed) <= RUN_AGAIN[layer.name] or len(failed) < len(names):
        return layer
    progress.note(f"{layer.name:<6} once more, alone: {', '.join(entry.name for entry in failed)}")
    try:
        second, = run_entries({layer.name: failed}, build.directory, 1, progress, environment=build.environment, again=True)
    except (RuntimeError, OSError) as error:
        progress.note(f"{layer.name:<6} could not be run again: {error}")
        return layer
    return with_second_run(layer, second)


def with_second_run(first: Layer, second: Layer) -> Layer:
    """The layer with the second run's cases in place of those that the entries had."""
    names = {case.entry for case in second.cases}
    return Layer(first.name, first.entries, [case for case in first.cases if case.entry not in names] + second.cases, first.seconds + second.seconds,
                 [case for case in first.cases if case.entry in names and case.verdict is Verdict.failed])


@contextmanager
def beside(following: Sequence[Build], progress: Progress) -> Iterator[None]:
    """Compiles for these builds meanwhile; that one cannot be configured is said when its turn comes."""
    wanted: list[tuple[Path, list[str]]] = []
    for build in following:
        try:
            builds.configure(ROOT, build.preset, build.directory, progress)
            wanted.append((build.directory, share(build, list_entries(build.directory))[1]))
        except (builds.BuildFailed, RuntimeError, OSError, subprocess.SubprocessError):
            pass
    if not wanted:
        yield
        return
    with builds.compiling_aside(wanted):
        yield


def run_layers(layers: dict[str, tuple[str, ...]], build: Build, entries: list[Entry], progress: Progress) -> list[Layer]:
    """Runs layers beside each other, as many entries at a time as there are cores; of lab and vm as many as their locks allow (RESOURCE_LOCK)."""
    wanted = {layer: [entry for entry in entries if entry.labels & set(labels)] for layer, labels in layers.items()}
    without = [Layer(layer, cases=[Case(layer, Verdict.skipped, "no test of this layer is registered")]) for layer, mine in wanted.items() if not mine]
    for layer in without:
        progress.note(f"{layer.name:<6} no test is registered")
    wanted = {layer: mine for layer, mine in wanted.items() if mine}
    if not wanted:
        return without
    try:
        if virtual_lab.LAYER in wanted:
            return without + [virtual_lab.run_virtual(build.directory, wanted[virtual_lab.LAYER], progress)]
        jobs = LOCKS if wanted.keys() & VIRTUAL.keys() else len(os.sched_getaffinity(0))
        return without + run_entries(wanted, build.directory, jobs, progress,
                                     environment=build.environment, wrapper=_fixed_addresses() if build.programs_only else ())
    except (RuntimeError, OSError) as error:
        return without + [Layer(layer, cases=[Case(layer, Verdict.failed, str(error))]) for layer in wanted]


def share(build: Build, entries: list[Entry]) -> tuple[list[Entry], list[str]]:
    """Which of a build's entries it runs, and what ninja builds for them (nothing: everything)."""
    labels = {label for wanted in build.layers.values() for label in wanted}
    mine = [entry for entry in entries if entry.labels & labels]
    programs = [entry for entry in mine if entry.program.is_relative_to(build.directory)]
    if build.programs_only:
        return programs, sorted({str(entry.program.relative_to(build.directory)) for entry in programs})
    if build.without_programs:
        return [entry for entry in mine if entry not in programs], [ALL_BUT_PROGRAMS]
    return mine, []


def _fixed_addresses() -> tuple[str, ...]:
    """The sanitizers of gcc 12 do not know the wide address randomisation of newer kernels; run without."""
    command = ("setarch", platform.machine(), "-R")
    works = shutil.which("setarch") and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if works else ()


def conclude(results: list[Layer], progress: Progress) -> int:
    """Failures, skips with their reasons, a table, and the total on the last line."""
    cases = [case for layer in results for case in layer.cases]
    _print_failures("Failed at first; counted is what came when it ran again, alone:", [case for layer in results for case in layer.first])
    _print_failures("Failed:", [case for case in cases if case.verdict is Verdict.failed])
    if skipped := [case for case in cases if case.verdict is Verdict.skipped]:
        print("\nSkipped:")
        for case in skipped:
            print(f"  {case.name}: {' '.join(case.why.split())}")
    print(f"\n{'layer':<8}{'entries':>8}{'passed':>8}{'failed':>8}{'skipped':>8}{'seconds':>9}")
    for layer in results:
        sum_ = layer.tally()
        print(f"{layer.name:<8}{layer.entries:>8}{sum_.passed:>8}{sum_.failed:>8}{sum_.skipped:>8}{layer.seconds:>9.1f}")
    for name in (layer.name for layer in results if layer.name in MEANING):
        print(f"{name}: {MEANING[name]}")
    minutes, seconds = divmod(int(progress.elapsed()), 60)
    print(f"reports: build*/reports; {minutes} min {seconds} s with the build\n")
    total = tally(cases)
    print(total.text(), flush=True)
    return 1 if total.failed else 0


def _print_failures(heading: str, failed: Sequence[Case]) -> None:
    if not failed:
        return
    print(f"\n{heading}")
    for case in failed:
        print(f"  {case.name}")
        lines = case.why.splitlines()
        for line in lines[:SHOWN_LINES]:
            print(f"      {line}")
        if len(lines) > SHOWN_LINES:
            print(f"      ... {len(lines) - SHOWN_LINES} lines more in the reports")


def _heading() -> str:
    try:
        commit = subprocess.run(["git", "-C", str(ROOT), "describe", "--always", "--dirty"], capture_output=True, text=True).stdout.strip()
    except OSError:
        commit = ""
    return f"Tandem {commit or 'without git'}, kernel {platform.release()}, {len(os.sched_getaffinity(0))} cores"


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # by an exception, so that what runs is ended, too
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("stopped; no total", file=sys.stderr)
        sys.exit(130)
