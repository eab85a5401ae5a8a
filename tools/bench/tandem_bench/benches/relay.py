"""Behind a NAT at home and a carrier's NAT, with tunnels by both links to a relay of the user's own: what every module on gains through it, and what it gains where no NAT is."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from .. import application_pictures, lateness, walks
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from .together import DETAILS, GOODPUT, MODULES, download_over

SECONDS = 12.0
ROUNDS = 4
RTT_MS = 50

DIRECT, DIRECT_ALL = Arm("plain", "plain"), Arm("all", "direct")
RELAYED, AGAIN, RELAYED_ALL = Arm("relayed", "relayed"), Arm("relayed again"), Arm("relayed, all", "tandem")
OPEN, OPEN_ALL = Arm("open", "open"), Arm("open, all", "limit")
WITH_TANDEM = {DIRECT_ALL: DIRECT, RELAYED_ALL: RELAYED, OPEN_ALL: OPEN}  # and the arm it is compared with

GAIN = Metric("gain", "of without Tandem")
KEEPS_GAIN = Goal(RELAYED_ALL.name, ">=", 0.97, over=OPEN_ALL.name, metric=GAIN.name, text="gain: relayed / without NAT >= 0.97")
NO_WORSE = Goal(RELAYED_ALL.name, ">=", 1.0, over=RELAYED.name, noise=AGAIN.name)
WORTH_IT = Goal(RELAYED_ALL.name, ">=", 1.0, over=DIRECT.name, noise=AGAIN.name)

NAT_AT_HOME, CARRIERS_NAT = 'firewall = "reject"\nnat = true\n', "nat = true\n"
SENDERS, PHYS = ("cubic", "bbr", "reno"), ("b", "g", "a", "n")
TROUBLES = ("no loss", "0.3 % loss", "blackouts", "walk")


@dataclass(frozen=True)
class Cell:
    """One download's world."""

    trouble: str
    sender: str
    phy: str

    @property
    def name(self) -> str:
        return f"{self.trouble}, {walks.setting(self.sender, RTT_MS, self.phy)}"

    def scenario(self, arm: Arm) -> str:
        """The scenario of an arm as TOML text."""
        trouble = walks.troubles(SECONDS)[self.trouble]
        if arm not in (OPEN, OPEN_ALL):
            trouble = replace(trouble, wifi=NAT_AT_HOME + trouble.wifi, cell=CARRIERS_NAT + trouble.cell)
        return walks.scenario("bench-relay", trouble, phy=self.phy, rtt_ms=RTT_MS, sender=self.sender, relay=arm in (RELAYED, AGAIN, RELAYED_ALL))


def cells() -> list[Cell]:
    """Without trouble each PHY with each sender, with trouble each sender over 802.11g and n in turns."""
    return [Cell("no loss", sender, phy) for phy in PHYS for sender in SENDERS] + \
        [Cell(trouble, sender, ("g", "n")[(row + column) % 2]) for row, trouble in enumerate(TROUBLES[1:]) for column, sender in enumerate(SENDERS)]


class Relay(Bench):
    name = "relay"
    summary = "behind NATs, through a relay of one's own: what every module on gains there, and where no NAT is"
    parallel = True
    columns = ("plain", "direct", "relayed", "tandem", "open", "limit")
    headings = {"direct": "all", "relayed": "relayed", "tandem": "relayed, all", "open": "no NAT", "limit": "no NAT, all"}
    detail_columns = DETAILS
    notes = (
        f"One download of {SECONDS:g} s by nginx on an unmodified server, RTT {RTT_MS} ms, over the lab's 802.11 air, with LTE (30/10 Mb/s, 20 ms each way) beside it. A NAT with a stateful firewall "
        "behind the access point, a carrier's NAT behind the cellular network; \"no NAT\": neither.",
        "\"relayed\": through two tunnels of the kernel's WireGuard, set up by wg-quick(8) with the files that `tandem relay` writes, by Wi-Fi and by cellular, to a relay without delay of its own. "
        "A full segment is 80 bytes shorter in the tunnel (its MTU is 1420).",
        "\"gain\": goodput with every module over goodput without Tandem on the same way, of equal seeds.",
        "\"relayed\" and \"relayed again\" are the same arm measured twice: their ratio shows the resolution.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        arms = (DIRECT, *(() if quick else (DIRECT_ALL,)), RELAYED, AGAIN, RELAYED_ALL, OPEN, OPEN_ALL)
        return [Case(cell.name, arms, (GOODPUT, GAIN), 1 if quick else ROUNDS, (KEEPS_GAIN, NO_WORSE, WORTH_IT), parameters={"cell": cell})
                for cell in (cells()[3:12:8] if quick else cells())]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return SECONDS + 3

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        modules = MODULES if arm in WITH_TANDEM else ()
        return lateness.measured(lambda: download_over(cell.scenario(arm), SECONDS, f"{case.name}-{arm.name}-{seed}", modules, seed, options))

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """What each arm with Tandem gains over the one without."""
        return {arm.name: {GAIN.name: values[arm.name][GOODPUT.name] / values[without.name][GOODPUT.name]} for arm, without in WITH_TANDEM.items()
                if arm.name in values and values.get(without.name, {}).get(GOODPUT.name, 0) > 0}

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        shown = ((DIRECT_ALL.name, ""), (RELAYED.name, ""), (RELAYED_ALL.name, "tandem"), (OPEN_ALL.name, ""))
        return application_pictures.draw(self, cases, runs, directory, (GOODPUT,), shown, DIRECT.name)


BENCH = Relay()
