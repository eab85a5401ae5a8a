"""What a life of the daemon may have more than a fresh one, and which transfers are remembered as slow."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools" / name) for name in ("endurance", "lab", "common")]

from tandem_soak import world  # noqa: E402
from tandem_soak.run import SLOW, SLOWEST_KEPT, Plan, Soak  # noqa: E402


class Taken:
    """Instead of the keeper."""

    def __init__(self) -> None:
        self.faults: list[dict[str, Any]] = []

    def take(self, fault: dict[str, Any]) -> None:
        self.faults.append(fault)


def test_the_slowest_transfers_are_kept_with_the_packets_of_those_that_nearly_hung(tmp_path: Path) -> None:
    soak = Soak(Plan(1.0, 1, "x-", 1, True, 0.0, False, None, tmp_path), lambda _: None)
    keeper = soak._keeper = Taken()  # type: ignore[assignment]
    took = [1.0, 9.0, SLOW + 1, 2.0, 3.0, SLOW + 2, 4.0, 0.5]
    for seconds in took:
        soak._slow({"seconds": seconds, "outcome": "whole"})
    assert [one["seconds"] for one in soak.outcome.slowest_ones] == sorted(took, reverse=True)[:SLOWEST_KEPT]
    assert [one["seconds"] for one in keeper.faults] == [SLOW + 1, SLOW + 2]


HOLDER = """
import ctypes, socket, sys
ctypes.CDLL(None).prctl(15, b"tandemd")  # PR_SET_NAME
held = socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3))
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("ss") or not shutil.which("unshare"), reason="a network namespace needs root")
def test_a_packet_socket_that_is_left_is_found() -> None:
    """ss was asked without the names of the sockets' owners: no socket was ever a daemon's."""
    with subprocess.Popen(["unshare", "--net", sys.executable, "-c", HOLDER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as holder:
        def run(argv: list[str], check: bool = True) -> subprocess.CompletedProcess:
            try:
                return subprocess.run(["nsenter", f"--net=/proc/{holder.pid}/ns/net", *argv], capture_output=True, text=True)
            except FileNotFoundError:
                return subprocess.CompletedProcess(argv, 127, "", "")

        assert holder.stdout and holder.stdout.readline() == "ready\n"
        found = world.left_behind(SimpleNamespace(client=SimpleNamespace(run=run, namespace="nowhere")))["sockets"]  # type: ignore[arg-type]
        holder.communicate("")
    assert len(found) == 1 and "tandemd" in found[0]
