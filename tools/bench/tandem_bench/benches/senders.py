"""What kind of sender a download faces: how often the answer is right, how soon, and what is taken for what."""

from __future__ import annotations

import itertools
import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from tandem_lab import Lab, foreign
from tandem_lab.api import Daemon
from tandem_lab.errors import BadInput, LabError

from .. import helpers, lateness
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run, Unavailable
from .mirror import Cell

LOSS, RATE, NOT, UNKNOWN = "loss-based", "rate-based", "unresponsive", "unknown"
ANSWERS = (LOSS, RATE, NOT, UNKNOWN)
# What each sender is, and the stack and congestion control that make it.
KINDS: Mapping[str, tuple[str, str, str]] = {
    "cubic": (LOSS, "", "cubic"), "reno": (LOSS, "", "reno"), "bbr": (RATE, "", "bbr"), "dctcp": (LOSS, "", "dctcp"),
    "gvisor reno": (NOT, "gvisor", "reno"), "gvisor cubic": (NOT, "gvisor", "cubic"), "lwip": (NOT, "lwip", ""),
    "vegas": (LOSS, "", "vegas"), "westwood": (LOSS, "", "westwood")}
RTTS, RATES, LOSSES = (20, 50, 100), (10, 50), ("0.1 %", "1 %")
SECONDS = 6.0
DEADLINE = 3.0  # after the SYN
AFTER_EPISODE = 2.5  # round trips after the first repair: the reaction has been seen by then
POLL = 0.05
MODULES = ("freeze", "mirror", "offload", "ecn")

TANDEM = Arm("tandem")  # one cell alone has no row
POOLED = Arm("tandem", "tandem")


def shares(word: str, key: str) -> Metric:
    return Metric(word, "", 3, key, "mean")


RIGHT, STRICT = shares("right after the first episode or 3 s", "right"), shares("right at the first of both", "right_strict")
SOONEST, LATEST = Metric("time to the answer, median", "s", 2, "answered_s", "median"), Metric("p95", "s", 2, "answered_s", "p95")
SAID = tuple(shares(f"said {answer}", f"said {answer}") for answer in ANSWERS)
ANSWER = Metric("right", "")


@dataclass(frozen=True)
class Download:
    """One cell."""

    kind: str
    rtt_ms: int
    rate: int
    loss: str
    modules: tuple[str, ...] = MODULES
    again: bool = False  # not the first download from that server

    @property
    def name(self) -> str:
        return f"{self.kind}, {self.rtt_ms} ms, {self.rate} Mb/s, {self.loss}" + ("" if self.modules == MODULES else f", {'+'.join(self.modules)}") + (
            ", again" if self.again else "")

    @property
    def scenario(self) -> str:
        _, stack, congestion = KINDS[self.kind]
        return Cell(self.loss, "cubic" if stack else congestion, self.rtt_ms, self.rate).scenario()


def case_of(cell: Download, rounds: int) -> Case:
    return Case(cell.name, (TANDEM,), (ANSWER,), rounds, parameters={"cell": cell})


def judged(timeline: Sequence[tuple[float, str]], expected: str, episode: float | None) -> dict[str, Any]:
    """What was said at the deadlines, and from when on it stayed right. `episode`: when the first loss was over, if ever."""
    def said(when: float) -> str:
        return next((kind for at, kind in reversed(timeline) if at <= when), UNKNOWN)

    last = timeline[-1][0] if timeline else 0.0
    late, early = (max(DEADLINE, episode), min(DEADLINE, episode)) if episode is not None else (DEADLINE, DEADLINE)
    answer = said(min(late, last))
    wrong_until = max((at for at, kind in timeline if kind != expected), default=None)
    stays = [at for at, kind in timeline if kind == expected and (wrong_until is None or at > wrong_until)]
    return {"right": [float(answer == expected)], "right_strict": [float(said(early) == expected)], "said": answer,
            "answered_s": [stays[0]] if stays else [], "episode_s": episode, **{f"said {one}": [float(answer == one)] for one in ANSWERS}}


def followed(daemon: Daemon, address: str, download: Any, seconds: float) -> tuple[list[tuple[float, str]], dict[str, Any]]:
    """(age of the flow, what is said of its sender) at every look, and the last of it."""
    timeline: list[tuple[float, str]] = []
    last: dict[str, Any] = {}
    end = time.monotonic() + seconds
    while time.monotonic() < end and download.running():
        for flow in daemon.api("/v1/flows"):
            if flow["remote"].startswith(f"{address}:") and not flow["closed"]:
                last = flow["sender"]
                timeline.append((round(flow["age_s"], 4), last["kind"]))
        download.progress(POLL)
    return timeline, last


class Senders(Bench):
    name = "senders"
    summary = "what kind of sender a download faces: how often the answer is right, how soon, and what is taken for what"
    parallel = True
    columns = ("tandem",)
    headings = {"tandem": "measured"}
    settings = {"kind": "one of: " + ", ".join(KINDS), "rtt_ms": "round-trip time, like 50", "rate": "Mb/s, like 10",
                "loss": "one of: " + "; ".join(LOSSES), "modules": "switched on, like mirror+offload",
                "again": "yes: what is said of the second download from that server"}
    notes = (
        "Cells: kind x RTT (20, 50, 100 ms) x rate (10, 50 Mb/s) x loss (0.1, 1 %, behind the queue of one bandwidth-delay product). The bottleneck is the Wi-Fi "
        "stand-in wifi-pipe. Modules freeze, mirror, offload and ecn are on with their defaults: the answer is found while they act.",
        f"Right: what the daemon says of the flow {DEADLINE:g} s after its SYN or {AFTER_EPISODE:g} round trips after the first repair of a loss, whichever is later; "
        "\"at the first of both\": whichever is earlier. The time to the answer is from when on it stayed right; the daemon is asked every 50 ms.",
        "What they are: " + "; ".join(f"{kind}: {what}" for kind, (what, _, _) in KINDS.items()) + ". DCTCP runs without ECN. gVisor and lwIP as Debian 12 has them.",
        "In real time a congestion control that the machine's kernel lacks is a failed run; the kernel of virtual time has them all.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            return [case_of(Download(kind, 50, 10, "1 %"), 1) for kind in ("cubic", "bbr")]
        return [case_of(Download(*cell), 2) for cell in itertools.product(KINDS, RTTS, RATES, LOSSES)]

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        changes: dict[str, Any] = {}
        for key, text in settings.items():
            if key in ("rtt_ms", "rate") and text.isdigit() and 0 < int(text) <= 1000:
                changes[key] = int(text)
            elif key == "kind" and text in KINDS or key == "loss" and text in LOSSES:
                changes[key] = text
            elif key == "modules":
                changes[key] = tuple(text.split("+"))
            elif key == "again" and text in helpers.YES_OR_NO:
                changes[key] = helpers.YES_OR_NO[text]
            else:
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}")
        made: dict[str, Case] = {}
        for case in cases:
            cell = Download(**{**case.parameters["cell"].__dict__, **changes})
            made.setdefault(cell.name, case_of(cell, case.seeds))
        return list(made.values())

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return SECONDS * (2 if case.parameters["cell"].again else 1) + 3

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Download = case.parameters["cell"]
        expected, stack, congestion = KINDS[cell.kind]
        if stack and (why := foreign.missing(stack)):
            raise Unavailable(why)
        with ExitStack() as uses:
            lab = uses.enter_context(Lab(cell.scenario, seed=seed, prefix=options.prefix, counters=False))
            server = uses.enter_context(lab.foreign_server(stack, congestion=congestion)) if stack else lab.server()
            daemon = uses.enter_context(helpers.tandem(lab, options, cell.modules, {}, f"{case.name}-{seed}"))
            if cell.again:
                first = lab.start_download(seconds=SECONDS, server=server).wait()
                if first.error:
                    raise LabError(f"the download before: {first.error}")
            began = time.monotonic()
            download = lab.start_download(seconds=SECONDS, server=server, interval=0.5)
            timeline, last = followed(daemon, server.ipv4, download, SECONDS)
            result = download.wait()
            if result.error:
                raise LabError(f"download: {result.error}")
            repaired = min((repair.at + repair.after for repair in lab.repairs() if repair.at >= began), default=None)
            late = lateness.checked(lab.stats())
        # The flow is as old as its SYN, which leaves with the download's start.
        episode = repaired - max(began, result.began) + AFTER_EPISODE * cell.rtt_ms / 1e3 if repaired is not None else None
        details = judged(timeline, expected, episode) | {"why": last.get("why"), "confidence": last.get("confidence"), "goodput_mbps": result.goodput_mbps}
        changes = [one for one, before in zip(timeline, [(0.0, ""), *timeline]) if one[1] != before[1]]
        return Measurement({ANSWER.name: details["right"][0]}, details | {"timeline": changes} | late)

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """A row for each kind, and one for all: shares of all cells and rounds together."""
        made: list[tuple[Case, list[Run]]] = []
        kinds = list(dict.fromkeys(case.parameters["cell"].kind for case in cases))
        for title, members in [*((kind, {kind}) for kind in kinds), ("all", set(kinds))]:
            names = {case.name: place for place, case in enumerate(cases) if case.parameters["cell"].kind in members}
            pooled = [Run(title, POOLED.name, names[run.case] * 1_000_000 + run.seed, run.order, run.seconds, run.values,
                          {**run.details, "derived": True}, run.error) for run in runs if run.case in names]
            metrics = (RIGHT, STRICT, SOONEST, LATEST, *(SAID if title != "all" else ()))
            made.append((Case(title, (POOLED,), metrics, len(pooled), (Goal(POOLED.name, ">=", 0.95, metric=RIGHT.name, text="right in 95 %"),),
                              parameters={"pooled": True}), pooled))
        return made


BENCH = Senders()
