"""Configures and builds one preset of CMakePresets.json."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator, Sequence

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "common"))

from progress import Progress, lines_of  # noqa: E402
from tandem_common.priority import idle_session  # noqa: E402

_STEP = re.compile(r"^\[(\d+)/(\d+)\] ")
_MB_PER_COMPILER = 1500
_SAY_EVERY = 15.0  # seconds
# Without it ccache keeps no unit that reads precompiled headers, so that every second build would be a first one.
_CACHE = {"CCACHE_SLOPPINESS": "pch_defines,time_macros"}


class BuildFailed(Exception):
    """Holds the end of the build's output."""


def parallel_jobs() -> int:
    """As many compilers as there are cores, unless memory is short."""
    megabytes = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1 << 20)
    return max(1, min(len(os.sched_getaffinity(0)), megabytes // _MB_PER_COMPILER))


def configure(root: Path, preset: str, build: Path, progress: Progress) -> None:
    """Configures `preset`, whose binaryDir is `build`. Raises BuildFailed."""
    progress.note(f"build  {preset}: configuring {build.name}")
    launcher = ["-DCMAKE_CXX_COMPILER_LAUNCHER=ccache", "-DCMAKE_C_COMPILER_LAUNCHER=ccache"] if shutil.which("ccache") else []
    done = subprocess.run(["cmake", "--preset", preset, *launcher], cwd=root, stdin=subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    if done.returncode != 0:
        raise BuildFailed(f"cmake --preset {preset} failed:\n{done.stdout[-6000:]}")


def compile_targets(preset: str, build: Path, targets: Sequence[str], progress: Progress) -> None:
    """Builds the targets (none: everything), as many as can be built. Raises BuildFailed when one could not."""
    started = said = progress.elapsed()
    kept: list[str] = []
    lines = lines_of(_ninja(build, targets), environment={**os.environ, **_CACHE})
    try:
        while True:
            line = next(lines)
            if line is None:
                progress.note(f"build  {preset}: still building")
                continue
            kept.append(line)
            if (step := _STEP.match(line)) and progress.elapsed() - said >= _SAY_EVERY:
                said = progress.elapsed()
                progress.note(f"build  {preset}: {step[1]} of {step[2]}")
    except StopIteration as end:
        if end.value != 0:
            raise BuildFailed(f"building {preset} failed:\n{_faults(kept)}") from None
    progress.note(f"build  {preset}: done  ({progress.elapsed() - started:.1f} s)")


@contextmanager
def compiling_aside(wanted: Sequence[tuple[Path, Sequence[str]]]) -> Iterator[None]:
    """Goes on with configured builds (directory, targets), one after the other, in whatever time of the processors nobody else wants,
    and stops at the end.

    Says nothing: what is compiled is kept, and whoever builds these targets afterwards sees what failed."""
    commands = "; ".join(shlex.join(_ninja(build, targets)) for build, targets in wanted)
    with subprocess.Popen(["sh", "-c", commands], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                          env={**os.environ, **_CACHE}, start_new_session=True, preexec_fn=idle_session) as process:
        try:
            yield
        finally:
            try:
                os.killpg(process.pid, signal.SIGINT)  # ninja ends its compilers and takes away what they have half written
            except ProcessLookupError:
                pass


def _ninja(build: Path, targets: Sequence[str]) -> list[str]:
    return ["ninja", "-C", str(build), f"-j{parallel_jobs()}", "-k0", *targets]


def _faults(lines: list[str]) -> str:
    """The beginning of each failed step's output, its command left out; else the end."""
    starts = [index for index, line in enumerate(lines) if line.startswith("FAILED:")]
    if not starts:
        return "".join(lines[-80:])
    return "".join("".join([lines[start], *lines[start + 2:start + 22]]) for start in starts[:5])
