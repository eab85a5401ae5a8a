"""Uploads from the client, told in as much detail as their two ends know."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from statistics import median_high
from typing import TYPE_CHECKING

from .errors import LabError

if TYPE_CHECKING:
    from .api import Lab

ENDS = Path(__file__).with_name("upload_ends.py")
PORT = 7000

# A scenario: an access point that is left while a download or an upload runs, at a rate that follows the signal.
LEAVING = """
[scenario]
name = "leaving"
duration = "30s"
[wifi]
profile = "wifi-g"
rate = "minstrel"
[cell]
enabled = false
[wan]
delay = "15ms"
[[ap]]
name = "ap1"
signal = -60
[[ap]]
name = "ap2"
channel = 6
signal = -55
[[server]]
name = "srv1"
congestion = "cubic"
[[timeline]]
at = "0s"
what = "signal"
ap = "ap1"
points = [["0s", -60], ["8s", -80]]
[[timeline]]
at = "8s"
what = "handoff"
ap = "ap2"
gap = "50ms"
"""
HANDOFF = 8.0  # s, in it


class Upload:
    """From the client to the first server, for so many seconds. `own_pace`: bytes per second that the application allows itself; 0: it does not say."""

    def __init__(self, lab: Lab, seconds: float, own_pace: int = 0, *, mptcp: bool = False, congestion: str = "") -> None:
        server = lab.server("srv1")
        program = [sys.executable, str(ENDS), *(["--mptcp"] if mptcp else [])]
        self._receiver = server.popen([*program, "receiver", str(PORT)], stdout=subprocess.PIPE, text=True)
        if not self._receiver.stdout or self._receiver.stdout.readline() != "ready\n":
            raise LabError("upload: the receiver did not start")
        self._sender = lab.client.popen([*program, "sender", server.ipv4, str(PORT), str(seconds), str(own_pace), *([congestion] if congestion else [])],
                                        stdout=subprocess.PIPE, text=True)
        self._timeout = seconds + 60

    def wait(self) -> tuple[dict, dict]:
        """What sender and receiver tell (upload_ends.py). Raises LabError when not every byte arrived as it left."""
        told = [one.communicate(timeout=self._timeout)[0] for one in (self._sender, self._receiver)]
        if not all(told):
            raise LabError(f"upload: the {'sender' if not told[0] else 'receiver'} said nothing at its end")
        sent, got = (json.loads(one) for one in told)
        if (sent["sha256"], sent["bytes"]) != (got["sha256"], got["bytes"]):
            raise LabError(f"upload: {sent['bytes']} bytes left, {got['bytes']} arrived, or others")
        return sent, got


def between(sent: dict, begin: float, end: float) -> list[dict]:
    """What the sender's TCP said of itself from `begin` to `end`, seconds since 1970."""
    return [one for one in sent["seen"] if begin <= one["t"] < end]


def around(sent: dict, got: dict, began: float, handoff: float, ended: float) -> dict[str, float]:
    """Of the 2 s before a handoff and of what follows; `handoff` and `ended` in seconds behind `began`."""
    before = between(sent, began + handoff - 2, began + handoff)
    times = [when for when, _ in got["came"] if began + handoff - 2 < when < began + ended]
    if not before or len(times) < 2:
        raise LabError("upload: nothing is known of the time before the handoff")
    return {"rtt_ms": 1000 * median_high(one["rtt"] for one in before), "most_rtt_ms": 1000 * max(one["rtt"] for one in before),
            # What stands still at the end has a gap up to there: what comes later ends it too late.
            "gap_s": max(later - earlier for earlier, later in zip(times, [*times[1:], began + ended])),
            "retransmitted": between(sent, 0, began + ended)[-1]["retransmitted"],
            "mbit_s": 8e-6 * sum(count for when, count in got["came"] if began < when < began + ended) / ended}
