"""Uploads in the lab, kernel TCP and MPTCP: before a handoff with their pace bounded, by BPF or at the interface; and R0 kept for them."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import Any, Mapping

from tandem_lab import Lab, topology
from tandem_lab.uploads import HANDOFF, LEAVING, Upload, around

from .. import helpers, lateness
from ..daemon_status import of_module
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Unavailable
from .promise import make_endpoint

PLAIN, BPF, HTB = Arm("plain", "plain"), Arm("by BPF", "bpf"), Arm("by HTB", "htb")
BACKUP, ALONE, TANDEM = Arm("cellular as backup", "backup"), Arm("MPTCP alone", "alone"), Arm("Tandem", "tandem")
HOW: Mapping[Arm, tuple[str, str]] = {BPF: ("auto", "BPF"), HTB: ("interface", "HTB")}  # the setting, and what status then says

RTT = Metric("round trip in the last 2 s before the handoff", "ms", 0)
WORST_RTT = Metric("longest smoothed round trip of them", "ms", 0)
GAP = Metric("longest time without data around the handoff", "s", 2)
AGAIN = Metric("segments sent again", "", 0)
GOODPUT = Metric("goodput", "Mb/s", 1)
BEFORE_AND_AT = (RTT, WORST_RTT, GAP, AGAIN, GOODPUT)
HELD = Metric("goodput while Wi-Fi is below R0", "% of R0", 1)
WORST = Metric("worst 2 s of it", "% of R0", 1)
SPENT = Metric("cellular, of what was missing", "%", 0)
NEEDLESS = Metric("cellular while Wi-Fi suffices", "MB", 2)

ENDED = 12.0  # s
R0, BY_WIFI, BY_CELL = 6.0, 3.0, 10.0  # Mb/s
SLOW, AGAIN_FAST, STOPS = 5.0, 20.0, 27.0  # s: Wi-Fi carries BY_WIFI, then what it did
SETTLE = 3.0  # after a change TCP, the module and the queues at the links are busy with it
HEADERS = 1448 / 1514  # of an Ethernet frame what TCP carries


def two_links() -> str:
    return (f'[scenario]\nname = "uploads"\nduration = "{STOPS + 5:g}s"\nmptcp = true\n[wifi]\nprofile = "wifi-pipe"\nrate_down = "25Mbit"\nrate_up = "25Mbit"\nqueue = 120\n'
            f'[cell]\nrate_down = "18Mbit"\nrate_up = "{BY_CELL:g}Mbit"\ndelay = "17ms"\nqueue = 200\n[wan]\ndelay = "12.5ms"\n[[ap]]\nname = "ap1"\n[[server]]\nname = "srv1"\n')


class Uploads(Bench):
    name = "uploads"
    summary = "uploads before a handoff, their pace bounded by BPF or at the interface, and R0 kept for MPTCP uploads by the cellular link, on kernel TCP in the lab"
    columns = ("plain", "bpf", "htb", "backup", "alone", "tandem")
    headings = {arm.column: arm.name for arm in (PLAIN, BPF, HTB, BACKUP, ALONE, TANDEM)}
    detail_columns = (("begun", "bounds begun"), ("last_error", "not bounded because"), ("counted_percent", "% of cellular counted"), ("faults", "module faults"),
                      ("violations", "violations"), ("release_error_p99_us", "lab late, p99 us"))
    notes = (
        f"Handoff: 802.11g with rate control, a signal that falls from -60 to -80 dBm within {HANDOFF:g} s, then 50 ms without an access point; what the card had queued is lost. {ENDED:g} s of one upload, SHA-256 at both ends. `rate` with `uploads`, nothing else. "
        "By HTB: daemon.pacing = \"interface\", as on hosts where BPF may not be used (Debian 12's kernel, the packaged service).",
        f"R0: an MPTCP upload of {STOPS:g} s by Wi-Fi of 25 Mb/s, {BY_WIFI:g} Mb/s from {SLOW:g} to {AGAIN_FAST:g} s, and cellular of {BY_CELL:g} Mb/s up; `rate` with `promise` and r0_up = {R0:g} Mb/s. {SETTLE:g} s after each change count for nothing. "
        f"What comes counts in the order of the stream, as the receiver gets it. The card's own queue takes 1000 packets, {1000 * 1514 * 8e-6 / BY_WIFI:.0f} s at {BY_WIFI:g} Mb/s, so that what is queued at the change is still under way when counting begins.",
        "Round trips and segments sent again are the sender's (TCP_INFO, every 50 ms).",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        rounds = 1 if quick else 6
        handoffs = [Case(f"handoff, {congestion}", (PLAIN, BPF, HTB), BEFORE_AND_AT, rounds, tuple(goal for arm in (BPF, HTB) for goal in (
            Goal(arm.name, "<=", 0.5, over=PLAIN.name), Goal(arm.name, ">=", 0.97, over=PLAIN.name, metric=GOODPUT.name))), "", {"congestion": congestion})
            for congestion in (("cubic",) if quick else ("cubic", "bbr"))]
        r0 = Case(f"R0 {R0:g} Mb/s, Wi-Fi {BY_WIFI:g} Mb/s, cubic", (BACKUP, ALONE, TANDEM), (HELD, WORST, SPENT, NEEDLESS), rounds,
                  (Goal(TANDEM.name, ">=", 97), Goal(TANDEM.name, "<=", 120, metric=SPENT.name), Goal(TANDEM.name, "<=", 0.05, metric=NEEDLESS.name)), "", {})
        return [*handoffs, r0]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return (ENDED if "congestion" in case.parameters else STOPS) + 4.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        one = self._handoff if "congestion" in case.parameters else self._r0
        return lateness.measured(lambda: one(case, arm, seed, options))

    def _handoff(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(LEAVING, seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if arm != PLAIN:
                setting, wanted = HOW[arm]
                daemon = stack.enter_context(helpers.tandem(lab, options, ["rate"], {
                    "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "daemon": {"pacing": setting}, "modules": {"rate": {"uploads": True}}},
                    f"{case.name}-{arm.name}-{seed}"))
                if (how := daemon.api("/v1/status")["pacing"])["how"] != wanted:
                    raise Unavailable(f"uploads are not bounded {arm.name} here: {how['why'] or 'this kernel does not let BPF look at sockets'}")
            time.sleep(1)
            lab.start_timeline()
            began = time.time()
            sent, got = Upload(lab, ENDED + 0.5, congestion=case.parameters["congestion"]).wait()
            details: dict[str, Any] = dict(lateness.checked(lab.stats()))
            if daemon is not None:
                status = daemon.api("/v1/status")
                details |= of_module(status, "rate") | {key: status["pacing"][key] for key in ("begun", "last_error")}
        found = around(sent, got, began, HANDOFF, ENDED)
        return Measurement({RTT.name: found["rtt_ms"], WORST_RTT.name: found["most_rtt_ms"], GAP.name: found["gap_s"], AGAIN.name: found["retransmitted"], GOODPUT.name: found["mbit_s"]},
                           details | {"rtts": [[round(one["t"] - began, 2), round(1000 * one["rtt"])] for one in sent["seen"]]})

    def _r0(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        helpers.needs_mptcp()
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(two_links(), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if arm == TANDEM:
                daemon = stack.enter_context(helpers.tandem(lab, options, ["rate"], {
                    "links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "mptcp": {"setup": True},
                    "modules": {"rate": {"promise": True, "r0_up": f"{R0:g}Mbit"}}}, f"{case.name}-{arm.name}-{seed}"))
                helpers.wait_for_endpoints(lab, [topology.CELL_CLIENT[0]])
            else:
                make_endpoint(lab, backup=arm == BACKUP)
            began = time.time()
            upload = Upload(lab, STOPS, mptcp=True)
            cellular: list[tuple[float, int]] = []  # seconds, bytes
            changes = [(SLOW, BY_WIFI), (AGAIN_FAST, 25.0)]
            while (now := time.time() - began) < STOPS:
                cellular.append((now, int(lab.client.run(["cat", "/sys/class/net/cell0/statistics/tx_bytes"]).stdout)))
                if changes and now >= changes[0][0]:
                    lab.set("wifi.rate_up", f"{changes.pop(0)[1]:g}Mbit")
                time.sleep(0.1)
            _, got = upload.wait()
            values = r0_figures([(when - began, count) for when, count in got["came"]], cellular)
            details: dict[str, Any] = dict(lateness.checked(lab.stats()))
            if daemon is not None:
                told = of_module(daemon.api("/v1/status"), "rate")
                details |= told
                if cellular[-1][1] > 100_000:
                    details["counted_percent"] = 100 * told["datapath"]["cell_bytes"] / cellular[-1][1]
        return Measurement(values, details | {"cellular": [[round(second, 2), count] for second, count in cellular]})


def r0_figures(came: list[tuple[float, int]], cellular: list[tuple[float, int]]) -> dict[str, float]:
    """From what came at the receiver (seconds, bytes of each read), and what cellular had carried (seconds, bytes on the wire)."""

    def carried(begin: float, end: float) -> float:
        within = [count for second, count in cellular if begin <= second < end]
        return HEADERS * (within[-1] - within[0]) if within else 0.0

    begin, seconds = SLOW + SETTLE, AGAIN_FAST - SLOW - SETTLE
    body = sum(count for second, count in came if begin <= second < AGAIN_FAST)
    spent = carried(begin, AGAIN_FAST)
    missing = R0 / 8e-6 * seconds - HEADERS * BY_WIFI / 8e-6 * seconds
    worst = min(sum(count for second, count in came if at <= second < at + 2) for at in (begin + 0.5 * step for step in range(int(2 * seconds) - 3)))
    return {HELD.name: 100 * body / (R0 / 8e-6 * seconds), WORST.name: 100 * worst / (R0 / 8e-6 * 2), SPENT.name: 100 * spent / missing,
            NEEDLESS.name: 1e-6 * (carried(0, SLOW) + carried(AGAIN_FAST + SETTLE, STOPS))}


BENCH = Uploads()
