"""Every module alone, every two, every three and all, over what can befall a download: none may spoil what another gains."""

from __future__ import annotations

import itertools
import shutil
import threading
import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab import Lab, foreign
from tandem_lab.errors import BadInput, LabError

from .. import advances, capture, helpers, lateness, walks
from ..daemon_status import of_all
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run, Unavailable
from ..statistics import Spread, over_cases, values_of

MODULES = ("offload", "freeze", "mirror", "ecn")
PLAIN, AGAIN, LOSS_FREE = Arm("plain", "plain"), Arm("plain again"), Arm("loss-free", "limit")
ALL = Arm("all", "tandem")
# `rate` is off by default and acts at handoffs alone: an arm of the walks. It needs the signal: --set radio=yes.
WITH_RATE = Arm("all and rate", "tandem")


def arms_of(size: int, column: str) -> tuple[Arm, ...]:
    """Every choice of so many modules."""
    return tuple(Arm("+".join(chosen), column) for chosen in itertools.combinations(MODULES, size))


SINGLE, PAIRS, THREE = arms_of(1, "one"), arms_of(2, "two"), arms_of(3, "three")
COMBINATIONS = (PLAIN, AGAIN, *SINGLE, *PAIRS, *THREE, ALL)
# On a connection that is not MPTCP `ecn` only looks on: what the others do to each other shows without it.
QUICK = (PLAIN, AGAIN, *(pair for pair in PAIRS if "ecn" not in pair.name), ALL)

GOODPUT = Metric("goodput", "Mb/s")
WORST = Metric("worst run", "Mb/s", samples="goodputs", statistic="minimum")
NO_WORSE = Goal(ALL.name, ">=", 0.9, over=PLAIN.name, metric=WORST.name, text="worst run: all / plain >= 0.9")
# What `one_download` and the daemon's status tell of a run.
DETAILS = (
    ("RetransSegs", "retransmitted"), ("TCPTimeouts", "timeouts"), ("undone", "undone by the server"), ("acks_cell0", "ACKs by cellular"),
    ("longest_gap_s", "longest gap, s"), ("faults", "module faults"), ("violations", "violations"), ("reasons", "reasons"))

SECONDS = 12.0
ROUNDS, MANY_ROUNDS = 3, 10
RTTS = (20, 50, 100, 200)
SENDERS = ("cubic", "reno", "bbr", "gvisor")  # Linux's congestion controls, and a stack that is not Linux (Reno)
PHYS = ("a", "g", "n")
LOSSES = ("0.1 % loss", "0.3 % loss", "1 % loss")
FAST = 50  # Mb/s: what 802.11n carries is more
TROUBLES = tuple(walks.troubles(SECONDS))


@dataclass(frozen=True)
class Cell:
    """One download's world."""

    trouble: str
    rtt_ms: int
    sender: str
    phy: str
    seconds: float = SECONDS
    radio: bool = False  # the daemon sees the frames of the air
    known: bool = False  # the cellular path was validated by a download before
    advances: bool = False  # what each ACK told the server is captured there
    look: bool = False  # the server's kernel is asked again and again what it knows of the connection
    before: float = 0.0  # seconds of a download by the same daemon that comes first and is not measured

    @property
    def name(self) -> str:
        more = {", radio": self.radio, ", known path": self.known, ", advances": self.advances, ", looked at": self.look, ", the second download": self.before}
        return f"{self.trouble}, {walks.setting(self.sender, self.rtt_ms, self.phy)}" + "".join(text for text, holds in more.items() if holds)

    @property
    def has_share_goal(self) -> bool:
        """Losses that must not cost much: up to 100 ms and 50 Mb/s."""
        return self.trouble in LOSSES and self.rtt_ms <= 100 and self.phy != "n"

    def scenario(self, lossy: bool = True) -> str:
        """The scenario as TOML text."""
        trouble = walks.troubles(self.seconds)[self.trouble if lossy else "no loss"]
        return walks.scenario("bench-together", trouble, phy=self.phy, rtt_ms=self.rtt_ms, sender=self.sender)


def covering_cells() -> list[Cell]:
    """Each trouble with each RTT; senders and PHYs turned, so that each meets every other value, too."""
    return [Cell(trouble, rtt, SENDERS[(row + column) % len(SENDERS)], PHYS[(row + 2 * column + row // 3) % len(PHYS)])
            for row, trouble in enumerate(TROUBLES) for column, rtt in enumerate(RTTS)]


def every_cell() -> list[Cell]:
    return [Cell(*values) for values in itertools.product(TROUBLES, RTTS, SENDERS, PHYS)]


def loss_cells() -> list[Cell]:
    """Those of ten runs: every loss with every RTT up to 100 ms, senders and PHYs turned."""
    return [Cell(loss, rtt, SENDERS[(row + 2 * column) % len(SENDERS)], PHYS[(row + column) % 2])
            for row, loss in enumerate(LOSSES) for column, rtt in enumerate(RTTS[:3])]


def noise_of(arms: Sequence[Arm]) -> str:
    """The arm that repeats plain, where there is one."""
    return AGAIN.name if AGAIN in arms else ""


def not_slower(arms: Sequence[Arm], arm: Arm = ALL) -> Goal:
    return Goal(arm.name, ">=", 1.0, over=PLAIN.name, noise=noise_of(arms))


def goals_of(cell: Cell, many: bool, arms: Sequence[Arm]) -> tuple[Goal, ...]:
    goals = [not_slower(arms)]
    if PLAIN in arms and not many:
        goals.append(NO_WORSE)
    if cell.has_share_goal and LOSS_FREE in arms:
        goals.append(Goal(ALL.name, ">=", 0.9, over=LOSS_FREE.name))
        if many:
            goals.append(Goal(ALL.name, ">=", 0.75, over=LOSS_FREE.name, metric=WORST.name, text="worst of ten: all / loss-free >= 0.75"))
    if WITH_RATE in arms:
        goals += [not_slower(arms, WITH_RATE), Goal(WITH_RATE.name, ">=", 0.97, over=ALL.name)]
    return tuple(goals)


def every_arm(cell: Cell) -> tuple[Arm, ...]:
    return (*COMBINATIONS, WITH_RATE) if cell.trouble == "walk" else COMBINATIONS


def case_of(cell: Cell, arms: Sequence[Arm], rounds: int, many: bool = False) -> Case:
    if cell.trouble in LOSSES and LOSS_FREE not in arms:
        arms = (*arms, LOSS_FREE)
    return Case(cell.name + (", ten runs" if many else ""), tuple(arms), (GOODPUT, WORST), rounds, goals_of(cell, many, arms),
                parameters={"cell": cell, "many": many})


class Together(Bench):
    name = "together"
    summary = "downloads through losses, blackouts, walks and busy channels: without Tandem, with each module, every two, every three, and all"
    parallel = True
    settings = {"seconds": f"length of a download, 6 to 600 (default {SECONDS:g})", "radio": "no, yes: the daemon sees the frames of the air",
                "known": "no, yes: a download before has validated the cellular path (decision 0033)",
                "advances": "no, yes: captures at the server what each ACK told it at once and what it sent for it, for the JSON; with --keep-logs the captures are kept",
                "look": "no, yes: asks the server's kernel 20 times a second what it knows of the connection (ss), for the JSON; a run gives other figures with it than without",
                "before": "length of a download by the same daemon and server that comes first and is not measured, up to 600 (default 0: none)"}
    columns = ("plain", "one", "two", "three", "tandem", "limit")
    headings = {"one": " / ".join(arm.name for arm in SINGLE), "two": " / ".join(arm.name for arm in PAIRS), "three": "without ecn / mirror / freeze / offload",
                "tandem": "all / all and rate", "limit": "loss-free"}
    detail_columns = DETAILS
    notes = (
        f"One download of {SECONDS:g} s by nginx on an unmodified server, slow start included, over the lab's 802.11 air with LTE (30/10 Mb/s, 20 ms each way) beside it. Cell names: what "
        "befalls it, congestion control of the server (gvisor: gVisor's netstack, Reno, whose retransmissions are not counted), RTT (half of it each way on the WAN), PHY.",
        "Losses come behind the air's retries, on data. Blackouts: 2 s after a third, 0.7 s after three quarters of the download; both ends drop. Walk: past three access points with rate control, a handoff after each "
        "third. Busy channel: a neighbour who always sends. Filtered cellular: a source-address filter; cellular NAT: the network translates; both with a blackout of 2 s.",
        "\"plain\" and \"plain again\" are the same arm measured twice per round: their ratio shows the resolution. \"loss-free\": plain, the same air without losses.",
        "Best pair: of the pairs of a cell the one with the highest median over its rounds, so that chance favours it over \"all\".",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            brief = [Cell("0.3 % loss", 50, "cubic", "a", 7.0), Cell("blackouts", 50, "cubic", "g", 7.0), Cell("walk", 50, "reno", "g", 7.0), Cell("no loss", 50, "cubic", "n", 7.0)]
            return [case_of(cell, QUICK, 1) for cell in brief]
        return ([case_of(cell, every_arm(cell), ROUNDS) for cell in covering_cells()]
                + [case_of(cell, (PLAIN, ALL, LOSS_FREE), MANY_ROUNDS, many=True) for cell in loss_cells()])

    def full_cases(self) -> list[Case]:
        return ([case_of(cell, every_arm(cell), ROUNDS) for cell in every_cell()]
                + [case_of(cell, (PLAIN, ALL, LOSS_FREE), MANY_ROUNDS, many=True) for cell in every_cell() if cell.has_share_goal])

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        changes: dict[str, Any] = {}
        for key, text in settings.items():
            try:
                changes[key] = helpers.YES_OR_NO[text] if key in ("radio", "known", "advances", "look") else float(text)
                if not {"seconds": 6}.get(key, 0) <= changes[key] <= 600:
                    raise ValueError
            except (ValueError, KeyError):
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}") from None
        return [case_of(replace(case.parameters["cell"], **changes), case.arms, case.seeds, case.parameters["many"]) for case in cases]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["cell"].seconds + case.parameters["cell"].before + 1.8

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(cell.scenario(arm != LOSS_FREE), seed=seed, prefix=options.prefix))
            daemon = None
            if chosen := modules_of(arm):
                daemon = stack.enter_context(helpers.tandem(lab, options, chosen, config_of(lab, cell), f"{case.name}-{arm.name}-{seed}"))
                if cell.known and "offload" in chosen:
                    helpers.make_path_known(lab, daemon)
            server = server_of(stack, lab, cell.sender)
            if cell.before:
                lab.download(seconds=cell.before, server=server)
            with lab.capture("srv1", "eth0", "tcp port 80") if cell.advances else nullcontext() as captured, Looks(lab) if cell.look else nullcontext() as looks:
                goodput, details = one_download(lab, cell.seconds, server)
            if looks:
                details["looks"] = looks.seen
            if captured:
                details |= advances.details(advances.watch(capture.frames(captured)))
                if options.keep_logs:
                    shutil.copyfile(captured, Path(options.keep_logs) / helpers.file_name(f"{case.name}-{arm.name}-{seed}.pcap"))
            if daemon is not None:
                details |= of_all(daemon.api("/v1/status"))
        return Measurement({GOODPUT.name: goodput}, details)

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """All against the best pair of each cell, and all cells together."""
        return [made for case in cases if (made := against_best_pair(case, runs))] + over_all(cases, runs)


class Looks:
    """What ss says of the server's connections, 20 times a second: seconds since the first look, and its words."""

    def __init__(self, lab: Lab):
        self.seen: list[tuple[float, str]] = []
        self._lab, self._ended = lab, threading.Event()
        self._thread = threading.Thread(target=self._run)

    def __enter__(self) -> Looks:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        began = time.monotonic()
        while not self._ended.wait(0.05):
            at = time.monotonic() - began
            self.seen.append((round(at, 3), self._lab.endpoint("srv1").run(["ss", "-tinOH", "state", "established", "sport", "=", ":80"]).stdout))


def download_over(scenario: str, seconds: float, title: str, modules: Sequence[str], seed: int, options: Options, *, flows: int = 1, sender: str = "") -> Measurement:
    """What a download over a scenario (TOML text) gave, or so many at the same time. Without modules no daemon runs; `title` names its logs. A `sender` that is
    not Linux serves in place of the server."""
    with ExitStack() as stack:
        lab = stack.enter_context(Lab(scenario, seed=seed, prefix=options.prefix))
        daemon = stack.enter_context(helpers.tandem(lab, options, modules, {}, title)) if modules else None
        goodput, details = one_download(lab, seconds, server_of(stack, lab, sender), flows)
        if daemon is not None:
            details |= of_all(daemon.api("/v1/status"))
    return Measurement({GOODPUT.name: goodput}, details)


def server_of(stack: ExitStack, lab: Lab, sender: str) -> Any:
    """Who serves: the lab's server, or the stack that is not Linux beside it, as long as `stack` lasts. Raises Unavailable."""
    if sender not in foreign.STACKS:
        return "srv1"
    if why := foreign.missing(sender):
        raise Unavailable(why)
    return stack.enter_context(lab.foreign_server(sender))


def one_download(lab: Lab, seconds: float, server: Any = "srv1", flows: int = 1) -> tuple[float, dict[str, Any]]:
    """A download from the beginning of the timeline on: goodput in Mb/s, and what became of it. Raises LabError when it failed, or the emulator was late."""
    before = lab.tcp_counters()
    lab.start_timeline()
    result = lab.start_download(seconds=seconds, server=server, flows=flows).wait()
    after = lab.tcp_counters()
    if result.error:
        raise LabError(f"download: {result.error}")
    goodput = result.bytes * 8e-6 / result.seconds
    details: dict[str, Any] = {key: after.get(key, 0) - before.get(key, 0) for key in COUNTERS}
    details |= {"goodputs": [goodput], "undone": sum(details[key] for key in COUNTERS if "Undo" in key), "rates_mbps": [round(rate, 3) for rate in result.rates(0.5)],
                "longest_gap_s": round(result.longest_gap(), 2), "acks_cell0": result.interfaces.get("cell0", {}).get("acks_out", 0)}
    return goodput, details | lateness.checked(lab.stats())


COUNTERS = ("RetransSegs", "TCPTimeouts", "TCPLossProbes", "TCPFullUndo", "TCPPartialUndo", "TCPLossUndo", "TCPDSACKUndo")


def modules_of(arm: Arm) -> tuple[str, ...]:
    """The modules that are on in an arm; none: it runs without the daemon."""
    if arm == ALL:
        return MODULES
    if arm == WITH_RATE:
        return (*MODULES, "rate")
    return tuple(arm.name.split("+")) if arm in (*SINGLE, *PAIRS, *THREE) else ()


def config_of(lab: Lab, cell: Cell) -> dict[str, Any]:
    """The daemon's configuration: defaults, and the air's frames where the cell has a radio."""
    return ({"links": {"radio": f"lab:{lab.directory / 'frames.sock'}"}} if cell.radio else {}) | (helpers.REMEMBERS if cell.known else {})


def against_best_pair(case: Case, runs: Sequence[Run]) -> tuple[Case, list[Run]] | None:
    """The row of a cell that sets all modules beside its best pair; None where either was not measured."""
    spreads = {arm: Spread.of(values_of(runs, case.name, arm.name, GOODPUT.name).values()) for arm in case.arms if arm in PAIRS}
    medians = {arm: spread.median for arm, spread in spreads.items() if spread}
    if not medians or ALL not in case.arms:
        return None
    best = max(medians, key=lambda arm: medians[arm])
    title = f"{case.name}: all and {best.name}"
    chosen = [replace(run, case=title, details={"derived": True}) for run in runs
              if run.case == case.name and run.arm in (best.name, ALL.name)]
    goal = Goal(ALL.name, ">=", 0.97, over=best.name, text="all / best pair >= 0.97")
    return Case(title, (best, ALL), (GOODPUT,), case.seeds, (goal,), parameters={"pooled": True}), chosen


def over_all(cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
    """All against plain over all cells together: a pair is a cell on a seed."""
    members = [case for case in cases if PLAIN in case.arms and ALL in case.arms]
    return over_cases("all cells", members, runs, (PLAIN, AGAIN, ALL), (GOODPUT,),
                      lambda arms: (not_slower(arms),))


BENCH = Together()
