"""Many connections: nothing may be dropped, and a flow may cost little memory."""

from __future__ import annotations

import json
import subprocess
import threading
import time
from contextlib import ExitStack, contextmanager
from typing import Any, Iterator, Mapping

from tandem_lab import Lab, system
from tandem_lab.errors import LabError

from .. import helpers
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options

ABSENT, TANDEM = Arm("no daemon", "plain"), Arm("tandem", "tandem")
FAILED, DROPS = Metric("failed connections", "", 0, "failed_each", "sum"), Metric("packets dropped", "", 0, "dropped_each", "sum")  # in all rounds
CONNECT, CONNECT_99 = Metric("connect p50", "ms", 3), Metric("connect p99", "ms", 3)
USE, USE_99 = Metric("answer p50", "ms", 3), Metric("answer p99", "ms", 3)
RSS = Metric("resident memory", "MiB")
TABLE = Metric("table bytes per flow", "B", 0)
GROWTH = Metric("memory growth per flow", "B", 0)
REFUSED = Metric("flows refused", "", 0)

EMPTY, SOME, MANY = Arm("0 flows"), Arm("1 000 flows", "tandem"), Arm("10 000 flows", "tandem")
HELD = {EMPTY.name: 0, SOME.name: 1000, MANY.name: 10_000}
DIFFERENCE = Arm("per flow", "tandem")
MIB = 1 << 20
ANSWER = 20_480  # bytes: modules begin on a flow that has delivered 14 kB


class Scale(Bench):
    name = "scale"
    needs_real_time = "CPU and memory"
    summary = "10 000 connections held while 2 000 new ones come and go every second; memory; a full flow table"
    headings = {"plain": "no daemon"}
    detail_columns = (("attempted", "attempted"), ("uses", "answers"), ("opened_per_second", "opened per s"), ("flows_seen", "flows in the table"),
                      ("flows_refused", "refused"), ("queued", "queued"), ("keeper_mib", "keeper's memory, MiB"), ("daemon_cpu_s", "daemon CPU, s"),
                      ("with_state", "flows with state"),
                      ("failures", "failures"))
    notes = (
        "Connections over plain veth pairs to 8 ports of one server; on each the client asks for 20 kB, so that every module has state on its flow. Every "
        "module of the daemon is on.",
        "Table bytes per flow are those of the flow and of all modules' state on it.",
        "Dropped are the queue's and the socket's own counts (queue_drops, user_drops); a connection has failed when it is refused, reset, or "
        "waits for more than 10 s.")

    def cases(self, quick: bool) -> list[Case]:
        load = {"hold": 10_000, "churn": 2000, "seconds": 4 if quick else 15, "max_flows": 65_536}
        full = {"hold": 3000, "churn": 200, "seconds": 3, "max_flows": 1000}
        return [
            Case("10 000 held, 2 000 new per s", (ABSENT, TANDEM), (FAILED, DROPS, CONNECT, CONNECT_99, USE, USE_99), 1 if quick else 3,
                 (Goal(TANDEM.name, "<=", 0, metric=FAILED.name, text="no connection fails"),
                  Goal(TANDEM.name, "<=", 0, metric=DROPS.name, text="no packet dropped")), "", load),
            Case("memory", (EMPTY, SOME, MANY, DIFFERENCE), (RSS, TABLE, GROWTH), 1 if quick else 3,
                 (Goal(SOME.name, "<=", 32, metric=RSS.name, text="<= 32 MiB with 1 000 flows"),
                  Goal(MANY.name, "<=", 1024, metric=TABLE.name, text="<= 1 KiB a flow in the table"),
                  Goal(DIFFERENCE.name, "<=", 1024, metric=GROWTH.name, text="<= 1 KiB a flow, resident, from 0 to 10 000")), "", {"max_flows": 16_384}),
            Case("full table (1 000 of 3 000)", (ABSENT, TANDEM), (FAILED, DROPS, REFUSED), 1 if quick else 3,
                 (Goal(TANDEM.name, "<=", 0, metric=FAILED.name, text="no connection fails"),
                  Goal(TANDEM.name, "<=", 0, metric=DROPS.name, text="no packet dropped"),
                  Goal(TANDEM.name, ">=", 1, metric=REFUSED.name, text="the refused flows are counted")), "", full)]

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm != DIFFERENCE]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return {"memory": 3 + HELD.get(arm.name, 0) / 2000}.get(case.name, 5 + case.parameters.get("hold", 0) / 2000 + case.parameters.get("seconds", 0))

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[Lab]:
        with Lab("plain", prefix=options.prefix, seed=seed, air=False, counters=False) as lab:
            with helpers.serving(lab.server(), [helpers.program("tandem-bench-many-flows"), "server"]):
                yield lab

    def measure(self, session: Lab, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        with ExitStack() as stack:
            daemon = None
            if arm != ABSENT:
                config = {"daemon": {"max_flows": case.parameters["max_flows"]}}
                daemon = stack.enter_context(helpers.tandem(session, options, helpers.loaded_modules(session, options), config, f"{case.name}-{arm.name}-{seed}"))
            if case.name == "memory":
                return self._memory(session, daemon, HELD[arm.name])
            return self._load(session, daemon, case)

    def _load(self, lab: Lab, daemon: Any, case: Case) -> Measurement:
        given = case.parameters
        cpu = helpers.cpu_seconds(daemon.pid) if daemon else 0.0
        with _clients(lab, given["hold"], given["churn"], given["seconds"]) as clients:
            held = clients.held()
            # The table is looked at while it is fullest: before the short connections expire.
            status = daemon.api("/v1/status") if daemon else {}
            done = clients.done()
        details = {**done, "held": held, "failures": ", ".join(f"{why} {count}" for why, count in done["failures"].items())}
        values = {FAILED.name: float(done["failed"]), DROPS.name: 0.0, CONNECT.name: done["connect_p50_ms"], CONNECT_99.name: done["connect_p99_ms"],
                  USE.name: done["use_p50_ms"], USE_99.name: done["use_p99_ms"]}
        if daemon:
            after = daemon.api("/v1/status")
            path = after["datapath"]
            values |= {DROPS.name: float(path["queue_drops"] + path["user_drops"]), REFUSED.name: float(after["flows"]["refused"])}
            details |= {"flows_seen": status["flows"]["count"], "flows_refused": after["flows"]["refused"], "queued": path["queued"], "datapath": path,
                        "daemon_cpu_s": helpers.cpu_seconds(daemon.pid) - cpu, "knobs": helpers.knobs(after)}
        details |= {FAILED.samples: [values[FAILED.name]], DROPS.samples: [values[DROPS.name]]}
        return Measurement(values, details)

    def _memory(self, lab: Lab, daemon: Any, count: int) -> Measurement:
        with ExitStack() as stack:
            if count:
                clients = stack.enter_context(_clients(lab, count, 0, 2))
                held = clients.held()
                if held["failed"]:
                    raise LabError(f"{held['failed']} of {count} connections failed")
            else:
                time.sleep(1)
            status = daemon.api("/v1/status")
            seen = status["flows"]["count"]
            if seen < 0.99 * count:
                raise LabError(f"the daemon's table has {seen} of {count} flows: memory per flow cannot be told")
            rss = system.resident_bytes(daemon.pid)
            details = {"flows_seen": seen, "flows_refused": status["flows"]["refused"], "rss_bytes": rss,
                       "with_state": status["flows"]["with_state"], "keeper_mib": system.resident_bytes(status["keeper"]["pid"]) / MIB,
                       "knobs": helpers.knobs(status)}
        return Measurement({RSS.name: rss / MIB, **({TABLE.name: _table_bytes(status["flows"])} if count else {})}, details)

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        if case.name != "memory" or EMPTY.name not in values or MANY.name not in values:
            return {}
        return {DIFFERENCE.name: {GROWTH.name: (values[MANY.name][RSS.name] - values[EMPTY.name][RSS.name]) * MIB / HELD[MANY.name]}}


class _Clients:
    """tandem-bench-many-flows under way in the client."""

    def __init__(self, process: subprocess.Popen):
        self._process = process

    def _line(self, phase: str, timeout: float) -> dict[str, Any]:
        assert self._process.stdout and self._process.stderr
        guard = threading.Timer(timeout, self._process.kill)
        guard.start()
        line = self._process.stdout.readline()
        guard.cancel()
        if not line:
            raise LabError(f"many-flows ended before \"{phase}\": {self._process.stderr.read().strip() or 'nothing within ' + str(timeout) + ' s'}")
        return json.loads(line)

    def held(self) -> dict[str, Any]:
        """When all that stay open are open."""
        return self._line("held", 90)

    def done(self) -> dict[str, Any]:
        return self._line("done", 120)


def _table_bytes(flows: Mapping[str, Any]) -> float:
    """Of one flow in the table, with its share of what all modules keep."""
    return flows["bytes_each"] + flows["state_bytes_each"] * flows["with_state"] / max(flows["count"], 1)


@contextmanager
def _clients(lab: Lab, hold: int, churn: int, seconds: float) -> Iterator[_Clients]:
    process = lab.client.popen([helpers.program("tandem-bench-many-flows"), "client", lab.server().ipv4, "--hold", str(hold), "--churn-rate", str(churn),
                                "--bytes", str(ANSWER),
                                "--seconds", str(seconds)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        yield _Clients(process)
    finally:
        process.kill()
        process.communicate()


BENCH = Scale()
