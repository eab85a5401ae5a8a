"""What heads every result: commit, command, seed, machine, versions."""

from __future__ import annotations

import datetime
import os
import platform
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

from .gear import busy_share

ROOT = Path(__file__).resolve().parents[3]


def _output(*argv: str, cwd: Path | None = None) -> str:
    """What a command prints; empty when it cannot be run or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, cwd=cwd)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _first(text: str) -> str:
    return text.splitlines()[0].strip() if text else ""


def commit() -> dict[str, Any]:
    """The source tree's commit and whether tracked files differ from it; empty values when installed without one."""
    if not (ROOT / ".git").exists():
        return {"commit": "", "dirty": None}
    mark = ["git", "-c", f"safe.directory={ROOT}"]
    return {"commit": _output(*mark, "rev-parse", "HEAD", cwd=ROOT),
            "dirty": bool(_output(*mark, "status", "--porcelain", "--untracked-files=no", cwd=ROOT))}


def cpu() -> str:
    """Model and number of cores."""
    try:
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return f"{found.group(1).strip() if found else platform.machine()}, {len(os.sched_getaffinity(0))} cores"


def versions(tandemd: str | None) -> dict[str, str]:
    """Of the programs that take part."""
    import numpy

    found = {"python": platform.python_version(), "numpy": numpy.__version__}
    if tandemd:
        found["tandemd"] = _first(_output(tandemd, "--version"))
    for name, argv in (("iperf3", ["iperf3", "--version"]), ("iproute2", ["ip", "-V"]), ("nftables", ["nft", "--version"])):
        if path := shutil.which(argv[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            found[name] = _first(_output(path, *argv[1:]))
    if path := shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
        done = subprocess.run([path, "-v"], capture_output=True, text=True)
        found["nginx"] = _first(done.stderr or done.stdout)
    return found


def command(arguments: list[str]) -> str:
    """The command as the user would repeat it."""
    return shlex.join(["tandem", "bench", *arguments])


def make(arguments: list[str], seed: int, quick: bool, tandemd: str | None) -> dict[str, Any]:
    """The whole header but for the knobs, which the runs bring."""
    return {
        **commit(),
        "command": command(arguments),
        "seed": seed,
        "quick": quick,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "kernel": f"{platform.system()} {platform.release()}",
        "cpu": cpu(),
        "busy_before": round(busy_share(), 3),  # share of the CPU that other programs used just before
        "versions": versions(tandemd),
        "knobs": {},
    }
