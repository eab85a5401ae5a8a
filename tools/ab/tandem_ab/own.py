"""The user's own traffic as a workload: blocks of time in which the connections that begin are measured, and a share of the time for them."""

from __future__ import annotations

import time
from typing import Any, Callable, Mapping

from tandem_common.control import Daemon
from tandem_common.errors import Failure

from . import analysis, arms, report
from .arms import Arm
from .demand import judge
from .runner import IN_A_ROW, Runner
from .sockets import Sockets
from .store import Store
from .switch import Busy, Switch
from .workloads import Outcome, Workload

LOOK_S = 0.25  # between two looks; a connection that lives shorter is not seen
LEAST_WANTED_S = 2.0  # of a block: below it the figure is that of a few round trips
LEAST_BYTES = 1_000_000
DEMAND_S, DEMAND_BYTES = 2.0, 100_000  # a pair begins when so much arrived in that time
AGAIN_S = 30.0  # after a failure: the daemon may be started anew just now
# What will not pass by itself; other reasons (no traffic, suspended, roamed) do.
_LASTING = ("rests here by evidence", "is not in force", "not validated")


def wifi_addresses(daemon: Daemon) -> frozenset[str]:
    """Of all Wi-Fi interfaces that the daemon knows."""
    links: Mapping[str, Any] = daemon.get("/v1/status")["links"]
    return frozenset(address for name, link in links.items() if name.startswith("wifi") for address in link.get("addresses", []) if not address.startswith("fe80:"))


class OwnTraffic(Workload):
    """One block: the connections that begin in it, by Wi-Fi."""

    def __init__(self, daemon: Daemon, block_s: float, sockets: Sockets | None = None):
        self._daemon, self._block, self._sockets = daemon, block_s, sockets or Sockets()
        self.seconds = block_s

    def describe(self) -> dict[str, Any]:
        return {"kind": "own"}

    def run(self) -> Outcome:
        addresses = wifi_addresses(self._daemon)
        looks = [self._sockets.look(addresses)]
        known = frozenset(looks[0].sockets)
        end = looks[0].at + self._block
        while looks[-1].at < end:
            time.sleep(min(LOOK_S, max(0.01, end - looks[-1].at)))
            looks.append(self._sockets.look(addresses))
        told = judge(looks, known)
        reason = ""
        if told.wanted_s < LEAST_WANTED_S or told.bytes < LEAST_BYTES:
            reason = (f"too little was downloaded: new connections wanted data for {told.wanted_s:.1f} s and got {told.bytes / 1e6:.1f} MB; "
                      f"{LEAST_WANTED_S:g} s and {LEAST_BYTES / 1e6:g} MB are needed")
        beside = {"stalled_s": round(told.stalled_s, 3), "longest_stall_s": round(told.longest_stall_s, 3), "flows": told.flows}
        if told.rtt_ms is not None:
            beside["rtt_ms"] = round(told.rtt_ms, 2)
        return Outcome(told.mbps, told.bytes, told.wanted_s, reason, beside=beside)

    def wait(self, until: float) -> bool:
        """Until something is being downloaded; False when the time (time.time()) is over before."""
        before = None
        while time.time() < until:
            looked = self._sockets.look(wifi_addresses(self._daemon))
            if before and sum(one.received - (before.sockets[cookie].received if cookie in before.sockets else 0) for cookie, one in looked.sockets.items()) >= DEMAND_BYTES:
                return True
            before = looked
            time.sleep(DEMAND_S)
        return False


def rest_s(pair_s: float, share: float) -> float:
    """How long the user's own setting is left alone after a pair, so that no more than the share of the time was the experiment's. Pure."""
    return pair_s * (1 / share - 1)


class Experiment:
    """Pairs from time to time until the end; the user's modules are as they were between them. `tell`: what is going on, in words."""

    def __init__(self, daemon: Daemon, store: Store, busy: float, tell: Callable[[str], None], workload: OwnTraffic | None = None):
        self._daemon, self._store, self._busy, self._tell = daemon, store, busy, tell
        self._own: Mapping[str, Any] = store.head["own"]
        self._workload = workload or OwnTraffic(daemon, store.head["for_s"])
        self._arms = [Arm(one["name"], frozenset(one["modules"]), one["knobs"]) for one in store.head["arms"]]

    def run(self) -> str:
        """Gives in words why it ended. Raises Failure for what needs the user."""
        if self._store.pairs:  # begun before: it may have had its share just now
            self._rest(self._store.pairs[-1]["seconds"])
        while (left := self._own["ends"] - time.time()) > 0:
            if analysis.enough(report.Result(self._store.head, self._store.pairs).comparisons):
                return "the interval is as narrow as asked for"
            try:
                self._tell("waits for a download")
                if self._workload.wait(self._own["ends"]):
                    self._rest(self._pair())
            except Failure as failure:
                if failure.code == 2:
                    raise
                self._tell(f"waits: {failure}")
                time.sleep(min(left, AGAIN_S))
            self._hopeless()
        return "the time is over"

    def _pair(self) -> float:
        try:
            with Switch(self._daemon) as switch:
                arms.check(self._arms, arms.knobs_of(self._daemon.modules()))  # it may be another daemon by now
                runner = Runner(self._daemon, switch, self._workload, self._arms, self._store, self._listen, self._busy, self._store.head["unvalidated"])
                seconds = float(runner.pair()["seconds"])
        except Busy:
            self._tell("waits: `tandem ab` measures")
            time.sleep(AGAIN_S)
            return 0.0
        report.write(report.Result(self._store.head, self._store.pairs), self._store.directory)
        return seconds

    def _listen(self, what: str, arm: Arm | None) -> None:
        if arm:
            self._tell(f"pair {len(self._store.pairs) + 1}: {'switches to' if what == 'switch' else 'measures'} {arm.name}")

    def _rest(self, pair_s: float) -> None:
        if not (rest := rest_s(pair_s, self._own["share"])):
            return
        until = min(time.time() + rest, self._own["ends"])
        self._tell(f"rests until {time.strftime('%H:%M:%S', time.localtime(until))}, with your own setting")
        while (left := until - time.time()) > 0:
            time.sleep(min(left, 60.0))  # by the clock on the wall: a suspend is time, too

    def _hopeless(self) -> None:
        latest = self._store.pairs[-IN_A_ROW:]
        if len(latest) == IN_A_ROW and all(any(words in pair["discarded"] for words in _LASTING) for pair in latest):
            raise Failure(f"{IN_A_ROW} pairs in a row do not count; the latest: {latest[-1]['discarded']}")
