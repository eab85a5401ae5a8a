"""Makes the pairs: tosses the order, switches, washes out, measures, and says which do not count."""

from __future__ import annotations

import os
import random
import time
from typing import Any, Callable, Sequence

from tandem_common.control import Daemon, understood
from tandem_common.errors import Failure

from .arms import Arm
from .store import Store
from .surroundings import between, disturbance, hands_off, moment, unvalidated
from .switch import Switch
from .workloads import Outcome, Workload

IN_A_ROW = 5  # pairs that do not count before it gives up


def order(arms: Sequence[Arm], seed: int, number: int) -> list[Arm]:
    """The arms of a pair as the coin has them; the same seed and number give the same order. Pure."""
    tossed = list(arms)
    random.Random(f"{seed}, {number}").shuffle(tossed)
    return tossed


class Runner:
    def __init__(self, daemon: Daemon, switch: Switch, workload: Workload, arms: Sequence[Arm], store: Store, listen: Callable[[str, Arm | None], None],
                 busy_limit: float, counts_unvalidated: bool):
        self._daemon, self._switch, self._workload, self._arms, self._store, self._listen = daemon, switch, workload, list(arms), store, listen
        self._busy_limit, self._counts_unvalidated = busy_limit, counts_unvalidated
        self._cores = len(os.sched_getaffinity(0))
        self._in_force = False  # the setting of the trial under way

    def pair(self) -> dict[str, Any]:
        """One pair, kept on the disk: also one in which the daemon went away, which a setting may be to blame for. Raises Failure then, and where there is none."""
        number = len(self._store.pairs)
        arms = order(self._arms, self._store.head["seed"], number)
        began, started = time.time(), time.monotonic()
        first = moment(self._daemon)
        trials: dict[str, Any] = {}
        discarded = ""
        fault: Failure | None = None
        for arm in arms:
            self._in_force, at = False, time.monotonic()
            try:
                trial, reason = self._trial(arm, first)
            except Failure as failure:
                if not self._in_force:
                    raise
                fault, reason = failure, str(failure)
                trial = {"figure": 0.0, "bytes": 0, "seconds": 0.0, "wall_s": time.monotonic() - at, "beside": {}, "lost": True}
            trials[arm.name] = trial
            if reason:
                discarded = f"{arm.name}: {reason}"
                break  # the others would be measured in vain
        pair = {"number": number, "began": began, "seconds": time.monotonic() - started, "order": [arm.name for arm in arms], "discarded": discarded, "trials": trials}
        self._store.append(pair)
        if fault:
            raise fault
        return pair

    def _trial(self, arm: Arm, first: Any) -> tuple[dict[str, Any], str]:
        self._listen("switch", arm)
        missing = self._switch.apply(arm)
        self._in_force = True
        time.sleep(self._store.head["washout_s"])
        self._listen("measure", arm)
        before = moment(self._daemon)
        outcome = self._workload.run()
        after = moment(self._daemon)
        beside = between(before, after, self._cores)
        reason = missing or self._switch.touched(arm) or hands_off(bool(arm.modules), before, after) or self._left_alone(arm, outcome) or outcome.reason or disturbance(first, before, after, beside, self._busy_limit)
        if not reason and not self._counts_unvalidated and arm.name != "queued":
            reason = unvalidated("offload" in arm.modules, after, beside)
        reason = reason or self._strange(outcome)
        trial = {"figure": outcome.figure, "bytes": outcome.bytes, "seconds": outcome.seconds, "wall_s": after.at - before.at, "beside": beside.as_json() | dict(outcome.beside)}
        if reason and reason == outcome.reason:
            trial["lost"] = True  # by what was measured, not by what was around it: a setting may be to blame
        return trial, reason

    def _left_alone(self, arm: Arm, outcome: Outcome) -> str:
        """Why a trial of an arm with modules is one without: its connections are excluded, or lead into a tunnel. What is over is known for some seconds still."""
        if not arm.modules or not outcome.connections:
            return ""
        with understood(f"{self._daemon.path}: the daemon's"):
            why = {flow["local"]: flow.get("excluded", "") for flow in self._daemon.get("/v1/flows")}
        ours = [why[end] for end in outcome.connections if end in why]
        return f"Tandem leaves what is measured alone: {ours[0]}" if ours and all(ours) else ""

    def _strange(self, outcome: Outcome) -> str:
        """Why an answer is not the one that the first pair got; that one is remembered."""
        known = self._store.head.get("reference")
        told = {key: value for key, value in outcome.reference.items() if value is not None}
        if known is None:
            if told:
                self._store.keep(reference=told)
            return ""
        for key, value in told.items():
            # Pages that are made on demand differ by some bytes.
            if key in known and (known[key] != value if key != "total" else not known[key] / 2 <= value <= known[key] * 2):
                names = {"length": "the length of the file", "from": "the host that answered", "total": "the size of all answers"}
                return f"{names[key]} was {known[key]} and is {value} now"
        return ""

    def hopeless(self) -> None:
        """Raises Failure when the latest pairs did not count."""
        latest = self._store.pairs[-IN_A_ROW:]
        if len(latest) == IN_A_ROW and all(pair["discarded"] for pair in latest):
            words = latest[-1]["discarded"]
            hint = "; --unvalidated counts such pairs, too" if "not validated" in words else "; --busy allows more" if "machine was busy" in words else ""
            raise Failure(f"{IN_A_ROW} pairs in a row do not count; the latest: {words}{hint}")
