"""What stood beside a trial: radio, links, cellular bytes, CPU, energy; and what makes a pair not count."""

from __future__ import annotations

import os
import resource
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Mapping

from tandem_common.control import Daemon, understood

TICK = os.sysconf("SC_CLK_TCK")
_POWERCAP, _SUPPLIES = Path("/sys/class/powercap"), Path("/sys/class/power_supply")


@dataclass(frozen=True)
class Moment:
    """Counters and states at one moment; what is not known is None or left out."""

    at: float  # time.monotonic()
    awake: float  # CLOCK_BOOTTIME minus CLOCK_MONOTONIC: it grows over a suspend
    interface: str
    addresses: tuple[str, ...]
    up: bool
    access_point: str
    radio: Mapping[str, float]
    survey: tuple[float, float] | None  # busy and active ms of the channel
    cell_up: bool
    cell_bytes: int
    faults: int
    decisions: Mapping[str, int]
    cell_by_module: Mapping[str, int]  # what each module's decisions have put on the cellular link
    daemon_cpu: float | None
    own_cpu: float
    busy_cpu: float
    joules: float | None
    watts: float | None  # of the battery, while it discharges
    process: str = ""  # of the daemon
    hands_off: str = ""  # why the daemon leaves all flows alone, whatever modules are on


def moment(daemon: Daemon) -> Moment:
    """Raises Failure when the daemon does not answer, or not as this program understands it."""
    with understood(f"{daemon.path}: the daemon's"):
        return _moment(daemon)


def _moment(daemon: Daemon) -> Moment:
    status, links, modules = daemon.get("/v1/status"), daemon.get("/v1/links"), daemon.modules()
    wifi, cell = status["links"]["wifi"], status["links"].get("cell") or {}
    aps = [ap for ap in links["wifi"].get("aps", []) if ap.get("associated")]
    survey = next((one for one in links["wifi"].get("surveys", []) if one.get("in_use") and "active_ms" in one and "busy_ms" in one), None)
    radio = {key: aps[0][key] for key in ("signal_dbm", "mbps", "delivery", "packet_time_us") if aps and key in aps[0]}
    frequency = (wifi.get("radio") or {}).get("frequency_mhz") or (survey or {}).get("frequency_mhz")
    if frequency:
        radio["frequency_mhz"] = frequency
    decisions: dict[str, int] = {}
    for module in modules.values():
        for why, number in module["decisions"].items():
            decisions[why] = decisions.get(why, 0) + number
    process = daemon.process()
    usage = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return Moment(
        at=time.monotonic(), awake=time.clock_gettime(time.CLOCK_BOOTTIME) - time.clock_gettime(time.CLOCK_MONOTONIC),
        interface=wifi.get("interface", ""), addresses=tuple(sorted(address for address in wifi.get("addresses", []) if not address.startswith("fe80:"))),
        up=bool(wifi.get("up", False)), access_point=aps[0]["ap"] if aps else "", radio=radio,
        survey=(survey["busy_ms"], survey["active_ms"]) if survey else None, cell_up=bool(cell.get("up", False)),
        cell_bytes=int(status["datapath"]["cell_bytes"]), faults=sum(module["faults"] for module in modules.values()), decisions=decisions,
        cell_by_module=cell_by_module(modules), daemon_cpu=_process_cpu(process.split()[0]), own_cpu=sum(one.ru_utime + one.ru_stime for one in usage), busy_cpu=_busy_cpu(),
        joules=_rapl(), watts=_battery(), process=process, hands_off=status.get("hands_off") or "")


def cell_by_module(modules: Mapping[str, Mapping[str, Any]]) -> dict[str, int]:
    return {name: int(module.get("cell_bytes", 0)) for name, module in modules.items()}


def grown(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """What has grown, and by how much."""
    return {name: number - before.get(name, 0) for name, number in after.items() if number > before.get(name, 0)}


def _process_cpu(pid: str) -> float | None:
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return None
    return (int(fields[11]) + int(fields[12])) / TICK


def _busy_cpu() -> float:
    """CPU seconds of all programs, user and system, without interrupts: those come with the traffic."""
    user, nice, system = (int(part) for part in Path("/proc/stat").read_text().splitlines()[0].split()[1:4])
    return (user + nice + system) / TICK


def _rapl() -> float | None:
    """Joules of all processor packages since some moment; None where the machine does not tell (commonly: not to root alone)."""
    try:
        counts = [int((zone / "energy_uj").read_text()) for zone in sorted(_POWERCAP.glob("intel-rapl:?"))]
    except (OSError, ValueError):
        return None
    return sum(counts) * 1e-6 if counts else None


def _battery() -> float | None:
    """Watts drawn from the machine's batteries, as far as they discharge; those of a mouse or a headset are none of it."""
    total, found = 0.0, False
    for supply in sorted(_SUPPLIES.glob("*")):
        try:
            scope = (supply / "scope").read_text().strip() if (supply / "scope").exists() else "System"
            if (supply / "type").read_text().strip() != "Battery" or scope == "Device" or (supply / "status").read_text().strip() != "Discharging":
                continue
            # Some drivers tell what flows out with a minus.
            if (power := supply / "power_now").exists():
                total += abs(int(power.read_text())) * 1e-6
            else:
                total += abs(int((supply / "current_now").read_text())) * 1e-6 * int((supply / "voltage_now").read_text()) * 1e-6
            found = True
        except (OSError, ValueError):
            continue
    return total if found else None


@dataclass(frozen=True)
class Beside:
    """What stood beside one trial."""

    radio: Mapping[str, float] = field(default_factory=dict)
    access_point: str = ""
    interface: str = ""
    channel_busy: float | None = None  # share of the time
    cell_bytes: int = 0
    cell_by_module: Mapping[str, int] = field(default_factory=dict)
    faults: int = 0
    daemon_cpu_s: float | None = None
    others_cpu: float = 0.0  # share of the machine that other programs used
    energy_j: float | None = None
    energy_from: str = ""  # rapl, battery
    by_cellular: int = 0  # ACKs
    not_validated: int = 0  # times a path was given up

    def as_json(self) -> dict[str, Any]:
        return {key: value for key, value in asdict(self).items() if value not in (None, "", {})}


def between(before: Moment, after: Moment, cores: int) -> Beside:
    """Pure."""
    seconds = max(after.at - before.at, 1e-9)
    busy = None
    if before.survey and after.survey and after.survey[1] > before.survey[1]:
        busy = (after.survey[0] - before.survey[0]) / (after.survey[1] - before.survey[1])
    daemon = after.daemon_cpu - before.daemon_cpu if after.daemon_cpu is not None and before.daemon_cpu is not None else None
    others = after.busy_cpu - before.busy_cpu - (after.own_cpu - before.own_cpu) - (daemon or 0.0)
    energy, source = None, ""
    if before.joules is not None and after.joules is not None and after.joules >= before.joules:
        energy, source = after.joules - before.joules, "rapl"
    elif before.watts is not None and after.watts is not None:
        energy, source = (before.watts + after.watts) / 2 * seconds, "battery"
    decided = {why: number - before.decisions.get(why, 0) for why, number in after.decisions.items()}
    return Beside(radio=dict(after.radio), access_point=after.access_point, interface=after.interface, channel_busy=busy, cell_bytes=after.cell_bytes - before.cell_bytes, cell_by_module=grown(before.cell_by_module, after.cell_by_module),
                  faults=after.faults - before.faults, daemon_cpu_s=daemon, others_cpu=min(1.0, max(0.0, others / seconds / cores)), energy_j=energy, energy_from=source,
                  by_cellular=sum(number for why, number in decided.items() if why == "offload: by cellular"),
                  not_validated=sum(number for why, number in decided.items() if why.startswith("offload: path not validated")))


def disturbance(first: Moment, before: Moment, after: Moment, beside: Beside, busy_limit: float) -> str:
    """Why a trial does not count, empty when it does. `first` is the pair's first moment."""
    if after.awake - first.awake > 0.5:
        return f"the machine was suspended for {after.awake - first.awake:.0f} s"
    if after.process != first.process:
        return "tandemd was started anew"
    if after.interface != first.interface:
        return f"the Wi-Fi interface changed from {first.interface} to {after.interface}"
    if not before.up:
        return f"the Wi-Fi interface {before.interface} was down when the trial began"
    if first.access_point and after.access_point and after.access_point != first.access_point:
        return f"roamed from {first.access_point} to {after.access_point}"
    if after.addresses != first.addresses:
        return f"the addresses of {after.interface} changed"
    if beside.others_cpu > busy_limit:
        return f"the machine was busy: other programs used {beside.others_cpu * 100:.0f} % of it"
    return ""


def hands_off(arm_has_modules: bool, before: Moment, after: Moment) -> str:
    """Why a trial of an arm with modules is one without: behind a tunnel, a captive portal, or on a network that is excluded."""
    why = after.hands_off or before.hands_off
    return f"Tandem had its hands off all flows: {why}" if arm_has_modules and why else ""


NOT_VALIDATED = "the cellular path was not validated"


def unvalidated(arm_has_offload: bool, after: Moment, beside: Beside) -> str:
    """Why a trial of an arm with `offload` says nothing of what it was meant to measure."""
    if arm_has_offload and after.cell_up and beside.not_validated and not beside.by_cellular:
        return f"{NOT_VALIDATED} (filtered, NAT or too slow)"
    return ""
