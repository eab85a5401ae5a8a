"""A laptop that is left on for weeks: hours of use by day, of rest or sleep by night, and connections that stay all the while. In virtual time only."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import threading
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from tandem_lab import Lab, system

from . import world
from .captures import Captures
from .disturbances import ORDINARY, Chaos
from .keep import Keeper
from .run import HERE, Outcome, Soak, serve
from .watched import Watched

DAY = 86400.0
# Beacons and those who hear them take most of a run's time: 1.7 million a day.
SCENARIO = world.SCENARIO.format(mptcp="false").replace('profile = "wifi-n"\n', 'profile = "wifi-n"\nbeacon_interval = "0ms"\n')
SESSIONS, SESSION = 3, 20.0  # of transfers through disturbances, a day; s of each
EVENING, MORNING = 22.0, 7.0  # hours between which it rests, or sleeps
FLOW_IDLE = 120.0  # s, as shipped
SLEEPS = 0.5  # of the nights; in the others it is left on
LOOKS = 600.0  # s between looks at the daemon's memory
LOG_A_DAY = 1 << 20  # bytes of the daemon's log that a day may bring
STATE_MOST = 8 << 20  # bytes that the daemon may keep on disk


class Days(Soak):
    """So many days of it; `plan.seconds` of them."""

    # A subflow that was silent goes when its connection has, once that is idle itself.
    forgotten = 40.0 + 2 * FLOW_IDLE
    _most_today = 0  # bytes by cellular: the clock's day may begin anew at any hour of a day here

    def run(self, stop: threading.Event) -> Outcome:
        with ExitStack() as stack:
            lab = self._lab(stack, SCENARIO)
            laptop = world.Laptop(lab)
            serve(stack, lab, "uploads.py", str(lab.directory))
            serve(stack, lab, "kept.py", "serve")
            before = world.left_behind(lab)
            watched = Watched(lab, idle=FLOW_IDLE, radio=False, more={"evidence": {"share": 0.05, "paths": True, "directory": str(lab.directory / "evidence")},
                                                         "budget": {"cell_day": "10MB", "cell_month": "50MB", "directory": str(lab.directory / "budget")}})
            watched.start()
            stack.callback(self._end_daemon, watched)
            captures = stack.enter_context(Captures(lab.client, lab.server(), self.plan.prefix))
            self._keeper = Keeper(captures, self.plan.keep, Chaos(lab, laptop, watched, 0, 0.0, which=()), watched, (lab.client, lab.server()))
            self._began = time.monotonic()
            kept = self._keep_connections(lab)
            try:
                self._live(lab, laptop, watched, stop)
                self._ask_kept(kept)
            finally:
                kept.kill()
                self._keeper.close()
                self.outcome.seconds = time.monotonic() - self._began
            self._after(lab, watched, before, stop)
        return self.outcome

    def _keep_connections(self, lab: Lab) -> subprocess.Popen:
        plan = {"seed": self.plan.seed, "ipv4": lab.server().ipv4, "ipv6": lab.server().ipv6, "seconds": self.plan.seconds}
        kept = lab.client.popen([system.PYTHON, "-B", str(HERE / "kept.py"), "keep", json.dumps(plan)], stdout=subprocess.PIPE, text=True)
        threading.Thread(target=self._hear_kept, args=(kept,), daemon=True).start()
        return kept

    def _hear_kept(self, kept: subprocess.Popen) -> None:
        assert kept.stdout
        for line in kept.stdout:
            one = json.loads(line)
            if "all" in one:
                self.outcome.kept = one["all"]
                continue
            self.outcome.transfers[one["outcome"]] += 1
            self._bad({**one, "kind": one.pop("kept"), "wanted": one["bytes"], "seconds": one["age"], "at": round(time.monotonic() - self._began, 1)})

    def _ask_kept(self, kept: subprocess.Popen) -> None:
        """What the connections that stay have brought."""
        kept.send_signal(signal.SIGUSR1)
        if not system.wait_until(lambda: bool(self.outcome.kept), 10.0):
            self.outcome.lab_errors.append("the connections that stay do not say what they have brought")

    def _live(self, lab: Lab, laptop: world.Laptop, watched: Watched, stop: threading.Event) -> None:
        """Day by day, until the time is over."""
        for day in range(int(self.plan.seconds / DAY)):
            draw = random.Random(f"{self.plan.seed} day {day}")
            began, logged = time.time(), watched.daemon.log.stat().st_size
            hours = sorted(draw.uniform(MORNING, EVENING) for _ in range(SESSIONS))
            for number, hour in enumerate(hours):
                self._rest(watched, hour * 3600.0 - (time.time() - began), stop)
                if stop.is_set():
                    break
                self._session(lab, laptop, watched, f"{self.plan.seed} day {day} {number}", stop)
            self._rest(watched, EVENING * 3600.0 - (time.time() - began), stop)
            sleeps = draw.random() < SLEEPS
            if sleeps:
                watched.suspend(int(began + DAY - time.time()))
                self.outcome.disturbances["nights asleep"] += 1
            self._rest(watched, began + DAY - time.time(), stop)
            if stop.is_set():
                self.outcome.interrupted = True
                return
            self._note_day(day, watched, watched.daemon.log.stat().st_size - logged)

    def _rest(self, watched: Watched, seconds: float, stop: threading.Event) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not stop.wait(min(LOOKS, left)):
            watched.check()

    def _session(self, lab: Lab, laptop: world.Laptop, watched: Watched, name: str, stop: threading.Event) -> None:
        chaos = Chaos(lab, laptop, watched, name, SESSION, which=ORDINARY)
        assert self._keeper
        self._keeper.chaos = chaos
        self._ended.clear()
        traffic = self._start_traffic(lab, name)
        self._disturb(chaos, traffic, lambda: stop.wait(SESSION), stop)
        watched.check()
        self._look_at_budget(watched)

    def _look_at_budget(self, watched: Watched) -> dict[str, Any]:
        budget: dict[str, Any] = watched.daemon.api("/v1/budget")
        self._most_today = max(self._most_today, budget["today"]["used_bytes"])
        return budget

    def _note_day(self, day: int, watched: Watched, logged: int) -> None:
        """What a person would look at in the morning, and what must not grow."""
        directory = watched.lab.directory
        budget = self._look_at_budget(watched)
        today, self._most_today = self._most_today, 0
        on_disk = sum(one.stat().st_size for place in ("evidence", "budget", "saved") for one in (directory / place).rglob("*") if one.is_file())
        one: dict[str, Any] = {"day": day, "kib": watched.resident(), "descriptors": sum(watched.descriptors().values()), "logged": logged, "on_disk": on_disk,
                               "cell_today": today, "cell_month": budget["month"]["used_bytes"], "flows": watched.daemon.api("/v1/status")["flows"]["count"]}
        self.outcome.days.append(one)
        for words, value, most in (("of log in a day", logged, LOG_A_DAY), ("on disk", on_disk, STATE_MOST), ("by cellular in a day", one["cell_today"], 10_000_000),
                                   ("by cellular in a month", one["cell_month"], 50_000_000)):
            if value > most:
                self.outcome.findings.append(f"day {day}: {value} bytes {words}, at most {most} are allowed")
        counts = self.outcome.transfers
        self.say(f"day {day + 1} of {self.plan.seconds / DAY:.0f}: {counts['whole']} transfers whole, {counts['changed']} changed, {counts['hung']} hung, {counts['broken']} broken; "
                 f"{one['kib'] / 1024:.1f} MiB, {one['descriptors']} descriptors, {on_disk} bytes on disk, {logged} of log, by cellular {one['cell_month'] / 1e6:.2f} MB this month")
