#!/usr/bin/python3
"""Searches with libFuzzer for input that the parsers do not bear, for a time of the processor: tools/fuzz runs this."""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Sequence

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))

import builds  # noqa: E402
from progress import Progress  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / "build-fuzz"
FOUND = BUILD / "found"  # what was found worth keeping, by target; a later search begins with it
SLICE = 60.0  # seconds of one run of libFuzzer, which counts by the clock; between two the processor's time is read
_STATUS = re.compile(r"^#\d+\s+\S+\s+cov: (\d+) ft: (\d+)")
_RUNS = re.compile(r"^stat::number_of_executed_units:\s+(\d+)")


@dataclass
class Search:
    """What one target did."""

    target: str
    cpu_s: float = 0.0
    runs: int = 0
    edges: int = 0
    features: int = 0
    faults: list[str] = field(default_factory=list)  # files that make it fail

    def read(self, said: str) -> None:
        """Takes over what libFuzzer said of a run."""
        for line in said.splitlines():
            if status := _STATUS.match(line):
                self.edges, self.features = int(status[1]), int(status[2])
            elif count := _RUNS.match(line):
                self.runs += int(count[1])

    def row(self) -> str:
        return f"| {self.target} | {self.cpu_s / 60:.1f} | {self.runs} | {self.edges} / {self.features} | {', '.join(self.faults) or 'nothing'} |"


def targets_of(root: Path) -> dict[str, Path]:
    """Each target and its corpus."""
    return {corpus.name: corpus for corpus in sorted(root.glob("**/corpus/*")) if corpus.is_dir()}


def command(target: str, corpus: Path, seconds: float) -> list[str]:
    kept, faults = FOUND / target, FOUND / "faults" / target
    for place in (kept, faults):
        place.mkdir(parents=True, exist_ok=True)
    return [str(BUILD / "tests" / f"fuzz_{target}"), f"-max_total_time={max(1, round(seconds))}", "-timeout=10", "-rss_limit_mb=2048",
            "-print_final_stats=1", f"-artifact_prefix={faults}/", str(kept), str(corpus)]


def search(target: str, corpus: Path, cpu_s: float, progress: Progress) -> Search:
    """Runs a target until it has had its time of the processor, or fails."""
    result = Search(target)
    said_at = time.monotonic()
    while result.cpu_s < cpu_s and not result.faults:
        process = subprocess.Popen(command(target, corpus, min(SLICE, cpu_s - result.cpu_s)), stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                                   stderr=subprocess.PIPE, text=True, errors="replace", cwd=FOUND)
        assert process.stderr
        said = process.stderr.read()
        process.stderr.close()
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        result.cpu_s += usage.ru_utime + usage.ru_stime
        result.read(said)
        if process.returncode != 0:
            found = re.findall(r"Test unit written to (\S+)", said)
            result.faults = [Path(name).name for name in found] or [f"exit code {process.returncode}"]
            print(said[-4000:], flush=True)
        elif time.monotonic() - said_at > 60:
            said_at = time.monotonic()
            progress.note(f"{target:<20} {result.cpu_s / 60:.1f} of {cpu_s / 60:.1f} minutes, {result.edges} edges, {result.features} features")
    progress.note(f"{target:<20} {result.runs} runs in {result.cpu_s / 60:.1f} minutes: {', '.join(result.faults) or 'nothing found'}")
    return result


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/fuzz", formatter_class=argparse.RawDescriptionHelpFormatter,
                                     description="Builds the targets of tests/fuzz for libFuzzer (tools/install-deps fuzz) and runs them, one a core.",
                                     epilog="What makes a target fail is kept below build-fuzz/found/faults, for tests/fuzz/corpus once it is mended.\n"
                                            "Exit codes: 0 nothing was found, 1 something was, or a build failed, 2 wrong usage.")
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="default: all")
    parser.add_argument("--minutes", type=float, default=1.0, metavar="M", help="of the processor, for each target (default 1)")
    parser.add_argument("--markdown", type=Path, metavar="FILE", help="write a table")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures")
    options = parser.parse_args(arguments)
    known = targets_of(ROOT / "tests" / "fuzz")
    if unknown := [name for name in options.targets if name not in known]:
        parser.error(f"no target {unknown[0]}; there are {', '.join(known)}")
    if not options.minutes > 0:
        parser.error(f"--minutes {options.minutes}: more than 0 is needed")
    if not shutil.which("clang++-14"):
        print("tools/fuzz: clang++-14 is missing, which has libFuzzer; tools/install-deps fuzz brings it", file=sys.stderr)
        return 1
    wanted = options.targets or list(known)
    progress = Progress()
    try:
        builds.configure(ROOT, "fuzz", BUILD, progress)
        builds.compile_targets("fuzz", BUILD, [f"fuzz_{name}" for name in wanted], progress)
    except builds.BuildFailed as error:
        print(f"tools/fuzz: {error}", file=sys.stderr)
        return 1
    with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
        results = list(pool.map(lambda name: search(name, known[name], 60 * options.minutes, progress), wanted))
    table = "\n".join(["| target | CPU minutes | runs | edges / features | found |", "|---|---|---|---|---|", *(one.row() for one in results)])
    print(f"\n{table}")
    if options.markdown:
        options.markdown.write_text(table + "\n")
    if options.json:
        options.json.write_text(json.dumps([asdict(one) for one in results], indent=1) + "\n")
    return 1 if any(one.faults for one in results) else 0


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    try:
        sys.exit(main(sys.argv[1:]))
    except KeyboardInterrupt:
        print("stopped", file=sys.stderr)
        sys.exit(130)
