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
from dataclasses import dataclass
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import builds  # noqa: E402
from entries import Entry, list_entries, run_entries  # noqa: E402
from progress import Progress  # noqa: E402
from reports import Case, Layer, Verdict, tally  # noqa: E402
import virtual_lab  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
PURE = ("unit", "golden", "sim", "fuzz")  # programs without network, quick
VIRTUAL = {"lab": "lab", "vm": "hwsim"}  # layers that can run in virtual time, and the label of the entries that do
SHOWN_LINES = 30  # of one failure


@dataclass(frozen=True)
class Build:
    """A preset and what is run of it: layer name -> labels. `programs_only`: just the test programs are built and run."""

    preset: str
    layers: dict[str, tuple[str, ...]]
    programs_only: bool = False
    environment: dict[str, str] | None = None

    @property
    def directory(self) -> Path:
        return ROOT / ("build" if self.preset == "dev" else f"build-{self.preset}")


_ASAN = Build("asan", {"asan": PURE}, programs_only=True,
              environment={"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "print_stacktrace=1"})
_TSAN = Build("tsan", {"tsan": ("tsan",)}, programs_only=True, environment={"TSAN_OPTIONS": "second_deadlock_stack=1"})
MEANING = {"asan": "unit, golden, sim and fuzz once more under address and undefined-behaviour sanitizers",
           "tsan": "the tests with two threads under the thread sanitizer",
           virtual_lab.LAYER: "in virtual time, each entry in a kernel of its own"}


def plan(what: list[str], virtual: bool = False) -> list[Build]:
    """What the words of the command line stand for."""
    if virtual:
        return [Build("dev", {virtual_lab.LAYER: tuple(VIRTUAL[word] for word in what)})]
    wanted = ["fast", "lab", "vm"] if "all" in what else what
    layers = [layer for word in ("fast", "lab", "vm") if word in wanted for layer in (PURE if word == "fast" else (word,))]
    dev = Build("dev", {layer: (layer,) for layer in layers})
    return [dev, _ASAN, _TSAN] if "all" in what else [dev]


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
    options = parser.parse_args(arguments)
    what = [options.what] if isinstance(options.what, str) else options.what
    virtual = options.time == "virtual"
    if virtual and not set(what) <= VIRTUAL.keys():
        parser.error("--time virtual: allowed: lab, vm, or both")
    if virtual:
        try:
            virtual_lab.requirements()
        except virtual_lab.LabError as error:
            print(f"tools/test: {error}", file=sys.stderr)
            return 1

    progress = Progress()
    print(_heading(), flush=True)
    results: list[Layer] = []
    for build in plan(what, virtual):
        results += run_build(build, progress)
    return conclude(results, progress)


def run_build(build: Build, progress: Progress) -> list[Layer]:
    """Builds a preset and runs its layers. A build that fails is a failed case; of the sanitizer builds the rest runs all the same."""
    failed: list[Layer] = []

    def failure(error: Exception) -> None:
        progress.note(f"build  {build.preset}: FAILED")
        print(error, flush=True)
        failed.append(Layer("build", cases=[Case(f"build of preset {build.preset}", Verdict.failed, "its output is above")]))

    try:
        builds.configure(ROOT, build.preset, build.directory, progress)
        entries = list_entries(build.directory)
        targets: list[str] = []
        if build.programs_only:
            entries, targets = _programs(build, entries)
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
    return failed + [run_layer(layer, labels, build, entries, progress) for layer, labels in build.layers.items()]


def run_layer(layer: str, labels: tuple[str, ...], build: Build, entries: list[Entry], progress: Progress) -> Layer:
    mine = [entry for entry in entries if entry.labels & set(labels)]
    if not mine:
        progress.note(f"{layer:<6} no test is registered")
        return Layer(layer, cases=[Case(layer, Verdict.skipped, "no test of this layer is registered")])
    serial = bool({"lab", "vm"} & set(labels))
    try:
        if layer == virtual_lab.LAYER:
            return virtual_lab.run_virtual(build.directory, mine, progress)
        return run_entries(layer, build.directory, mine, 1 if serial else len(os.sched_getaffinity(0)), progress,
                           environment=build.environment, wrapper=_fixed_addresses() if build.programs_only else ())
    except (RuntimeError, OSError) as error:
        return Layer(layer, cases=[Case(layer, Verdict.failed, str(error))])


def _programs(build: Build, entries: list[Entry]) -> tuple[list[Entry], list[str]]:
    """The entries with the build's labels that run a program of the build, and these programs as ninja names them."""
    labels = {label for wanted in build.layers.values() for label in wanted}
    mine = [entry for entry in entries if entry.labels & labels and entry.program.is_relative_to(build.directory)]
    return mine, sorted({str(entry.program.relative_to(build.directory)) for entry in mine})


def _fixed_addresses() -> tuple[str, ...]:
    """The sanitizers of gcc 12 do not know the wide address randomisation of newer kernels; run without."""
    command = ("setarch", platform.machine(), "-R")
    works = shutil.which("setarch") and subprocess.run([*command, "true"], capture_output=True).returncode == 0
    return command if works else ()


def conclude(results: list[Layer], progress: Progress) -> int:
    """Failures, skips with their reasons, a table, and the total on the last line."""
    cases = [case for layer in results for case in layer.cases]
    failed = [case for case in cases if case.verdict is Verdict.failed]
    if failed:
        print("\nFailed:")
        for case in failed:
            print(f"  {case.name}")
            lines = case.why.splitlines()
            for line in lines[:SHOWN_LINES]:
                print(f"      {line}")
            if len(lines) > SHOWN_LINES:
                print(f"      ... {len(lines) - SHOWN_LINES} lines more in the reports")
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
