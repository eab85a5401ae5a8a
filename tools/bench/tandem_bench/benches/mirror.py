"""Random losses behind a bottleneck: what they cost without Tandem, as published, and by each strategy, against the same link without losses."""

from __future__ import annotations

import itertools
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.errors import BadInput, LabError

from .. import helpers, lateness, mirror_pictures
from ..daemon_status import of_module
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from ..statistics import over_cases

PLAIN, AGAIN = Arm("plain", "plain"), Arm("plain again")
REPLAY, RANGE, UNDO = Arm("replay", "replay"), Arm("range", "range"), Arm("undo", "undo")
DEFAULT, LOSS_FREE = Arm("tandem", "tandem"), Arm("loss-free", "loss-free")

# The strategy of each arm; "" = the module's own defaults. Arms that are not here run without the daemon.
STRATEGY: Mapping[str, str] = {REPLAY.name: "replay", RANGE.name: "range", UNDO.name: "undo", DEFAULT.name: ""}
ALL = (PLAIN, AGAIN, REPLAY, RANGE, UNDO, DEFAULT, LOSS_FREE)
# TLS hides what these two would have to read; in the default choice of cells they run where they can.
PLAINTEXT_ONLY = (REPLAY, RANGE)

GOODPUT = Metric("goodput", "Mb/s")

# Loss behind the bottleneck's queue: a probability, or a Gilbert-Elliott chain (rate p / (p + r), bursts of 1 / r packets on average).
LOSSES: Mapping[str, float | tuple[float, float]] = {
    "0.05 %": 0.0005, "0.1 %": 0.001, "0.3 %": 0.003, "1 %": 0.01, "3 %": 0.03,
    "bursts of 3, 0.3 %": (0.003 / 3 / 0.997, 1 / 3), "bursts of 8, 1 %": (0.01 / 8 / 0.99, 1 / 8),
}
GOAL_LOSSES = ("0.1 %", "0.3 %", "1 %")
AXES: Mapping[str, Sequence[Any]] = {
    "loss": tuple(LOSSES), "congestion": ("cubic", "reno", "bbr"), "rtt_ms": (20, 50, 100, 200), "rate": (20, 100),
    "queue": (0.5, 1.0, 2.0), "tls": (False, True)}

SECONDS = 16.0
STEADY = 6.0  # the first seconds, left out of the steady goodput
UPLINK_QUEUE = 10_000

COUNTERS = ("RetransSegs", "TCPTimeouts", "TCPFullUndo", "TCPPartialUndo", "TCPLossUndo", "TCPDSACKUndo", "TCPSpuriousRTOs", "TCPLossProbes",
            "TCPLossProbeRecovery", "TCPFastRetrans", "TCPSlowStartRetrans", "TCPLostRetransmit", "TCPSackRecovery", "TCPSACKReneging",
            "TCPDSACKRecv", "TCPSackFailures", "TCPLossFailures", "TCPHystartTrainDetect", "TCPHystartTrainCwnd", "TCPHystartDelayDetect",
            "TCPHystartDelayCwnd")


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    loss: str
    congestion: str
    rtt_ms: int
    rate: int = 20  # Mb/s
    queue: float = 1.0  # of the bottleneck, in bandwidth-delay products
    tls: bool = False
    seconds: float = SECONDS
    radio: bool = False  # the daemon sees the frames of the air
    knobs: tuple[tuple[str, Any], ...] = ()

    @property
    def name(self) -> str:
        return (f"{self.loss} {self.congestion}, {self.rtt_ms} ms, {self.rate} Mb/s, {self.queue:g} BDP, {'HTTPS' if self.tls else 'HTTP'}"
                + (", radio" if self.radio else ""))

    @property
    def bdp(self) -> int:
        """Bytes."""
        return int(self.rate * 1e6 / 8 * self.rtt_ms / 1e3)

    def wifi(self, lossy: bool = True) -> str:
        """The [wifi] section. Uplink as fast as downlink: ACKs meet no queue of their own."""
        text = (f'[wifi]\nprofile = "wifi-pipe"\nrate_down = "{self.rate}Mbit"\nrate_up = "{self.rate}Mbit"\nqueue = 1000000\n'
                f'queue_bytes = "{int(self.bdp * self.queue)}B"\nstation_queue = {UPLINK_QUEUE}\n')
        kind = LOSSES[self.loss]
        if lossy and isinstance(kind, tuple):
            text += f"gilbert_down = {{ p = {kind[0]:.8f}, r = {kind[1]:.8f} }}\n"
        elif lossy:
            text += f"loss_down = {kind}\n"
        return text

    def scenario(self, lossy: bool = True) -> str:
        """The scenario as TOML text."""
        return (f'[scenario]\nname = "bench-mirror"\nduration = "600s"\n{self.wifi(lossy)}[cell]\nprofile = "lte"\n'
                f'[wan]\ndelay = "{self.rtt_ms / 2:g}ms"\n[[server]]\nname = "srv1"\ncongestion = "{self.congestion}"\n')


def covering_cells() -> list[Cell]:
    """Every loss with every RTT, the congestion controls turned; rate, queue and HTTP or HTTPS chosen so that each value of each axis meets
    each value of every other. Cells with goals of their own come first."""
    cells: list[Cell] = []
    for row, loss in enumerate(AXES["loss"]):
        for column, rtt in enumerate(AXES["rtt_ms"]):
            cells.append(_fitting(Cell(loss, AXES["congestion"][(row + column) % 3], rtt), cells))
    for _ in range(3):  # the first ones were chosen without knowing the later ones
        for place, cell in enumerate(cells):
            cells[place] = _fitting(cell, cells[:place] + cells[place + 1:])
    return sorted(cells, key=lambda cell: not has_goal(cell))


def _fitting(cell: Cell, others: Sequence[Cell]) -> Cell:
    """The cell with the rate, queue and HTTP or HTTPS that add most pairs of values to the others, or the rarest ones."""
    counts: dict[tuple[Any, ...], int] = {}
    for other in others:
        for pair in pairs(other):
            counts[pair] = counts.get(pair, 0) + 1
    choices = [replace(cell, rate=rate, queue=queue, tls=tls) for rate, queue, tls in itertools.product(AXES["rate"], AXES["queue"], AXES["tls"])]
    return max(choices, key=lambda choice: sum(1 / 8 ** counts.get(pair, 0) for pair in pairs(choice)))


def pairs(cell: Cell) -> set[tuple[Any, ...]]:
    """Every two axes with their values in this cell."""
    return {(a, getattr(cell, a), b, getattr(cell, b)) for a, b in itertools.combinations(AXES, 2)}


def every_cell() -> list[Cell]:
    cells = [Cell(**dict(zip(AXES, values))) for values in itertools.product(*AXES.values())]
    return sorted(cells, key=lambda cell: not has_goal(cell))


def has_goal(cell: Cell) -> bool:
    return cell.loss in GOAL_LOSSES and cell.congestion in ("cubic", "reno")


def goals_of(cell: Cell, noise: bool = True) -> tuple[Goal, ...]:
    goals = [Goal(DEFAULT.name, ">=", 1.0, over=PLAIN.name, noise=AGAIN.name if noise else "", text="never below plain")]
    if cell.congestion == "bbr":
        goals.insert(0, Goal(DEFAULT.name, ">=", 0.98, over=PLAIN.name, text="bbr: >= 0.98 of plain"))
    elif has_goal(cell):
        goals.insert(0, Goal(DEFAULT.name, ">=", 0.95, over=LOSS_FREE.name, text=">= 0.95 of loss-free"))
    return tuple(goals)


def case_of(cell: Cell, arms: Sequence[Arm], rounds: int) -> Case:
    return Case(cell.name, tuple(arms), (GOODPUT,), rounds, goals_of(cell, AGAIN in arms), parameters={"cell": cell})


class Mirror(Bench):
    name = "mirror"
    summary = "downloads over a bottleneck with random losses behind it: without Tandem, as published, by each strategy, and without the losses"
    parallel = True
    settings = {"loss": "one of: " + "; ".join(LOSSES), "congestion": "cubic, reno, bbr", "rtt_ms": "round-trip time, like 50", "rate": "Mb/s, like 20",
                "queue": "of the bottleneck in bandwidth-delay products, like 1", "tls": "no, yes", "seconds": "length of a run",
                "radio": "no, yes: the daemon sees the frames of the air", "knobs": "knobs of the module in all arms, like threshold=0.4,NAME=VALUE"}
    columns = ("plain", "replay", "range", "undo", "tandem", "loss-free")
    headings = {"replay": "replay (published)", "tandem": "default", "loss-free": "loss-free"}
    detail_columns = (
        ("steady_mbps", "steady goodput, Mb/s"), ("recovered_per_s", "recovered losses, 1/s"), ("recovery_ms", "time to recover, ms"),
        ("recovery_p99_ms", "p99, ms"), ("random_losses", "random losses"), ("queue_drops", "queue drops"), ("RetransSegs", "retransmitted"),
        ("undone", "undone by the server"), ("TCPTimeouts", "timeouts"), ("cell_mb", "cellular, MB"), ("faults", "module faults"), ("violations", "violations"), ("reasons", "reasons"))
    notes = (
        "Cell names: loss, congestion control of the server, RTT (half of it each way on the WAN), rate of the bottleneck, its drop-tail queue in bandwidth-delay "
        "products, HTTP or HTTPS by nginx. The bottleneck is the Wi-Fi stand-in wifi-pipe; losses come behind its queue and hit data only (downlink). LTE beside it.",
        "Bursts: Gilbert-Elliott chain, the loss rate and the mean burst as named; all packets are lost in the bad state.",
        f"Goodput is the HTTP body over the {SECONDS:g} s from connect(), the first round trips included; steady leaves the first {STEADY:g} s out. Client and server may use 32 MiB of socket buffer "
        "(net.ipv4.tcp_rmem and tcp_wmem), at least 4 times RTT x rate + queue: the window does not limit.",
        "Losses, queue drops and the time to recover are the emulator's own account: from the first loss of a segment at the bottleneck to the client's acknowledgement of "
        "it; recovered losses count those of random and bursty loss.",
        "\"loss-free\" is a plain download over the same bottleneck without random losses. \"default\" has the module's default knobs, "
        "\"undo\", \"range\", \"replay\" that strategy. Undone: the server's TCPFullUndo, TCPPartialUndo, TCPLossUndo and TCPDSACKUndo together.",
        lateness.note(),
        "\"plain\" and \"plain again\" are the same arm measured twice per round: their ratio shows the resolution.")

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            brief = {"seconds": 8.0}
            cells = [Cell("0.3 %", "cubic", 50, **brief), Cell("1 %", "reno", 50, **brief), Cell("0.1 %", "cubic", 100, 100, tls=True, **brief),
                     Cell("0.3 %", "bbr", 50, queue=0.5, **brief)]
            return [case_of(cell, (PLAIN, DEFAULT, LOSS_FREE), 1) for cell in cells]
        return [case_of(cell, [arm for arm in ALL if not (cell.tls and arm in PLAINTEXT_ONLY)], 1) for cell in covering_cells()]

    def full_cases(self) -> list[Case]:
        return [case_of(cell, ALL, 1) for cell in every_cell()]

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        """Cells with some factors fixed; those that become equal are one."""
        changes = read_settings(self, settings)
        made: dict[str, Case] = {}
        for case in cases:
            cell = replace(case.parameters["cell"], **changes)
            made.setdefault(cell.name, case_of(cell, case.arms, case.seeds))
        return list(made.values())

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["cell"].seconds + 2.3

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(cell.scenario(arm.name != LOSS_FREE.name), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if arm.name in STRATEGY:
                daemon = stack.enter_context(helpers.tandem(lab, options, ["mirror"], config_of(lab, cell, STRATEGY[arm.name]),
                                                         f"{case.name}-{arm.name}-{seed}"))
            before = lab.tcp_counters()
            result = lab.start_download(seconds=cell.seconds, tls=cell.tls).wait()
            after = lab.tcp_counters()
            if result.error:
                raise LabError(f"download: {result.error}")
            details: dict[str, Any] = {key: after.get(key, 0) - before.get(key, 0) for key in COUNTERS}
            details["undone"] = sum(details[key] for key in ("TCPFullUndo", "TCPPartialUndo", "TCPLossUndo", "TCPDSACKUndo"))
            details |= truth(lab, result.seconds)
            samples = [(0.0, 0), *result.samples]
            begin = max((sample for sample in samples if sample[0] <= STEADY * cell.seconds / SECONDS + 0.01), default=(0.0, 0))
            details["steady_mbps"] = (result.bytes - begin[1]) * 8e-6 / (result.seconds - begin[0])
            details["series_mbps"] = [round(rate, 3) for rate in result.rates(0.5)]
            stats = lab.stats()
            details |= {"cell_mb": (stats["cell"]["down"]["bytes"] + stats["cell"]["up"]["bytes"]) / 1e6} | lateness.checked(stats)
            if daemon is not None:
                details |= of_module(daemon.api("/v1/status"), "mirror")
        return Measurement({GOODPUT.name: result.bytes * 8e-6 / result.seconds}, details)

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """The goals over all cells of a kind together: a pair per cell and round."""
        kinds = {
            "all cells of cubic and reno at 0.1 to 1 %": has_goal,
            "all cells of bbr": lambda cell: cell.congestion == "bbr",
            "all cells": lambda cell: True,
        }
        made: list[tuple[Case, list[Run]]] = []
        for title, belongs in kinds.items():
            members = [case for case in cases if belongs(case.parameters["cell"])]
            made += over_cases(title, members, runs, ALL, (GOODPUT,), partial(row_goals, title, members))
        return made

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return mirror_pictures.draw(self, cases, runs, directory, LOSSES)


def row_goals(title: str, members: Sequence[Case], arms: Sequence[Arm]) -> tuple[Goal, ...]:
    """Of several cells together: those of the first of them that the arms allow, over all cells as for 3 % loss."""
    some = members[0].parameters["cell"]
    goals = goals_of(replace(some, congestion="cubic", loss="3 %") if title == "all cells" else some, AGAIN in arms)
    return tuple(goal for goal in goals if {goal.arm, goal.over} <= {arm.name for arm in arms})


def read_settings(bench: Bench, settings: Mapping[str, str]) -> dict[str, Any]:
    """What --set changes in every cell. Raises BadInput."""
    changes: dict[str, Any] = {}
    for key, text in settings.items():
        try:
            if key in ("rtt_ms", "rate"):
                changes[key] = int(text)
            elif key in ("queue", "seconds"):
                changes[key] = float(text)
            elif key in ("tls", "radio"):
                changes[key] = helpers.YES_OR_NO[text]
            elif key == "knobs":
                changes[key] = tuple(_knob(word) for word in text.split(","))
            elif key == "loss" and text in LOSSES or key == "congestion" and text in AXES["congestion"]:
                changes[key] = text
            else:
                raise ValueError
            if key in ("rtt_ms", "rate", "queue", "seconds") and not 0 < changes[key] <= 3600:
                raise ValueError
        except (ValueError, KeyError):
            raise BadInput(f"--set {key}={text}: allowed: {bench.settings[key]}") from None
    return changes


def _knob(word: str) -> tuple[str, Any]:
    name, equals, text = word.partition("=")
    if not name or not equals:
        raise ValueError
    if text in ("true", "false"):
        return name, text == "true"
    for kind in (int, float):
        try:
            return name, kind(text)
        except ValueError:
            pass
    return name, text


def config_of(lab: Lab, cell: Cell, strategy: str) -> dict[str, Any]:
    """The daemon's configuration for a strategy; "": the default."""
    module: dict[str, Any] = dict(cell.knobs)
    if strategy:
        module["strategy"] = strategy
    config: dict[str, Any] = {"modules": {"mirror": module}}
    if cell.radio:
        config["links"] = {"radio": f"lab:{lab.directory / 'frames.sock'}"}
    return config


def truth(lab: Lab, seconds: float) -> dict[str, Any]:
    """What the emulator says of losses and their repair."""
    lost = [loss for loss in lab.losses() if loss.down and loss.link == "wifi"]
    repairs = [repair for repair in lab.repairs() if repair.reason == "loss"]
    times = sorted(1e3 * repair.after for repair in repairs)
    return {
        "random_losses": sum(loss.reason == "loss" for loss in lost), "queue_drops": sum(loss.reason == "queue_full" for loss in lost),
        "recovered_per_s": len(repairs) / seconds, "recovery_ms": times[len(times) // 2] if times else None,
        "recovery_p99_ms": times[min(len(times) - 1, int(0.99 * len(times)))] if times else None,
        "recovery_ms_all": [round(value, 1) for value in times]}


BENCH = Mirror()
