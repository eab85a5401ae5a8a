"""One TCP download over a card that visits its access point in every wireless period: figures 3, 5, 6 and 7 of Giustiniano et al., packet by packet in the simulator, and by both models."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from .. import simulations, visit_pictures
from ..model import Arm, Case, Goal, Measurement, Metric, Options, Run
from ..plot import COLOURS
from ..rate_pictures import curves

TCP, PUBLISHED, CLOCKED = Arm("TCP, packet by packet", "plain"), Arm("model as published", "published"), Arm("self-clocked window", "tandem")
ARMS = (TCP, PUBLISHED, CLOCKED)
RATE, RTT = Metric("throughput, mean over the axis", "Mb/s", 2), Metric("RTT, mean over the axis", "ms", 1)
RATIO = Metric("ratio", "", 2)

LOSS, AIR = 0.0032, 24  # congestion signals per packet (section VI-C); what 54 Mb/s carry, Mb/s
AIR_MS = 1500 * 8 / AIR / 1e3
DELAYS = (5, 25, 50, 75, 100, 125, 150)  # ms
OFFS = {0.5: (0, 15, 25, 50, 75), 0.1: (135, 225, 450, 675)}  # ms, figures 5 and 6
PERIODS, SHARES, FAR = (30, 50, 100, 150), (0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9), 100  # figure 7: ms, of the time, ms


def of_delay(duty: float, off: float) -> str:
    return f"duty {duty:g}, away {off:g} ms"


def of_share(period: float) -> str:
    return f"period {period:g} ms, delay {FAR} ms"


def on_ms(duty: float, off: float) -> float:
    return off * duty / (1 - duty) if off > 0 else 50.0


def model(arm: Arm, on: float, off: float, delay: float) -> tuple[float, float]:
    """Round trip, ms, and throughput by Mathis, Mb/s."""
    point = simulations.simulate("rtts", {"on": on, "off": off, "delays": delay, "air": AIR_MS})["points"][0]
    key = "published" if arm == PUBLISHED else "self_clocked"
    return point[f"{key}_ms"], point[f"{key}_mbps"]


# What the paper says of its figures: row, published, figure over curves by name, bounds.
Curves = Mapping[str, Mapping[float, tuple[float, float]]]
CLAIMS: Sequence[tuple[str, str, Callable[[Curves], float], float, float]] = (
    ("figure 3: throughput at 100 ms by that at 50 ms, period 100 ms", "similar, a slight increase", lambda c: c[of_delay(0.5, 50)][100][1] / c[of_delay(0.5, 50)][50][1], 0.9, 1.3),
    ("figure 5: RTT at 125 ms, away 50 ms by away 75 ms", "above 1", lambda c: c[of_delay(0.5, 50)][125][0] / c[of_delay(0.5, 75)][125][0], 1.0, 9),
    ("figure 6a: away 75 ms, throughput at 150 ms by that at 75 ms", "quasi-constant", lambda c: c[of_delay(0.5, 75)][150][1] / c[of_delay(0.5, 75)][75][1], 0.85, 1.15),
    ("figure 6b: mean throughput, away 135 ms by away 675 ms", "more than 3", lambda c: mean_rate(c[of_delay(0.1, 135)]) / mean_rate(c[of_delay(0.1, 675)]), 3, 99),
    ("figure 6b: mean throughput, away 225 ms by away 675 ms", "more than 3", lambda c: mean_rate(c[of_delay(0.1, 225)]) / mean_rate(c[of_delay(0.1, 675)]), 3, 99),
    ("figure 7: throughput at 20 % of the time, period 30 ms by 50 ms", "slightly below 1", lambda c: c[of_share(30)][0.2][1] / c[of_share(50)][0.2][1], 0.8, 1.0),
    ("figure 7: mean throughput, period 50 ms by 100 ms", "similar", lambda c: mean_rate(c[of_share(50)]) / mean_rate(c[of_share(100)]), 0.85, 1.18),
    ("figure 7: throughput at 60 % of the time, period 150 ms by 100 ms", "clearly below 1", lambda c: c[of_share(150)][0.6][1] / c[of_share(100)][0.6][1], 0, 0.95),
)


# The paper's own panels: title, arm, what is drawn, case by label.
FIGURES: Sequence[visit_pictures.Panel] = (
    visit_pictures.Panel("figure 3: throughput, period 100 ms", TCP.name, "rates", {"50 ms away": of_delay(0.5, 50)}),
    visit_pictures.Panel("figure 5a: round trips of TCP", TCP.name, "rtts", {f"{off} ms away": of_delay(0.5, off) for off in OFFS[0.5]}),
    visit_pictures.Panel("figure 5b: round trips of the model as published", PUBLISHED.name, "rtts", {f"{off} ms away": of_delay(0.5, off) for off in OFFS[0.5]}),
    visit_pictures.Panel("figure 6a: throughput, half of the time", TCP.name, "rates", {f"{off} ms away": of_delay(0.5, off) for off in OFFS[0.5]}),
    visit_pictures.Panel("figure 6b: throughput, a tenth of the time", TCP.name, "rates", {f"{off} ms away": of_delay(0.1, off) for off in OFFS[0.1]}),
    visit_pictures.Panel(f"figure 7: throughput, delay {FAR} ms", TCP.name, "rates", {f"period {period} ms": of_share(period) for period in PERIODS}, "part of the time at the access point"),
)


def mean_rate(curve: Mapping[float, tuple[float, float]]) -> float:
    return simulations.mean([rate for _, rate in curve.values()])


class Visits(simulations.SimulatorBench):
    name = "visits"
    summary = "one TCP Reno download over a card that is at its access point for a part of every wireless period: figures 3, 5, 6 and 7, packet by packet and by two models (simulator)"
    columns = ("plain", "published", "tandem")
    headings = {"plain": "TCP, packet by packet", "published": "model as published", "tandem": "self-clocked window"}
    notes = (
        f"\"TCP, packet by packet\": Reno of the simulator (docs/sim.md) for 120 s, of which the first 10 do not count, over a card that leaves for a second channel in every period; {AIR} Mb/s each way, {100 * LOSS:g} % congestion signals, "
        "1.5 ms of each connection for the switch, 1000 packets at the access point. The paper measures 300 s, five times, by its own driver (its figures are drawn, not printed: rows \"figure ..\" hold what its text says of them).",
        "\"model as published\": section IV-B, 10,000 samples; \"self-clocked window\": 22 packets that go round. Both know nothing of the switch's cost; their throughput is Mathis' formula at the same congestion signals.",
        f"Rows \"duty\": over wired delays of {', '.join(map(str, DELAYS))} ms. Rows \"period\": over {', '.join(f'{100 * share:g}' for share in SHARES)} % of the time at the access point, at {FAR} ms. Goals are about the simulated TCP.")

    def cases(self, quick: bool) -> list[Case]:
        rounds = 1 if quick else 3
        made = [Case(of_delay(duty, off), ARMS, (RATE, RTT), rounds, (), "", {"points": {str(delay): [on_ms(duty, off), off, delay] for delay in DELAYS}})
                for duty, offs in OFFS.items() for off in offs]
        made += [Case(of_share(period), ARMS, (RATE, RTT), rounds, (), "", {"points": {str(share): [share * period, (1 - share) * period, FAR] for share in SHARES}}) for period in PERIODS]
        return made

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return 3.0

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        points: list[list[float]] = []
        for axis, (on, off, delay) in case.parameters["points"].items():
            if arm == TCP:
                result = simulations.simulate("visits", {"on": on, "off": off, "delay": delay, "mbps": AIR, "loss": LOSS, "seconds": 40 if options.quick else 120, "seed": seed})
                points.append([float(axis), result["rtt_ms"], result["mbps"]])
            else:
                points.append([float(axis), *model(arm, on, off, delay)])
        return Measurement({RATE.name: simulations.mean([point[2] for point in points]), RTT.name: simulations.mean([point[1] for point in points])},
                           {"points": points, "rtts": [point[:2] for point in points], "rates": [[point[0], point[2]] for point in points]})

    def summarise(self, cases: Sequence[Case], runs: Sequence[Run]) -> list[tuple[Case, list[Run]]]:
        rows: list[tuple[Case, list[Run]]] = []
        found: dict[tuple[str, int], dict[str, dict[float, tuple[float, float]]]] = {}
        for run in runs:
            if run.error is None and "points" in run.details:
                found.setdefault((run.arm, run.seed), {})[run.case] = {axis: (rtt, rate) for axis, rtt, rate in run.details["points"]}
        whole = {key: own for key, own in found.items() if len(own) == len(self.cases(False))}
        if not whole:
            return []
        for title, published, figure, least, most in CLAIMS:
            goals = tuple(Goal(TCP.name, sense, bound, metric=RATIO.name, text=f"as published: {published}") for sense, bound in ((">=", least), ("<=", most)) if 0 < bound < 9)
            case = Case(title, ARMS, (RATIO,), cases[0].seeds, goals, published, {"pooled": True})
            rows.append((case, [Run(title, arm, seed, 0, 0.0, {RATIO.name: figure(own)}, {"derived": True}) for (arm, seed), own in sorted(whole.items())]))
        return rows

    def draw(self, cases: Sequence[Case], runs: Sequence[Run], directory: Path) -> list[Path]:
        """A panel for each curve with both models, and figures 3, 5, 6 and 7 in the paper's own panels."""
        lines = {TCP.name: (COLOURS["plain"], "o-"), PUBLISHED.name: (COLOURS["published"], "-"), CLOCKED.name: (COLOURS["tandem"], "-")}
        shown: list[Case] = []
        points: list[Run] = []
        for case in cases:
            if "points" not in case.parameters:
                continue
            for key, what in (("rtts", "RTT, ms"), ("rates", "Mb/s")):
                if key == "rtts" and not case.name.startswith("duty 0.5"):
                    continue
                title = f"{case.name}: {what}"
                shown.append(Case(title, ARMS, (RATE,), 1))
                points += [Run(title, run.arm, run.seed, 0, 0.0, {}, {"curve": run.details[key]}) for run in runs if run.case == case.name and key in run.details]
        made = curves(self, shown, points, "curve", lines, "end-to-end wired delay, ms; part of the time at the access point", "", directory)
        return made + visit_pictures.figures(FIGURES, runs, directory, "visits-figures")


BENCH = Visits()
