"""How soon blackouts and their ends are noticed on real traffic, and that harmless silence raises no alarm."""

from __future__ import annotations

import random
import statistics
import time
from dataclasses import dataclass
from typing import Any, Mapping, Sequence

from tandem_lab import Lab
from tandem_lab.api import PYTHON, Daemon
from tandem_lab.errors import LabError

from .. import helpers, lateness
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options

SILENCE, RADIO = Arm("without radio", "without radio"), Arm("with radio", "with radio")
ARMS = (SILENCE, RADIO)
DOWN, DOWN_WORST = Metric("verdict, median", "ms", 1), Metric("verdict, worst", "ms", 1, "down_ms", "maximum")
UP, UP_WORST = Metric("link-up, median", "ms", 1), Metric("link-up, worst", "ms", 1, "up_ms", "maximum")
MISSED = Metric("blackouts missed", "", 0, "missed_each", "sum")  # in all rounds: in the median one could go unseen
ALARMS = Metric("verdicts outside blackouts", "", 0, "alarms_each", "sum")
PROBES = Metric("probes a second", "", 2)

# What a server or an application does that looks like a blackout to who only counts packets.
HARMLESS = {
    "idle": "nothing is transferred",
    "app-limited": "the application reads 300 kB/s",
    "bursts": "the server sends 100 kB every 0.3 to 1.5 s",
    "slow server": "the server sends 20 kB/s in pieces of 2 kB",
    "short requests": "100 kB requests with pauses of 0.2 to 1 s",
}
_SERVER = r"""
import random, socket, sys, time
random.seed(int(sys.argv[2]))
listener = socket.create_server(("", 8099))
print("ready", flush=True)
connection = listener.accept()[0]
pieces = {"bursts": lambda: (100_000, random.uniform(0.3, 1.5)), "slow server": lambda: (2_000, 0.1)}[sys.argv[1]]
try:
    while True:
        size, pause = pieces()
        connection.sendall(bytes(size))
        time.sleep(pause)
except OSError:
    pass
"""
# Takes what comes until the time is over, and fails when nothing comes any more.
_TAKES = r"""
import socket, sys, time
s = socket.create_connection((sys.argv[1], 8099))
end = time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    if not s.recv(1 << 16):
        sys.exit("the server closed the connection early")
"""
_CURL_TIME_IS_OVER = 28  # exit code, curl(1)


@dataclass(frozen=True)
class Blackouts:
    """Blackouts of one kind during a bulk download."""

    mode: str
    count: int

    def schedule(self, seed: int) -> list[tuple[float, float]]:
        """(start, length) in seconds; drawn, so that no timer of anybody's keeps step with them."""
        chance = random.Random(f"{seed} {self.mode}")
        found, at = [], 3.0
        for _ in range(self.count):
            at += chance.uniform(0.0, 0.25)
            length = chance.uniform(0.5, 0.9)
            found.append((round(at, 3), round(length, 3)))
            at += length + 2.6
        return found

    def seconds(self, seed: int) -> float:
        start, length = self.schedule(seed)[-1]
        return start + length + 1.0


def scenario(schedule: list[tuple[float, float]], mode: str) -> str:
    """Air, a server 20 ms away, and the blackouts, as TOML."""
    text = ('[scenario]\nname = "bench-detection"\nduration = "600s"\n[wifi]\nprofile = "wifi-g"\n[cell]\nprofile = "lte"\n'
            '[wan]\ndelay = "10ms"\n[[server]]\nname = "srv1"\ncongestion = "cubic"\n')
    for start, length in schedule:
        text += (f'[[timeline]]\nat = "{start * 1e3:.0f}ms"\nfor = "{length * 1e3:.0f}ms"\nwhat = "blackout"\nmode = "{mode}"\n'
                 'carrier = "up"\n')
    return text


class Detection(Bench):
    name = "detection"
    summary = "time from a blackout to the verdict and from link-up to its detection, and false alarms of harmless silence"
    columns = (SILENCE.column, RADIO.column)
    detail_columns = (("false_alarms", "false alarms counted"), ("suspicions", "suspicions"), ("probes_sent", "probes"),
                      ("release_error_p99_us", "emulator p99 error, us"))
    notes = (
        "wifi-g, a server 20 ms away, one cubic download; blackouts of 0.5 to 0.9 s, drawn from the seed, each behind at least 2.6 s of link, the carrier "
        "stays up. No module is on: after link-up the download waits for the server's retransmission, and only probes can tell that the link is back.",
        "A delay is the daemon's moment of the verdict (or of link-up) less the emulator's moment of the event, both CLOCK_MONOTONIC of one machine.",
        "drop: both ends discard; buffer: both hold what their queues take; fade: frames are sent and retried, nobody hears them.",
        "Harmless silence: " + "; ".join(f"{name}: {what}" for name, what in HARMLESS.items()) + ".",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        count = 4 if quick else 24
        goals = (Goal(SILENCE.name, "<=", 300, metric=DOWN_WORST.name, text="verdict within 300 ms without radio, also the worst"),
                 Goal(RADIO.name, "<=", 60, metric=DOWN_WORST.name, text="verdict within 60 ms with radio, also the worst"),
                 *(Goal(arm.name, "<=", 0, metric=metric.name) for arm in ARMS for metric in (MISSED, ALARMS)))
        all_cases = [Case(mode, ARMS, (DOWN, DOWN_WORST, UP, UP_WORST, MISSED, ALARMS), 1, goals, parameters={"blackouts": Blackouts(mode, count)})
                     for mode in ("drop", "buffer", "fade")]
        quiet = tuple(Goal(arm.name, "<=", 0, metric=ALARMS.name) for arm in ARMS)
        return all_cases + [Case(what, ARMS, (ALARMS, PROBES), 1, quiet, parameters={"harmless": what, "seconds": 5.0 if quick else 20.0})
                            for what in HARMLESS]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        if "blackouts" in case.parameters:
            return case.parameters["blackouts"].seconds(1) + 3.0
        return case.parameters["seconds"] + 3.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        blackouts: Blackouts | None = case.parameters.get("blackouts")
        schedule = blackouts.schedule(seed) if blackouts else []
        with Lab(scenario(schedule, case.name), seed=seed, prefix=options.prefix, counters=False) as lab:
            config: dict[str, Any] = {"detector": {"watch": "always"}}
            if arm is RADIO or arm.name == RADIO.name:
                config["links"] = {"radio": f"lab:{lab.directory / 'frames.sock'}"}
            with helpers.tandem(lab, options, (), config, f"{case.name}-{arm.name}-{seed}") as daemon:
                if blackouts:
                    values, details = self._blackouts(lab, daemon, blackouts.seconds(seed))
                else:
                    values, details = self._harmless(lab, daemon, case.parameters["harmless"], case.parameters["seconds"], seed)
                state = status(daemon)
            late = lateness.checked(lab.stats())
        details |= {key: state[key] for key in ("false_alarms", "suspicions", "cleared_by_probe", "probes_sent", "verdicts", "probe_rtt_ms")}
        details |= {metric.samples: [values[metric.name]] for metric in (MISSED, ALARMS) if metric.name in values}
        details |= late
        return Measurement(values, details)

    @staticmethod
    def _blackouts(lab: Lab, daemon: Daemon, seconds: float) -> tuple[Mapping[str, float], dict[str, Any]]:
        lab.start_timeline()
        begin = time.monotonic()
        download = lab.start_download(seconds=seconds + 1.0, interval=0.5)
        downs: set[int] = set()
        ups: set[int] = set()
        try:
            while time.monotonic() < begin + seconds:
                state = status(daemon)
                downs.add(state["last_verdict_at_ns"])
                ups.add(state["last_up_at_ns"])
                download.progress(0.15)
            over = time.monotonic_ns()
        finally:
            download.stop()
        downs.discard(0)
        ups.discard(0)
        took_place = spans(lab.events())
        if not took_place:
            raise LabError("no blackout took place")
        down_ms, up_ms, missed, inside = delays(took_place, downs, ups, over)
        if not down_ms:
            raise LabError(f"none of {len(took_place)} blackouts was noticed")
        values = {DOWN.name: statistics.median(down_ms), DOWN_WORST.name: max(down_ms), UP.name: statistics.median(up_ms), UP_WORST.name: max(up_ms),
                  MISSED.name: missed, ALARMS.name: len(downs - inside)}
        return values, {"down_ms": [round(one, 2) for one in down_ms], "up_ms": [round(one, 2) for one in up_ms], "blackouts": len(took_place)}

    @staticmethod
    def _harmless(lab: Lab, daemon: Daemon, what: str, seconds: float, seed: int) -> tuple[Mapping[str, float], dict[str, Any]]:
        before = status(daemon)["probes_sent"]
        place = lab.server().ipv4
        if what in ("bursts", "slow server"):
            with helpers.serving(lab.server(), [PYTHON, "-c", _SERVER, what, str(seed)]):
                lab.client.run([PYTHON, "-c", _TAKES, place, str(seconds)], timeout=seconds + 20)
        elif what == "app-limited":
            done = lab.client.run(["curl", "-sS", "--fail", "-o", "/dev/null", "--limit-rate", "300k", "--max-time", str(int(seconds)), f"http://{place}/100M"],
                                  check=False, timeout=seconds + 20)
            if done.returncode != _CURL_TIME_IS_OVER:  # no alarm without traffic says nothing
                raise LabError(f"the download did not last {seconds:g} s: curl ended with {done.returncode}: {done.stderr.strip()}")
        elif what == "short requests":
            chance = random.Random(seed)
            end = time.monotonic() + seconds
            while time.monotonic() < end:
                lab.client.run(["curl", "-sS", "--fail", "-o", "/dev/null", f"http://{place}/100k"], timeout=30)
                time.sleep(chance.uniform(0.2, 1.0))
        else:
            time.sleep(seconds)
        state = status(daemon)
        return {ALARMS.name: sum(state["verdicts"].values()), PROBES.name: (state["probes_sent"] - before) / seconds}, {}


def delays(took_place: Sequence[tuple[int, int]], downs: set[int], ups: set[int], over: int) -> tuple[list[float], list[float], int, set[int]]:
    """From the blackouts' (begin, end), the daemon's verdicts and link-ups, and when the run was over, all in ns: delays of the verdicts and of the link-ups in ms, how
    many blackouts had no verdict, and which verdicts were of blackouts. A link-up that nobody noticed counts as long as the run looked for it: in truth it is longer."""
    down_ms, up_ms, missed = [], [], 0
    inside: set[int] = set()
    for start, end in took_place:
        own = {at for at in downs if start <= at <= end}
        if not own:
            missed += 1
            continue
        inside |= own
        down_ms.append((min(own) - start) * 1e-6)
        up_ms.append((min((at for at in ups if at >= end), default=max(over, end)) - end) * 1e-6)
    return down_ms, up_ms, missed, inside


def status(daemon: Daemon) -> dict[str, Any]:
    """What the daemon says of blackouts."""
    return daemon.api("/v1/status")["links"]["wifi"]["blackout"]


def spans(events: list[dict[str, Any]]) -> list[tuple[int, int]]:
    """(begin, end) of the blackouts that took place, ns of CLOCK_MONOTONIC."""
    found, begin = [], 0
    for event in events:
        if event.get("event") == "blackout":
            if event["phase"] == "begin":
                begin = event["at_ns"]
            elif begin:
                found.append((begin, event["at_ns"]))
                begin = 0
    return found


BENCH = Detection()
