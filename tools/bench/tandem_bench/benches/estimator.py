"""The access-point estimator (Croitoru et al., NSDI 2015, section 5.1) against what a sniffer beside the access point counts, and what it costs."""

from __future__ import annotations

import json
import statistics
import subprocess
import time
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.errors import LabError

from .. import estimator_pictures, helpers
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run

NUMBERS = Arm("by numbers", "plain")
WHOLE, DAMAGED = Arm("whole frames", "published"), Arm("with damaged frames", "tandem")
QUIET, SOCKET, MONITOR = Arm("no frames"), Arm("lab source"), Arm("monitor source")
BY_SOCKET, BY_MONITOR = Arm("added, lab source", "lab source"), Arm("added, monitor source", "monitor source")
ADDED = ((SOCKET, BY_SOCKET), (MONITOR, BY_MONITOR))
TAP = "frames0"
KEYS = {NUMBERS.name: "naive", WHOLE.name: "published", DAMAGED.name: "tandem"}

ERROR = Metric("mean error", "points")
FIRST = Metric("mean error against first attempts", "points")
HIDDEN = Metric("windows reported as hidden", "%", 1)
CONFIDENCE = Metric("mean confidence", "", 2)
PACKET = Metric("packet time, error", "%", 1)
MEMORY = Metric("memory of the windows", "bytes", 0)
NANOSECONDS = Metric("time for a frame", "ns", 0)
SHARE = Metric("share of a core at 5,000 frames a second", "%", 3)
DAEMON = Metric("CPU of the daemon", "% of a core", 2)

WARM_UP = 1.0  # s; the first windows are of an access point that was not known
LIVE_RATE = 5000


@dataclass(frozen=True)
class Air:
    """What the program is asked for."""

    scenario: str
    more: tuple[str, ...] = ()
    seconds: int = 120
    quick_seconds: int = 60

    def argv(self, quick: bool, seed: int) -> list[str]:
        return [helpers.program("tandem-bench-estimator"), "--scenario", self.scenario, "--seed", str(seed),
                "--seconds", str(self.quick_seconds if quick else self.seconds), *self.more]


def accurate(*metrics: Metric) -> tuple[Goal, ...]:
    return tuple(Goal(arm.name, "<=", 2.0, metric=metric.name, text=f"{arm.name}: mean error <= 2 points") for metric in metrics for arm in (WHOLE, DAMAGED))


def silent() -> tuple[Goal, ...]:
    """No hidden terminal where there is none."""
    return tuple(Goal(arm.name, "<=", 1.0, metric=HIDDEN.name, text=f"{arm.name}: at most 1 % reported") for arm in (WHOLE, DAMAGED))


def reported() -> tuple[Goal, ...]:
    return tuple(Goal(arm.name, ">=", 90.0, metric=HIDDEN.name, text=f"{arm.name}: at least 90 % reported") for arm in (WHOLE, DAMAGED))


class Estimator(Bench):
    name = "estimator"
    needs_real_time = "CPU"
    summary = "estimated delivery probability and packet time against a sniffer at the access point; what the estimator costs"
    columns = ("plain", "published", "tandem", "lab source", "monitor source")
    headings = {"plain": "by numbers", "published": "whole frames (equation 2)", "tandem": "with damaged frames"}
    detail_columns = (("truth", "delivered, truth"), ("estimate", "estimate"), ("bias", "bias, points"), ("p95", "95 % of errors below, points"),
                      ("truth_packet_us", "packet time, truth, us"), ("packet_us", "estimate, us"), ("confidence", "confidence"), ("memory", "memory, bytes"), ("frames_per_s", "frames taken in per s"),
                      ("heap", "heap, bytes"))
    notes = (
        "The air is the lab's, in virtual time; the estimator gets the frames that a monitor at the client captures, as radiotap records, in windows of 0.5 s. "
        "The truth is what a sniffer beside the access point counts in the same window: attempts that arrived / attempts. \"First attempts\" is the same of first attempts "
        "only, which is what equation 2 estimates; with rate control, whose later attempts are slower, and with a hidden terminal the two differ.",
        "\"by numbers\": frames received / sequence numbers, which cannot see attempts. \"whole frames\": equation 2, from retry bits and numbers. \"with damaged frames\": the radio "
        "passes on 90 % of the frames with a bad FCS, too, with intact headers; how many real ones pass on depends on the driver.",
        "Packet time is compared with a saturated downlink of 1500-byte packets without any other station or beacon: time / packets delivered, means over the run.",
        "CPU of the daemon: tandemd on an idle lab, with and without frames; the difference is \"added\". They come on the lab's socket, or through libpcap from a TAP "
        "interface of link type radiotap.")

    def cases(self, quick: bool) -> list[Case]:
        rounds = 3 if quick else 10
        arms = (NUMBERS, WHOLE, DAMAGED)

        def case(title: str, air: Air, metrics: tuple[Metric, ...], goals: tuple[Goal, ...] = (), published: str = "") -> Case:
            return Case(title, arms, metrics, rounds, goals, published, {"air": air})

        step = Air("step", seconds=240, quick_seconds=240)
        plain = (ERROR, FIRST, HIDDEN)
        cases = [
            case("802.11a, 54 Mb/s", Air("fixed"), plain, accurate(ERROR) + silent(), "under 5 %"),
            case("802.11a, 54 Mb/s, power step at 2 min", step, plain, accurate(ERROR) + silent(), "around 3 %"),
            *(case(f"802.11{letter}, rate control", Air(f"rates-{letter}"), plain, accurate(ERROR) + silent(), "no discernible difference") for letter in "agn"),
            case("sparse contention in carrier sense", Air("contention"), plain, accurate(ERROR) + silent(), "under 5 %"),
            case("802.11n, A-MPDU of 16", Air("aggregates"), plain, accurate(ERROR) + silent()),
            case("hidden terminal, sparse", Air("hidden-sparse"), (HIDDEN, ERROR, FIRST), reported(), "overestimates by around 10 %"),
            case("hidden terminal, heavy", Air("hidden-heavy"), (HIDDEN, ERROR, FIRST), reported(), "unreliable"),
            case("download with acknowledgements", Air("download"), plain, accurate(ERROR) + silent()),
            case("another station at the same access point", Air("shared"), plain, accurate(ERROR) + silent()),
            *(case(f"access point that gives up after {attempts} attempts", Air("fixed", ("--attempts", str(attempts), "--no-beacons")), (*plain, PACKET),
                   accurate(ERROR) + silent()) for attempts in (4, 10)),
            case("20 packets a second", Air("slow"), (CONFIDENCE, ERROR),
                 tuple(Goal(arm.name, "<=", 0.2, metric=CONFIDENCE.name, text=f"{arm.name}: confidence <= 0.2") for arm in (WHOLE, DAMAGED))),
            case("signal wanders by 1 dB at 54 Mb/s", Air("fading"), plain),
        ]
        for letter, mbps, aggregate in (("b", 11, 1), ("g", 54, 1), ("a", 54, 1), ("a", 6, 1), ("n", 65, 1), ("n", 65, 16)):
            for delivery in (0.999, 0.7, 0.4):
                title = f"packet time, 802.11{letter}, {mbps} Mb/s{', A-MPDU of 16' if aggregate > 1 else ''}, {min(delivery * 100, 99.9):.3g} % delivered"
                more = ("--standard", letter, "--mbps", str(mbps), "--aggregate", str(aggregate), "--delivery", str(delivery), "--no-beacons")
                cases.append(case(title, Air("fixed", more, 60, 30), (PACKET,)))
        cases.append(Case("time and memory, 54 Mb/s without loss", (DAMAGED,), (SHARE, NANOSECONDS, MEMORY), rounds,
                          (Goal(DAMAGED.name, "<=", 2.0, metric=SHARE.name, text="at most 2 % of a core"),
                           Goal(DAMAGED.name, "<=", 10 * 1024, metric=MEMORY.name, text="at most 10 KiB a channel")), "10 KB", {"cost": True}))
        cases.append(Case("daemon that reads 5,000 frames a second", (QUIET, SOCKET, MONITOR, BY_SOCKET, BY_MONITOR), (DAEMON,), 2 if quick else 6,
                          tuple(Goal(arm.name, "<=", 2.0, text=f"{arm.name}: at most 2 % of a core") for _, arm in ADDED), "",
                          {"live": 6 if quick else 20}))
        return cases

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["live"] + 3.0 if "live" in case.parameters else 0.3

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm not in (BY_SOCKET, BY_MONITOR)]

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[Any]:
        if "live" in case.parameters:
            with Lab("plain", prefix=options.prefix, seed=seed, air=False, counters=False) as lab:
                yield lab
        elif "cost" in case.parameters:
            yield None
        else:
            # One run of the air serves all arms: they get the very same frames.
            yield windows(case.parameters["air"].argv(options.quick, seed))

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        if "live" in case.parameters:
            return self._live(session, case, arm, seed, options)
        if "cost" in case.parameters:
            return self._cost(seed)
        return compared(session, KEYS[arm.name], {metric.name for metric in case.metrics})

    @staticmethod
    def _cost(seed: int) -> Measurement:
        argv = [helpers.program("tandem-bench-estimator"), "--seed", str(seed), "--seconds", "60", "--delivery", "0.999", "--cost", "5"]
        found = json.loads(output(argv))
        nanoseconds = statistics.median(found["ns_per_frame"])
        return Measurement({NANOSECONDS.name: nanoseconds, SHARE.name: nanoseconds * 1e-9 * LIVE_RATE * 100, MEMORY.name: found["memory"]}, found)

    def _live(self, lab: Lab, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        seconds: int = case.parameters["live"]
        socket = Path(lab.directory) / "offered.sock"
        # A source is configured in all arms; one arm has nobody who offers frames there.
        config = {"links": {"radio": f"monitor:{TAP}" if arm == MONITOR else f"lab:{socket}"}, "detector": {"watch": "always"}}
        address = json.loads(lab.client.run(["ip", "-j", "link", "show", "wlan0"]).stdout)[0]["address"]
        place = ["--tap", TAP] if arm == MONITOR else ["--serve", str(socket)]
        argv = [helpers.program("tandem-bench-estimator"), *place, "--rate", str(LIVE_RATE), "--own", address, "--seconds", "20", "--seed", str(seed)]
        socket.unlink(missing_ok=True)
        if arm == QUIET:
            return self._watched(lab, config, seconds, options, f"{case.name}-{arm.name}-{seed}")
        with helpers.serving(lab.client, argv):
            result = self._watched(lab, config, seconds, options, f"{case.name}-{arm.name}-{seed}")
        # Frames that nobody reads cost nothing: the figure counts only if they were taken in.
        if result.details["frames_per_s"] < 0.95 * LIVE_RATE:
            raise LabError(f"the daemon took in {result.details['frames_per_s']:.0f} frames a second of {LIVE_RATE}")
        return result

    @staticmethod
    def _watched(lab: Lab, config: Mapping[str, Any], seconds: int, options: Options, label: str) -> Measurement:
        with helpers.tandem(lab, options, [], config, label) as daemon:
            time.sleep(2.0)  # it has started, connected, and learned the access point
            frames, used, began = taken_in(daemon.api("/v1/links")), run_seconds(daemon.pid), time.monotonic()
            time.sleep(seconds)
            used, passed = run_seconds(daemon.pid) - used, time.monotonic() - began
            links = daemon.api("/v1/links")
        return Measurement({DAEMON.name: 100 * used / passed}, {"links": links, "frames_per_s": (taken_in(links) - frames) / passed})

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        if QUIET.name not in values:
            return {}
        return {added.name: {DAEMON.name: values[arm.name][DAEMON.name] - values[QUIET.name][DAEMON.name]} for arm, added in ADDED if arm.name in values}

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        return estimator_pictures.draw(self, cases, runs, directory)


def taken_in(links: Any) -> int:
    """Frames that the daemon's source has reported so far."""
    return sum(source["reports"] for source in links["wifi"]["sources"] if source["name"].startswith(("lab:", "monitor:")))


def run_seconds(pid: int) -> float:
    """CPU time of a process so far, all living threads: in nanoseconds, where /proc/PID/stat counts ticks of 10 ms."""
    return sum(int((task / "schedstat").read_text().split()[0]) for task in Path(f"/proc/{pid}/task").iterdir()) * 1e-9


def output(argv: Sequence[str]) -> str:
    done = subprocess.run(argv, capture_output=True, text=True, timeout=600)
    if done.returncode != 0:
        raise LabError(f"{Path(argv[0]).name}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return done.stdout


def windows(argv: Sequence[str]) -> list[dict[str, Any]]:
    """What the program says of each half second, without the first ones."""
    return [line for line in map(json.loads, output(argv).splitlines()) if line["t"] > WARM_UP]


def delivery_of(window: Mapping[str, Any], key: str) -> float | None:
    return window["naive"] if key == "naive" else window[key].get("delivery")


def compared(lines: Sequence[Mapping[str, Any]], key: str, wanted: set[str]) -> Measurement:
    """Values and details of one way to estimate, over all windows in which it and the sniffer know anything."""
    pairs = [(line["t"], delivery_of(line, key), line["truth"]["delivery"], line["truth"]["first"]) for line in lines]
    known = [(at, found, truth, first) for at, found, truth, first in pairs if found is not None and truth is not None]
    if not known:
        raise LabError("no window in which both the estimator and the sniffer know anything")
    errors = [100 * (found - truth) for _, found, truth, _ in known]
    ordered = sorted(map(abs, errors))
    details: dict[str, Any] = {
        "truth": statistics.mean(truth for _, _, truth, _ in known), "estimate": statistics.mean(found for _, found, _, _ in known),
        "bias": statistics.mean(errors), "p95": ordered[int(0.95 * (len(ordered) - 1))], "windows": len(lines), "windows_known": len(known),
        "series": [[at, round(found, 4), round(truth, 4)] for at, found, truth, _ in known]}
    values = {ERROR.name: statistics.mean(map(abs, errors))}
    if firsts := [abs(100 * (found - first)) for _, found, _, first in known if first is not None]:
        values[FIRST.name] = statistics.mean(firsts)
    if key != "naive":
        values[HIDDEN.name] = 100 * statistics.mean(bool(line[key].get("hidden")) for line in lines)
        values[CONFIDENCE.name] = details["confidence"] = statistics.mean(line[key].get("confidence", 0.0) for line in lines)
        details["memory"] = max(line[key].get("memory", 0) for line in lines)
        both = [(line[key]["packet_us"], line["truth"]["packet_us"]) for line in lines if line[key].get("packet_us") and line["truth"]["packet_us"]]
        if both and PACKET.name in wanted:
            # Deliveries of a window are few on slow PHYs: means of whole runs are compared. The truth's is time / packets.
            found_us, truth_us = statistics.mean(found for found, _ in both), len(both) / sum(1 / truth for _, truth in both)
            details |= {"packet_us": found_us, "truth_packet_us": truth_us}
            values[PACKET.name] = 100 * abs(found_us / truth_us - 1)
    return Measurement({name: value for name, value in values.items() if name in wanted}, details)


BENCH = Estimator()
