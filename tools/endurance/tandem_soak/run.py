"""One endurance run: lab up, traffic and disturbances, rest, and what is left behind."""

from __future__ import annotations

import json
import random
import signal
import statistics
import subprocess
import threading
import time
from collections import Counter
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable

from tandem_lab import Lab, system
from tandem_lab.errors import LabError

from . import world
from .captures import Captures
from .crowd import Crowd
from .disturbances import Chaos
from .keep import Keeper
from .watched import MODULES, Watched

HERE = Path(__file__).resolve().parent
PATIENCE = 120.0  # s without a byte: TCP's own timeout of a retransmission grows to that
FILES = {"20k": 20_000, "300k": 300_000, "2m": 2_000_000}
# Memory that a life of the daemon may gain from the second quarter of its life to the last one: in short runs the recorder (8 MiB) still fills.
GROWTH_KIB = 8192
SLOWEST_KEPT = 5
SLOW = 60.0  # s: whole, but half way to what counts as hung; its packets are kept, too
SLOW_MOST = 10  # of those


@dataclass(frozen=True)
class Plan:
    seconds: float
    seed: int
    prefix: str
    threads: int
    plain: bool  # the same without the daemon
    mptcp: float  # share of the connections that ask for it
    strip: bool  # a middlebox before the server takes its options out
    keep_log: Path | None
    keep: Path  # directory for what went wrong; made when something does
    held: int = 0  # further connections that stay open
    opened: int = 0  # and that come and go, a second


@dataclass
class Outcome:
    """What came of it."""

    transfers: Counter[str] = field(default_factory=Counter)  # by outcome
    kinds: Counter[str] = field(default_factory=Counter)  # whole ones by kind
    bytes: int = 0
    slowest_ones: list[dict[str, Any]] = field(default_factory=list)  # whole ones that took longest, the slowest first
    bad: list[dict[str, Any]] = field(default_factory=list)
    disturbances: Counter[str] = field(default_factory=Counter)
    daemon: Counter[str] = field(default_factory=Counter)
    findings: list[str] = field(default_factory=list)
    leaks: list[str] = field(default_factory=list)
    at_rest: dict[str, Any] = field(default_factory=dict)  # descriptors and what may hold them, of the last life and of a fresh daemon
    lives: int = 0
    memory: dict[str, Any] = field(default_factory=dict)
    lab_errors: list[str] = field(default_factory=list)
    seconds: float = 0.0
    interrupted: bool = False
    days: list[dict[str, Any]] = field(default_factory=list)  # a laptop left on: what each day left
    crowd: dict[str, Any] = field(default_factory=dict)  # of the further connections
    kept: dict[str, Any] = field(default_factory=dict)  # and what its connections that stay have brought

    @property
    def slowest(self) -> float:
        """Seconds that the slowest whole transfer took."""
        return float(self.slowest_ones[0]["seconds"]) if self.slowest_ones else 0.0

    @property
    def zero(self) -> dict[str, int]:
        """What has to be zero."""
        return {"changed": self.transfers["changed"], "hung": self.transfers["hung"], "broken": self.transfers["broken"], "leaked": len(self.leaks),
                "other findings": len(self.findings)}

    @property
    def good(self) -> bool:
        return not any(self.zero.values()) and self.transfers["whole"] > 0 and not self.lab_errors


class Soak:
    forgotten = 60.0  # s after the last connection, until no flow is known any more

    def __init__(self, plan: Plan, say: Callable[[str], None]):
        self.plan, self.say, self.outcome = plan, say, Outcome()
        self._under_way: list[dict[str, Any]] | None = None
        self._keeper: Keeper | None = None
        self._began = time.monotonic()
        self._ended = threading.Event()
        self._slow_kept = 0

    def run(self, stop: threading.Event) -> Outcome:
        """Until the time is over or `stop` is set; everything is undone when it returns."""
        with ExitStack() as stack:
            # Without the daemon, too, MPTCP connections have several subflows: what the kernel does to them is not the daemon's doing.
            lab = self._lab(stack, world.SCENARIO.format(mptcp="true" if self.plan.plain else "false"))
            laptop = world.Laptop(lab)
            if self.plan.strip:
                world.strip_mptcp(lab)
            serve(stack, lab, "uploads.py", str(lab.directory))
            before = world.left_behind(lab)
            watched = None if self.plan.plain else Watched(lab, idle=20.0 if self.plan.seconds >= 60 else 4.0)
            if watched:
                watched.start()
                stack.callback(self._end_daemon, watched)
            chaos = Chaos(lab, laptop, watched, self.plan.seed, self.plan.seconds)
            captures = stack.enter_context(Captures(lab.client, lab.server(), self.plan.prefix))
            self._keeper = Keeper(captures, self.plan.keep, chaos, watched, (lab.client, lab.server()))
            began = self._began = time.monotonic()
            crowd = Crowd(lab, self.plan.held, self.plan.opened) if self.plan.held or self.plan.opened else None
            if crowd:
                crowd.start()
            traffic = self._start_traffic(lab, self.plan.seed)
            try:
                self._disturb(chaos, traffic, lambda: self._watch(stop, watched, chaos, began), stop)
            finally:
                if crowd:
                    self._end_crowd(crowd)
                self._keeper.close()
                self.outcome.seconds = time.monotonic() - began
            if watched:
                self._after(lab, watched, before, stop)
        return self.outcome

    def _end_crowd(self, crowd: Crowd) -> None:
        crowd.stop()
        if crowd.problem:
            self.outcome.lab_errors.append(crowd.problem)
        self.outcome.crowd = crowd.report()

    def _lab(self, stack: ExitStack, scenario: str) -> Lab:
        """With the files that are downloaded."""
        lab = stack.enter_context(Lab(scenario, prefix=self.plan.prefix, seed=self.plan.seed, counters=False))
        for number, (name, size) in enumerate(FILES.items()):
            lab.add_file(name, random.Random(f"{self.plan.seed} {number}").randbytes(size))
        return lab

    def _disturb(self, chaos: Chaos, traffic: subprocess.Popen, wait: Callable[[], object], stop: threading.Event) -> None:
        """Transfers among disturbances until `wait` returns; then what is under way may end."""
        try:
            chaos.start()
            wait()
            chaos.stop()
            chaos.calm()
            self._drain(traffic, stop)
        finally:
            chaos.stopping.set()
            traffic.kill()
            self.outcome.disturbances += chaos.counts
            self.outcome.lab_errors += chaos.errors

    def _start_traffic(self, lab: Lab, seed: int | str) -> subprocess.Popen:
        plan = {"seed": seed, "threads": self.plan.threads, "ipv4": lab.server().ipv4, "ipv6": lab.server().ipv6, "mptcp": self.plan.mptcp, "patience": PATIENCE,
                "www": str(lab.directory / "www"), "random": lab.random_file["name"], "files": list(FILES)}
        traffic = lab.client.popen([system.PYTHON, "-B", str(HERE / "traffic.py"), json.dumps(plan)], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._listen, args=(traffic,), daemon=True).start()
        return traffic

    def _listen(self, traffic: subprocess.Popen) -> None:
        assert traffic.stdout
        try:
            for line in traffic.stdout:
                self._hear(json.loads(line))
        except Exception as error:  # noqa: BLE001 - whatever it is: nobody listens any more, so that nothing more would be found
            self.outcome.lab_errors.append(f"what the traffic said: {error or type(error).__name__}")
        self._ended.set()

    def _hear(self, one: dict[str, Any]) -> None:
        if "stalled" in one:
            assert self._keeper
            self._keeper.look(one["stalled"])
            return
        if "under_way" in one:
            self._under_way = one["under_way"]
            return
        one["at"] = round(time.monotonic() - self._began, 1)
        if one["outcome"] == "no route" and not self._wayless(float(one["seconds"])):
            one = {**one, "outcome": "broken", "why": f"{one.get('why', '')}; no interface was away"}
        result = self.outcome
        result.transfers[one["outcome"]] += 1
        result.bytes += one["bytes"]
        if one["outcome"] == "whole":
            result.kinds[one["kind"]] += 1
            self._slow(one)
        elif one["outcome"] != "no route":
            self._bad(one)

    def _wayless(self, seconds: float) -> bool:
        assert self._keeper
        return self._keeper.chaos.wayless(seconds)

    def _slow(self, one: dict[str, Any]) -> None:
        """Whole ones are no fault; which of them took longest tells what nearly became one."""
        ones = self.outcome.slowest_ones
        if len(ones) == SLOWEST_KEPT and one["seconds"] <= ones[-1]["seconds"]:
            return
        if one["seconds"] >= SLOW and self._slow_kept < SLOW_MOST:
            self._slow_kept += 1
            assert self._keeper
            self._keeper.take(one)
        ones.append(one)
        ones.sort(key=lambda each: -float(each["seconds"]))
        del ones[SLOWEST_KEPT:]

    def _bad(self, fault: dict[str, Any]) -> None:
        self.outcome.bad.append(fault)
        assert self._keeper
        self._keeper.take(fault)

    def _watch(self, stop: threading.Event, watched: Watched | None, chaos: Chaos, began: float) -> None:
        told = began
        while (now := time.monotonic()) < began + self.plan.seconds and not stop.is_set():
            if self._ended.is_set():
                self.outcome.lab_errors.append(f"the traffic ended by itself after {now - began:.0f} s: nothing was transferred from then on")
                break
            if watched:
                watched.check()
            if now - told >= 10.0:
                told = now
                self._progress(now - began, watched, chaos)
            stop.wait(1.0)
        self.outcome.interrupted = stop.is_set()

    def _progress(self, seconds: float, watched: Watched | None, chaos: Chaos) -> None:
        counts = self.outcome.transfers
        words = f"{seconds:6.0f} s of {self.plan.seconds:.0f}: {counts['whole']} transfers whole, {counts['changed']} changed, {counts['hung']} hung, {counts['broken']} broken"
        if watched:
            words += f"; {chaos.counts['module toggles']} toggles, life {watched.lives}, {watched.memory[-1][2] / 1024 if watched.memory else 0:.1f} MiB, {len(watched.findings)} findings"
        self.say(words)

    def _drain(self, traffic: subprocess.Popen, stop: threading.Event) -> None:
        """Nothing disturbs any more: what runs has to end."""
        self.say("calm again; what is under way may end")
        traffic.send_signal(signal.SIGTERM)
        deadline = time.monotonic() + PATIENCE + 10
        while not self._ended.wait(0.2):
            if stop.is_set() and self.outcome.interrupted is False:
                self.outcome.interrupted = True
            if time.monotonic() > deadline or self.outcome.interrupted:
                break
        if not self._ended.is_set() and not self.outcome.interrupted:
            self._under_way = None  # of an earlier session
            traffic.send_signal(signal.SIGUSR1)
            if not system.wait_until(lambda: self._under_way is not None, 5.0):
                self.outcome.lab_errors.append("the traffic did not end and does not say what is under way: what hung is not known")
            for one in self._under_way or []:
                self.outcome.transfers["hung"] += 1
                self._bad({**one, "outcome": "hung", "why": "not done after the disturbances had ended"})
        if self._ended.is_set() and system.wait_until(lambda: traffic.poll() is not None, 5.0) and traffic.returncode != 0:
            self.outcome.lab_errors.append(f"the traffic ended with code {traffic.returncode}")

    def _after(self, lab: Lab, watched: Watched, before: dict[str, list[str]], stop: threading.Event) -> None:
        """What is left of it at rest, and after its end."""
        result = self.outcome
        if not result.interrupted:
            self.say("at rest: descriptors, flows, memory")
            self._at_rest(watched)
        watched._note_faults()  # noqa: SLF001
        result.daemon, result.findings, result.lives = watched.counts, watched.findings, watched.lives
        result.memory = memory_of(watched.memory)
        if result.memory.get("growth_kib", 0) > GROWTH_KIB:
            result.leaks.append(f"memory: the daemon grew by {result.memory['growth_kib']} KiB, from {result.memory['early_kib']} to {result.memory['late_kib']}")
        if (code := watched.daemon.stop(20.0)) != 0:
            result.findings.append(f"at the end the daemon ended with {code}")
        if not watched.gone():
            result.leaks.append("processes of tandemd that do not end")
        system.wait_until(lambda: not world.difference(before, world.left_behind(lab)), 5.0)
        result.leaks += world.difference(before, world.left_behind(lab))

    def _at_rest(self, watched: Watched) -> None:
        """Against a daemon that has just been started."""
        for module in MODULES:
            watched.daemon.api(f"/v1/modules/{module}", "PUT", {"enabled": True})

        def flows() -> int:
            return int(watched.daemon.api("/v1/status")["flows"]["count"])

        if not system.wait_until(lambda: flows() == 0, self.forgotten, pause=1.0):
            self.outcome.leaks.append(f"flows: {flows()} are still known {self.forgotten:g} s after the last connection ended")
        used = watched.descriptors()
        for _ in range(6):  # what is open for a moment only is no leak
            time.sleep(0.5)
            used &= watched.descriptors()
        at_rest = self.outcome.at_rest
        at_rest["used"] = {"descriptors": dict(used), **holders(watched)}
        watched.restart()
        for module in MODULES:
            watched.daemon.api(f"/v1/modules/{module}", "PUT", {"enabled": True})
        watched.daemon.api("/v1/doctor")  # a thread of its own answers it, and stays
        fresh = more = Counter[str]()

        def same() -> bool:
            nonlocal fresh, more
            fresh = watched.descriptors()
            more = used - fresh
            return not more

        if not system.wait_until(same, 12.0, pause=0.5):
            self.outcome.leaks += [f"descriptors: {count} more of {kind} than a fresh daemon has" for kind, count in more.items()]
        at_rest["fresh"] = {"descriptors": dict(fresh), **holders(watched)}

    def _end_daemon(self, watched: Watched) -> None:
        watched.daemon.stop()
        if self.plan.keep_log:
            try:
                self.plan.keep_log.write_bytes(watched.daemon.log.read_bytes())
            except OSError as error:  # the outcome of hours is worth more
                self.say(f"tools/soak: --log {self.plan.keep_log}: {error.strerror}; the daemon's log is not kept")


def serve(stack: ExitStack, lab: Lab, program: str, *words: str) -> None:
    """A program of this directory on the server; returns when it is ready."""
    serving = lab.server().popen([system.PYTHON, "-B", str(HERE / program), *words], stdout=subprocess.PIPE, text=True)
    stack.callback(serving.kill)
    assert serving.stdout
    if serving.stdout.readline() != "ready\n":
        raise LabError(f"{program} did not start on the server")


def holders(watched: Watched) -> dict[str, Any]:
    """What the daemon says of those who keep sockets: downloads that are followed, and paces of uploads."""
    status = watched.daemon.api("/v1/status")
    return {name: status.get(name) for name in ("fetch", "pacing")}


def memory_of(samples: list[tuple[int, float, int]]) -> dict[str, Any]:
    """Of the longest life: resident memory in its second quarter and in its last one."""
    if not samples:
        return {}
    lives: dict[int, list[tuple[float, int]]] = {}
    for life, age, kib in samples:
        lives.setdefault(life, []).append((age, kib))
    longest = max(lives.values(), key=lambda life: life[-1][0])
    length = longest[-1][0]
    early = [kib for age, kib in longest if length / 4 <= age < length / 2]
    late = [kib for age, kib in longest if age >= length * 3 / 4]
    if len(early) < 5 or len(late) < 5:
        return {"longest_life_s": round(length, 1), "most_kib": max(kib for _, _, kib in samples)}
    return {"longest_life_s": round(length, 1), "most_kib": max(kib for _, _, kib in samples), "early_kib": int(statistics.median(early)),
            "late_kib": int(statistics.median(late)), "growth_kib": int(statistics.median(late) - statistics.median(early))}
