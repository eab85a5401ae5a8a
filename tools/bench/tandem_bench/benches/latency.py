"""What a queued packet waits for: Tandem with every packet queued, against a program that accepts every packet."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import Iterator, Mapping

from tandem_lab import Lab, system
from tandem_lab.errors import LabError

from .. import helpers
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options

NONE, ACCEPT, TANDEM = Arm("no queue", "plain"), Arm("accept-all", "published"), Arm("tandem", "tandem")
ADDED_ACCEPT, ADDED_TANDEM = Arm("added by accept-all"), Arm("added by tandem")
P50, P99 = Metric("p50", "us"), Metric("p99", "us")
QUEUE = 4242


@dataclass(frozen=True)
class Rules:
    """The daemon's own rules as text, by the tool that loads them."""

    loads: tuple[tuple[tuple[str, ...], str], ...]


class Latency(Bench):
    name = "latency"
    needs_real_time = "how long packets wait for the CPU"
    summary = "round trip of one byte over TCP without a queue, through a program that accepts everything, and through Tandem"
    headings = {"plain": "no queue", "published": "accept-all"}
    detail_columns = (("minimum_us", "minimum, us"), ("p90_us", "p90, us"), ("p999_us", "p99.9, us"), ("mean_us", "mean, us"))
    notes = (
        "Request and response of one byte on one connection over plain veth pairs, both ends blocking; both directions pass the queue.",
        "All modules are on; the round trips before those that count carry what a flow must have delivered before modules are asked.",
        "The accept-all program gets the very rules that the daemon had loaded, with another queue number.",
        "\"added\" is the percentile with a queue minus the one without, round by round; the goal is the ratio of the two.")

    def cases(self, quick: bool) -> list[Case]:
        goals = tuple(Goal(ADDED_TANDEM.name, "<=", 1.15, over=ADDED_ACCEPT.name, metric=metric.name, text=f"added delay <= 1.15 x accept-all at {metric.name}")
                      for metric in (P50, P99))
        return [Case("ping-pong", (NONE, ACCEPT, TANDEM, ADDED_ACCEPT, ADDED_TANDEM), (P50, P99), 6 if quick else 20, goals, "", {"rounds": 10_000, "warm_up": 16_000})]

    def measured_arms(self, case: Case) -> list[Arm]:
        return [NONE, ACCEPT, TANDEM]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 2.5

    @contextmanager
    def session(self, case: Case, seed: int, options: Options) -> Iterator[tuple[Lab, Rules]]:
        with Lab("plain", prefix=options.prefix, seed=seed, air=False, counters=False) as lab:
            with helpers.serving(lab.server(), [helpers.program("tandem-bench-ping-pong"), "server"]):
                with self._tandem(lab, options):
                    rules = daemon_rules(lab)
                yield lab, rules

    @staticmethod
    def _tandem(lab: Lab, options: Options):
        return helpers.tandem(lab, options, helpers.loaded_modules(lab, options), {"recorder": {"everything": True}}, "latency")

    def measure(self, session: tuple[Lab, Rules], case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        lab, rules = session
        if arm == NONE:
            return self._ping(lab, case)
        if arm == ACCEPT:
            with helpers.serving(lab.client, [helpers.program("tandem-bench-accept-all"), "--queue", str(QUEUE)]), loaded(lab, rules):
                return self._checked(lab, self._ping(lab, case), QUEUE, case)
        with self._tandem(lab, options) as daemon:
            before = daemon.api("/v1/status")["datapath"]["queued"]
            result = self._ping(lab, case)
            status = daemon.api("/v1/status")
            path = status["datapath"]
            if path["queued"] - before < 2 * case.parameters["rounds"]:
                raise LabError(f"tandemd saw {path['queued'] - before} packets of {case.parameters['rounds']} round trips: not everything was queued")
            if idle := [module["name"] for module in status["modules"] if not module["flows"]]:
                raise LabError(f"never asked about the connection: {', '.join(idle)}")
            return Measurement(result.values, {**result.details, "datapath": path, "knobs": helpers.knobs(status)})

    def _ping(self, lab: Lab, case: Case) -> Measurement:
        found = helpers.answer(lab.client, [helpers.program("tandem-bench-ping-pong"), "client", lab.server().ipv4, "--rounds", str(case.parameters["rounds"]),
                                            "--warmup", str(case.parameters["warm_up"])])
        return Measurement({P50.name: found["p50_us"], P99.name: found["p99_us"]}, found)

    @staticmethod
    def _checked(lab: Lab, result: Measurement, queue: int, case: Case) -> Measurement:
        """The accept-all arm counts only if its queue really carried the packets (last column but one: packets numbered so far)."""
        rows = [line.split() for line in lab.client.run(["cat", "/proc/net/netfilter/nfnetlink_queue"]).stdout.splitlines()]
        seen = next((int(row[7]) for row in rows if int(row[0]) == queue), 0)
        if seen < 2 * case.parameters["rounds"]:
            raise LabError(f"accept-all saw {seen} packets of {case.parameters['rounds']} round trips: the rules did not queue everything")
        return result

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        if NONE.name not in values:
            return {}
        for metric in (P50.name, P99.name):
            # The goal is a ratio of what both add. Where accept-all adds nothing there is none, and what is less than nothing of both would count as equal.
            if ACCEPT.name in values and (added := values[ACCEPT.name][metric] - values[NONE.name][metric]) <= 0:
                raise LabError(f"{metric}: accept-all adds {added:.1f} us: this machine's noise is more than what is measured")
        return {added.name: {metric: values[arm.name][metric] - values[NONE.name][metric] for metric in (P50.name, P99.name)}
                for arm, added in ((ACCEPT, ADDED_ACCEPT), (TANDEM, ADDED_TANDEM)) if arm.name in values}


def daemon_rules(lab: Lab) -> Rules:
    """Copies the rules that the running daemon has loaded, with queue number QUEUE in place of its own.

    Raises LabError when it has none.
    """
    loads: list[tuple[tuple[str, ...], str]] = []
    tables = lab.client.run([system.tool("nft"), "list", "tables"], check=False).stdout
    if "table inet tandem\n" in tables + "\n":
        text = lab.client.run([system.tool("nft"), "-s", "list", "table", "inet", "tandem"]).stdout
        text = "\n".join(line for line in text.splitlines() if "flags owner" not in line).replace("table inet tandem", "table inet tandem_bench")
        loads.append(((system.tool("nft"), "-f", "-"), _requeued(text, "queue flags bypass to ")))
    else:
        for family in ("iptables", "ip6tables"):
            for variant in ("nft", "legacy"):
                saved = lab.client.run([f"/usr/sbin/{family}-{variant}-save", "-t", "mangle"], check=False).stdout
                if "--queue-num" in saved:
                    loads.append(((f"/usr/sbin/{family}-{variant}-restore",), _requeued(saved, "--queue-num ")))
    if not loads:
        raise LabError("tandemd has loaded no rule that queues packets; does it know [recorder] everything?")
    return Rules(tuple(loads))


def _requeued(text: str, before: str) -> str:
    import re

    return re.sub(re.escape(before) + r"\d+", f"{before}{QUEUE}", text) + "\n"


@contextmanager
def loaded(lab: Lab, rules: Rules) -> Iterator[None]:
    """The copied rules in the client's namespace, as long as the `with` lasts."""
    try:
        for argv, text in rules.loads:
            lab.client.run(list(argv), input=text)
        yield
    finally:
        for argv, _ in rules.loads:
            if argv[0].endswith("nft"):
                lab.client.run([argv[0], "delete", "table", "inet", "tandem_bench"], check=False)
            else:
                tool = argv[0].removesuffix("-restore")
                lab.client.run([tool, "-t", "mangle", "-F"], check=False)
                lab.client.run([tool, "-t", "mangle", "-X"], check=False)


BENCH = Latency()
