"""What Tandem's processes cost a battery: wake-ups while no packet comes, and CPU time while somebody reads pages on the web."""

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
CPU = Metric("CPU an hour", "s", 1)
SETTLE = 10.0  # seconds: the daemon rests 5 s after the last packet, and what a download began has to end first

FRESH, AFTER, KEPT, BROWSING = "no flow yet", "after a download", "a connection kept open", "browsing"


class Idle(Bench):
    name = "idle"
    needs_real_time = "how often processes are woken"
    summary = "wake-ups of daemon and keeper, all threads, while nothing is sent, and their CPU time while somebody browses"
    headings = {}
    detail_columns = (("daemon", "daemon"), ("keeper", "keeper"), ("seconds", "looked at for, s"), ("pages", "pages"), ("megabytes", "MB"))
    notes = (
        "A wake-up is a voluntary context switch (/proc/PID/task/*/status): a thread that had waited. All modules are on, and evidence and recorder as by default.",
        f"Counting begins {SETTLE:g} s after the last packet. No service manager asks for a watchdog here; the packaged service's asks every 30 s.",
        "What was learnt is written a minute after the start, and later at most once in one to eight minutes: some ten switches each time, which these windows end before.",
        "\"A connection kept open\" is one on which the server has answered and nothing is sent any more; it closes such connections after 60 s, later than the window ends.",
        "\"Browsing\": a page every 5 to 25 s, as a seed has it: 100 kB, then 28 objects of 1 or 100 kB, with every fifth page one of 1 MB, by six connections (1.5 MB in the mean), over emulated 802.11g. The CPU time of all threads "
        "(/proc/PID/task/*/schedstat), multiplied up to an hour; the wake-ups are those while pages come, too.")

    def cases(self, quick: bool) -> list[Case]:
        goals = (Goal(TANDEM.name, "<=", 1, metric=WAKES.name, text="<= 1 wake-up in 10 s"),)
        return [Case(name, (TANDEM,), (WAKES,), 1 if quick else 8, goals, "", {"seconds": 30 if quick else 40}) for name in (FRESH, AFTER, KEPT)] + [
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
            daemon = stack.enter_context(helpers.tandem(session, options, helpers.loaded_modules(session, options), {"evidence": {"share": 0.05}}, f"idle-{seed}"))
            if case.name == AFTER:
                if error := session.download("random").error:
                    raise LabError(f"the download before failed: {error}")
            if case.name == KEPT:
                stack.enter_context(helpers.serving(session.client, ["python3", "-c", _KEEPS_OPEN, session.server().ipv4]))
            keeper = daemon.api("/v1/status")["keeper"]["pid"]
            time.sleep(SETTLE)
            before = {pid: helpers.wake_ups(pid) for pid in (daemon.pid, keeper)}
            spent = sum(map(helpers.exact_cpu_seconds, before))
            browsed: dict[str, float] = {}
            if case.name == BROWSING:
                browsed = helpers.answer(session.client, ["/usr/bin/python3", "-c", _BROWSES, session.server().ipv4, str(seconds), str(seed)], timeout=seconds + 60)
            else:
                time.sleep(seconds)
            woken = {pid: helpers.wake_ups(pid) - before[pid] for pid in before}
            spent = sum(map(helpers.exact_cpu_seconds, before)) - spent
            status = daemon.api("/v1/status")
            if case.name == KEPT and not status["flows"]["count"]:
                raise LabError("the connection that was to be kept open is gone")
        values = {WAKES.name: sum(woken.values()) / seconds * 10, **({CPU.name: spent / seconds * 3600} if browsed else {})}
        return Measurement(values,
                           {"daemon": woken[daemon.pid], "keeper": woken[keeper], "seconds": seconds, **browsed, "knobs": helpers.knobs(status)})


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
