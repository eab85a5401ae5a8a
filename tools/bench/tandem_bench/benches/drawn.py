"""Downloads, or what an application waits for, over networks drawn at random: every module on against no Tandem, where nobody chose the network."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab import foreign
from tandem_lab.errors import BadInput

from .. import drawn, drawn_pictures, lateness
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from ..statistics import over_cases, over_groups
from . import applications
from .applications import LONGEST, SAYS, TYPICAL, no_longer
from .together import AGAIN, ALL, DETAILS, GOODPUT, PLAIN, SINGLE, download_over, modules_of, not_slower

SECONDS = 15.0
NETWORKS, MANY, MOST = 60, 240, 100_000
ALLOWED = (*drawn.SENDERS, *foreign.STACKS)
DOWNLOADS = "downloads"
# Of the applications those whose length does not depend on the network.
LOADS = (DOWNLOADS, "pages", "segments", "sent", "asked")


def metrics_of(load: str) -> tuple[Metric, ...]:
    return (GOODPUT,) if load == DOWNLOADS else (TYPICAL, LONGEST)


def goals_of(load: str, arms: Sequence[Arm]) -> tuple[Goal, ...]:
    return (not_slower(arms) if load == DOWNLOADS else no_longer(arms),)


def seconds_of(load: str) -> float:
    return SECONDS if load == DOWNLOADS else applications.SECONDS


def case_of(number: int, load: str, arms: Sequence[Arm], rounds: int, sender: str = "") -> Case:
    network = drawn.network(number, seconds_of(load), sender)
    name = network.name if load == DOWNLOADS else f"{number}: {SAYS[load]}, {network.setting}"
    return Case(name, tuple(arms), metrics_of(load), rounds, goals_of(load, arms), published=", ".join(network.told), parameters={"network": network, "load": load})


def cases_of(first: int, networks: int, arms: Sequence[Arm], rounds: int, sender: str = "", load: str = DOWNLOADS) -> list[Case]:
    return [case_of(number, load, arms, rounds, sender) for number in range(first, first + networks)]


class Drawn(Bench):
    name = "drawn"
    summary = "downloads or applications over networks drawn at random, Wi-Fi, wire, cellular network, senders and troubles: every module on against no Tandem"
    parallel = True
    settings = {"first": f"number of the first network, 1 to {MOST} (default 1)", "networks": f"how many, 1 to {MOST} (default {NETWORKS}; with --full {MANY})",
                "sender": f"who sends in place of the drawn ones: {', '.join(ALLOWED)}",
                "load": f"what is done there: {', '.join(LOADS)} (default {DOWNLOADS})"}
    columns = ("plain", "one", "tandem")
    headings = {"one": " / ".join(arm.name for arm in SINGLE), "tandem": "all", "published": "what is special there"}
    detail_columns = DETAILS
    notes = (
        f"Downloads of {SECONDS:g} s by nginx on an unmodified server over the lab's 802.11 air with a cellular network beside it. The number of a network is what it is drawn from: it gives the same network everywhere. "
        "What is drawn: congestion control of the server, downloads at the same time, RTT, PHY; signal, queue, CoDel, power save, losses alone and in bursts, repeated frames, a hidden station, neighbours; rate and queue of the wire "
        "with or without CoDel, or a policer, its jitter, losses and reordering; profile, delay, uplink, losses, NAT and source filter of the cellular network; silences of the air, and short ones as when a card "
        "looks at other channels (tools/bench/tandem_bench/drawn.py). Several downloads count together.",
        f"With --set load=... an application in place of the downloads, as `applications` has it: the typical and the longest wait of its user, less is better; silences then come within {applications.SECONDS:g} s.",
        "\"plain\" and \"plain again\" are the same arm measured twice: their ratio shows what is chance.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        return cases_of(1, 4, (PLAIN, ALL), 1) if quick else cases_of(1, NETWORKS, (PLAIN, AGAIN, ALL), 1)

    def full_cases(self) -> list[Case]:
        return cases_of(1, MANY, (PLAIN, AGAIN, *SINGLE, ALL), 2)

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        allowed = {"sender": ALLOWED, "load": LOADS}
        chosen: dict[str, Any] = {"first": 1, "networks": len(cases)}
        for key, text in settings.items():
            try:
                chosen[key] = text if key in allowed else int(text)
                if not (text in allowed[key] if key in allowed else 1 <= chosen[key] <= MOST):
                    raise ValueError
            except ValueError:
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}") from None
        if chosen.get("sender") in foreign.STACKS and chosen.get("load", DOWNLOADS) != DOWNLOADS:
            raise BadInput(f"--set load={chosen['load']} needs nginx, which --set sender={chosen['sender']} is not: take one of {', '.join(drawn.SENDERS)}")
        return cases_of(**chosen, arms=cases[0].arms, rounds=cases[0].seeds)

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return seconds_of(case.parameters["load"]) + 2

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        network: drawn.Network = case.parameters["network"]
        load, label = case.parameters["load"], f"{network.number}-{arm.name}-{seed}"
        if load != DOWNLOADS:
            return lateness.measured(lambda: applications.waits_over(network.scenario, load, label, modules_of(arm), seed, options))
        return lateness.measured(lambda: download_over(network.scenario, SECONDS, label, modules_of(arm), seed, options, flows=network.flows, sender=network.sender))

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """All against plain over the networks of each sender, and over all: a pair is a network on a seed."""
        arms = (PLAIN, AGAIN, ALL)
        load = cases[0].parameters["load"] if cases else DOWNLOADS
        metrics, goals = metrics_of(load), partial(goals_of, load)
        senders = {sender: sender for sender in ALLOWED}
        return (over_groups(senders, lambda case: case.parameters["network"].sender, cases, runs, arms, metrics, goals)
                + over_cases("all networks", cases, runs, arms, metrics, goals))

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        metrics = cases[0].metrics if cases else ()
        return drawn_pictures.draw(self, cases, runs, directory, [metric.name for metric in metrics], ((AGAIN.name, "", "plain again: chance"), (ALL.name, "tandem", "all modules")), PLAIN.name)


BENCH = Drawn()
