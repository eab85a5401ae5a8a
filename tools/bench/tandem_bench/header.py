"""What heads every result: commit, command, seed, machine, versions."""

from __future__ import annotations

import datetime
import os
import platform
import shlex
import shutil
import subprocess
from typing import Any, Sequence

from tandem_common.provenance import commit, cpu, output

from tandem_lab.kernels import Kernel

from .helpers import busy_share


def _first(text: str) -> str:
    return text.splitlines()[0].strip() if text else ""


def versions(tandemd: str | None) -> dict[str, str]:
    """Of the programs that take part."""
    import numpy

    found = {"python": platform.python_version(), "numpy": numpy.__version__}
    if tandemd:
        found["tandemd"] = _first(output(tandemd, "--version"))
    for name, argv in (("iperf3", ["iperf3", "--version"]), ("iproute2", ["ip", "-V"]), ("nftables", ["nft", "--version"])):
        if path := shutil.which(argv[0], path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
            found[name] = _first(output(path, *argv[1:]))
    if path := shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin"):
        done = subprocess.run([path, "-v"], capture_output=True, text=True)
        found["nginx"] = _first(done.stderr or done.stdout)
    return found


def command(arguments: list[str]) -> str:
    """The command as the user would repeat it: --resume only spared what it would measure."""
    kept: list[str] = []
    for word in arguments:
        if kept[-1:] == ["--resume"]:
            kept.pop()
        elif not word.startswith("--resume="):
            kept.append(word)
    return shlex.join(["tandem", "bench", *kept])


def make(arguments: list[str], seed: int, quick: bool, settings: Sequence[str], tandemd: str | None, kernel: Kernel | None = None) -> dict[str, Any]:
    """The whole header but for the knobs, which the runs bring. In virtual time (on `kernel`) only what figures can depend on: the same
    command on the same commit gives the same header on every machine and day."""
    head = {**commit(), "command": command(arguments), "seed": seed, "quick": quick, "settings": sorted(settings), "time": "virtual" if kernel else "real"}
    if kernel:
        return {**head, "kernel": kernel.words, "kernel_checksum": kernel.checksum, "versions": versions(tandemd), "knobs": {}}
    return {
        **head,
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "kernel": f"{platform.system()} {platform.release()}",
        "cpu": cpu(),
        "busy_before": round(busy_share(), 3),  # share of the CPU that other programs used just before
        "versions": versions(tandemd),
        "knobs": {},
    }
