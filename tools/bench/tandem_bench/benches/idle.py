"""What Tandem's processes cost a battery: wake-ups while no packet comes, and CPU time while somebody reads pages on the web."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack, contextmanager
from typing import Iterator

from tandem_lab import Lab
from tandem_lab.api import Daemon
from tandem_lab.errors import LabError

from .. import helpers, wakeups
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options

TANDEM = Arm("tandem", "tandem")
WAKES = Metric("wake-ups in 10 s", "", 2)
CPU = Metric("CPU an hour", "s", 1)
SETTLE = 10.0  # seconds: the daemon rests 5 s after the last packet, and what a download began has to end first
WATCHDOG = 300  # s, of packaging/tandemd.service.in
KEPT_PORT = 8088

FRESH, AFTER, KEPT, BROWSING = "no flow yet", "after a download", "a connection kept open", "browsing"


class Idle(Bench):
    name = "idle"
    needs_real_time = "how often processes are woken"
    summary = "wake-ups of daemon and keeper, all threads, while nothing is sent, and their CPU time while somebody browses"
    headings = {}
    detail_columns = (("most", "most in any 10 s"), ("by", "who was woken by whom, how often"), ("seconds", "looked at for, s"), ("counted", "counted by"), ("pages", "pages"),
                      ("megabytes", "MB"))
    notes = (
        "A wake-up is a thread of daemon or keeper made runnable (tracepoint sched:sched_waking, by a trace instance of the bench's own). \"By\" tells who had the CPU just then: tandemd itself when one thread wakes another, else whoever a timer or a packet interrupted, a compiler as well as \"<idle>\". Where a kernel has no tracefs, it is a voluntary "
        "context switch (/proc/PID/task/*/status), and nothing is known of who and when. All modules are on, evidence and recorder as by default; budgets of day and month as by default, too.",
        f"Counting begins {SETTLE:g} s after the last packet, ends minutes later, and leaves nothing out: what was learnt being written, the flow that is forgotten after two minutes, and the watchdog of the packaged service, "
        f"which asks for a sign of life every {WATCHDOG // 2} s ($WATCHDOG_USEC; here no service manager listens).",
        "There is no message bus in the lab: NetworkManager and ModemManager, played, are in lab.rest, which also shows that nobody asks them anything.",
        "\"A connection kept open\" is one on which a server has answered and nothing is sent any more, by neither end, until the window is over.",
        "\"Browsing\": a page every 5 to 25 s, as a seed has it: 100 kB, then 28 objects of 1 or 100 kB, with every fifth page one of 1 MB, by six connections (1.5 MB in the mean), over emulated 802.11g. The CPU time of all threads "
        "(/proc/PID/task/*/schedstat), multiplied up to an hour; the wake-ups are those while pages come, too, as voluntary context switches.")

    def cases(self, quick: bool) -> list[Case]:
        goals = (Goal(TANDEM.name, "<=", 1, metric=WAKES.name, text="<= 1 wake-up in 10 s"),)
        return [Case(name, (TANDEM,), (WAKES,), 1 if quick else 8, goals, "", {"seconds": 30 if quick else 240}) for name in (FRESH, AFTER, KEPT)] + [
            Case(BROWSING, (TANDEM,), (CPU, WAKES), 1 if quick else 4, (), "", {"seconds": 60 if quick else 120})]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 3 + SETTLE + case.parameters["seconds"] + (5 if case.name != FRESH else 0)

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[Lab]:
        with Lab("plain", prefix=options.prefix, seed=seed) as lab:
            yield lab

    def measure(self, session: Lab, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        seconds = case.parameters["seconds"]
        with ExitStack() as stack:
            daemon = stack.enter_context(_service(session, options, f"idle-{seed}"))
            if case.name == AFTER:
                if error := session.download("random").error:
                    raise LabError(f"the download before failed: {error}")
            if case.name == KEPT:
                stack.enter_context(helpers.serving(session.server(), ["/usr/bin/python3", "-c", _ANSWERS_ONCE, str(KEPT_PORT)]))
                stack.enter_context(helpers.serving(session.client, ["/usr/bin/python3", "-c", _KEEPS_OPEN, session.server().ipv4, str(KEPT_PORT)]))
            status = daemon.api("/v1/status")
            if case.name == KEPT and not status["flows"]["count"]:
                raise LabError("the daemon does not know the connection that is kept open")
            pids = [daemon.pid, status["keeper"]["pid"]]
            knobs = {"knobs": helpers.knobs(status)}
            time.sleep(SETTLE)
            if case.name == BROWSING:
                return _browsed(session, pids, seconds, seed, knobs)
            with wakeups.Counting(pids) as counting:
                woken = counting.look(seconds)
        return Measurement({WAKES.name: woken.in_ten_seconds},
                           {"most": woken.most_in_ten_seconds, "by": woken.said(), "seconds": seconds, "counted": "tracepoints" if counting.traced else "context switches", **knobs})


@contextmanager
def _service(lab: Lab, options: Options, label: str) -> Iterator[Daemon]:
    """All modules on, and whatever writes or waits by itself in a laptop as it is there."""
    config = {"evidence": {"share": 0.05, "paths": True}, "budget": {"cell_day": "10MB", "cell_month": "50MB"}}
    before = os.environ.get("WATCHDOG_USEC")
    os.environ["WATCHDOG_USEC"] = str(WATCHDOG * 10**6)
    try:
        with helpers.tandem(lab, options, helpers.loaded_modules(lab, options), config, label) as daemon:
            yield daemon
    finally:
        os.environ.pop("WATCHDOG_USEC") if before is None else os.environ.update(WATCHDOG_USEC=before)


def _browsed(lab: Lab, pids: list[int], seconds: float, seed: int, knobs: dict[str, str]) -> Measurement:
    before, spent = wakeups.context_switches(pids), sum(map(helpers.exact_cpu_seconds, pids))
    browsed = helpers.answer(lab.client, ["/usr/bin/python3", "-c", _BROWSES, lab.server().ipv4, str(seconds), str(seed)], timeout=seconds + 60)
    woken, spent = wakeups.context_switches(pids) - before, sum(map(helpers.exact_cpu_seconds, pids)) - spent
    return Measurement({CPU.name: spent / seconds * 3600, WAKES.name: woken / seconds * 10}, {"seconds": seconds, "counted": "context switches", **browsed, **knobs})


# Answers one connection and then says nothing more.
_ANSWERS_ONCE = """
import socket, sys, time
listening = socket.create_server(("", int(sys.argv[1])))
print("ready", flush=True)
made = listening.accept()[0]
made.recv(65536)
made.sendall(bytes(200_000))
time.sleep(3600)
"""

# Takes the answer, says so, and then waits.
_KEEPS_OPEN = """
import socket, sys, time
made = socket.create_connection((sys.argv[1], int(sys.argv[2])))
made.sendall(b"?")
left = 200_000
while left > 0:
    left -= len(made.recv(65536))
print("ready", flush=True)
time.sleep(3600)
"""

# Pages until the time is over; the last pause is cut.
_BROWSES = """
import concurrent.futures, http.client, json, random, sys, time
address, end, chance = sys.argv[1], time.monotonic() + float(sys.argv[2]), random.Random(int(sys.argv[3]))
def fetch(names):
    connection, got = http.client.HTTPConnection(address, timeout=30), 0
    for name in names:
        connection.request("GET", name)
        got += len(connection.getresponse().read())
    connection.close()
    return got
pages = sum_of_bytes = 0
with concurrent.futures.ThreadPoolExecutor(6) as pool:
    while time.monotonic() < end:
        objects = ["/1k"] * 16 + ["/100k"] * 12 + ["/1M"] * (chance.random() < 0.2)
        chance.shuffle(objects)
        sum_of_bytes += fetch(["/100k"]) + sum(pool.map(fetch, [objects[i::6] for i in range(6)]))
        pages += 1
        time.sleep(max(0, min(chance.uniform(5, 25), end - time.monotonic())))
print(json.dumps({"pages": pages, "megabytes": round(sum_of_bytes / 1e6, 1)}))
"""

BENCH = Idle()
