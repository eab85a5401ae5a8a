"""What the daemon costs where the network is no bottleneck: downloads over plain veth pairs."""

from __future__ import annotations

import time
from contextlib import contextmanager
from typing import Any, Iterator

from tandem_lab import Lab

from .. import helpers
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options

ABSENT, AGAIN = Arm("no daemon", "plain"), Arm("no daemon again")
MODULES, EVERYTHING = Arm("all modules", "tandem"), Arm("everything queued", "tandem")
GOODPUT = Metric("goodput", "Gb/s")
DAEMON_CPU = Metric("daemon CPU per GB", "s", 3)
MACHINE_CPU = Metric("CPU per GB", "s", 3)


class Overhead(Bench):
    name = "overhead"
    needs_real_time = "CPU and how long packets wait for it"
    summary = "goodput and CPU of unshaped downloads without the daemon, with every module on, and with every packet queued"
    headings = {"plain": "no daemon", "tandem": "all modules / everything queued"}
    detail_columns = (("queued_per_s", "queued per s"), ("observed_per_s", "observed per s"), ("queue_drops", "queue drops"),
                      ("user_drops", "user drops"), ("backend", "rules by"))
    notes = (
        "The cases with a rate are one download that the server's application sends at that rate: what a battery pays.",
        "One machine carries client, routers and server over plain veth pairs; iperf3 -R, CUBIC. The CPU is shared by sender, receiver and daemon.",
        "\"everything queued\" is every TCP packet of the Wi-Fi addresses in both directions ([recorder] everything = true).",
        "daemon CPU per GB is the time of tandemd and of its keeper process.",
        "CPU per GB is the time of all processes, by the scheduler's clock: sender, receiver, daemon, and whatever else runs.")

    def cases(self, quick: bool) -> list[Case]:
        goals = (Goal(MODULES.name, ">=", 0.97, over=ABSENT.name, noise=AGAIN.name, tolerance_cap=0.0),
                 Goal(EVERYTHING.name, ">=", 0.60, over=ABSENT.name))
        cost = (Goal(MODULES.name, "<=", 1.25, over=ABSENT.name, metric=MACHINE_CPU.name, noise=AGAIN.name),)
        unshaped = [Case(f"{streams} download{'s' if streams > 1 else ''}", (ABSENT, AGAIN, MODULES, EVERYTHING),
                         (GOODPUT, DAEMON_CPU, MACHINE_CPU), 5 if quick else 15, goals, "", {"streams": streams}) for streams in (1, 64)]
        paced = [Case(text, (ABSENT, AGAIN, MODULES), (GOODPUT, DAEMON_CPU, MACHINE_CPU), 2 if quick else 10, cost, "",
                      {"streams": 1, "rate": rate}) for text, rate in (("1 Gb/s", "1G"), ("100 Mb/s", "100M"))]
        return unshaped + paced

    @staticmethod
    def _seconds(case: Case, quick: bool) -> int:
        paced = "rate" in case.parameters
        return (4 if paced else 2) if quick else (8 if paced else 3)

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return self._seconds(case, quick) + 1.7

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[Lab]:
        with Lab("plain", prefix=options.prefix, seed=seed, air=False, counters=False) as lab:
            yield lab

    def measure(self, session: Lab, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        if arm.name in (ABSENT.name, AGAIN.name):
            return self._download(session, case, options, None)
        config: dict[str, Any] = {"recorder": {"everything": True}} if arm.name == EVERYTHING.name else {}
        modules = helpers.loaded_modules(session, options) if arm.name == MODULES.name else []
        with helpers.tandem(session, options, modules, config, f"{case.name}-{arm.name}-{seed}") as daemon:
            return self._download(session, case, options, daemon)

    def _download(self, lab: Lab, case: Case, options: Options, daemon: Any) -> Measurement:
        seconds = self._seconds(case, options.quick)
        status = daemon.api("/v1/status") if daemon else {}
        before = status.get("datapath", {})
        pids = [daemon.pid, status["keeper"]["pid"]] if daemon else []
        began, threads, own = time.monotonic(), helpers.cpu_by_process(), sum(map(helpers.exact_cpu_seconds, pids))
        pace = ("-b", case.parameters["rate"]) if "rate" in case.parameters else ()
        # The counted part has no warm-up of its own: CPU and bytes cover the same time.
        report = lab.iperf3("-R", "-P", str(case.parameters["streams"]), "-t", str(seconds), "-C", "cubic", *pace, timeout=seconds + 30)
        passed = time.monotonic() - began
        spent = helpers.cpu_since(threads)
        own = sum(map(helpers.exact_cpu_seconds, pids)) - own
        received = report["end"]["sum_received"]
        gigabytes = received["bytes"] / 1e9
        details: dict[str, Any] = {"bytes": received["bytes"], "retransmits": report["end"].get("sum_sent", {}).get("retransmits")}
        if daemon:
            status = daemon.api("/v1/status")
            path = status["datapath"]
            details |= {"queued_per_s": (path["queued"] - before["queued"]) / passed, "observed_per_s": (path["observed"] - before["observed"]) / passed,
                        "queue_drops": path["queue_drops"] - before["queue_drops"], "user_drops": path["user_drops"] - before["user_drops"],
                        "backend": status["backend"]["name"], "datapath": path, "knobs": helpers.knobs(status)}
        return Measurement({GOODPUT.name: received["bits_per_second"] / 1e9, DAEMON_CPU.name: own / gigabytes,
                            MACHINE_CPU.name: spent / gigabytes}, details)


BENCH = Overhead()
