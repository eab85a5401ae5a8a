"""Where tandem-sim is, and one run of it."""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
from pathlib import Path
from typing import Any, Mapping

SIM_DIR = Path(__file__).resolve().parents[1]


class SimError(Exception):
    """What failed, why, what to do."""


class BadSweep(SimError):
    """Wrong usage or bad input, with its place."""


def find() -> Path:
    """The program: in TANDEM_BIN_DIR, the build directory, or beside the scripts when installed."""
    for place in (os.environ.get("TANDEM_BIN_DIR"), SIM_DIR.parents[1] / "build/bin", SIM_DIR):
        if place and (found := Path(place) / "tandem-sim").exists():
            return found.resolve()
    raise SimError("no program tandem-sim: build it, or name its directory in TANDEM_BIN_DIR")


def fingerprint(program: Path) -> str:
    """Changes whenever the program does: results of another one are not mixed in."""
    return hashlib.sha256(program.read_bytes()).hexdigest()[:16]


def settings_of(program: Path, scenario: str) -> set[str]:
    """The settings that a scenario takes, as its help names them."""
    done = subprocess.run([str(program), scenario, "--help"], capture_output=True, text=True)
    if done.returncode != 0:
        raise SimError(f"{program}: it does not tell the settings of {scenario} (code {done.returncode}); is it of this version?")
    return set(re.findall(r"^\s+(?:-\w,)?--([a-z0-9-]+)", done.stdout, re.MULTILINE)) - {"help"}


def arguments(scenario: str, settings: Mapping[str, Any]) -> list[str]:
    """Command line of one run; of `run` the description goes to the standard input."""
    if scenario == "run":
        return ["--with-parent", "run", "-"]
    return ["--with-parent", scenario, *(f"--{key}={str(value).lower() if isinstance(value, bool) else value}" for key, value in settings.items())]


def set_path(description: Any, path: str, value: Any) -> None:
    """Replaces a value inside a description: "flows.0.cc"."""
    at = description
    steps = path.split(".")
    for number, step in enumerate(steps):
        last = number == len(steps) - 1
        try:
            if isinstance(at, list):
                index = int(step)
                if last:
                    at[index] = value
                else:
                    at = at[index]
            elif last:
                at[step] = value
            else:
                at = at.setdefault(step, {})
        except (ValueError, IndexError, TypeError, AttributeError):
            raise BadSweep(f"{path}: the description has no such place") from None


def begin(program: Path, scenario: str, settings: Mapping[str, Any], description: Any) -> tuple[subprocess.Popen[str], str | None]:
    """Starts a run; the text goes to its standard input."""
    text = None
    if scenario == "run":
        full = json.loads(json.dumps(description))
        for path, value in settings.items():
            set_path(full, path, value)
        text = json.dumps(full)
    return subprocess.Popen([str(program), *arguments(scenario, settings)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True), text
