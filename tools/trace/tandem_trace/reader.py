"""Packets and stalls of a recording, as `tandem trace print` and `explain` tell them."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any, Iterator

from .errors import BadInput, TraceError


def program() -> str:
    """The command line that started this, or the one in PATH."""
    for place in (os.environ.get("TANDEM_PROGRAM"), shutil.which("tandem")):
        if place and Path(place).exists():
            return place
    raise TraceError("no program tandem: start this as `tandem trace ...`, or name it in TANDEM_PROGRAM")


def packets(file: Path, flow: int) -> Iterator[dict[str, Any]]:
    """The packets of one flow, in the order of the recording. Raises BadInput when there is none; a file that is damaged later on is read up to there."""
    command = [program(), "trace", "print", "--json", "--flow", str(flow), str(file)]
    seen = False
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout and process.stderr
        for line in process.stdout:
            seen = True
            yield json.loads(line)
        fault = process.stderr.read().strip().removeprefix("tandem trace: ")
    if not seen:
        raise BadInput(fault or f"{file}: no flow {flow}; `tandem trace explain {file} --stalls` lists them")


def story(file: Path, flow: int) -> dict[str, Any]:
    """What explain says of the flow."""
    done = subprocess.run([program(), "trace", "explain", "--stalls", "--json", str(file)], capture_output=True, text=True, check=False)
    try:
        told = json.loads(done.stdout)
    except ValueError:
        raise BadInput(done.stderr.strip().removeprefix("tandem trace: ") or f"{file}: cannot be explained") from None
    for one in told["flows"]:
        if one["flow"] == flow:
            return {**one, "first_ns": told["first_ns"], "fault": told.get("fault", ""), "links": told.get("links", [])}
    if not told["flows"]:
        raise BadInput("; ".join([f"{file}: holds no TCP segment that can be read", *told.get("unread", [])]))
    raise BadInput(f"{file}: no flow {flow}; it has {len(told['flows'])}")
