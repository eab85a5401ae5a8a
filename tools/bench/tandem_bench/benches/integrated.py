"""The published scenario of all three methods at once (Tsao and Sivakumar, CoNEXT 2009, "Integrated Operation"), and the bars of each step."""

from __future__ import annotations

import json
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Mapping, Sequence

from tandem_lab import Lab, topology
from tandem_lab.api import Download, DownloadResult
from tandem_lab.errors import BadInput, LabError

from .. import helpers, lateness, walks
from ..daemon_status import of_all
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options
from .mirror import truth

MODULES = ("offload", "freeze", "mirror", "ecn")
WIFI, CELLULAR = Arm("plain Wi-Fi", "plain"), Arm("plain cellular", "cellular")
SIMPLE, MPTCP = Arm("simple aggregation", "simple"), Arm("MPTCP", "mptcp")
PUBLISHED, TANDEM, ORACLE = Arm("as published", "published"), Arm("tandem", "tandem"), Arm("oracle", "limit")
STEPS = tuple(Arm(module, "step") for module in MODULES[:3])
PUBLISHED_STEP, TANDEM_STEP, LOSS_FREE = Arm("the step as published", "published"), Arm("the step", "step"), Arm("loss-free", "limit")
WALK_ARMS = (WIFI, CELLULAR, SIMPLE, MPTCP, PUBLISHED, *STEPS, TANDEM, ORACLE)
STEP_ARMS = (WIFI, PUBLISHED_STEP, TANDEM_STEP, TANDEM)

# The strategies as they were published. The paper sends the "sustainable fraction" of the ACKs by 3G, and takes the second path for granted.
AS_PUBLISHED: Mapping[str, Mapping[str, Any]] = {
    "offload": {"strategy": "fraction", "fraction": 1.0},
    "freeze": {"strategy": "zero_window", "validate_path": False},
    "mirror": {"strategy": "replay"},
}

GOODPUT, GAIN = Metric("goodput", "Mb/s"), Metric("gain", "%", 0)
RECOVERY = Metric("time to recover a loss", "ms", 1, "recovery_ms_all", "median")

WALK, BRIEF_WALK = 80.0, 24.0
STEP, BRIEF_STEP = 44.0, 10.0  # two blackouts, 20 s apart, and what follows
ROUNDS = 3
AIR_MBPS = 60.0  # offered to the oracle's UDP: more than the air carries
TCP_OF_UDP = 1448 / 1464  # payload of a full packet
RECEIVER_PATIENCE = 4.0  # s without a datagram that a blackout may last
CELL_TABLE = "1100"  # routes of what has the cellular address


@dataclass(frozen=True)
class World:
    """One case's scenario. `step`: the module that its bar is about; "": the whole walk."""

    step: str = ""
    trouble: str = ""
    cell: str = "3g"
    seconds: float = WALK
    congestion: str = "cubic"

    def scenario(self, mptcp: bool = False, lossy: bool = True) -> str:
        """The scenario as TOML text."""
        wifi, tables = self._walk() if not self.step else self._trouble(lossy)
        return (f'[scenario]\nname = "bench-integrated"\nduration = "600s"\nmptcp = {str(mptcp).lower()}\n[wifi]\nprofile = "wifi-g"\n{wifi}'
                f'[cell]\nprofile = "{self.cell}"\n[wan]\ndelay = "20ms"\n[[server]]\nname = "srv1"\ncongestion = "{self.congestion}"\n{tables}')

    @property
    def cellular_from(self) -> float:
        """When the cellular link is there, in seconds."""
        return 0.0 if self.step else 5.0 * self.seconds / WALK

    def _walk(self) -> tuple[str, str]:
        """[wifi] keys and tables: two blackouts of 2 s, each ends at the next access point; 1 % of the packets is lost at the third."""
        part = self.seconds / WALK
        one, two = 50 * part, 62.5 * part
        stops = (walks.Stop([(0, -45), (one, -68)]),
                 walks.Stop([(one, -66), ((one + two + 2) / 2, -50), (two, -66)], one + 2.0, 6),
                 walks.Stop([(two, -66), (self.seconds, -48)], two + 2.0, 11))
        return 'rate = "minstrel"\n', (walks.access_points(stops, 0.06) + walks.blackouts((one, 2.0), (two, 2.0))
                                       + walks.event(0, "cell_down", self.cellular_from, carrier='"down"')
                                       + walks.event(two + 2.0, "loss", direction='"down"', value="0.01"))

    def _trouble(self, lossy: bool) -> tuple[str, str]:
        if self.trouble == "blackouts":
            return "", walks.blackouts((0.1 * self.seconds, 2.0), (0.1 * self.seconds + 20.0, 2.0))
        return (f"loss_down = {self.trouble}\n" if lossy and self.trouble else ""), ""


def walk_case(world: World, arms: Sequence[Arm], rounds: int) -> Case:
    goals = (Goal(TANDEM.name, ">=", 0.9, over=ORACLE.name), Goal(TANDEM.name, ">=", 1.0, over=WIFI.name))
    return Case(f"walk, {world.cell.upper()}", tuple(arms), (GOODPUT, GAIN), rounds, goals, "+169 % over simple aggregation", {"world": world, "over": SIMPLE.name})


def step_cases(seconds: float, rounds: int) -> list[Case]:
    """The bars: each method in the scenario that it was shown in; and what 0.1 % loss costs without it."""
    made = []
    for name, published, step, trouble in (("offloading, no trouble", "+26 %", "offload", ""), ("proxying, 2 s blackouts every 20 s", "+35 %", "freeze", "blackouts"),
                                           ("mirroring, 0.3 % loss", "+52 %; recovery 36 times faster", "mirror", "0.003")):
        world = World(step, trouble, "3g", seconds)
        metrics = (GOODPUT, GAIN, RECOVERY) if step == "mirror" else (GOODPUT, GAIN)
        made.append(Case(name, STEP_ARMS, metrics, rounds, (Goal(TANDEM.name, ">=", 1.0, over=WIFI.name),), published, {"world": world, "over": WIFI.name}))
    world = World("mirror", "0.001", "3g", seconds)
    made.append(Case("0.1 % loss", (WIFI, TANDEM, LOSS_FREE), (GOODPUT, GAIN), rounds, (Goal(TANDEM.name, ">=", 0.9, over=LOSS_FREE.name),),
                     "-49 % without Tandem", {"world": world, "over": LOSS_FREE.name}))
    return made


class Integrated(Bench):
    name = "integrated"
    summary = "a walk past three access points with blackouts and losses: by Wi-Fi, by cellular, by both, as published, with Tandem, and what the air allows"
    parallel = True
    settings = {"congestion": "of the server: cubic, reno, bbr"}
    columns = ("plain", "cellular", "simple", "mptcp", "published", "step", "tandem", "limit")
    headings = {"plain": "plain Wi-Fi", "cellular": "plain cellular", "simple": "simple aggregation", "mptcp": "kernel MPTCP", "published": "as published",
                "step": "one step: offload / freeze / mirror", "tandem": "Tandem", "limit": "oracle, or loss-free"}
    detail_columns = (("cell_mb", "cellular, MB"), ("RetransSegs", "retransmitted"), ("TCPTimeouts", "timeouts"), ("longest_gap_s", "longest gap, s"),
                      ("recovery_ms", "time to recover, ms"), ("faults", "module faults"), ("violations", "violations"), ("reasons", "reasons"))
    notes = (
        f"Walk: {WALK:g} s of one download on 802.11g with rate control, RTT 40 ms; cellular from 5 s on; blackouts of 2 s at 50 s and 62.5 s, each ending at the next access point; 1 % of the packets lost at the third. "
        "3G: 3.1 Mb/s down, 1.2 Mb/s up, 50 ms each way. Goodput over the whole time, slow start and blackouts included.",
        "Simple aggregation: two TCP downloads, one by each link, added up. MPTCP: the kernel's on both ends, uncoupled CUBIC, the cellular subflow once the link is there. As published: every ACK by cellular unvalidated, zero window, "
        "mirror connection, together (\"the step as published\": one of them). Tandem: all modules with their defaults; a step: one module alone.",
        f"Oracle of the walk: UDP at {AIR_MBPS:g} Mb/s over the same air and the same losses, without anything the other way, as TCP payload: what the Wi-Fi alone allows; Tandem carries no data by cellular.",
        "Gain: over simple aggregation in the walk, over plain Wi-Fi in the steps, over loss-free in the last case. Time to recover: from the first loss of a segment to the client's acknowledgement of it, by the emulator's account.",
        lateness.note())

    def cases(self, quick: bool) -> list[Case]:
        if quick:
            return [walk_case(World(seconds=BRIEF_WALK), (WIFI, SIMPLE, TANDEM, ORACLE), 1), *step_cases(BRIEF_STEP, 1)[2:]]
        return [walk_case(World(cell=cell), WALK_ARMS, ROUNDS) for cell in ("3g", "lte")] + step_cases(STEP, ROUNDS)

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        for key, text in settings.items():
            if text not in ("cubic", "reno", "bbr"):
                raise BadInput(f"--set {key}={text}: allowed: {self.settings[key]}")
            cases = [replace(case, parameters={**case.parameters, "world": replace(case.parameters["world"], congestion=text)}) for case in cases]
        return cases

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        return case.parameters["world"].seconds + 2.5

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        if arm == MPTCP:
            helpers.needs_mptcp()
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        world: World = case.parameters["world"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(world.scenario(arm == MPTCP, arm != LOSS_FREE), seed=seed, prefix=options.prefix, counters=False))
            daemon = None
            if modules := modules_of(arm, world):
                published = arm in (PUBLISHED, PUBLISHED_STEP)
                config = {"modules": {name: dict(AS_PUBLISHED[name]) for name in modules}} if published else {}
                daemon = stack.enter_context(helpers.tandem(lab, options, modules, config, f"{case.name}-{arm.name}-{seed}"))
            before = lab.tcp_counters()
            lab.start_timeline()
            if arm == ORACLE:
                return Measurement({GOODPUT.name: by_udp(lab, world.seconds)}, lateness.checked(lab.stats()))
            results = fetched(lab, arm, world)
            after = lab.tcp_counters()
            details: dict[str, Any] = {key: after.get(key, 0) - before.get(key, 0) for key in ("RetransSegs", "TCPTimeouts", "TCPFullUndo", "TCPDSACKUndo")}
            stats = lab.stats()
            details |= truth(lab, world.seconds) | {"rates_mbps": [[round(rate, 3) for rate in result.rates(0.5)] for result in results],
                                                    "longest_gap_s": round(results[0].longest_gap(), 2),
                                                    "cell_mb": (stats["cell"]["down"]["bytes"] + stats["cell"]["up"]["bytes"]) / 1e6}
            details |= lateness.checked(stats)
            if daemon is not None:
                details |= of_all(daemon.api("/v1/status"))
        return Measurement({GOODPUT.name: sum(result.bytes for result in results) * 8e-6 / world.seconds}, details)

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        base = values.get(case.parameters["over"], {}).get(GOODPUT.name, 0.0)
        if base <= 0:
            return {}
        return {arm: {GAIN.name: 100 * (given[GOODPUT.name] / base - 1)} for arm, given in values.items() if arm != case.parameters["over"]}


def modules_of(arm: Arm, world: World) -> tuple[str, ...]:
    """The modules that are on in an arm; none: it runs without the daemon."""
    if arm in (PUBLISHED_STEP, TANDEM_STEP):
        return (world.step,)
    if arm in STEPS:
        return (arm.name,)
    return {TANDEM: MODULES, PUBLISHED: tuple(AS_PUBLISHED)}.get(arm, ())


def fetched(lab: Lab, arm: Arm, world: World) -> list[DownloadResult]:
    """The download of an arm, or its two halves; the first one is there from the beginning, unless it goes by cellular."""
    began = time.monotonic()
    going: list[Download] = []
    if arm != CELLULAR:
        going.append(lab.start_download(seconds=world.seconds, mptcp=arm == MPTCP))
    if arm in (CELLULAR, SIMPLE, MPTCP):
        time.sleep(world.cellular_from + 0.2)  # the carrier is up by then
        cellular_for_its_address(lab)
        left = world.seconds - (time.monotonic() - began)
        if arm == MPTCP:
            lab.client.run(["ip", "mptcp", "endpoint", "add", topology.CELL_CLIENT[0], "dev", "cell0", "id", "9", "subflow"])
        else:
            going.append(lab.start_download(seconds=left, interface="cell0"))
    results = [download.wait() for download in going]
    for result in results:
        if result.error:
            raise LabError(f"download: {result.error}")
    return results


def cellular_for_its_address(lab: Lab) -> None:
    """What has the cellular address leaves by the cellular link."""
    lab.client.run(["ip", "route", "replace", "default", "via", topology.CELL_GATEWAY[0], "dev", "cell0", "table", CELL_TABLE])
    lab.client.run(["ip", "rule", "add", "from", topology.CELL_CLIENT[0], "lookup", CELL_TABLE, "priority", CELL_TABLE])


def by_udp(lab: Lab, seconds: float) -> float:
    """Mb/s of TCP payload that the Wi-Fi carries, by a UDP stream that asks for more than it can."""
    program = helpers.program("tandem-bench-udp-stream")
    times = ["--warmup", "0", "--seconds", f"{seconds:g}", "--patience", f"{RECEIVER_PATIENCE:g}"]
    receiver = lab.client.popen([program, *times, "receive"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert receiver.stdout
        receiver.stdout.readline()
        helpers.answer(lab.server(), [program, "--warmup", "0", "--seconds", f"{seconds:g}", "send", lab.client.ipv4, "--mbps", f"{AIR_MBPS:g}", "--size", "1464"],
                       timeout=seconds + 60)
        output, errors = receiver.communicate(timeout=30)
    finally:
        receiver.kill()
        receiver.wait()
    if receiver.returncode != 0:
        raise LabError(f"UDP receiver: {errors.strip()}")
    return json.loads(output.strip().splitlines()[-1])["mbps"] * TCP_OF_UDP


BENCH = Integrated()
