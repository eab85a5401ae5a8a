"""Downloads over paths that nobody chose: policers, deep and shallow queues, an AQM, reordering, losses and outages of the wire, jitter, a satellite, a
thin way back, poor cellular networks. None may be worse with every module on."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from .. import application_pictures, lateness, walks
from ..model import Arm, Bench, Case, Measurement, Options, Run
from ..statistics import over_groups
from ..walks import Trouble, event
from .together import AGAIN, ALL, DETAILS, GOODPUT, NO_WORSE, PLAIN, SINGLE, WORST, download_over, modules_of, not_slower

SECONDS = 15.0
ROUNDS = 3
SENDERS, PHYS, RTTS = ("cubic", "bbr", "reno"), ("a", "n"), (20, 50, 100)
AIRS = {"": "", ", 0.3 % loss": "loss_down = 0.003\n"}

# What the wire, the access point's queue or the cellular network is. The bottleneck is the wire wherever a rate is given.
PATHS: Mapping[str, Trouble] = {
    "policer 20 Mb/s, 64 kB": Trouble(wan='police_down = "20Mbit"\npolice_burst_down = "64kB"\n'),
    "policer 10 Mb/s, 1 MB": Trouble(wan='police_down = "10Mbit"\npolice_burst_down = "1MB"\n'),
    "policer 3 Mb/s, 32 kB": Trouble(wan='police_down = "3Mbit"\npolice_burst_down = "32kB"\n'),
    "CoDel 20 Mb/s": Trouble(wan='rate_down = "20Mbit"\necn_down = "codel"\nthreshold_down = "5ms"\n'),
    "CoDel at the access point": Trouble(wifi='codel = "20ms"\nqueue = 1000\n'),
    "deep queue 10 Mb/s": Trouble(wan='rate_down = "10Mbit"\nqueue_down = 1000\n'),
    "shallow queue 20 Mb/s": Trouble(wan='rate_down = "20Mbit"\nqueue_down = 15\n'),
    "reordering 1 % by 5 ms": Trouble(wan='reorder_down = 0.01\nreorder_later_down = "5ms"\n'),
    "reordering 10 % by 20 ms": Trouble(wan='reorder_down = 0.1\nreorder_later_down = "20ms"\n'),
    "wired loss 0.5 %": Trouble(wan="loss_down = 0.005\n"),
    "wired bursts": Trouble(wan="gilbert_down = { p = 0.0005, r = 0.2 }\n"),
    "wired outages": Trouble(tables=event(4, "wan_loss", 1.0, value="1.0") + event(10, "wan_loss", 0.4, value="1.0")),
    "wired rate 25, 5, 25 Mb/s": Trouble(wan='rate_down = "25Mbit"\nqueue_down = 100\n', tables=event(5, "wan_rate", 5.0, value='"5Mbit"', direction='"down"')),
    "jitter 40 ms": Trouble(wan='jitter = "40ms"\n'),
    "satellite": Trouble(wan='rate_down = "20Mbit"\nqueue_down = 500\n'),
    "DSL 16/0.6 Mb/s": Trouble(wan='rate_down = "16Mbit"\nrate_up = "600kbit"\nqueue_down = 200\nqueue_up = 60\n'),
    "poor cellular": Trouble(cell='rate_up = "300kbit"\ndelay = "120ms"\njitter = "80ms"\nloss = 0.02\nreorder = 0.02\nreorder_later = "30ms"\n'),
    "firewall that resets": Trouble(wifi='firewall = "reject"\n'),
    "firewall that drops": Trouble(wifi='firewall = "drop"\n'),
    "NAT at home": Trouble(wifi='firewall = "reject"\nnat = true\n'),
}
# Where the path says how far the server is.
FAR = {"satellite": 560}


@dataclass(frozen=True)
class Cell:
    """One download's world."""

    path: str
    air: str
    sender: str
    rtt_ms: int
    phy: str

    @property
    def name(self) -> str:
        return f"{self.path}{self.air}, {walks.setting(self.sender, self.rtt_ms, self.phy)}"

    @property
    def scenario(self) -> str:
        """The scenario as TOML text."""
        trouble = PATHS[self.path]
        return walks.scenario("bench-paths", replace(trouble, wifi=AIRS[self.air] + trouble.wifi), phy=self.phy, rtt_ms=self.rtt_ms, sender=self.sender)


def covering_cells() -> list[Cell]:
    """Each path with each air; senders, round trips and PHYs turned."""
    return [Cell(path, air, SENDERS[(row + column) % 3], FAR.get(path, RTTS[(row // 3 + column) % 3]), PHYS[(row + column) % 2])
            for row, path in enumerate(PATHS) for column, air in enumerate(AIRS)]


def every_cell() -> list[Cell]:
    return [Cell(path, air, sender, rtt, phy) for path, air, sender, phy in itertools.product(PATHS, AIRS, SENDERS, PHYS)
            for rtt in ((FAR[path],) if path in FAR else RTTS)]


def case_of(cell: Cell, arms: Sequence[Arm], rounds: int) -> Case:
    return Case(cell.name, tuple(arms), (GOODPUT, WORST), rounds, (not_slower(arms), NO_WORSE), parameters={"cell": cell})


class Paths(Bench):
    name = "paths"
    summary = "downloads over policers, deep and shallow queues, an AQM, reordering, wired losses and outages, jitter, a satellite, thin ways back, poor cellular: every module on against no Tandem"
    parallel = True
    columns = ("plain", "one", "tandem")
    headings = {"one": " / ".join(arm.name for arm in SINGLE), "tandem": "all"}
    detail_columns = DETAILS
    notes = (
        f"One download of {SECONDS:g} s by nginx on an unmodified server over the lab's 802.11 air, with LTE (30/10 Mb/s, 20 ms each way) beside it. What is special is the wire behind the access point, or the cellular network. "
        "Policer: a token bucket that drops what comes above its rate, without a queue; its burst beside the rate. CoDel: RFC 8289, drops, target 5 ms; at the access point 20 ms, in place of the queue of 100 or 200 packets. Deep and shallow queue: 1,000 and 15 packets, drop-tail. "
        "Reordering: so many packets, each on its own, are so much later than others. Wired bursts: Gilbert-Elliott, 5 packets on average, one in 2,000 begins one. Wired outages: the wire loses everything for 1 s and for 0.4 s "
        "while the Wi-Fi is well. DSL: 0.6 Mb/s towards the server with a queue of 60 packets. Poor cellular: 300 kb/s up, 120 to 200 ms each way, 2 % loss, reordering.",
        "0.3 % loss: of the air, besides. Cell names end with the server's congestion control, the RTT (half of it each way on the WAN) and the PHY.",
        "\"plain\" and \"plain again\" are the same arm measured twice: their ratio shows the resolution.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            return [case_of(cell, (PLAIN, ALL), 1) for cell in covering_cells()[::9]]
        return [case_of(cell, (PLAIN, AGAIN, ALL), ROUNDS) for cell in covering_cells()]

    def full_cases(self) -> list[Case]:
        return [case_of(cell, (PLAIN, AGAIN, *SINGLE, ALL), ROUNDS) for cell in every_cell()]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return SECONDS + 2

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        return lateness.measured(lambda: download_over(cell.scenario, SECONDS, f"{case.name}-{arm.name}-{seed}", modules_of(arm), seed, options))

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """All against plain over the cells of each path together: a pair is a cell on a seed."""
        return over_groups({path: path for path in PATHS}, lambda case: case.parameters["cell"].path, cases, runs, (PLAIN, AGAIN, ALL), (GOODPUT,),
                           lambda arms: (not_slower(arms),))

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return application_pictures.draw(self, cases, runs, directory, (GOODPUT,), ((AGAIN.name, ""), (ALL.name, "tandem")), PLAIN.name)


BENCH = Paths()
