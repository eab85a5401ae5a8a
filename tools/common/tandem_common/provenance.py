"""Where a result comes from: commit of the source tree, model of the machine."""

from __future__ import annotations

import os
import platform
import re
import subprocess
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]


def output(*argv: str, cwd: Path | None = None) -> str:
    """What a command prints; empty when it cannot be run or fails."""
    try:
        done = subprocess.run(argv, capture_output=True, text=True, timeout=20, cwd=cwd)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def commit() -> dict[str, Any]:
    """The source tree's commit and whether tracked files differ from it; empty values when installed without one."""
    if not (ROOT / ".git").exists():
        return {"commit": "", "dirty": None}
    mark = ["git", "-c", f"safe.directory={ROOT}"]
    return {"commit": output(*mark, "rev-parse", "HEAD", cwd=ROOT),
            "dirty": bool(output(*mark, "status", "--porcelain", "--untracked-files=no", cwd=ROOT))}


def cpu() -> str:
    """Model and number of cores."""
    try:
        found = re.search(r"model name\s*:\s*(.*)", Path("/proc/cpuinfo").read_text())
    except OSError:
        found = None
    return f"{found.group(1).strip() if found else platform.machine()}, {len(os.sched_getaffinity(0))} cores"
