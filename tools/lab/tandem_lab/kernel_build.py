"""Builds the kernel for virtual time from Debian's source, in a directory of its own below the cache that is removed afterwards."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Callable, Sequence

from .errors import LabError
from . import kernels

# Program or file that the build needs -> the Debian package that brings it (tools/packages, group virtual).
NEEDS = {
    "make": "build-essential",
    "gcc": "build-essential",
    "patch": "build-essential",
    "xz": "xz-utils",
    "flex": "flex",
    "bison": "bison",
    "bc": "bc",
    "/usr/include/libelf.h": "libelf-dev",
    "/usr/include/openssl/ssl.h": "libssl-dev",
}
SPACE = 3 << 30  # bytes: the source unpacked is 1.5 GB, objects and the kernel 0.3 GB
STEPS = 1350  # lines that make prints for a whole build, for the progress alone

# What is told: a step's name and the share done, 0 to 1.
Listener = Callable[[str, float], None]


def missing() -> list[str]:
    """Packages that the build needs and this machine lacks."""
    lacks = {package for need, package in NEEDS.items() if not (Path(need).exists() if need.startswith("/") else shutil.which(need))}
    if not kernels.source_version():
        lacks.add(kernels.SOURCE_PACKAGE)
    return sorted(lacks)


def build(jobs: int, say: Listener) -> kernels.Kernel:
    """Builds the kernel and keeps it. Raises LabError; nothing but finished kernels stays."""
    if lacks := missing():
        raise LabError(f"building the kernel needs: {' '.join(lacks)}; install them: tools/install-deps virtual")
    place = kernels.cache()
    try:
        place.mkdir(parents=True, exist_ok=True)
        if (free := shutil.disk_usage(place).free) < SPACE:
            raise LabError(f"{place}: {free / 1e9:.1f} GB are free, the build needs {SPACE / 1e9:.1f} GB; free some, or name another place in XDG_CACHE_HOME")
        with tempfile.TemporaryDirectory(dir=place, prefix="build-") as scratch:
            return _build_in(Path(scratch), jobs, say)
    except OSError as error:
        raise LabError(f"{error.filename or place}: {error.strerror}") from error


def _build_in(scratch: Path, jobs: int, say: Listener) -> kernels.Kernel:
    say("unpacking", 0.0)
    _run(["tar", "-xf", str(kernels.SOURCE), "-C", str(scratch)], scratch)
    tree = scratch / kernels.SOURCE_PACKAGE
    for patch in kernels.PATCHES:
        _run(["patch", "-p1", "--batch", "-i", str(patch)], tree)
    say("configuring", 0.02)
    make = ["make", "ARCH=um", f"KCONFIG_ALLCONFIG={kernels.CONFIG}"]
    _run([*make, "allnoconfig"], tree)
    _check_config(tree / ".config")
    _run([*make, f"-j{jobs}", "linux"], tree, lambda lines: say("compiling", 0.03 + 0.96 * min(1.0, lines / STEPS)))
    release = (tree / "include/config/kernel.release").read_text().strip()
    return kernels.keep(tree / "linux", kernels.source_version(), release)


def _check_config(written: Path) -> None:
    """An option that the kernel's own rules threw out again is a mistake in our file, and would be missed much later."""
    there = set(written.read_text().splitlines())
    for line in kernels.CONFIG.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and line.startswith("CONFIG_") and (line not in there if value != "n" else any(entry.startswith(name + "=") for entry in there)):
            raise LabError(f"{kernels.CONFIG}: {line}: the kernel's configuration does not take it")


def _run(argv: Sequence[str], directory: Path, on_line: Callable[[int], None] | None = None) -> None:
    """Runs one step to its end; it dies with this process. A failure is told with its last words."""
    with subprocess.Popen(["setpriv", "--pdeathsig", "KILL", *argv], cwd=directory, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
                          stderr=subprocess.STDOUT, text=True, errors="replace", start_new_session=True,
                          env={**os.environ, "LC_ALL": "C", "KBUILD_BUILD_TIMESTAMP": "1970-01-01", "KBUILD_BUILD_USER": "tandem", "KBUILD_BUILD_HOST": "lab", "KBUILD_BUILD_VERSION": "1"}) as step:
        assert step.stdout
        last: list[str] = []
        full = ""
        try:
            for number, line in enumerate(step.stdout):
                last = [*last[-20:], line.rstrip()]
                if not full and "No space left" in line:
                    full = line.strip()
                if on_line:
                    on_line(number)
        except BaseException:
            os.killpg(step.pid, signal.SIGKILL)
            raise
    if step.returncode != 0:
        if full:
            raise LabError(f"{kernels.cache()}: the disk is full: {full}; free {SPACE / 1e9:.1f} GB, or name another place in XDG_CACHE_HOME")
        words = next((line for line in last if re.search(r"error|No space|cannot", line, re.IGNORECASE)), last[-1] if last else "no words")
        raise LabError(f"{' '.join(argv[:2])} failed with code {step.returncode}: {words.strip()}")


class Progress:
    """A bar on a terminal, a line for every tenth elsewhere."""

    def __init__(self) -> None:
        self._began = time.monotonic()
        self._bar = sys.stderr.isatty()
        self._told = -1

    def __call__(self, step: str, share: float) -> None:
        passed = time.monotonic() - self._began
        if self._bar:
            filled = int(40 * share)
            sys.stderr.write(f"\r[{'#' * filled}{'.' * (40 - filled)}] {share * 100:3.0f} %  {passed:4.0f} s  {step}\x1b[K")
        elif (tenth := int(share * 10)) != self._told:
            self._told = tenth
            sys.stderr.write(f"{share * 100:3.0f} %  {passed:4.0f} s  {step}\n")
        sys.stderr.flush()

    def end(self) -> None:
        if self._bar:
            sys.stderr.write("\r\x1b[K")
