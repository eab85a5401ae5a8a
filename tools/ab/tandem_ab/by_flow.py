"""`--per flow`: what the daemon's own comparisons leave plain, beside what it does not, in the same blocks of time. Nothing is switched.

The daemon draws by lot which connections, and which stretches of long ones, are left alone by a module (docs/evidence.md); /v1/flows says so (`rests`).
Both share the air: this is biased, and every report says so.
"""

from __future__ import annotations

import time
from typing import Any, Callable, Iterable, Mapping, Sequence

from tandem_common.control import Daemon
from tandem_common.errors import Failure

from . import analysis, report
from .own import AGAIN_S, LEAST_BYTES, LEAST_WANTED_S
from .store import Store
from .surroundings import cell_by_module, grown

LOOK_S = 1.0


class Sides:
    """Bytes and seconds of connections that a module acts on, and of those that it rests on. Pure."""

    def __init__(self, module: str):
        self.module = module
        self.bytes, self.seconds = {True: 0, False: 0}, {True: 0.0, False: 0.0}  # by whether the module acts
        self._before: dict[Any, tuple[int, bool]] = {}
        self._at: float | None = None
        self.cell_bytes = 0  # that the module put on the cellular link: all on the side that it acts on

    def take(self, at: float, flows: Iterable[Mapping[str, Any]]) -> None:
        """One look at /v1/flows. A second counts for a side when the connection was on it at both its ends and got data."""
        now = {}
        for flow in flows:
            acts, rests = self.module in flow["modules"], self.module in flow.get("rests", [])
            if flow["link"].startswith("wifi") and flow["bypass"] == "none" and (acts or rests):
                acts = not rests
                now[flow["id"]] = flow["delivered_bytes"], acts
                before = self._before.get(flow["id"])
                if before and self._at is not None and before[1] == acts and flow["delivered_bytes"] > before[0]:
                    self.bytes[acts] += flow["delivered_bytes"] - before[0]
                    self.seconds[acts] += at - self._at
        self._before, self._at = now, at

    def trial(self, acts: bool, wall_s: float) -> dict[str, Any]:
        seconds = self.seconds[acts]
        beside = {"cell_bytes": self.cell_bytes if acts else 0}
        return {"figure": self.bytes[acts] * 8e-6 / seconds if seconds else 0.0, "bytes": self.bytes[acts], "seconds": seconds, "wall_s": wall_s, "beside": beside}

    def reason(self, names: Sequence[str]) -> str:
        """Why this block does not count; empty: it does."""
        for acts, name in ((False, names[0]), (True, names[1])):
            if self.seconds[acts] < LEAST_WANTED_S or self.bytes[acts] < LEAST_BYTES:
                return f"{name}: too little was downloaded, {self.bytes[acts] / 1e6:.1f} MB in {self.seconds[acts]:.1f} s"
        return ""


def run(daemon: Daemon, store: Store, tell: Callable[[str], None]) -> str:
    """Blocks until the end; gives in words why it ended."""
    base, arm = (one["name"] for one in store.head["arms"])
    module, = store.head["arms"][1]["modules"]
    while time.time() < store.head["own"]["ends"]:
        if analysis.enough(report.Result(store.head, store.pairs).comparisons):
            return "the interval is as narrow as asked for"
        tell("watches connections")
        sides, began, started = Sides(module), time.time(), time.monotonic()
        try:
            before = cell_by_module(daemon.modules())
            while time.monotonic() - started < store.head["for_s"] and time.time() < store.head["own"]["ends"]:
                sides.take(time.monotonic(), daemon.get("/v1/flows"))
                time.sleep(LOOK_S)
            sides.cell_bytes = grown(before, cell_by_module(daemon.modules())).get(module, 0)
        except Failure as failure:
            tell(f"waits: {failure}")
            time.sleep(AGAIN_S)
            continue
        if not any(sides.bytes.values()):
            continue
        seconds = time.monotonic() - started
        store.append({"number": len(store.pairs), "began": began, "seconds": seconds, "order": [base, arm], "discarded": sides.reason((base, arm)),
                      "trials": {base: sides.trial(False, seconds), arm: sides.trial(True, seconds)}})
        report.write(report.Result(store.head, store.pairs), store.directory)
    return "the time is over"
