"""Fairness: what an honest flow in the same bottleneck keeps when the other one hides its random losses, and what the queue drops."""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.errors import LabError

from .. import helpers, lateness
from ..daemon_status import of_module
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from ..statistics import as_one_case
from .mirror import Cell, read_settings

PLAIN, AGAIN, TANDEM, LOSS_FREE = Arm("plain", "plain"), Arm("plain again"), Arm("tandem", "tandem"), Arm("loss-free", "loss-free")

HONEST = Metric("honest flow", "Mb/s")
OTHER = Metric("other flow", "Mb/s")
DROPS = Metric("queue drops", "", 0)
METRICS = (HONEST, OTHER, DROPS)
SHARE_GOAL = Goal(TANDEM.name, ">=", 0.90, over=PLAIN.name, metric=HONEST.name, text="honest flow keeps >= 90 % of its share")
OTHER_GOAL = Goal(TANDEM.name, ">=", 0.90, over=PLAIN.name, metric=OTHER.name, text="nor does the other one give way: >= 90 %")

NO_LOSS = "no random loss"
SECONDS = 30.0
# Without the slow start of either flow.
WARMUP = 5.0
RTT_MS, RATE, QUEUE = 50, 20, 1.0


@dataclass(frozen=True)
class Pair:
    """Two downloads through one queue: `honest` from a server that Tandem leaves alone, and one that it may treat."""

    link: Cell  # its congestion control is that of the other flow
    honest: str

    @property
    def name(self) -> str:
        link = self.link
        return f"{link.congestion} against honest {self.honest}, {link.loss}, {link.rtt_ms} ms, {link.rate} Mb/s, {link.queue:g} BDP"

    @property
    def lossy(self) -> bool:
        return self.link.loss != NO_LOSS

    def scenario(self, lossy: bool) -> str:
        link = self.link if self.lossy else replace(self.link, loss="0.3 %")
        return (f'[scenario]\nname = "bench-mirror-fairness"\nduration = "600s"\n{link.wifi(lossy and self.lossy)}[cell]\nprofile = "lte"\n'
                f'[wan]\ndelay = "{link.rtt_ms / 2:g}ms"\n[[server]]\nname = "srv1"\ncongestion = "{link.congestion}"\n'
                f'[[server]]\nname = "srv2"\ncongestion = "{self.honest}"\n')


def drops_goal(lossy: bool) -> Goal:
    """Two plain flows under random losses may leave the queue empty: there the queue of the same two without random losses is the measure."""
    over = LOSS_FREE if lossy else PLAIN
    return Goal(TANDEM.name, "<=", 1.10, over=over.name, metric=DROPS.name, text=f"queue drops <= 1.10 of {over.name}")


def case_of(pair: Pair, rounds: int, noise: bool = True) -> Case:
    arms = (PLAIN, *((AGAIN,) if noise else ()), TANDEM, *((LOSS_FREE,) if pair.lossy else ()))
    return Case(pair.name, arms, METRICS, rounds, (SHARE_GOAL, OTHER_GOAL, drops_goal(pair.lossy)), parameters={"pair": pair})


class MirrorFairness(Bench):
    name = "mirror-fairness"
    summary = "an honest flow beside one whose random losses are hidden, in the same bottleneck, against the same two flows without Tandem"
    parallel = True
    settings = {"loss": "as for the bench mirror", "rtt_ms": "round-trip time, like 50", "rate": "Mb/s, like 20",
                "queue": "of the bottleneck in bandwidth-delay products, like 1", "seconds": "length of a run", "radio": "no, yes: the daemon sees the frames of the air",
                "knobs": "knobs of the module, like NAME=VALUE,NAME=VALUE"}
    columns = ("plain", "tandem", "loss-free")
    headings = {"tandem": "Tandem", "loss-free": "loss-free, plain"}
    detail_columns = (("honest_fraction", "honest flow's part of both"), ("random_losses", "random losses"), ("drop_rate", "queue drops, per 1000 packets"),
                      ("queued_ms", "mean wait in the queue at a loss, ms"), ("faults", "module faults"), ("violations", "violations"))
    notes = (
        "Two downloads at once through the Wi-Fi stand-in, from two servers. The honest one's server is exempt (exempt_networks): none of its packets is queued. "
        f"Goodput of {SECONDS - WARMUP:g} s, the first {WARMUP:g} s left out; queue drops of the whole run.",
        "Share: the honest flow's goodput beside the treated flow, of its goodput beside the same flow without Tandem.",
        "Queue drops under random losses are compared with the same two flows without Tandem and without random losses: two plain flows under random losses "
        "do not fill the link, and then a queue that is used at all would count as infinitely worse.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        def link(loss: str, congestion: str, seconds: float = SECONDS) -> Cell:
            return Cell(loss, congestion, RTT_MS, RATE, QUEUE, seconds=seconds)

        if quick:
            return [case_of(Pair(link(loss, "cubic", 15.0), "cubic"), 1, noise=False) for loss in (NO_LOSS, "0.3 %")]
        return [case_of(Pair(link(loss, treated), honest), 3) for loss in (NO_LOSS, "0.3 %")
                for treated, honest in (("cubic", "cubic"), ("reno", "reno"), ("cubic", "reno"), ("reno", "cubic"), ("cubic", "bbr"), ("bbr", "cubic"))]

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        changes = read_settings(self, settings)
        made: dict[str, Case] = {}
        for case in cases:
            pair: Pair = case.parameters["pair"]
            pair = replace(pair, link=replace(pair.link, **changes))
            made.setdefault(pair.name, case_of(pair, case.seeds, AGAIN in case.arms))
        return list(made.values())

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["pair"].link.seconds + 3.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        pair: Pair = case.parameters["pair"]
        seconds = pair.link.seconds
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(pair.scenario(arm.name != LOSS_FREE.name), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if arm.name == TANDEM.name:
                daemon = stack.enter_context(helpers.tandem(lab, options, ["mirror"], config_of(lab, pair), f"{case.name}-{seed}"))
            downloads = [lab.start_download(seconds=seconds, server=server, warmup=WARMUP) for server in ("srv1", "srv2")]
            other, honest = (download.wait() for download in downloads)
            if error := other.error or honest.error:
                raise LabError(f"download: {error}")
            lost = [loss for loss in lab.losses() if loss.link == "wifi" and loss.down]
            stats = lab.stats()
            details: dict[str, Any] = {
                "honest_fraction": honest.goodput_mbps / (honest.goodput_mbps + other.goodput_mbps),
                "random_losses": sum(loss.reason == "loss" for loss in lost),
                "honest_drops": sum(loss.reason == "queue_full" and loss.source == lab.server("srv2").ipv4 for loss in lost),
                "queued_ms": (sum(loss.queued_bytes for loss in lost if loss.reason == "loss") * 8e-3 / pair.link.rate
                              / max(1, sum(loss.reason == "loss" for loss in lost))),
                "series_honest": [round(rate, 3) for rate in honest.rates(0.5)], "series_other": [round(rate, 3) for rate in other.rates(0.5)]} | lateness.checked(stats)
            drops = sum(loss.reason == "queue_full" for loss in lost)
            details["drop_rate"] = 1e3 * drops / max(1, stats["wifi"]["down"]["offered_packets"])
            if daemon is not None:
                details |= of_module(daemon.api("/v1/status"), "mirror")
        return Measurement({HONEST.name: honest.goodput_mbps, OTHER.name: other.goodput_mbps, DROPS.name: drops}, details)

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """All pairs of a kind together: a pair of runs per case and seed."""
        made: list[tuple[Case, list[Run]]] = []
        for title, lossy in ((f"all pairs, {NO_LOSS}", False), ("all pairs, random losses", True)):
            members = [case for case in cases if case.parameters["pair"].lossy == lossy]
            if len(members) < 2:
                continue
            made.append((Case(title, members[0].arms, METRICS, 1, members[0].goals, parameters={"pooled": True}), as_one_case(title, members, runs)))
        return made


def config_of(lab: Lab, pair: Pair) -> dict[str, Any]:
    """The daemon's configuration: the honest server's network is exempt."""
    honest = lab.server("srv2")
    config: dict[str, Any] = {"modules": {"mirror": dict(pair.link.knobs)}, "daemon": {"exempt_networks": [f"{honest.ipv4}/32", f"{honest.ipv6}/128"]}}
    if pair.link.radio:
        config["links"] = {"radio": f"lab:{lab.directory / 'frames.sock'}"}
    return config


BENCH = MirrorFairness()
