"""ACK offloading: what the uplink ACKs of a download cost on each Wi-Fi profile, and what sending them by cellular gives back."""

from __future__ import annotations

import statistics
import subprocess
import time
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import Any, Mapping

from tandem_lab import Lab
from tandem_lab.errors import BadInput, LabError

from .. import helpers, lateness
from ..model import Arm, Bench, Case, Goal, Measurement, Metric, Options

PLAIN, AGAIN = Arm("plain", "plain"), Arm("plain again")
HALF, WHOLE = Arm("fraction 0.5", "published"), Arm("fraction 1.0", "published")
TANDEM, LIMIT = Arm("tandem", "tandem"), Arm("limit", "limit")

# Strategy and knobs of the daemon per arm; arms that are not here run without it.
OFFLOAD: Mapping[str, Mapping[str, Any]] = {
    TANDEM.name: {},
    HALF.name: {"strategy": "fraction", "fraction": 0.5},
    WHOLE.name: {"strategy": "fraction", "fraction": 1.0},
}

GOODPUT = Metric("goodput", "Mb/s")
NEVER_WORSE = Goal("tandem", ">=", 1.0, over="plain", noise="plain again")
NEAR_LIMIT = Goal("tandem", ">=", 0.95, over="limit")
PAPER = "+26 %"

WAN = "15ms"  # each way
UDP_OFFERED = {"wifi-b": 14, "wifi-g": 50, "wifi-a": 50, "wifi-n": 75}  # Mb/s of payload, more than the profile carries


@dataclass(frozen=True)
class Air:
    """What a case changes of the common scenario."""

    wifi: str = "wifi-g"
    cell: str = "lte"
    congestion: str = "cubic"
    cell_keys: Mapping[str, Any] | None = None
    stations: int = 0  # backlogged ones that send by the same access point
    known: bool = False  # the cellular path was validated by a download before

    def scenario(self) -> str:
        """The scenario as TOML text."""
        keys = "".join(f"{key} = {_toml(value)}\n" for key, value in (self.cell_keys or {}).items())
        stations = "".join(f'[[station]]\nname = "sta{number}"\ndirection = "up"\nload = "saturated"\n' for number in range(1, self.stations + 1))
        return (f'[scenario]\nname = "bench-offload"\nduration = "600s"\n[wifi]\nprofile = "{self.wifi}"\n'
                f'[cell]\nprofile = "{self.cell}"\n{keys}[wan]\ndelay = "{WAN}"\n'
                f'[[server]]\nname = "srv1"\ncongestion = "{self.congestion}"\n{stations}')


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return f'"{value}"' if isinstance(value, str) else str(value)


def _case(name: str, air: Air, arms: tuple[Arm, ...], seeds: int, *, goals: tuple[Goal, ...] = (NEVER_WORSE,), published: str = "",
          **parameters: Any) -> Case:
    return Case(name, arms, (GOODPUT,), seeds, goals, published, {"air": air, **parameters})


class Offload(Bench):
    name = "offload"
    summary = "ACKs of a download by Wi-Fi, by cellular as published, by Tandem, and as if they took no air"
    detail_columns = (
        ("acks_wlan0", "ACKs wlan0"), ("acks_cell0", "ACKs cell0"), ("cell_bytes_out", "bytes out cell0"),
        ("server_rtt_ms", "RTT at the server, ms"), ("server_retrans", "retransmitted"), ("validated", "paths validated"),
        ("returned", "returns to Wi-Fi"), ("thinned", "left out"), ("faults", "module faults"), ("last_reason", "reasons of returns"))
    notes = (
        f"One AP, LTE 30/10 Mb/s with 20 ms each way unless the case says otherwise, WAN {WAN} each way, nginx on an unmodified server.",
        "\"plain\" and \"plain again\" are the same arm measured twice per round: their ratio shows the resolution.",
        "\"limit\": the emulator lets uplink pure ACKs pass without taking air; no daemon runs.",
        "\"fraction\" is the published method (a share of the ACKs by cellular, packet by packet, without path validation).",
        lateness.note())

    settings = {"known": "no, yes: a download before has validated the cellular path (decision 0033)"}

    def configured(self, cases: list[Case], settings: Mapping[str, str]) -> list[Case]:
        said = settings.get("known", "no")
        if said not in helpers.YES_OR_NO:
            raise BadInput(f"--set known={said}: allowed: {self.settings['known']}")
        return [replace(case, parameters={**case.parameters, "air": replace(case.parameters["air"], known=helpers.YES_OR_NO[said])}) for case in cases]

    def cases(self, quick: bool) -> list[Case]:
        return self._quick() if quick else self._full()

    def _quick(self) -> list[Case]:
        cases = [_case(profile, Air(wifi=profile), (PLAIN, AGAIN, *((HALF,) if profile == "wifi-g" else ()), TANDEM, LIMIT), 1,
                       goals=(NEVER_WORSE, NEAR_LIMIT), published=PAPER)
                 for profile in ("wifi-b", "wifi-g", "wifi-a", "wifi-n")]
        for name, keys in (("cellular 60 ms", {"delay": "60ms"}), ("filtered", {"source_filter": True}), ("behind NAT", {"nat": True})):
            cases.append(_case(f"wifi-g, {name}", Air(cell_keys=keys), (PLAIN, AGAIN, TANDEM), 1))
        cases.append(self._udp("wifi-g", 1))
        return cases

    def _full(self) -> list[Case]:
        seeds = 5
        cases: list[Case] = []
        for profile in ("wifi-b", "wifi-g", "wifi-a", "wifi-n"):
            for control in ("cubic", "reno", "bbr"):
                published = (HALF, WHOLE) if control == "cubic" else ()
                cases.append(_case(f"{profile} {control}", Air(wifi=profile, congestion=control), (PLAIN, AGAIN, *published, TANDEM, LIMIT),
                                   seeds, goals=(NEVER_WORSE, NEAR_LIMIT), published=PAPER))
        three = (PLAIN, AGAIN, TANDEM)
        for profile in ("wifi-g", "wifi-b"):
            for name, keys, arms in (
                    ("cellular 60 ms", {"delay": "60ms"}, (PLAIN, AGAIN, HALF, TANDEM)),
                    ("cellular 150 ms", {"delay": "150ms"}, three),
                    ("filtered", {"source_filter": True}, (PLAIN, AGAIN, HALF, TANDEM)),
                    ("behind NAT", {"nat": True}, three)):
                cases.append(_case(f"{profile}, {name}", Air(wifi=profile, cell_keys=keys), arms, seeds))
            cases.append(_case(f"{profile}, thin 3G", Air(wifi=profile, cell="3g"), three, seeds))
            cases.append(_case(f"{profile}, 4 flows", Air(wifi=profile), (*three, LIMIT), seeds, flows=4))
            cases.append(_case(f"{profile}, 1 busy station", Air(wifi=profile, stations=1), (*three, LIMIT), seeds))
            cases.append(_case(f"{profile}, 2 busy stations", Air(wifi=profile, stations=2), (*three, LIMIT), seeds))
            cases.append(_case(f"{profile}, 100 kB files", Air(wifi=profile), three, seeds, files="100k", count=12))
        # An ACK of 66 bytes for each second segment wants some 100 kb/s over 802.11b, 500 over g.
        for profile, rates in (("wifi-b", (8, 24, 48, 96)), ("wifi-g", (48, 128, 256))):
            cases += [_case(f"{profile}, uplink of {rate} kb/s", Air(wifi=profile, cell_keys={"rate_up": f"{rate}kbit"}), three, seeds) for rate in rates]
        return cases + [self._udp(profile, seeds) for profile in ("wifi-b", "wifi-g", "wifi-a", "wifi-n")]

    def _udp(self, profile: str, seeds: int) -> Case:
        return Case(f"UDP {profile}", (Arm("alone", "plain"), Arm("32 B up per 2", "published"), Arm("32 B up per 1", "published")),
                    (Metric("down", "Mb/s"), Metric("loss", "%", 1)), seeds, (), "UDP data + ACK -30..70 %",
                    {"air": Air(wifi=profile), "udp": {"alone": 0, "32 B up per 2": 2, "32 B up per 1": 1}})

    @staticmethod
    def _lengths(quick: bool) -> tuple[float, float]:
        """(warm-up, counted) seconds of a download."""
        return (1.5, 4.0) if quick else (2.0, 8.0)

    def estimate(self, case: Case, arm: Arm, quick: bool) -> float:
        overhead = 1.5
        if "udp" in case.parameters:
            return overhead + (4.0 if quick else 7.0)
        return overhead + (4.0 if "files" in case.parameters else sum(self._lengths(quick)))

    def measure(self, session: Any, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        return lateness.measured(lambda: self._measure(case, arm, seed, options))

    def _measure(self, case: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        air: Air = case.parameters["air"]
        with ExitStack() as stack:
            lab = stack.enter_context(Lab(air.scenario(), seed=seed, prefix=options.prefix))
            if arm is LIMIT or arm.name == LIMIT.name:
                lab.set("wifi.ack_free", True)
            lab.start_timeline()
            if "udp" in case.parameters:
                found = self._measure_udp(lab, case, arm, options)
                return Measurement(found.values, {**found.details, **lateness.checked(lab.stats())})
            daemon = None
            if arm.name in OFFLOAD:
                config = {"modules": {"offload": dict(OFFLOAD[arm.name])}} | (helpers.REMEMBERS if air.known else {})
                daemon = stack.enter_context(helpers.tandem(lab, options, ["offload"], config, f"{case.name}-{arm.name}-{seed}"))
                if air.known and arm == TANDEM:
                    helpers.make_path_known(lab, daemon)
            if "files" in case.parameters:
                value, details = self._files(lab, case)
            else:
                value, details = self._bulk(lab, case, options)
            details |= lateness.checked(lab.stats())
            if daemon is not None:
                status = daemon.api("/v1/status")
                details |= _from_status(status)
                details["flows"] = daemon.api("/v1/flows")[:8]
                details["knobs"] = helpers.knobs(status)
            return Measurement({GOODPUT.name: value}, details)

    def _bulk(self, lab: Lab, case: Case, options: Options) -> tuple[float, dict[str, Any]]:
        warmup, counted = self._lengths(options.quick)
        download = lab.start_download(seconds=warmup + counted, warmup=warmup, flows=case.parameters.get("flows", 1))
        began = time.monotonic()
        rtts: list[float] = []
        retrans = 0
        try:
            while download.running() and time.monotonic() - began < warmup + counted + 5:
                download.progress(0.4)
                if time.monotonic() - began > warmup:
                    sockets = lab.sock_stats("srv1", 80)
                    rtts += [entry.rtt_ms for entry in sockets if entry.bytes_sent > 100_000]
                    retrans = max(retrans, sum(entry.retrans for entry in sockets))
            result = download.wait()
        except BaseException:
            if download.running():
                download.stop()
            raise
        if result.error:
            raise LabError(f"download: {result.error}")
        details = _counted(result.interfaces)
        details |= {"server_rtt_ms": statistics.median(rtts) if rtts else None, "server_retrans": retrans,
                    "rates_mbps": [round(rate, 3) for rate in result.rates(0.5)], "longest_gap_s": result.longest_gap()}
        return result.goodput_mbps, details

    def _files(self, lab: Lab, case: Case) -> tuple[float, dict[str, Any]]:
        """Small files one after the other; the rate is their bytes over the time from connecting to the last byte."""
        before = lab.counters()
        total, seconds = 0, 0.0
        for _ in range(case.parameters["count"]):
            result = lab.download(case.parameters["files"])
            total += result.bytes
            seconds += result.flows[0]["end"]
        after = lab.counters()
        return total * 8e-6 / seconds, _counted({name: {key: after[name][key] - before[name][key] for key in after[name]} for name in after})

    def _measure_udp(self, lab: Lab, case: Case, arm: Arm, options: Options) -> Measurement:
        program = helpers.program("tandem-bench-udp-stream")
        warmup, counted = (0.5, 2.5) if options.quick else (1.0, 5.0)
        times = ["--warmup", str(warmup), "--seconds", str(counted)]
        every = case.parameters["udp"][arm.name]
        receiver = lab.client.popen([program, *times, "receive", "--reply-every", str(every), "--reply-size", "32"],
                                    stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert receiver.stdout
            receiver.stdout.readline()
            # The receiver's clock starts with the first datagram, and a datagram of the end must not be missing.
            sender = helpers.answer(lab.server(), [program, "--warmup", str(warmup), "--seconds", str(counted + 0.5), "send",
                                                lab.client.ipv4, "--mbps", str(UDP_OFFERED[case.parameters["air"].wifi]), "--size", "1464"])
            output, errors = receiver.communicate(timeout=15)
        finally:
            receiver.kill()
            receiver.wait()
        if receiver.returncode != 0:
            raise LabError(f"UDP receiver: {errors.strip()}")
        import json

        received = json.loads(output.strip().splitlines()[-1])
        return Measurement({"down": received["mbps"]}, {**received, "offered_datagrams": sender["sent"],
                                                         "replies_received": sender["replies_received"]})

    def derive(self, case: Case, values: Mapping[str, Mapping[str, float]]) -> dict[str, dict[str, float]]:
        """UDP: how much of the rate alone is lost with datagrams the other way."""
        if "udp" not in case.parameters or "alone" not in values:
            return {}
        return {name: {"loss": 100 * (1 - given["down"] / values["alone"]["down"])} for name, given in values.items() if name != "alone"}


def _counted(interfaces: Mapping[str, Mapping[str, int]]) -> dict[str, Any]:
    wifi, cell = interfaces.get("wlan0", {}), interfaces.get("cell0", {})
    return {"acks_wlan0": wifi.get("acks_out", 0), "acks_cell0": cell.get("acks_out", 0), "sack_acks_wlan0": wifi.get("sack_acks_out", 0),
            "sack_acks_cell0": cell.get("sack_acks_out", 0), "cell_bytes_out": cell.get("bytes_out", 0)}


def _from_status(status: Mapping[str, Any]) -> dict[str, Any]:
    """Validations, returns and reasons from the daemon's own counters."""
    module = next((entry for entry in status["modules"] if entry["name"] == "offload"), {})
    decisions: dict[str, int] = module.get("decisions", {})
    back = ("validation lost", "not validated", "silence", "slower than on Wi-Fi", "added delay costs", "takes too few ACKs", "cellular link lost", "budget spent")
    rare = [why for why in decisions if "by cellular" not in why and "TSval kept" not in why and "repeated by" not in why]
    return {
        "validated": decisions.get("offload: path validated", 0),
        "returned": sum(count for why, count in decisions.items() if any(word in why for word in back)),
        "thinned": decisions.get("offload: repeated by the next ACK", 0),
        "last_reason": ", ".join(sorted(why.removeprefix("offload: ") for why in rare if any(word in why for word in back))),
        "decisions": decisions, "violations": module.get("violations", {}), "faults": module.get("faults", 0),
        "datapath": status.get("datapath", {}), "backend": status.get("backend", {}),
    }


BENCH = Offload()
