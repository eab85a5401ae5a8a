"""Downloads over networks drawn at random: every module on against no Tandem, where nobody chose the network."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab import foreign
from tandem_lab.errors import BadInput

from .. import drawn, drawn_pictures, lateness
from ..model import Arm, Bench, Case, Measurement, Options, Run
from ..statistics import over_cases, over_groups
from .together import AGAIN, ALL, DETAILS, GOODPUT, PLAIN, SINGLE, download_over, modules_of, not_slower

SECONDS = 15.0
NETWORKS, MANY, MOST = 60, 240, 100_000
ALLOWED = (*drawn.SENDERS, *foreign.STACKS)


def case_of(network: drawn.Network, arms: Sequence[Arm], rounds: int) -> Case:
    return Case(network.name, tuple(arms), (GOODPUT,), rounds, (not_slower(arms),), published=", ".join(network.told), parameters={"network": network})


def cases_of(first: int, networks: int, arms: Sequence[Arm], rounds: int, sender: str = "") -> list[Case]:
    return [case_of(drawn.network(number, SECONDS, sender), arms, rounds) for number in range(first, first + networks)]


class Drawn(Bench):
    name = "drawn"
    summary = "downloads over networks drawn at random, Wi-Fi, wire, cellular network, senders and troubles: every module on against no Tandem"
    parallel = True
    settings = {"first": f"number of the first network, 1 to {MOST} (default 1)", "networks": f"how many, 1 to {MOST} (default {NETWORKS}; with --full {MANY})",
                "sender": f"who sends in place of the drawn ones: {', '.join(ALLOWED)}"}
    columns = ("plain", "one", "tandem")
    headings = {"one": " / ".join(arm.name for arm in SINGLE), "tandem": "all", "published": "what is special there"}
    detail_columns = DETAILS
    notes = (
        f"Downloads of {SECONDS:g} s by nginx on an unmodified server over the lab's 802.11 air with a cellular network beside it. The number of a network is what it is drawn from: it gives the same network everywhere. "
        "What is drawn: congestion control of the server, downloads at the same time, RTT, PHY; signal, queue, CoDel, power save, losses alone and in bursts, repeated frames, a hidden station, neighbours; rate and queue of the wire "
        "with or without CoDel, or a policer, its jitter, losses and reordering; profile, delay, uplink, losses, NAT and source filter of the cellular network; silences of the air, and short ones as when a card "
        "looks at other channels (tools/bench/tandem_bench/drawn.py). Several downloads count together.",
        "\"plain\" and \"plain again\" are the same arm measured twice: their ratio shows what is chance.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        return cases_of(1, 4, (PLAIN, ALL), 1) if quick else cases_of(1, NETWORKS, (PLAIN, AGAIN, ALL), 1)

    def full_cases(self) -> list[Case]:
        return cases_of(1, MANY, (PLAIN, AGAIN, *SINGLE, ALL), 2)

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        chosen: dict[str, Any] = {"first": 1, "networks": len(cases)}
        for key, text in settings.items():
            try:
                chosen[key] = text if key == "sender" else int(text)
                if not (text in ALLOWED if key == "sender" else 1 <= chosen[key] <= MOST):
                    raise ValueError
            except ValueError:
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}") from None
        return cases_of(**chosen, arms=cases[0].arms, rounds=cases[0].seeds)

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return SECONDS + 2

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        network: drawn.Network = case.parameters["network"]
        return lateness.measured(lambda: download_over(network.scenario, SECONDS, f"{network.number}-{arm.name}-{seed}", modules_of(arm), seed, options,
                                                     flows=network.flows, sender=network.sender))

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """All against plain over the networks of each sender, and over all: a pair is a network on a seed."""
        arms = (PLAIN, AGAIN, ALL)
        senders = {sender: sender for sender in ALLOWED}
        return (over_groups(senders, lambda case: case.parameters["network"].sender, cases, runs, arms, (GOODPUT,), lambda shared: (not_slower(shared),))
                + over_cases("all networks", cases, runs, arms, (GOODPUT,), lambda shared: (not_slower(shared),)))

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return drawn_pictures.draw(self, cases, runs, directory, GOODPUT.name, ((AGAIN.name, "", "plain again: chance"), (ALL.name, "tandem", "all modules")), PLAIN.name)


BENCH = Drawn()
