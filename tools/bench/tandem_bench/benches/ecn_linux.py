"""Steering between access points on kernel MPTCP in the lab: scenarios 1 and 2 and figure 6c of Croitoru et al. (NSDI 2015) without a coupled sender."""

from __future__ import annotations

import statistics
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.api import DownloadResult
from tandem_lab.errors import BadInput, LabError

from .. import ecn_linux_pictures, helpers, lateness
from ..daemon_status import of_module
from ..ecn_linux_cells import FAST_MS, QUICK, SCENARIO_1, SCENARIO_2, SCENARIO_3, SECONDS, Cell
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run, Unavailable

BY_AP1, BY_AP2 = Arm("TCP by AP1", "ap1"), Arm("TCP by AP2", "ap2")
BY_BEST = Arm("TCP by the best one", "best")
ALONE = Arm("MPTCP alone", "plain")
MARKS = Arm("CE 5 %", "marks")
PUBLISHED = Arm("as published", "published")
BACKUP = Arm("AP1 backup by hand", "backup")
TANDEM = Arm("Tandem", "tandem")
OPTIMUM = Arm("optimum", "limit")
ARMS = (BY_AP1, BY_AP2, ALONE, MARKS, PUBLISHED, BACKUP, TANDEM, OPTIMUM)
MANY_ARMS = (BY_BEST, ALONE, PUBLISHED, TANDEM, OPTIMUM)
QUICK_ARMS = (BY_AP1, BY_AP2, ALONE, PUBLISHED, TANDEM, OPTIMUM)
COLUMNS = (BY_AP1, BY_AP2, BY_BEST, *ARMS[2:])

GOODPUT, SETTLED = Metric("goodput", "Mb/s"), Metric("settled goodput", "Mb/s")
SHARE, SETTLED_SHARE = Metric("share of the optimum", "%", 1), Metric("settled share of the optimum", "%", 1)
USED = Metric("access points used", "", 0)
MEAN, SETTLED_MEAN, MEDIAN, WORST = (Metric("mean", "%", 1), Metric("mean, settled", "%", 1), Metric("median", "%", 1), Metric("worst run", "%", 1))

SETTLE = 10.0
MARKED = 0.05  # the published cap, section 6.2.1
HONEST_US = 3000  # the emulator's lateness at the 99th percentile: an eighth of the shortest round-trip time
CARRIES = 0.01  # of the bytes: what carries more is used, as in ecn-many

ALL_CELLS = "all cells, of the optimum"


class EcnLinux(Bench):
    name = "ecn-linux"
    summary = "an MPTCP download over 2 to 8 access points of one channel on the kernel's own MPTCP: by one alone, free, with CE marks, and with Tandem"
    columns = tuple(arm.column for arm in COLUMNS)
    headings = {arm.column: arm.name for arm in COLUMNS}
    detail_columns = (("ap1_percent", "% by AP1"), ("settled_ap1_percent", "% by AP1, settled"), ("settled_best_percent", "% by the best one, settled"),
                      ("marked", "packets marked"), ("flag_changes", "MP_PRIO changes"), ("release_error_p99_us", "lab late, p99 us"))
    settings = {"seconds": "length of a download in s, 12 to 3600", "congestion": "of all senders: cubic, reno or bbr"}
    notes = (
        f"Real kernel TCP and MPTCP, nginx, access points on one channel of the lab's 802.11g (docs/lab.md). AP2 sends at 54 Mb/s (T2 = {FAST_MS} ms), AP1 at a slow rate and with frame errors. "
        f"Uplink cells: T1 = 3 ms, RTT 25 ms, 25 Mb/s and 100 packets behind AP2, TCP downloads of others through it. "
        f"Cells with more access points are figure 6c, with RTT 50 ms as in ecn-many: the last one has T = {FAST_MS} ms, the others 6 ms each (poor) or times evenly between (mixed); the client has an interface at each. "
        f"Downloads of {SECONDS:g} s ({QUICK[0].seconds:g} s with --quick), counted from the first second, what the module has to learn included; settled: from {SETTLE:g} s on.",
        "The optimum of a round is the better of TCP by AP1 and TCP by AP2, measured the same way on the same seed; both ways together may carry more. In the cells of figure 6c it is TCP by the best one. The details of each run have the calculated one, too.",
        f"\"CE 5 %\": a rule by hand marks that share of what comes by AP1. \"as published\": the module marks by equation 5 whatever the sender is (strategy = published, sender = coupled). In both arms the "
        "client asks for ECN. The upstream kernel couples nothing; the paper's senders did. \"AP1 backup by hand\": its endpoint is a backup all the time, which is right in scenario 1 only.",
        f"Used: with more than {CARRIES:.0%} of the bytes from {SETTLE:g} s on.",
        lateness.note(HONEST_US))

    def cases(self, quick: bool) -> list[Case]:
        return [case_of(cell, QUICK_ARMS, 1) for cell in QUICK] if quick else [
            case_of(cell, MANY_ARMS if cell.number == 3 else ARMS, 3) for cell in SCENARIO_1 + SCENARIO_2 + SCENARIO_3]

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        changes: dict[str, Any] = {}
        for key, text in settings.items():
            try:
                if key == "seconds":
                    changes[key] = float(text)
                    if not SETTLE + 2 <= changes[key] <= 3600:
                        raise ValueError
                elif text in ("cubic", "reno", "bbr"):
                    changes[key] = text
                else:
                    raise ValueError
            except ValueError:
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}") from None
        return [case_of(Cell(**{**vars(case.parameters["cell"]), **changes}), case.arms, case.seeds) for case in cases]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["cell"].seconds + 4.0

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm != OPTIMUM]

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        helpers.needs_mptcp()
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        by_daemon = arm in (PUBLISHED, TANDEM)
        with ExitStack() as stack:
            # With Tandem the endpoints are its own: mptcp.setup. The others get theirs from the lab.
            lab = stack.enter_context(Lab(cell.scenario(mptcp=not by_daemon), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if arm in (MARKS, PUBLISHED):
                lab.client.run(["sysctl", "-q", "-w", "net.ipv4.tcp_ecn=1"])
            if arm == MARKS:
                mark_by_hand(lab, "wlan0", MARKED)
            elif arm == BACKUP:
                lab.mptcp_backup("wlan0")
            elif by_daemon:
                module = {"strategy": "published", "sender": "coupled"} if arm == PUBLISHED else {}
                daemon = stack.enter_context(helpers.tandem(lab, options, ["ecn"], {
                    "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "mptcp": {"setup": True}, "modules": {"ecn": module}},
                    f"{case.name}-{arm.name}-{seed}"))
                helpers.wait_for_endpoints(lab, addresses_of(lab))
            single = {BY_AP1: "wlan0", BY_AP2: "wlan1", BY_BEST: cell.interfaces[-1]}.get(arm, "")
            result = lab.start_download(seconds=cell.seconds, mptcp=not single, interface=single).wait()
            if result.error:
                raise LabError(f"download: {result.error}")
            helpers.whole(lab)  # without those who share the uplink it would be another cell
            details = details_of(result, cell) | {"calculated_optimum_mbps": cell.calculated}
            if arm == MARKS:
                details["marked"] = marked_by_hand(lab)
            if daemon is not None:
                status = daemon.api("/v1/status")
                steering = status.get("steering", {})
                details |= of_module(status, "ecn") | {"steering": steering, "flag_changes": steering.get("flag_changes")}
                if arm == PUBLISHED and steering.get("ce_why") and not steering.get("ce_backend"):
                    raise Unavailable(f"no CE marks: {steering['ce_why']}")
            details |= lateness.checked(lab.stats(), HONEST_US)
        return Measurement({GOODPUT.name: result.bytes * 8e-6 / result.seconds, SETTLED.name: result.goodput_from(SETTLE), USED.name: used(result)}, details)

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        singles = (BY_BEST,) if case.parameters["cell"].number == 3 else (BY_AP1, BY_AP2)
        if any(arm.name not in values for arm in singles):
            return {}
        return {OPTIMUM.name: {metric.name: max(values[arm.name][metric.name] for arm in singles) for metric in (GOODPUT, SETTLED)}}

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        """Shares of the optimum, paired by round: of each cell of figure 6c, over the cells of a scenario and over all."""
        made = [shares_row(case, runs) for case in cases if case.parameters["cell"].number == 3]
        groups = {ALL_CELLS: list(cases)} | {f"scenario {number}, of the optimum": members for number, members in by_scenario(cases).items()}
        return made + [pooled_row(title, members, runs) for title, members in groups.items() if members and (title == ALL_CELLS or len(members) < len(cases))]

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        titles = {1: "scenario 1: AP1 wastes the air", 2: "scenario 2: AP2's uplink is shared", 3: "scenario 3: 2, 4 and 8 access points, all but one waste the air"}
        return ecn_linux_pictures.draw(self, {titles[number]: {arm: [share[0] for share in found.values()] for arm, found in shares_of(members, runs).items()}
                                              for number, members in by_scenario(cases).items()}, directory)


def case_of(cell: Cell, arms: Sequence[Arm], rounds: int) -> Case:
    if cell.number == 3:
        return Case(cell.name, tuple(arms), (GOODPUT, SETTLED, USED), rounds, (Goal(TANDEM.name, "<=", 4, metric=USED.name, text="at most 4 used"),), "", {"cell": cell})
    return Case(cell.name, tuple(arms), (GOODPUT, SETTLED), rounds, (), "marking backfires", {"cell": cell})


def by_scenario(cases: Sequence[Case]) -> dict[int, list[Case]]:
    found: dict[int, list[Case]] = {}
    for case in cases:
        found.setdefault(case.parameters["cell"].number, []).append(case)
    return found


def shares_row(case: Case, runs: Sequence[Run]) -> tuple[Case, list[Run]]:
    """A cell's shares of the optimum, for the table."""
    title = f"{case.name}, of the optimum"
    shares = shares_of([case], runs)
    arms = tuple(arm for arm in case.arms if arm.name in shares)
    made = [Run(title, arm.name, seed, place, 0.0, {SHARE.name: whole, SETTLED_SHARE.name: settled}, {"derived": True})
            for place, arm in enumerate(arms) for (_, seed), (whole, settled) in sorted(shares[arm.name].items())]
    return Case(title, arms, (SHARE, SETTLED_SHARE), case.seeds, (), "", {"pooled": True}), made


def pooled_row(title: str, members: Sequence[Case], runs: Sequence[Run]) -> tuple[Case, list[Run]]:
    """Figures over cells, of the arms that all of them have."""
    shares = shares_of(members, runs)
    arms = tuple(arm for arm in members[0].arms if arm.name in shares and all(arm in case.arms for case in members))
    pooled: list[Run] = []
    names = {case.name for case in members}
    for place, arm in enumerate(arms):
        failed = {run.seed for run in runs if run.case in names and run.arm == arm.name and run.error is not None}
        pooled += [Run(title, arm.name, seed, place, 0.0, {}, {"derived": True}, "failed in one of the cells, so that its mean is of others") for seed in sorted(failed)]
        for seed in sorted({seed for _, seed in shares[arm.name]} - failed):
            whole = [share[0] for (_, own), share in shares[arm.name].items() if own == seed]
            settled = [share[1] for (_, own), share in shares[arm.name].items() if own == seed]
            pooled.append(Run(title, arm.name, seed, place, 0.0, {
                MEAN.name: statistics.fmean(whole), SETTLED_MEAN.name: statistics.fmean(settled), MEDIAN.name: statistics.median(whole),
                WORST.name: min(share[0] for share in shares[arm.name].values())}, {"derived": True}))
    judged = title == ALL_CELLS or members[0].parameters["cell"].number == 3
    goals = (Goal(TANDEM.name, ">=", 90, metric=MEAN.name, text="at least 90 % of the optimum on average"),) if TANDEM in arms and judged else ()
    published = "" if members[0].parameters["cell"].number == 3 else "marking backfires"
    return Case(title, arms, (MEAN, SETTLED_MEAN, MEDIAN, WORST), members[0].seeds, goals, published, {"pooled": True}), pooled


def shares_of(cases: Sequence[Case], runs: Sequence[Run]) -> dict[str, dict[tuple[str, int], tuple[float, float]]]:
    """Arm -> (case, seed) -> per cent of that round's optimum, whole and settled."""
    names = {case.name for case in cases}
    optimum = {(run.case, run.seed): run.values for run in runs if run.arm == OPTIMUM.name and run.error is None and run.case in names}
    shares: dict[str, dict[tuple[str, int], tuple[float, float]]] = {}
    for run in runs:
        best = optimum.get((run.case, run.seed))
        if run.error is None and best and min(best.values()) > 0:
            shares.setdefault(run.arm, {})[run.case, run.seed] = (100 * run.values[GOODPUT.name] / best[GOODPUT.name], 100 * run.values[SETTLED.name] / best[SETTLED.name])
    return shares


def used(result: DownloadResult) -> float:
    """Interfaces, and so access points, that carry something once the module has settled."""
    return float(sum(share > CARRIES for share in result.shares(SETTLE).values()))


def details_of(result: DownloadResult, cell: Cell) -> dict[str, Any]:
    by_interface = {name: 100 * share for name, share in result.shares(SETTLE).items()}
    many = {"settled_best_percent": by_interface.get(cell.interfaces[-1], 0.0), "settled_percent": by_interface} if cell.number == 3 else {}
    return many | {"ap1_percent": 100 * result.shares().get("wlan0", 0.0), "settled_ap1_percent": by_interface.get("wlan0", 0.0),
            "series_mbps": [round(rate, 2) for rate in result.rates(1.0)], "longest_gap_s": result.longest_gap()}


def addresses_of(lab: Lab, interfaces: Sequence[str] = ()) -> list[str]:
    """The client's by these Wi-Fi interfaces (none said: all)."""
    return [lab.info["interfaces"][name]["ipv4"] for name in interfaces or lab.info["interfaces"]]


def mark_by_hand(lab: Lab, interface: str, share: float) -> None:
    """A rule like the daemon's: CE on this share of the ECN-capable packets that come by this interface."""
    done = lab.client.run(["nft", "-f", "-"], check=False, input=f"""table inet by_hand {{
  counter marked {{ }}
  chain in {{
    type filter hook prerouting priority mangle;
    iifname "{interface}" ip ecn ect0 meta l4proto tcp numgen random mod 10000 < {round(share * 10000)} counter name marked ip ecn set ce
  }}
}}
""")
    if done.returncode != 0:
        raise Unavailable(f"this kernel's nftables cannot mark: {done.stderr.strip().splitlines()[0]}")


def marked_by_hand(lab: Lab) -> int:
    words = lab.client.run(["nft", "list", "counter", "inet", "by_hand", "marked"]).stdout.split()
    return int(words[words.index("packets") + 1])


BENCH = EcnLinux()
