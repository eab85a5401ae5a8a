"""R0 on kernel MPTCP in the lab: a download while Wi-Fi becomes slow and fast again, or is gone at a handoff, with a cellular link beside it that costs money."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Mapping

from tandem_lab import Lab, topology
from tandem_lab.errors import LabError

from .. import helpers, lateness, promise_walk
from ..daemon_status import of_module
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options
from ..promise_walk import Walk

WIFI = Arm("TCP by Wi-Fi", "wifi")
BACKUP = Arm("cellular as backup", "backup")
ALONE = Arm("MPTCP alone", "plain")
PUBLISHED = Arm("published share", "published")
TANDEM = Arm("Tandem", "tandem")
ARMS = (WIFI, BACKUP, ALONE, PUBLISHED, TANDEM)

HELD = Metric("goodput while Wi-Fi is below R0", "% of R0", 1)
WORST = Metric("worst 2 s of it", "% of R0", 1)
SPENT = Metric("cellular, of what was missing", "%", 0)
NEEDLESS = Metric("cellular while Wi-Fi suffices", "MB", 2)
METRICS = (HELD, WORST, SPENT, NEEDLESS)

CELLULAR = 18.0  # Mb/s, C2 of table II
# From when on Wi-Fi carries so many Mb/s: C1 and R1h of table II, and half way between.
WALK = ((0.0, 25.0), (8.0, 12.0), (20.0, 5.0), (32.0, 25.0))
SECONDS = 42.0
# After a change TCP, the module and the queues at the links are busy with it.
SETTLE = 3.0
HONEST_US = 3000


@dataclass(frozen=True)
class Cell:
    """One download's world. r0 in Mb/s; rtt by Wi-Fi in ms, by cellular 30 ms longer as in table II."""

    r0: float
    rtt: int = 25
    congestion: str = "cubic"

    @property
    def name(self) -> str:
        return f"R0 {self.r0:g} Mb/s, RTT {self.rtt} ms, {self.congestion}"

    def short(self, second: float) -> bool:
        """Whether Wi-Fi carries less than R0 at that time of the walk, and has for a while."""
        return any(begin + SETTLE <= second < end and rate < self.r0 for begin, end, rate in stretches())

    def suffices(self, second: float) -> bool:
        return any(begin + SETTLE <= second < end and rate > 1.15 * self.r0 for begin, end, rate in stretches())

    def scenario(self) -> str:
        changes = "".join(f'[[timeline]]\nat = "{at:g}s"\nwhat = "rate"\nvalue = "{rate:g}Mbit"\n' for at, rate in WALK[1:])
        return f"""[scenario]
name = "promise"
summary = "{self.name}"
duration = "{SECONDS:g}s"
mptcp = true
[wifi]
profile = "wifi-pipe"
rate = "{WALK[0][1]:g}Mbit"
queue = 120
[cell]
rate_down = "{CELLULAR:g}Mbit"
rate_up = "10Mbit"
delay = "{15 + 2}ms"
queue = 200
[wan]
delay = "{self.rtt / 2}ms"
[[ap]]
name = "ap1"
[[server]]
name = "srv1"
congestion = "{self.congestion}"
{changes}"""


def stretches() -> list[tuple[float, float, float]]:
    """(begin, end, Mb/s by Wi-Fi) of the walk."""
    ends = [at for at, _ in WALK[1:]] + [SECONDS]
    return [(at, end, rate) for (at, rate), end in zip(WALK, ends)]


CASES = tuple(Cell(r0, rtt) for r0 in (10, 14, 18, 22) for rtt in (25, 60)) + (Cell(18, 25, "bbr"),)
WALKS = (Walk(0.2), Walk(0.5), Walk(1.0))


class Promise(Bench):
    name = "promise"
    summary = "R0 kept on kernel MPTCP while Wi-Fi becomes slow, and through a handoff: MPTCP alone, cellular as a backup, the published share of time, and Tandem"
    columns = tuple(arm.column for arm in ARMS)
    headings = {arm.column: arm.name for arm in ARMS}
    detail_columns = (("wifi_mb", "MB by Wi-Fi"), ("cell_mb", "MB by cellular"), ("counted_percent", "% of it counted"), ("flag_changes", "MP_PRIO changes"), ("endpoints_deleted", "endpoints taken away"),
                      ("release_error_p99_us", "lab late, p99 us"))
    notes = (
        f"Real kernel TCP and MPTCP, nginx. Wi-Fi is the lab's pipe with 120 packets of queue: " + ", ".join(f"{rate:g} Mb/s from {at:g} s on" for at, rate in WALK)
        + f". Cellular: {CELLULAR:g} Mb/s, 30 ms longer round trip, 200 packets. Downloads of {SECONDS:g} s; {SETTLE:g} s after each change count for nothing. At 5 Mb/s both carry 23 together, less headers.",
        "Goodput is HTTP body. What was missing: R0 less what came by Wi-Fi, second by second, as far as Wi-Fi carries less. 100 % of it by cellular is as few bytes as R0 takes.",
        "\"MPTCP alone\": both endpoints regular, as the kernel's path manager has it without flags. \"published share\": strategy = published, R2 / C2 of each half second by algorithm 1 (the pipe has one access point and a "
        "steady signal, so no pre-handoff).",
        f"Handoff: the walk of the bench `cla`, {promise_walk.APART:g} m from one access point to the next at {promise_walk.SPEED:g} m/s. The pipe carries what 802.11g's rates leave of {promise_walk.C1:g} Mb/s with that signal, 5 ms each way, 100 packets; its carrier goes "
        f"when the laptop changes ({promise_walk.DELTA0:g} and {promise_walk.DELTA2:g} dB, table II), and what was queued is lost. LTE: {CELLULAR:g} Mb/s, 20 ms each way. No scan is heard: the stages go by the signal alone. \"Held\" is the mean, over the walk's whole seconds, of goodput by R0, 1 "
        "where it is more. Gaps by samples of 10 ms. Goal of the gap: that of `cla`.",
        "For Tandem the lab's own endpoint of the Wi-Fi address is taken away before: Tandem takes away only endpoints that it made.",
        lateness.note(HONEST_US))

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            return [case_of(CASES[4], 1)]
        return [*(case_of(cell, 3) for cell in CASES), *(case_of_walk(walk, 3) for walk in WALKS)]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return (case.parameters["walk"].seconds if "walk" in case.parameters else SECONDS) + 4.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        helpers.needs_mptcp()
        one = self._walk if "walk" in case.parameters else self._measure
        return lateness.measured(lambda: one(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(cell.scenario(), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if arm in (ALONE, BACKUP):
                make_endpoint(lab, backup=arm == BACKUP)
            elif arm != WIFI:
                knobs = {"promise": True, "r0": f"{cell.r0:g}Mbit", "strategy": "published" if arm == PUBLISHED else "account"}
                daemon = stack.enter_context(helpers.tandem(lab, options, ["rate"], {
                    "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "mptcp": {"setup": True}, "modules": {"rate": knobs}},
                    f"{case.name}-{arm.name}-{seed}"))
                helpers.wait_for_endpoints(lab, [topology.CELL_CLIENT[0]])
            lab.start_timeline()
            seen: list[tuple[float, int, int, int]] = []

            def look(second: float, body: int) -> None:
                if seen and second <= seen[-1][0]:
                    return  # the same report again
                wifi, cellular = (int(lab.client.run(["cat", f"/sys/class/net/{device}/statistics/rx_bytes"]).stdout) for device in ("wlan0", "cell0"))
                seen.append((second, body, wifi, cellular))

            result = lab.start_download(seconds=SECONDS, mptcp=arm != WIFI, interface="wlan0" if arm == WIFI else "", interval=0.5).wait(look)
            if result.error:
                raise LabError(f"download: {result.error}")
            values, details = figures(cell, seen)
            if daemon is not None:
                status = daemon.api("/v1/status")
                told = of_module(status, "rate")
                details |= told | {"flag_changes": status["steering"]["flag_changes"]}
                if details["cell_mb"] > 0.1:
                    details["counted_percent"] = 100 * status["datapath"]["cell_bytes"] * 1e-6 / details["cell_mb"]
            details |= lateness.checked(lab.stats(), HONEST_US)
        return Measurement(values, details)

    def _walk(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        walk: Walk = case.parameters["walk"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(walk.scenario(), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if arm == ALONE:
                make_endpoint(lab, backup=False)
            else:
                lab.client.run(["ip", "mptcp", "endpoint", "flush"])
                daemon = stack.enter_context(helpers.tandem(lab, options, ["rate"], {
                    "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "mptcp": {"setup": True},
                    "modules": {"rate": {"promise": True, "r0": f"{walk.r0:g}Mbit"}}}, f"{case.name}-{arm.name}-{seed}"))
                helpers.wait_for_endpoints(lab, [topology.CELL_CLIENT[0], lab.info["interfaces"]["wlan0"]["ipv4"]])
            lab.start_timeline()
            began = time.monotonic()
            result = lab.start_download(seconds=walk.seconds, mptcp=True, interval=0.01).wait()
            if result.error:
                raise LabError(f"download: {result.error}")
            cellular = int(lab.client.run(["cat", "/sys/class/net/cell0/statistics/rx_bytes"]).stdout)
            late = result.began - began
            values, details = promise_walk.figures(walk, [(second + late, body) for second, body in result.samples], cellular)
            details |= {"cell_mb": cellular * 1e-6, "wifi_mb": result.received["wlan0"][-1] * 1e-6}
            if daemon is not None:
                status = daemon.api("/v1/status")
                details |= of_module(status, "rate") | {key: status["steering"][key] for key in ("flag_changes", "endpoints_deleted")}
                if cellular > 100_000:
                    details["counted_percent"] = 100 * status["datapath"]["cell_bytes"] / cellular
            details |= lateness.checked(lab.stats(), HONEST_US)
        return Measurement(values, details)


def figures(cell: Cell, seen: list[tuple[float, int, int, int]]) -> tuple[dict[str, float], dict[str, Any]]:
    """From (second, body, wire bytes by Wi-Fi, by cellular) as they stood. Wire bytes count as the body that they carried."""
    body, wifi, cellular = (seen[-1][k] - seen[0][k] for k in (1, 2, 3))
    share = body / max(wifi + cellular, 1)
    goodput: list[tuple[float, float]] = []  # (seconds, bytes) while Wi-Fi is short
    missing = spent = needless = 0.0
    for before, after in zip(seen, seen[1:]):
        time_s = after[0] - before[0]
        by_wifi, by_cell = share * (after[2] - before[2]), share * (after[3] - before[3])
        if cell.suffices(before[0]) and cell.suffices(after[0]):
            needless += by_cell
        if cell.short(before[0]) and cell.short(after[0]):
            goodput.append((time_s, after[1] - before[1]))
            missing += max(0.0, cell.r0 / 8e-6 * time_s - by_wifi)
            spent += by_cell
    if not goodput or missing <= 0:
        raise LabError("the download has no stretch in which Wi-Fi is below R0")
    mean = sum(count for _, count in goodput) / sum(time_s for time_s, _ in goodput) * 8e-6
    worst = min(sum(count for _, count in part) / sum(time_s for time_s, _ in part) * 8e-6 for part in (goodput[at:at + 4] for at in range(len(goodput) - 3)))
    values = {HELD.name: 100 * mean / cell.r0, WORST.name: 100 * worst / cell.r0, SPENT.name: 100 * spent / missing, NEEDLESS.name: needless * 1e-6}
    return values, {"wifi_mb": wifi * 1e-6, "cell_mb": cellular * 1e-6, "series": [[round(second, 2), *rest] for second, *rest in seen]}


def make_endpoint(lab: Lab, backup: bool) -> None:
    """By hand, for cellular: as the kernel's path manager has it without a daemon."""
    lab.client.run(["ip", "mptcp", "limits", "set", "subflows", "4"])
    lab.client.run(["ip", "mptcp", "endpoint", "add", topology.CELL_CLIENT[0], "dev", "cell0", "subflow", *(["backup"] if backup else [])])


def case_of(cell: Cell, rounds: int) -> Case:
    goals: Mapping[Metric, Goal] = {
        HELD: Goal(TANDEM.name, ">=", 97, metric=HELD.name, text="R0 held within 3 %"),
        SPENT: Goal(TANDEM.name, "<=", 120, metric=SPENT.name, text="by no more than 1.2 times the cellular bytes that it takes"),
        NEEDLESS: Goal(TANDEM.name, "<=", 0.1, metric=NEEDLESS.name, text="nothing by cellular while Wi-Fi suffices"),
    }
    return Case(cell.name, ARMS, METRICS, rounds, tuple(goals.values()), "R0 = 18 held at 18.8 (sender changed)", {"cell": cell})


def case_of_walk(walk: Walk, rounds: int) -> Case:
    goals = (Goal(TANDEM.name, ">=", 97, metric=promise_walk.HELD.name, text="R0 held within 3 % over the walk"),
             Goal(TANDEM.name, "<=", 100, metric=promise_walk.GAP.name, text="gap at the handoff at most 100 ms"))
    return Case(walk.name, (ALONE, TANDEM), promise_walk.METRICS, rounds, goals, "", {"walk": walk})


BENCH = Promise()
