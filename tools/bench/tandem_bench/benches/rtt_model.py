"""TCP's round trip over a card that comes and goes: section V-A of Giustiniano et al., the models against kernel TCP in the lab."""

from __future__ import annotations

import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, Mapping, Sequence

from tandem_lab.api import Lab
from tandem_lab.errors import BadInput, LabError
from tandem_lab.sockets import Socket

from .. import lateness, simulations
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from ..plot import COLOURS
from ..rate_pictures import curves
from ..statistics import values_of

KERNEL, PUBLISHED = Arm("kernel TCP", "plain"), Arm("model as published", "published")
BLIND, OURS = Arm("self-clocked, window from the losses", "blind"), Arm("self-clocked, window as measured", "tandem")
ARMS = (KERNEL, PUBLISHED, BLIND, OURS)
RTT = Metric("RTT", "ms", 1)
WINDOW = Metric("under way", "packets", 1)

LOSS, RATE = 0.0032, 24  # congestion signals per packet (section VI-C); what 54 Mb/s carry, Mb/s
AIR_MS = 1500 * 8 / RATE / 1e3
MSS = 1448
STEP = 0.117  # s; looks must not keep step with a period
WARMUP = 3.0  # s, at least
SECONDS, LONGEST = 20.0, 590.0  # s, of a download; the scenario has 600
DUTIES = {0.5: (0, 15, 25, 50, 75), 0.1: (135, 675)}
DELAYS = {0.5: (25, 75, 125), 0.1: (25, 100)}


def scenario(duty: float, off: float, delay: float) -> str:
    """As TOML: the Wi-Fi stand-in, which at each period's end is away for `off` ms and keeps what comes."""
    text = (f'[scenario]\nname = "bench-rtt-model"\nduration = "600s"\n[wifi]\nprofile = "wifi-pipe"\nrate_down = "{RATE}Mbit"\nrate_up = "{RATE}Mbit"\nqueue = 1000\nstation_queue = 1000\n'
            f'loss_down = {LOSS}\n[wan]\ndelay = "{delay / 2:g}ms"\n[[server]]\nname = "srv1"\ncongestion = "reno"\n')
    if off > 0:
        text += f'[[timeline]]\nwhat = "blackout"\nat = "{on_ms(duty, off):g}ms"\nevery = "{off / (1 - duty):g}ms"\nfor = "{off:g}ms"\nmode = "buffer"\n'
    return text


def pipe(socket: Socket) -> int:
    """Segments on their way (RFC 6675): not those that have arrived out of order or were lost, but their retransmissions."""
    again = str(socket.fields.get("retrans", "0/0")).partition("/")[0]
    return socket.unacked - int(socket.fields.get("sacked", 0)) - socket.lost + int(again or 0)


def on_ms(duty: float, off: float) -> float:
    """The connection that belongs to a disconnection."""
    return off * duty / (1 - duty) if off > 0 else 50.0


class RttModel(Bench):
    name = "rtt-model"
    summary = "TCP Reno over a Wi-Fi link that comes and goes: round trips on kernel TCP in the lab against two models"
    parallel = True
    settings = {"seconds": f"length of a download, 10 to {LONGEST:g} (default {SECONDS:g})"}
    columns = ("plain", "published", "blind", "tandem")
    headings = {"plain": "kernel TCP", "published": "model as published", "blind": "self-clocked, window from the losses", "tandem": "self-clocked, window as measured"}
    detail_columns = (("goodput", "goodput, Mb/s"), ("srtt", "smoothed RTT, mean of looks, ms"), ("losses", "retransmitted"), ("timeouts", "timeouts"))
    notes = (
        f"Cell names: share of the time that the station is connected, length of each disconnection, end-to-end wired delay (both ways together). The link is the Wi-Fi stand-in wifi-pipe with {RATE} Mb/s each way and {100 * LOSS:g} % random losses down; "
        f"in a disconnection both ends keep what they have (timeline, mode buffer), without a switching cost. One download of {SECONDS:g} s (--set seconds) by nginx from a server with Reno; its first {WARMUP:g} s and its first fifteenth do not count.",
        "RTT of kernel TCP: by Little's law, the segments under way (RFC 6675's pipe, by ss at the server, every 0.117 s) over the segments acknowledged in a second: the mean over packets. The kernel's smoothed round-trip time holds its last value while the card is away, so that its mean over looks says something else (second table).",
        "\"model as published\": section IV-B, 10,000 samples; mean of the exponential distribution one connection. \"self-clocked\": a window of packets of 0.5 ms, sent one after the other while the station is connected, and back after the wired delay. "
        "\"window from the losses\": 22 packets, sqrt(3 / (2 p)), knows nothing of the measurement. \"window as measured\": what the kernel had under way on average in the same run.",
        lateness.note(),
    )

    def cases(self, quick: bool) -> list[Case]:
        made: list[Case] = []
        for duty, offs in DUTIES.items():
            for off in offs:
                for delay in DELAYS[duty]:
                    if quick and not (delay in (25, 75) and off in (0, 50, 135)):
                        continue
                    goals = tuple(Goal(OURS.name, sense, bound, KERNEL.name, metric=RTT.name, text="window as measured: within 5 %") for sense, bound in ((">=", 0.95), ("<=", 1.05)))
                    made.append(Case(f"duty {duty:g}, off {off} ms, delay {delay} ms", ARMS, (RTT, WINDOW), 1, goals, "", {"duty": duty, "off": off, "delay": delay, "seconds": 15.0 if quick else SECONDS}))
        return made

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        if (text := settings.get("seconds")) is None:
            return cases
        try:
            seconds = float(text)
            if not 10 <= seconds <= LONGEST:
                raise ValueError
        except ValueError:
            raise BadInput(f"--set seconds={text}: allowed: {self.settings['seconds']}") from None
        return [replace(case, parameters={**case.parameters, "seconds": seconds}) for case in cases]

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 2 * case.parameters["seconds"]

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        duty, off, delay, seconds = (case.parameters[key] for key in ("duty", "off", "delay", "seconds"))
        warmup = max(WARMUP, seconds / 15)
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(scenario(duty, off, delay), seed=seed, prefix=options.prefix, counters=False))
            before = lab.tcp_counters()
            lab.start_timeline()
            running = lab.start_download(seconds=seconds)
            began = time.monotonic()
            looks: list[tuple[float, int, float, int]] = []  # time, segments under way, srtt, bytes acknowledged
            while time.monotonic() - began < seconds - 0.5:
                time.sleep(STEP)
                sockets = lab.sock_stats("srv1", 80)
                at = time.monotonic() - began
                if sockets and at > warmup:
                    looks.append((at, pipe(sockets[0]), sockets[0].rtt_ms, sockets[0].bytes_acked))
            result = running.wait()
            after = lab.tcp_counters()
            late = lateness.checked(lab.stats())
        if result.error:
            raise LabError(f"download: {result.error}")
        if len(looks) < 20 or looks[-1][3] <= looks[0][3]:
            raise LabError("ss showed no connection at the server that acknowledged anything while the download ran")
        # Little's law: what is under way on average, by what is acknowledged in a second.
        under_way = sum(look[1] for look in looks) / len(looks)
        rate = (looks[-1][3] - looks[0][3]) / MSS / (looks[-1][0] - looks[0][0])
        return Measurement({RTT.name: 1e3 * under_way / rate, WINDOW.name: under_way},
                           {"goodput": result.goodput_from(warmup), "srtt": sum(look[2] for look in looks) / len(looks), "looks": len(looks),
                            "losses": after.get("RetransSegs", 0) - before.get("RetransSegs", 0), "timeouts": after.get("TCPTimeouts", 0) - before.get("TCPTimeouts", 0), **late})

    def measured_arms(self, case: Case) -> list[Arm]:
        return [arm for arm in case.arms if arm.name == KERNEL.name]

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        duty, off, delay = (case.parameters[key] for key in ("duty", "off", "delay"))

        def model(key: str, **settings: float) -> dict[str, float]:
            point = simulations.simulate("rtts", {"on": on_ms(duty, off), "off": off, "delays": delay, "air": AIR_MS, **settings})["points"][0]
            return {RTT.name: point[key]}

        made = {PUBLISHED.name: model("published_ms"), BLIND.name: model("self_clocked_ms")}
        if measured := values.get(KERNEL.name):
            made[OURS.name] = model("self_clocked_ms", window=measured[WINDOW.name])
        return made

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        """Figure 5: the round trip over the wired delay, a panel for each disconnection."""
        panels: dict[str, list[Case]] = {}
        for case in cases:
            panels.setdefault(f"duty {case.parameters['duty']:g}, off {case.parameters['off']} ms", []).append(case)
        points: list[Run] = []
        for title, own in panels.items():
            for arm in ARMS:
                curve = [[case.parameters["delay"], sum(values) / len(values)] for case in own if (values := list(values_of(runs, case.name, arm.name, RTT.name).values()))]
                if curve:
                    points.append(Run(title, arm.name, 1, 0, 0.0, {}, {"curve": curve}))
        lines = {KERNEL.name: (COLOURS["plain"], "o-"), PUBLISHED.name: (COLOURS["published"], "-"), BLIND.name: ("#F0A080", ":"), OURS.name: (COLOURS["tandem"], "-")}
        return curves(self, [Case(title, ARMS, (RTT,), 1) for title in panels], points, "curve", lines, "end-to-end wired delay, ms", "RTT, ms", directory)


BENCH = RttModel()
