#!/usr/bin/python3
"""What a build cost: the dearest steps as ninja noted them. tools/build-time runs this."""

from __future__ import annotations

import argparse
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Sequence

ROOT = Path(__file__).resolve().parents[2]
_UNIT = re.compile(r"CMakeFiles/(?P<target>[^/]+)\.dir/(?P<file>.+)\.(?:o|gch)$")
_WORLD = ("tests/", "tools/")  # what the daemon itself does not need


@dataclass(frozen=True)
class Step:
    """One output of the build: an object, a precompiled header, a program."""

    output: str
    seconds: float

    @property
    def compiled(self) -> bool:
        return _UNIT.search(self.output) is not None

    @property
    def name(self) -> str:
        """src/wire/parse.cc (tandem_wire), bin/tandemd."""
        found = _UNIT.search(self.output)
        return f"{self.output[:found.start()]}{found['file']}  ({found['target']})" if found else self.output

    @property
    def part(self) -> str:
        return next((word.rstrip("/") for word in _WORLD if self.output.startswith(word)), "daemon and modules")


class BadLog(Exception):
    """What is wrong with the log, and what to do."""


def read_log(text: str) -> list[Step]:
    """The steps of a .ninja_log, each as it was last run. Raises BadLog."""
    lines = text.splitlines()
    if not lines or not lines[0].startswith("# ninja log v"):
        raise BadLog("this is no log of ninja")
    steps: dict[str, Step] = {}
    for number, line in enumerate(lines[1:], start=2):
        fields = line.split("\t")
        try:
            begun, ended, _, output = int(fields[0]), int(fields[1]), fields[2], fields[3]
        except (IndexError, ValueError):
            raise BadLog(f"line {number} is not of a log of ninja: {line[:60]!r}") from None
        steps[output] = Step(output, (ended - begun) / 1000)
    return list(steps.values())


def dearest(steps: Iterable[Step], count: int) -> list[Step]:
    return sorted(steps, key=lambda step: (-step.seconds, step.output))[:count]


def report(steps: Sequence[Step], count: int) -> str:
    """Sums, and the dearest units."""
    total = sum(step.seconds for step in steps)
    units = [step for step in steps if step.compiled]
    lines = [f"{len(steps)} steps, {total / 60:.1f} minutes one after the other; {len(units)} units compiled, "
             f"{sum(step.seconds for step in units) / 60:.1f} minutes"]
    for part in sorted({step.part for step in steps}):
        lines.append(f"  {part}: {sum(step.seconds for step in steps if step.part == part) / 60:.1f} minutes")
    lines += ["", f"{'seconds':>8}  {'share':>6}  unit"]
    lines += [f"{step.seconds:8.1f}  {100 * step.seconds / total if total else 0:5.1f} %  {step.name}" for step in dearest(units, count)]
    return "\n".join(lines)


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="tools/build-time", description="Shows what the last build cost, and its dearest units.",
                                     epilog="Times are as ninja saw them: begin to end of each step. For figures that can be compared, build from nothing, "
                                            "without a compiler cache, on a machine that does nothing else. Exit codes: 0, 1 no usable log, 2 wrong usage.")
    parser.add_argument("directory", nargs="?", type=Path, default=ROOT / "build", help="the build (default: build)")
    parser.add_argument("--count", type=int, default=10, metavar="N", help="how many units (default 10)")
    options = parser.parse_args(arguments)
    if options.count < 1:
        parser.error(f"--count {options.count}: at least 1 is needed")
    log = options.directory / ".ninja_log"
    try:
        print(report(read_log(log.read_text()), options.count))
    except OSError as error:
        print(f"tools/build-time: {log}: {error.strerror}; build first: cmake --preset dev && cmake --build build", file=sys.stderr)
        return 1
    except BadLog as error:
        print(f"tools/build-time: {log}: {error}; build anew", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    try:
        sys.exit(main(sys.argv[1:]))
    except BrokenPipeError:
        sys.stderr.close()
        sys.exit(0)
