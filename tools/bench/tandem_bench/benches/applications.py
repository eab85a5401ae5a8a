"""What applications do that is no long download by one connection: pages, video in segments, a slow reader, a paced server, eight connections, a
download beside an upload, files that are sent, and questions with their answers. Nobody is to wait longer for it."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Sequence

from tandem_lab import Lab, system
from tandem_lab.errors import LabError

from .. import app_traffic, application_pictures, helpers, lateness, walks
from ..daemon_status import of_all
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from ..statistics import over_groups
from .together import AGAIN, ALL, PLAIN, SINGLE, modules_of, noise_of

TYPICAL, LONGEST = Metric("typical wait", "s", 3), Metric("longest wait", "s", 3)
APPLICATION = str(Path(app_traffic.__file__))
SECONDS = 26.0
TROUBLES = ("no loss", "0.3 % loss", "blackouts", "walk", "busy channel")
SAYS = {"pages": "pages", "segments": "video in segments", "played": "a slow reader", "paced": "a paced server",
        "at once": "eight connections", "beside": "beside an upload",
        "sent": "files sent", "asked": "questions and answers"}
SENDERS, PHYS, RTTS = ("cubic", "bbr"), ("a", "n"), (20, 50, 100)


@dataclass(frozen=True)
class Cell:
    """One application's world."""

    what: str
    trouble: str
    sender: str
    rtt_ms: int
    phy: str

    @property
    def name(self) -> str:
        return f"{SAYS[self.what]}, {self.trouble}, {walks.setting(self.sender, self.rtt_ms, self.phy)}"

    @property
    def scenario(self) -> str:
        """The scenario as TOML text."""
        return walks.scenario("bench-applications", walks.troubles(SECONDS)[self.trouble], phy=self.phy, rtt_ms=self.rtt_ms, sender=self.sender)


def covering_cells() -> list[Cell]:
    """Each application with each trouble; senders, round trips and PHYs turned."""
    return [Cell(what, trouble, SENDERS[(row + column) % 2], RTTS[(row + column) % 3], PHYS[(row + column // 2) % 2])
            for row, what in enumerate(app_traffic.DOES) for column, trouble in enumerate(TROUBLES)]


def no_longer(arms: Sequence[Arm]) -> Goal:
    return Goal(ALL.name, "<=", 1.0, over=PLAIN.name, noise=noise_of(arms))


def case_of(cell: Cell, arms: Sequence[Arm], rounds: int) -> Case:
    goals = (no_longer(arms), Goal(ALL.name, "<=", 1.1, over=PLAIN.name, metric=LONGEST.name, text="longest wait: all / plain <= 1.1"))
    return Case(cell.name, tuple(arms), (TYPICAL, LONGEST), rounds, goals, parameters={"cell": cell})


def sent_bytes(lab: Lab) -> int:
    """What the client has sent by Wi-Fi so far."""
    told: list[dict[str, Any]] = json.loads(lab.client.run(["ip", "-s", "-j", "link", "show", "wlan0"]).stdout)
    return int(told[0]["stats64"]["tx"]["bytes"])


def waits_over(scenario: str, what: str, label: str, modules: Sequence[str], seed: int, options: Options) -> Measurement:
    """What one waits for an application (`app_traffic.DOES`) over a scenario's network with these modules on; none: without the daemon. `label` names the
    daemon's logs."""
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(scenario, seed=seed, prefix=options.prefix))
        server = lab.server()
        if what == "sent":
            taking = server.popen([system.PYTHON, "-B", APPLICATION, "take", server.ipv4], stdout=subprocess.PIPE, text=True)
            stack.callback(taking.kill)
            if not taking.stdout or taking.stdout.readline() != "ready\n":
                raise LabError("who takes the files that are sent did not start")
        daemon = stack.enter_context(helpers.tandem(lab, options, modules, {}, label)) if modules else None
        before, sent = lab.tcp_counters(), sent_bytes(lab)
        lab.start_timeline()
        done = lab.client.run([system.PYTHON, "-B", APPLICATION, what, server.ipv4, "--seed", str(seed)], check=False, timeout=300)
        if done.returncode != 0:
            raise LabError(f"{what}: {done.stderr.strip()}")
        after = lab.tcp_counters()
        waits: list[float] = json.loads(done.stdout)
        details: dict[str, Any] = {"waits_s": waits} | {key: after.get(key, 0) - before.get(key, 0) for key in ("RetransSegs", "TCPTimeouts")}
        details["sent_MB"] = round((sent_bytes(lab) - sent) / 1e6, 1)
        details |= lateness.checked(lab.stats())
        if daemon is not None:
            details |= of_all(daemon.api("/v1/status"))
    return Measurement({TYPICAL.name: statistics.median(waits), LONGEST.name: max(waits)}, details)


class Applications(Bench):
    name = "applications"
    summary = "how long one waits for pages, video, a slow reader, a paced server, eight connections, a download beside an upload, files sent, questions and answers: every module on against no Tandem"
    parallel = True
    columns = ("plain", "one", "tandem")
    headings = {"one": " / ".join(arm.name for arm in SINGLE), "tandem": "all"}
    detail_columns = (("RetransSegs", "retransmitted"), ("TCPTimeouts", "timeouts"), ("sent_MB", "sent, MB"), ("faults", "module faults"), ("violations", "violations"), ("reasons", "reasons"))
    notes = (
        f"nginx on an unmodified server, over the lab's 802.11 air with LTE (30/10 Mb/s, 20 ms each way) beside it. Pages: ten, each {app_traffic.OBJECTS} objects (log-normal, median 12 kB, at most 400 kB) and the HTML on "
        f"{app_traffic.CONNECTIONS} connections, a second apart; the wait is from the first connection to the last byte. Video in segments: twelve of 1 MB, one each 2 s on a kept connection; the wait is from the request to the last byte. "
        "A slow reader: 10 MB read at 500 kB/s, which stops for what is late; a paced server: 12 MB by nginx's `limit_rate` of 600 kB/s; the wait is the whole time, at least 20 s. "
        "Eight connections: 40 MB, an eighth each. Beside an upload: 12 MB while iperf3 sends as much as the uplink takes; the wait is the whole time. "
        "Files sent: twelve of 1 MB, one each 2 s on connections of their own; the wait is until the server says that it has had all. Questions and answers: 240 of 500 bytes, ten a second on a kept connection.",
        f"Losses, blackouts (2 s and 0.7 s), walk and busy channel as in `together`, over {SECONDS:g} s. Cell names end with the server's congestion control, the RTT and the PHY.",
        "Typical: the median of a run's waits; longest: its longest; of both the median over the rounds is shown. \"plain\" and \"plain again\" are the same arm measured twice: their ratio shows the resolution.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            return [case_of(cell, (PLAIN, ALL), 1) for cell in covering_cells()[::10]]
        return [case_of(cell, (PLAIN, AGAIN, ALL), 3) for cell in covering_cells()]

    def full_cases(self) -> list[Case]:
        every = itertools.product(app_traffic.DOES, TROUBLES, SENDERS, RTTS, PHYS)
        return [case_of(Cell(*values), (PLAIN, AGAIN, *SINGLE, ALL), 3) for values in every]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return SECONDS + 2

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        return lateness.measured(lambda: waits_over(cell.scenario, cell.what, f"{case.name}-{arm.name}-{seed}", modules_of(arm), seed, options))

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """All against plain over the cells of each application together: a pair is a cell on a seed."""
        return over_groups(SAYS, lambda case: case.parameters["cell"].what, cases, runs, (PLAIN, AGAIN, ALL), (TYPICAL,), lambda arms: (no_longer(arms),))

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return application_pictures.draw(self, cases, runs, directory, (TYPICAL, LONGEST), ((AGAIN.name, ""), (ALL.name, "tandem")), PLAIN.name)


BENCH = Applications()
