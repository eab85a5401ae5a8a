"""What the flight recorder costs: the same downloads with every module on, without it and with it."""

from __future__ import annotations

from typing import Any

from tandem_lab import Lab

from .. import helpers
from ..model import Arm, Case, Goal, Measurement, Options
from .overhead import DAEMON_CPU, GOODPUT, MACHINE_CPU, Overhead

WITHOUT, AGAIN, WITH = Arm("no recorder", "plain"), Arm("no recorder again"), Arm("recorder", "tandem")
ARMS = (WITHOUT, AGAIN, WITH)
METRICS = (GOODPUT, DAEMON_CPU, MACHINE_CPU)


class Recorder(Overhead):
    name = "recorder"
    summary = "goodput and CPU of downloads with every module on, without the flight recorder and with it"
    headings = {"plain": "no recorder", "tandem": "recorder"}
    notes = (
        "One machine carries client, routers and server over plain veth pairs; iperf3 -R, CUBIC. The CPU is shared by sender, receiver and daemon.",
        "1 Gb/s is what the server's application sends; the recorder as it is by default. \"everything queued\" is unshaped, with every TCP packet of "
        "the Wi-Fi addresses queued in both directions and recorded: the most that it can be asked for.",
        "CPU per GB is the time of all processes, by the scheduler's clock: sender, receiver, daemon, and whatever else runs.")

    def cases(self, quick: bool) -> list[Case]:
        goal = (Goal(WITH.name, ">=", 0.97, over=WITHOUT.name, noise=AGAIN.name, tolerance_cap=0.0),)
        return [Case("1 Gb/s", ARMS, METRICS, 3 if quick else 15, goal, "", {"streams": 1, "rate": "1G"}),
                Case("everything queued", ARMS, METRICS, 5 if quick else 20, goal, "", {"streams": 1, "everything": True})]

    def measure(self, session: Lab, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        recorder: dict[str, Any] = {} if arm.name == WITH.name else {"seconds": 0}
        if case.parameters.get("everything"):
            recorder["everything"] = True
        with helpers.tandem(session, options, helpers.loaded_modules(session, options), {"recorder": recorder}, f"{case.name}-{arm.name}-{seed}") as daemon:
            return self._download(session, case, options, daemon)


BENCH = Recorder()
