"""Wake-ups of all of Tandem's processes while no packet comes: what keeps a laptop's processor from sleeping."""

from __future__ import annotations

import time
from contextlib import ExitStack, contextmanager
from typing import Iterator

from tandem_lab import Lab
from tandem_lab.errors import LabError

from .. import helpers
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options

TANDEM = Arm("tandem", "tandem")
WAKES = Metric("wake-ups in 10 s", "", 1)
SETTLE = 10.0  # seconds: the daemon rests 5 s after the last packet, and what a download began has to end first

FRESH, AFTER, KEPT = "no flow yet", "after a download", "a connection kept open"


class Idle(Bench):
    name = "idle"
    needs_real_time = "how often processes are woken"
    summary = "wake-ups of daemon and keeper, all threads, while nothing is sent"
    headings = {}
    detail_columns = (("daemon", "daemon"), ("keeper", "keeper"), ("seconds", "looked at for, s"))
    notes = (
        "A wake-up is a voluntary context switch (/proc/PID/task/*/status): a thread that had waited. All modules are on, and evidence and recorder as by default.",
        f"Counting begins {SETTLE:g} s after the last packet. No service manager asks for a watchdog here; the packaged service's asks every 30 s.",
        "What was learnt is written a minute after the start, and later at most once in one to eight minutes: some ten switches each time, which these windows end before.",
        "\"A connection kept open\" is one on which the server has answered and nothing is sent any more; it closes such connections after 60 s, later than the window ends.")

    def cases(self, quick: bool) -> list[Case]:
        goals = (Goal(TANDEM.name, "<=", 1, metric=WAKES.name, text="<= 1 wake-up in 10 s"),)
        return [Case(name, (TANDEM,), (WAKES,), 1 if quick else 8, goals, "", {"seconds": 30 if quick else 40}) for name in (FRESH, AFTER, KEPT)]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 3 + SETTLE + case.parameters["seconds"] + (5 if case.name != FRESH else 0)

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[Lab]:
        with Lab("plain", prefix=options.prefix, seed=seed) as lab:
            yield lab

    def measure(self, session: Lab, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        seconds = case.parameters["seconds"]
        with ExitStack() as stack:
            daemon = stack.enter_context(helpers.tandem(session, options, helpers.loaded_modules(session, options), {"evidence": {"share": 0.05}}, f"idle-{seed}"))
            if case.name == AFTER:
                if error := session.download("random").error:
                    raise LabError(f"the download before failed: {error}")
            if case.name == KEPT:
                stack.enter_context(helpers.serving(session.client, ["python3", "-c", _KEEPS_OPEN, session.server().ipv4]))
            keeper = daemon.api("/v1/status")["keeper"]["pid"]
            time.sleep(SETTLE)
            before = {pid: helpers.wake_ups(pid) for pid in (daemon.pid, keeper)}
            time.sleep(seconds)
            woken = {pid: helpers.wake_ups(pid) - before[pid] for pid in before}
            status = daemon.api("/v1/status")
            if case.name == KEPT and not status["flows"]["count"]:
                raise LabError("the connection that was to be kept open is gone")
        return Measurement({WAKES.name: sum(woken.values()) / seconds * 10},
                           {"daemon": woken[daemon.pid], "keeper": woken[keeper], "seconds": seconds, "knobs": helpers.knobs(status)})


# Asks for a large file's head, says so, and then waits.
_KEEPS_OPEN = """
import socket, sys, time
made = socket.create_connection((sys.argv[1], 80))
made.sendall(b"GET /random HTTP/1.1\\r\\nHost: lab\\r\\nRange: bytes=0-199999\\r\\n\\r\\n")
left = 200_000
while left > 0:
    left -= len(made.recv(65536))
print("ready", flush=True)
time.sleep(600)
"""

BENCH = Idle()
