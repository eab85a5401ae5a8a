"""Short requests with freeze on, over a link that is well: do they take longer than without Tandem?"""

from __future__ import annotations

import json
import statistics
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Iterator

from tandem_lab import Lab
from tandem_lab.errors import LabError

from .. import helpers, request_times
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options
from .freeze import from_status

PLAIN, AGAIN, TANDEM = Arm("plain", "plain"), Arm("plain again"), Arm("tandem", "tandem")
MEDIAN = Metric("median", "ms", 2, "times_ms", "median")
P99 = Metric("p99", "ms", 2, "times_ms", "p99")
SCENARIO = """\
[scenario]
name = "bench-freeze-requests"
duration = "600s"
[wifi]
profile = "wifi-g"
[cell]
profile = "lte"
[wan]
delay = "10ms"
[[server]]
name = "srv1"
congestion = "cubic"
"""


class FreezeRequests(Bench):
    name = "freeze-requests"
    needs_real_time = "how long requests wait for the CPU"
    summary = "time of 1 kB and 100 kB requests with freeze on (default strategy) against no Tandem"
    detail_columns = (("mean_ms", "mean, ms"), ("p90_ms", "p90, ms"), ("max_ms", "longest, ms"), ("violations", "violations"), ("faults", "module faults"))
    notes = (
        "wifi-g, WAN 10 ms each way, nginx on an unmodified CUBIC server; requests one after the other, 5 ms apart, each from connecting (kept connection: from sending) "
        "to the last byte. Arms take turns of a few seconds.",
        "Ratios are of the median and the 99th percentile over all requests of all rounds; brackets and resolution are 95 % bootstrap intervals. "
        "\"plain\" and \"plain again\" are the same arm measured twice: their ratio shows the resolution.")

    def cases(self, quick: bool) -> list[Case]:
        cases: list[Case] = []
        for size, count in (("1k", 60), ("100k", 40)):
            for keep in (False, True):
                goals = tuple(Goal(TANDEM.name, "<=", 1.02, over=PLAIN.name, metric=metric.name, noise=AGAIN.name,
                                   text=f"{metric.name} <= 1.02 x plain") for metric in (MEDIAN, P99))
                cases.append(Case(f"{size.replace('k', ' kB')}, {'kept connection' if keep else 'new connections'}", (PLAIN, AGAIN, TANDEM), (MEDIAN, P99),
                                  3 if quick else 25, goals, "", {"file": size, "keep": keep, "count": count}))
        return cases

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 0.8 + case.parameters["count"] * (0.13 if case.parameters["file"] == "100k" else 0.045) * (0.6 if case.parameters["keep"] else 1.0)

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[Lab]:
        with Lab(SCENARIO, seed=seed, prefix=options.prefix) as lab:
            lab.start_timeline()
            yield lab

    def measure(self, session: Lab, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        given = case.parameters
        details = {}
        with ExitStack() as stack:
            daemon = None
            if arm.name == TANDEM.name:
                config = {"modules": {"freeze": {"strategy": "auto"}}}
                daemon = stack.enter_context(helpers.tandem(session, options, ["freeze"], config, f"{case.name}-{seed}"))
            done = session.client.run(["/usr/bin/python3", "-B", str(Path(request_times.__file__)), session.server().ipv4, f"/{given['file']}",
                                       "--count", str(given["count"]), "--pause", "0.005", *(["--keep"] if given["keep"] else [])], timeout=120)
            times: list[float] = json.loads(done.stdout)
            if len(times) != given["count"]:
                raise LabError(f"{len(times)} of {given['count']} requests were made")
            if daemon is not None:
                details |= from_status(daemon.api("/v1/status"))
        ordered = sorted(times)
        details |= {"times_ms": times, "mean_ms": statistics.mean(times), "p90_ms": ordered[int(0.9 * len(ordered))], "max_ms": ordered[-1]}
        return Measurement({MEDIAN.name: statistics.median(times), P99.name: ordered[int(0.99 * len(ordered))]}, details)


BENCH = FreezeRequests()
