"""The loss distinction as a classifier: which episodes were hidden, against what the emulator knows of their losses."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.errors import BadInput, LabError

from .. import episodes, helpers, lateness, recording, roc_pictures
from ..daemon_status import of_module
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from .mirror import LOSSES, Cell, read_settings

BLIND, RADIO = Arm("without radio", "tandem"), Arm("with radio", "radio")
THRESHOLDS = (0.0, 0.1, 0.25, 0.4, 0.5, 0.6, 0.75, 0.9, 1.0)

RANDOM = Metric("random episodes hidden", "", 3, "random_hidden", "mean")
CONGESTION = Metric("congestion episodes hidden", "", 3, "congestion_hidden", "mean")
METRICS = (RANDOM, CONGESTION)
GOALS = (
    Goal(BLIND.name, ">=", 0.95, metric=RANDOM.name, text=">= 95 % of random hidden"),
    Goal(BLIND.name, "<=", 0.05, metric=CONGESTION.name, text="<= 5 % of congestion hidden"),
    Goal(RADIO.name, ">=", 0.98, metric=RANDOM.name, text=">= 98 % of random hidden, with radio"),
    Goal(RADIO.name, "<=", 0.02, metric=CONGESTION.name, text="<= 2 % of congestion hidden, with radio"))

NO_LOSS = "no random loss"
SECONDS = 20.0
# Losses, RTT in ms, queue in bandwidth-delay products, share of the frames that the air repeats without loss. Short round trips and small queues overflow often; where random losses are hidden the flow
# meets its queue as well, so that each kind but the last brings both sorts of episodes.
KINDS: Mapping[str, tuple[str, int, float, float]] = {
    "random": ("0.3 %", 50, 1.0, 0.0), "random, short queue": ("0.3 %", 20, 0.5, 0.0), "bursts": ("bursts of 3, 0.3 %", 50, 1.0, 0.0),
    "queue": (NO_LOSS, 20, 1.0, 0.0), "queue, repeated frames": (NO_LOSS, 20, 1.0, 0.02)}
OVERFLOWING = ("random, short queue", "queue", "queue, repeated frames")
OTHER = {"cubic": "reno", "reno": "bbr", "bbr": "cubic"}


@dataclass(frozen=True)
class RocCell:
    """One cell: a kind of losses, a flow, and perhaps another in the same bottleneck from another server."""

    kind: str
    link: Cell
    competing: str = ""  # congestion control of the second flow
    threshold: float | None = None

    @property
    def name(self) -> str:
        link = self.link
        return (f"{self.kind}: {link.loss}, {link.congestion}" + (f" and {self.competing}" if self.competing else "")
                + f", {link.rtt_ms} ms, {link.rate} Mb/s, {link.queue:g} BDP")

    def scenario(self) -> str:
        link = self.link
        wifi = link.wifi() if link.loss != NO_LOSS else replace(link, loss=next(iter(LOSSES))).wifi(lossy=False)
        wifi += f"frame_error = {KINDS[self.kind][3]}\n"
        text = (f'[scenario]\nname = "bench-mirror-roc"\nduration = "600s"\n{wifi}[cell]\nprofile = "lte"\n[wan]\ndelay = "{link.rtt_ms / 2:g}ms"\n'
                f'[[server]]\nname = "srv1"\ncongestion = "{link.congestion}"\n')
        if self.competing:
            text += f'[[server]]\nname = "srv2"\ncongestion = "{self.competing}"\n'
        return text


def _link(kind: str, congestion: str, seconds: float = SECONDS) -> Cell:
    loss, rtt, queue, _ = KINDS[kind]
    return Cell(loss, congestion, rtt, 20, queue, seconds=seconds)


def judged_cells() -> list[RocCell]:
    return [RocCell(kind, _link(kind, congestion), OTHER[congestion] if competing else "")
            for kind in KINDS for congestion in ("cubic", "reno", "bbr") for competing in (False, True)]


def swept_cells() -> list[RocCell]:
    return [RocCell("random", _link("random", "cubic"), "reno"), RocCell("random, short queue", _link("random, short queue", "reno")),
            RocCell("bursts", _link("bursts", "cubic"), "bbr")]


def sweep_arm(threshold: float, radio: bool) -> Arm:
    return Arm(f"{'with' if radio else 'without'} radio, threshold {threshold:g}")


class MirrorRoc(Bench):
    name = "mirror-roc"
    summary = "the loss distinction as a classifier: episodes hidden by what truly was lost in them, without and with radio evidence"
    parallel = True
    settings = {"seconds": "length of a run", "rate": "Mb/s, like 20", "knobs": "knobs of the module, like NAME=VALUE,NAME=VALUE",
                "sweep": "no, yes, only: runs at other thresholds, for the curve"}
    columns = ("tandem", "radio")
    headings = {"tandem": "without radio", "radio": "with radio"}
    detail_columns = (("random_count", "random episodes"), ("congestion_count", "congestion episodes"), ("none_count", "nothing lost"),
                      ("left_alone_count", "sender left alone"), ("undecided_count", "without a decision"), ("random_losses", "random losses"), ("queue_drops", "queue drops"),
                      ("goodput_mbps", "goodput, Mb/s"), ("faults", "module faults"), ("violations", "violations"))
    notes = (
        "An episode is what one decision of the module speaks for, by sequence range, taken from the flight recorder. It is random when the emulator lost all its missing "
        "segments behind the queue, congestion when a queue lost any of them; segments lost without a decision about them make an episode that was not hidden. "
        "What was no loss at all (reordering, spurious retransmissions) is counted apart, and so is what mirror left to a sender that it leaves alone (BBR): that says nothing of the loss.",
        "Shares over all episodes of all rounds together. Where random losses are hidden the flow fills its queue, so cells with random losses have congestion "
        "episodes, too. A second congestion control in the name is a second download from another server through the same queue; both flows are judged.",
        "With radio: the daemon sees the frames of the air as a monitor interface would, lost ones with a bad FCS; with repeated frames, 2 % of the others are seen damaged first and whole afterwards. The curve comes from runs at other values of the knob `threshold`.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            cells = [RocCell("random", _link("random", "cubic", 10.0)), RocCell("queue", _link("queue", "reno", 10.0)),
                     RocCell("random, short queue", _link("random, short queue", "cubic", 10.0), "bbr")]
            return [self._judged(cell, 1) for cell in cells]
        sweep = [Case(f"sweep, {cell.name}", tuple(sweep_arm(t, radio) for radio in (False, True) for t in THRESHOLDS), METRICS, 1, (), parameters={"cell": cell})
                 for cell in swept_cells()]
        return [self._judged(cell, 2) for cell in judged_cells()] + sweep

    @staticmethod
    def _judged(cell: RocCell, rounds: int) -> Case:
        # A cell of its own is judged by what surely occurs in it; the rows over all cells judge everything.
        wanted = [goal for goal in GOALS if (cell.link.loss != NO_LOSS if goal.metric == RANDOM.name else cell.kind in OVERFLOWING)]
        return Case(cell.name, (BLIND, RADIO), METRICS, rounds, tuple(wanted), parameters={"cell": cell})

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        rest = dict(settings)
        sweep = rest.pop("sweep", "yes")
        if sweep not in ("no", "yes", "only"):
            raise BadInput(f"--set sweep={sweep}: allowed: no, yes, only")
        changes = read_settings(self, rest)
        made: list[Case] = []
        for case in cases:
            swept = case.name.startswith("sweep, ")
            if swept and sweep == "no" or not swept and sweep == "only":
                continue
            cell: RocCell = case.parameters["cell"]
            cell = replace(cell, link=replace(cell.link, **changes))
            made.append(replace(case, name=("sweep, " if swept else "") + cell.name, parameters={"cell": cell}))
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["cell"].link.seconds + 3.5

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: RocCell = case.parameters["cell"]
        knobs: dict[str, Any] = dict(cell.link.knobs)
        if ", threshold " in arm.name:
            knobs["threshold"] = float(arm.name.rpartition(" ")[2])
        config: dict[str, Any] = {"modules": {"mirror": knobs},
                                  "recorder": {"seconds": int(cell.link.seconds) + 30, "bytes": "64MiB"}}
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(cell.scenario(), seed=seed, prefix=options.prefix, counters=False))
            if arm.name.startswith("with radio"):
                config["links"] = {"radio": f"lab:{lab.directory / 'frames.sock'}"}
            daemon = stack.enter_context(helpers.tandem(lab, options, ["mirror"], config, f"{case.name}-{arm.name}-{seed}"))
            downloads = [lab.start_download(seconds=cell.link.seconds, server=server) for server in ("srv1", "srv2")[:2 if cell.competing else 1]]
            results = [download.wait() for download in downloads]
            if errors := [result.error for result in results if result.error]:
                raise LabError(f"download: {errors[0]}")
            status = daemon.api("/v1/status")
            sent = recording.acks(daemon.recording())
            lost = [loss for loss in lab.losses() if loss.link == "wifi"]
            late = lateness.checked(lab.stats())
        if not sent:
            raise LabError("the flight recorder holds no packet of the client")
        found = episodes.judged(sent, lost)
        decided = sum(count for what, count in of_module(status, "mirror")["decisions"].items() if what.startswith((episodes.HIDDEN, episodes.KEPT)))
        if decided and all(episode.why == episodes.UNDECIDED for episode in found):
            raise LabError(f"mirror decided {decided} times, and the recording shows none of it: the bench does not read what the daemon writes")
        details: dict[str, Any] = {
            RANDOM.samples: episodes.samples(found, "random"), CONGESTION.samples: episodes.samples(found, "congestion"),
            "none_count": sum(episode.truth == "none" for episode in found),
            "none_hidden": sum(episode.truth == "none" and episode.hidden for episode in found),
            "left_alone_count": sum(episode.why == episodes.LEFT_ALONE for episode in found),
            "undecided_count": sum(episode.why == episodes.UNDECIDED for episode in found),
            "by_reason": by_reason(found),
            "random_losses": sum(loss.reason == "loss" for loss in lost), "queue_drops": sum(loss.reason == "queue_full" for loss in lost),
            "goodput_mbps": sum(result.bytes for result in results) * 8e-6 / cell.link.seconds, **of_module(status, "mirror"), **late}
        details |= {"random_count": len(details[RANDOM.samples]), "congestion_count": len(details[CONGESTION.samples])}
        values = {metric.name: sum(details[metric.samples]) / len(details[metric.samples]) for metric in METRICS if details[metric.samples]}
        return Measurement(values, details)

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """All judged cells together, and by the number of flows; then the points of the curve."""
        made: list[tuple[Case, list[Run]]] = []

        def add(title: str, arms: tuple[Arm, ...], goals: tuple[Goal, ...], members: Sequence[tuple[Run, str]]) -> None:
            pooled = [replace(run, case=title, arm=arm, details={"derived": True, **{key: run.details[key] for key in (RANDOM.samples, CONGESTION.samples) if key in run.details}})
                      for run, arm in members]
            made.append((Case(title, arms, METRICS, 1, goals, parameters={"pooled": True}), pooled))

        judged = [case for case in cases if not case.name.startswith("sweep, ")]
        for title, belongs in (("all cells, single flow", lambda cell: not cell.competing), ("all cells, competing flows", lambda cell: bool(cell.competing)),
                               ("all cells", lambda cell: True)):
            members = {case.name for case in judged if belongs(case.parameters["cell"])}
            if len(members) < 2 or (title != "all cells" and len(members) == len(judged)):
                continue
            arms = judged[0].arms
            add(title, arms, tuple(goal for goal in GOALS if goal.arm in {arm.name for arm in arms}), [(run, run.arm) for run in runs if run.case in members])
        swept = {case.name for case in cases if case.name.startswith("sweep, ")}
        for threshold in THRESHOLDS if swept else ():
            names = {sweep_arm(threshold, radio).name: arm.name for radio, arm in ((False, BLIND), (True, RADIO))}
            add(f"threshold {threshold:g}, all swept cells", (BLIND, RADIO), (), [(run, names[run.arm]) for run in runs if run.case in swept and run.arm in names])
        return made

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return roc_pictures.draw(self, cases, runs, directory, RANDOM, CONGESTION)


def by_reason(found: Sequence[episodes.Episode]) -> dict[str, dict[str, int]]:
    """Reason -> truth -> episodes."""
    counted: dict[str, dict[str, int]] = {}
    for episode in found:
        row = counted.setdefault(episode.why, {})
        row[episode.truth] = row.get(episode.truth, 0) + 1
    return counted


BENCH = MirrorRoc()
