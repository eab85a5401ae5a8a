"""Blackouts: how soon data flows after link-up, and how much of the link is used then, without Tandem, as published, and by each strategy."""

from __future__ import annotations

import random
import statistics
import threading
import time
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.air import AirControl
from tandem_lab.api import Daemon
from tandem_lab.errors import BadInput, LabError

from .. import blackouts, capture, freeze_pictures, helpers, lateness
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run, Unavailable

PLAIN, AGAIN = Arm("plain", "plain"), Arm("plain again")
PUBLISHED = Arm("zero-window", "published")
RESUME, PACED, LCD, PROACTIVE = (Arm(name, name) for name in ("resume ACKs", "paced release", "lcd", "proactive"))
TANDEM, ORACLE = Arm("tandem", "tandem"), Arm("oracle", "limit")

# The strategy of each arm; arms that are not here run without the daemon.
STRATEGY: Mapping[str, str] = {
    PUBLISHED.name: "zero_window", RESUME.name: "resume_acks", PACED.name: "paced_release", LCD.name: "lcd", PROACTIVE.name: "proactive",
    TANDEM.name: "auto", ORACLE.name: "auto",
}
ALL = (PLAIN, AGAIN, PUBLISHED, RESUME, PACED, LCD, PROACTIVE, TANDEM, ORACLE)

GOODPUT = Metric("goodput", "Mb/s")
FIRST = Metric("first data, median / (1.2 RTT + 10 ms)", "", 2, "first_sample", "median")
LATE = Metric("first data, p95 / (2 RTT + 50 ms)", "", 2, "late_sample", "p95")
SHARE = Metric("share of capacity in 3 s", "", 3, "share_sample", "mean")
METRICS = (GOODPUT, FIRST, LATE, SHARE)
GOALS = (
    Goal("tandem", ">=", 1.0, over="plain", noise="plain again"),
    Goal("tandem", "<=", 1.0, metric=FIRST.name, text="first data <= 1.2 RTT + 10 ms in the median"),
    Goal("tandem", "<=", 1.0, metric=LATE.name, text="first data <= 2 RTT + 50 ms at p95"),
    Goal("tandem", ">=", 0.92, metric=SHARE.name, text="tandem >= 0.92 of link-up capacity"))
PAPER = "+35 %"

SHORT = (0.3, 0.7, 1.0, 1.6, 2.0, 3.1, 5.0)
LONG = (*SHORT, 15.0)
LINK_MBPS = 24.0  # what a download gets on wifi-g, for the size of a window that just fills the path
MSS = 1448


@dataclass(frozen=True)
class Cell:
    """One cell of the table."""

    rtt_ms: int
    congestion: str
    mode: str = "drop"  # what the access point does with what arrives for the client: drop, buffer
    window: str = "queue"  # "queue": the flow fills the access point's queue; "rwnd": the client's window is the path's BDP
    flows: int = 1
    detection: str = "carrier"  # how the daemon learns: "carrier" falls, "radio" events, or "silence" of the flows
    cell: str = "lte"  # second link: "lte", "none", "filtered", "nat"
    durations: tuple[float, ...] = SHORT
    gap: float = 5.0  # seconds of link between blackouts
    warmup: float = 4.0
    shuffled: bool = True
    known: bool = False  # a download before has found that the access point keeps frames

    @property
    def rtt(self) -> float:
        return self.rtt_ms / 1e3

    @property
    def name(self) -> str:
        return (f"{self.rtt_ms} ms {self.congestion}, {self.mode}, {self.window}, {self.flows} flow{'s' if self.flows > 1 else ''}, {self.detection}"
                + ("" if self.cell == "lte" else f", cellular {self.cell}") + (", access point known" if self.known else ""))

    def schedule(self, seed: int) -> list[tuple[float, float]]:
        """(start, duration) of each blackout, in seconds since the timeline's start."""
        lengths = list(self.durations)
        if self.shuffled:
            random.Random(seed).shuffle(lengths)
        found: list[tuple[float, float]] = []
        at = self.warmup
        for length in lengths:
            # Not in step with beacons or the server's timers.
            at = round(at + (random.Random(f"{seed} {len(found)}").random() * 0.2 if self.shuffled else 0.0), 3)
            found.append((at, length))
            at += length + self.gap
        return found

    def length(self, seed: int) -> float:
        """Seconds from the timeline's start to the end of the run."""
        start, duration = self.schedule(seed)[-1]
        return start + duration + min(self.gap, 5.0)

    def scenario(self, seed: int, disturbed: bool = True) -> str:
        """The scenario as TOML text."""
        text = (f'[scenario]\nname = "bench-freeze"\nduration = "600s"\n[wifi]\nprofile = "wifi-g"\n'
                f'[cell]\nprofile = "lte"\nenabled = {str(self.cell != "none").lower()}\nsource_filter = {str(self.cell == "filtered").lower()}\n'
                f'nat = {str(self.cell == "nat").lower()}\n[wan]\ndelay = "{self.rtt_ms / 2:g}ms"\n'
                f'[[server]]\nname = "srv1"\ncongestion = "{self.congestion}"\n')
        for start, duration in self.schedule(seed) if disturbed else ():
            text += (f'[[timeline]]\nat = "{start * 1e3:.0f}ms"\nfor = "{duration * 1e3:.0f}ms"\nwhat = "blackout"\nmode = "{self.mode}"\n'
                     f'carrier = "{"down" if self.detection == "carrier" else "up"}"\n')
        return text

    def receive_buffer(self) -> int | None:
        """net.ipv4.tcp_rmem of the client for this kind of flow; None: as large as it likes."""
        if self.window == "queue":
            return None
        bdp = LINK_MBPS * 1e6 / 8 * (self.rtt + 0.002)
        return int(max(bdp / self.flows, 8 * MSS) / 0.66)  # Linux advertises about 0.66 of the buffer with full segments


def full_cells() -> list[Cell]:
    """Every RTT with every congestion control; modes, windows, flows and detection turned so that each level meets each of the others."""
    cells: list[Cell] = []
    for row, rtt in enumerate((20, 50, 100, 200)):
        for column, congestion in enumerate(("cubic", "reno", "bbr")):
            cells.append(Cell(
                rtt, congestion,
                mode=("drop", "buffer")[(row + column) % 2],
                window=("queue", "rwnd")[(row // 2 + column) % 2],
                flows=(1, 8)[(row + row // 2 + (column == 1)) % 2],
                detection=DETECTIONS[(row + (column == 2)) % 2],
                durations=LONG if (row + 2 * column) % 3 == 0 else SHORT))
    return cells


# Half of the cells with the driver's events, half by the flows' silence alone.
DETECTIONS = ("radio", "silence")
PERIODIC = "periodic 2 s every 20 s"


def _case(cell: Cell, arms: tuple[Arm, ...], seeds: int, name: str = "", goals: tuple[Goal, ...] = GOALS) -> Case:
    return Case(name or cell.name, arms, METRICS, seeds, goals, PAPER if name.startswith("periodic") else "", {"cell": cell})


class Announcer:
    """Tells the daemon what comes, as an oracle would: risk before each blackout, up at the moment of link-up."""

    def __init__(self, daemon: Daemon, schedule: Sequence[tuple[float, float]], start: float, ahead: float):
        self._events: list[tuple[float, dict[str, Any]]] = []
        for begin, duration in schedule:
            self._events.append((start + begin - ahead, {"what": "risk", "for_s": round(ahead, 3)}))
            self._events.append((start + begin, {"what": "down", "for_s": round(duration, 3)}))
            self._events.append((start + begin + duration, {"what": "up", "for_s": 1.0}))
        self._daemon = daemon
        self._over = threading.Event()
        self.late_ms: list[float] = []  # how much later than wanted the daemon had each
        self.error = ""
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def _work(self) -> None:
        for at, body in self._events:
            if self._over.wait(max(0.0, at - time.monotonic())):
                return
            try:
                self._daemon.api("/v1/links/wifi/announce", "POST", body)
            except (LabError, OSError) as error:
                self.error = f"announcing {body}: {error}"
                return
            self.late_ms.append(round(1e3 * (time.monotonic() - at), 2))

    def stop(self) -> None:
        self._over.set()
        self._thread.join(10)


class Freeze(Bench):
    name = "freeze"
    summary = "downloads over Wi-Fi that goes black: without Tandem, with a zero window as published, by each strategy, and foretold"
    parallel = True
    settings = {"rtt_ms": "round-trip time, like 50", "congestion": "cubic, reno, bbr", "mode": "drop, buffer", "window": "queue, rwnd", "flows": "1 to 64",
                "detection": "carrier, radio, silence", "cell": "lte, none, filtered, nat", "durations": "seconds of the blackouts, like 0.7,2",
                "gap": "seconds of link between blackouts",
                "known": "no, yes: a download before has found that the access point keeps frames, where it does (decision 0034)"}
    columns = ("plain", "published", "resume ACKs", "paced release", "lcd", "proactive", "tandem", "limit")
    headings = {"limit": "foretold"}
    detail_columns = (
        ("first_ms_median", "first arrival, ms"), ("fresh_ms_median", "first sent after link-up, ms"), ("slowest_ms_median", "slowest flow, ms"),
        ("server_retrans", "retransmitted"), ("server_timeouts", "timeouts"), ("longest_stall_s", "longest stall, s"),
        ("capacity_mbps", "capacity, Mb/s"), ("faults", "module faults"), ("violations", "violations"), ("release_error_p99_us", "emulator p99 error, us"))
    notes = (
        "wifi-g, LTE beside it, WAN delay half the RTT each way, nginx on an unmodified server. Cell names: RTT, congestion control, what the "
        "access point does with frames during a blackout, what limits the flow (its queue or the client's receive window of one BDP), flows, "
        "how the daemon learns of blackouts.",
        "One run is one download through blackouts of "
        f"{', '.join(f'{length:g}' for length in SHORT)} s (some cells also 15 s) in an order drawn from the seed, each with 5 s of link behind it.",
        "First data: in mode drop the first payload that arrives after link-up, in mode buffer the first that the server sent after it (by its "
        "TSval), which is allowed the time that the held-back data takes when that is longer. Where none came before the next blackout, the time until then counts.",
        "Share of capacity: new bytes in order in the 3 s after link-up over what the same download delivers in 3 s without blackouts (median "
        "window of an uninterrupted plain run of the same round); mean over all blackouts.",
        "\"foretold\": the default, told of each blackout 2 RTT (at least 0.3 s) before it and of link-up at its moment.",
        lateness.note(),
        "\"plain\" and \"plain again\" are the same arm measured twice per round: their ratio shows the resolution.")

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            arms = (PLAIN, TANDEM, ORACLE)
            brief = {"durations": (0.7, 2.0), "gap": 3.1, "warmup": 3.0}
            cells = [Cell(50, "cubic", detection=DETECTIONS[0], **brief), Cell(100, "bbr", "buffer", detection=DETECTIONS[1], **brief),
                     Cell(20, "reno", flows=8, detection=DETECTIONS[1], **brief), Cell(200, "cubic", window="rwnd", detection=DETECTIONS[0], **brief)]
            return [_case(cell, (PLAIN, PUBLISHED, TANDEM, ORACLE) if number == 0 else arms, 1,
                          goals=(Goal("tandem", ">=", 1.0, over="plain"), *GOALS[1:])) for number, cell in enumerate(cells)]
        cases = [_case(cell, ALL, 1) for cell in full_cells()]
        for number, congestion in enumerate(("cubic", "reno", "bbr")):
            cell = Cell(50, congestion, durations=(2.0, 2.0, 2.0), gap=18.0, warmup=5.0, shuffled=False, detection=DETECTIONS[number % 2])
            cases.append(_case(cell, ALL, 1, f"{PERIODIC}: {cell.name}"))
        for number, cellular in enumerate(("none", "filtered", "nat")):
            cell = Cell(50, "cubic", cell=cellular, durations=(0.7, 2.0, 3.1), detection=DETECTIONS[number % 2])
            cases.append(_case(cell, (PLAIN, AGAIN, TANDEM), 1))
        return cases

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        """Cells with some factors fixed; those that become equal are one."""
        changes: dict[str, Any] = {}
        for key, text in settings.items():
            allowed = [word.strip() for word in self.settings[key].split(",")]
            try:
                if key in ("rtt_ms", "flows"):
                    changes[key] = int(text)
                elif key == "gap":
                    changes[key] = float(text)
                elif key == "durations":
                    changes[key] = tuple(float(word) for word in text.split(","))
                elif key == "known" and text in helpers.YES_OR_NO:
                    changes[key] = helpers.YES_OR_NO[text]
                elif text in allowed:
                    changes[key] = text
                else:
                    raise ValueError
                if key not in ("congestion", "mode", "window", "detection", "cell", "known") and not all(
                        0 < number <= 1000 for number in (changes[key] if key == "durations" else [changes[key]])):
                    raise ValueError
            except ValueError:
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}") from None
        made: dict[str, Case] = {}
        for case in cases:
            cell = replace(case.parameters["cell"], **changes)
            cell = replace(cell, known=cell.known and cell.mode == "buffer")
            if {"durations", "gap"} & changes.keys():
                cell = replace(cell, shuffled=True)
            name = f"{PERIODIC}: {cell.name}" if case.name.startswith(PERIODIC) else cell.name
            made.setdefault(name, replace(case, name=name, parameters={"cell": cell}))
        return list(made.values())

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        cell: Cell = case.parameters["cell"]
        return cell.length(1) + 2.2 + (self._undisturbed(cell) + 2.0) / len(case.arms)

    @staticmethod
    def _undisturbed(cell: Cell) -> float:
        """Seconds of the download that shows the capacity."""
        return cell.warmup + (4.0 if cell.warmup < 4 else 12.0)

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[float]:
        """Capacity first: bytes in 3 s without blackouts."""
        cell: Cell = case.parameters["cell"]
        with Lab(cell.scenario(seed, disturbed=False), seed=seed, prefix=options.prefix) as lab:
            flows, began, ended = self._download(lab, cell, self._undisturbed(cell))[:3]
            delivered = blackouts.Delivered(flows)
            found = blackouts.capacity(delivered, began + cell.warmup, ended)
        if found <= 0:
            raise LabError(f"{case.name}: nothing was delivered without a blackout")
        yield found

    def measure(self, session: float, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(session, case, arm, seed, options))

    def _measure(self, session: float, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        cell: Cell = case.parameters["cell"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(cell.scenario(seed), seed=seed, prefix=options.prefix))
            daemon = None
            if arm.name in STRATEGY:
                daemon = stack.enter_context(helpers.tandem(lab, options, ["freeze"], self._config(lab, cell, arm), f"{case.name}-{arm.name}-{seed}"))
                if cell.known:
                    helpers.make_access_point_known(lab, daemon)
            earlier = len(carried_out(lab))
            before = server_counters(lab)
            flows, start, ended, late = self._download(lab, cell, cell.length(seed), daemon if arm.name == ORACLE.name else None, cell.schedule(seed))
            spent = {key: value - before[key] for key, value in server_counters(lab).items()}
            seen = carried_out(lab)[earlier:]
            if len(seen) != len(cell.schedule(seed)):
                raise LabError(f"{len(seen)} of {len(cell.schedule(seed))} blackouts took place")
            delivered = blackouts.Delivered(flows)
            records = blackouts.after(flows, delivered, seen, ended, cell.rtt, cell.mode == "buffer", session)
            details: dict[str, Any] = {
                "blackouts": records, "capacity_mbps": session * 8e-6 / blackouts.WINDOW,
                "first_sample": [_against_goal(cell, record, 1.2, 10) for record in records],
                "late_sample": [_against_goal(cell, record, 2.0, 50) for record in records],
                "share_sample": [record["share"] for record in records],
                "first_ms_median": statistics.median(record["first_ms"] for record in records),
                "fresh_ms_median": statistics.median(record["fresh_ms"] for record in records),
                "slowest_ms_median": statistics.median(record["slowest_ms"] for record in records),
                "server_retrans": spent["RetransSegs"], "server_timeouts": spent["TCPTimeouts"], "server": spent,
                "longest_stall_s": round(delivered.longest_stall(start + 1.0, ended), 3),
                "repeated_bytes": sum(flow.repeated_bytes for flow in flows),
                "schedule": cell.schedule(seed), "series_step_s": 0.1, "series_bytes": delivered.series(start, ended, 0.1),
                "announced_late_ms": late}
            details |= lateness.checked(lab.stats())
            if daemon is not None:
                details |= from_status(daemon.api("/v1/status"))
        goodput = delivered.between(start + 1.0, ended) * 8e-6 / (ended - start - 1.0)
        return Measurement({GOODPUT.name: goodput, FIRST.name: statistics.median(details["first_sample"]),
                            LATE.name: max(details["late_sample"]), SHARE.name: statistics.mean(details["share_sample"])}, details)

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return freeze_pictures.draw(self, cases, runs, directory, SHARE, PERIODIC)

    @staticmethod
    def _config(lab: Lab, cell: Cell, arm: Arm) -> dict[str, Any]:
        config: dict[str, Any] = {"modules": {"freeze": {"strategy": STRATEGY[arm.name]}}}
        if arm.name == PUBLISHED.name:
            config["modules"]["freeze"]["validate_path"] = False  # the paper takes the second path for granted
        if cell.detection == "radio":
            config["links"] = {"radio": f"lab:{lab.directory / 'frames.sock'}"}
        return config | (helpers.REMEMBERS if cell.known else {})

    @staticmethod
    def _download(lab: Lab, cell: Cell, seconds: float, foretell: Daemon | None = None,
                  schedule: Sequence[tuple[float, float]] = ()) -> tuple[list[capture.Flow], float, float, list[float]]:
        """(flows, start of the timeline, end, lateness of the announcements), times by CLOCK_MONOTONIC, also those within the flows."""
        if size := cell.receive_buffer():
            lab.client.run(["sysctl", "-qw", f"net.ipv4.tcp_rmem=4096 {size} {size}"])
        skew = clock_skew()
        announcer: Announcer | None = None
        with lab.capture("client", "wlan0", "tcp src port 80") as path:
            with AirControl(lab.directory) as control:
                start = control.ask("start")["start_ns"] * 1e-9
            download = lab.start_download(seconds=seconds + 1.0, flows=cell.flows, interval=0.5)
            try:
                if foretell is not None:
                    announcer = Announcer(foretell, schedule, start, max(0.3, 2 * cell.rtt))
                while time.monotonic() < start + seconds and download.running():
                    download.progress(0.4)
                ended = time.monotonic()
                result = download.stop()
            except BaseException:
                if download.running():
                    download.stop()
                raise
            finally:
                if announcer:
                    announcer.stop()
        if result.error:
            raise LabError(f"download: {result.error}")
        if announcer and announcer.error:
            raise Unavailable(announcer.error)
        drift = abs(clock_skew() - skew)
        if drift > 1e-3:
            raise LabError(f"the clock was set by {drift * 1e3:.1f} ms during the run; arrival times are not to be trusted")
        flows = capture.read(path)
        path.unlink()
        if not flows:
            raise LabError("the capture holds no data")
        for flow in flows:
            flow.arrivals = [(at - skew, first, last, tsval) for at, first, last, tsval in flow.arrivals]
            flow.progress = [(at - skew, total) for at, total in flow.progress]
            flow.first_arrivals = [(at - skew, length) for at, length in flow.first_arrivals]
        return flows, start, min(ended, start + seconds), announcer.late_ms if announcer else []


def _against_goal(cell: Cell, record: Mapping[str, Any], rtts: float, margin_ms: float) -> float:
    """Time to first data over what the goal allows. Fresh data cannot overtake what the access point withheld: its round trip is at least that long."""
    allowed = rtts * cell.rtt_ms
    if cell.mode == "buffer":
        allowed = max(allowed, record["held_ms"])
    return round(record["data_ms"] / (allowed + margin_ms), 4)


def clock_skew() -> float:
    """CLOCK_REALTIME minus CLOCK_MONOTONIC in seconds: captures carry the former, the emulator's events the latter."""
    best = (1 << 62, 0.0)
    for _ in range(20):
        before = time.monotonic_ns()
        wall = time.time_ns()
        after = time.monotonic_ns()
        best = min(best, (after - before, (wall - (before + after) // 2) * 1e-9))
    return best[1]


def carried_out(lab: Lab) -> list[blackouts.Blackout]:
    """The blackouts as the emulator made them, CLOCK_MONOTONIC."""
    found: list[blackouts.Blackout] = []
    begin: float | None = None
    for event in lab.events():
        if event.get("event") != "blackout":
            continue
        if event["phase"] == "begin":
            begin = event["at_ns"] * 1e-9
        elif begin is not None:
            found.append(blackouts.Blackout(begin, event["at_ns"] * 1e-9))
            begin = None
    return found


_COUNTERS = ("RetransSegs", "TCPTimeouts", "TCPSpuriousRTOs", "TCPLossUndo", "TCPFullUndo", "TCPDSACKUndo", "TCPLossProbes",
             "TCPFromZeroWindowAdv", "TCPToZeroWindowAdv", "TCPFastRetrans", "TCPSlowStartRetrans", "TCPLostRetransmit")


def server_counters(lab: Lab, name: str = "srv1") -> dict[str, int]:
    """What a server's TCP counted so far, as nstat shows it."""
    counted = lab.tcp_counters(name)
    return {key: counted.get(key, 0) for key in _COUNTERS}


def from_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """What the daemon says of itself after a run."""
    module = next((entry for entry in status["modules"] if entry["name"] == "freeze"), {})
    return {"decisions": module.get("decisions", {}), "violations": sum(_numbers(module.get("violations", {}))), "faults": module.get("faults", 0),
            "counters": module.get("counters", {}), "links": status.get("links", {}), "datapath": status.get("datapath", {}),
            "knobs": helpers.knobs(status)}


def _numbers(value: Any) -> Iterator[int]:
    if isinstance(value, Mapping):
        for part in value.values():
            yield from _numbers(part)
    elif isinstance(value, (int, float)):
        yield int(value)


BENCH = Freeze()
