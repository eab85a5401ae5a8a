"""What several benches need: the benches' own programs, the daemon with its knobs and faults, CPU time, memory."""

from __future__ import annotations

import json
import os
import resource
import shutil
import subprocess
import time
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator, Mapping, Sequence

from tandem_lab import Lab, system
from tandem_lab.api import Daemon, Endpoint
from tandem_lab.errors import LabError

from .model import Options, Unavailable

TICKS = os.sysconf("SC_CLK_TCK")


def program(name: str) -> str:
    """One of tools/bench's programs: beside the other binaries, or installed beside bench.py."""
    beside = Path(__file__).resolve().parents[1] / name
    if os.access(beside, os.X_OK):
        return str(beside)
    try:
        return str(system.tandem_binary(name))
    except LabError as error:
        raise Unavailable(str(error)) from error


@contextmanager
def serving(place: Endpoint, argv: Sequence[str], timeout: float = 10.0) -> Iterator[subprocess.Popen]:
    """A program that prints "ready" and then works until it is ended."""
    process = place.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stdout and process.stderr
        line = process.stdout.readline().strip()
        if line != "ready":
            process.wait(timeout)
            raise LabError(f"{Path(argv[0]).name} did not start: {process.stderr.read().strip() or line or process.returncode}")
        yield process
    finally:
        process.kill()
        process.communicate()


def answer(place: Endpoint, argv: Sequence[str], timeout: float = 120.0) -> dict[str, Any]:
    """The JSON that a program prints last."""
    done = place.run(argv, timeout=timeout)
    return json.loads(done.stdout.strip().splitlines()[-1])


def needs_mptcp() -> None:
    """Raises Unavailable where the kernel has no MPTCP."""
    if not Path("/proc/sys/net/mptcp/enabled").exists():
        raise Unavailable("this kernel has no MPTCP (CONFIG_MPTCP)")


def wait_for_endpoints(lab: Lab, addresses: Sequence[str], timeout: float = 10.0) -> None:
    """Until the daemon has MPTCP endpoints with these addresses: a connection that begins before has one subflow only."""
    until = time.monotonic() + timeout
    while True:
        text = lab.client.run(["ip", "mptcp", "endpoint", "show"]).stdout
        lacking = [address for address in addresses if address not in text]
        if not lacking:
            return
        if time.monotonic() > until:
            raise Unavailable(f"tandemd made no MPTCP endpoint with {lacking[0]} within {timeout:g} s; there are: {text.strip() or 'none'}")
        time.sleep(0.1)


def whole(lab: Lab) -> None:
    """Raises LabError when a program of the lab ended by itself: what was measured then is of another network than the one that is named."""
    if faults := [str(event.get("what")) for event in lab.events() if event.get("event") == "fault"]:
        raise LabError(f"the lab itself failed: {faults[0]}")


def file_name(label: str) -> str:
    """Of a run, for --keep-logs."""
    return label.replace("/", "_").replace(" ", "_")


@contextmanager
def tandem(lab: Lab, options: Options, modules: Sequence[str] = (), config: Mapping[str, Any] | None = None, label: str = "") -> Iterator[Daemon]:
    """tandemd in the client. With --keep-logs its log stays when the run fails."""
    try:
        daemon = Daemon(lab, modules, config, ())
        daemon.log.unlink(missing_ok=True)  # it is appended to; only this run's words belong to this run
        daemon.start()
    except LabError as error:
        raise Unavailable(f"tandemd did not start: {error}") from error
    try:
        yield daemon
    except BaseException:
        if options.keep_logs:
            target = Path(options.keep_logs)
            target.mkdir(parents=True, exist_ok=True)
            shutil.copy(daemon.log, target / file_name(f"{label or 'run'}.log"))
        raise
    finally:
        daemon.stop()


YES_OR_NO: Mapping[str, bool] = {"no": False, "yes": True}  # what a setting of a bench may say

# Paths and access points are remembered between flows, and nothing is compared.
REMEMBERS: Mapping[str, Any] = {"evidence": {"paths": True}}


def make_path_known(lab: Lab, daemon: Daemon, tries: int = 8) -> None:
    """Downloads, one after the other, until one has validated the way of its ACKs by cellular and measured its delay, so that the next one goes by its
    word (decision 0033). Any added delay is accepted meanwhile. The daemon must remember: REMEMBERS. Raises LabError when the path does not work."""
    knob = "/v1/modules/offload/knobs/added_delay_free"
    before = next(one["value"] for module in daemon.api("/v1/modules") if module["name"] == "offload" for one in module["knobs"] if one["name"] == "added_delay_free")

    def known() -> bool:
        return any(network["known_paths"] for network in daemon.api("/v1/networks") if network["kind"] == "wifi")

    daemon.api(knob, "PUT", {"value": "2s"})
    for _ in range(tries):
        daemon.api("/v1/networks/forget", "POST", {"all": True})  # in a young flow no copy may be echoed; then nobody tries again for a while
        going = lab.start_download(seconds=6)
        system.wait_until(lambda: known() or not going.running(), 8)
        if going.running():
            time.sleep(0.3)  # what was measured first is of a young queue
            going.stop()
        else:
            going.wait()
        if known():
            break
    else:
        raise LabError(f"no download of {tries} validated the cellular path")
    daemon.api(knob, "PUT", {"value": before})
    time.sleep(1.0)  # queues run empty


def make_access_point_known(lab: Lab, daemon: Daemon) -> None:
    """A download through a blackout in which the access point keeps frames, so that the next one knows that it does (decision 0034). The daemon must
    remember: REMEMBERS. Raises LabError when that was not found."""
    def known() -> bool:
        return any(network["keep_frames"] for network in daemon.api("/v1/networks") if network["kind"] == "wifi")

    going = lab.start_download(seconds=30)
    for _ in range(3):
        time.sleep(3.0)
        lab.set("wifi.blackout", "buffer")
        time.sleep(0.7)
        lab.set("wifi.blackout", "none")
        if system.wait_until(known, 3):
            break
    going.stop()
    if not known():
        raise LabError("no download found that the access point keeps frames")
    time.sleep(2.0)  # queues run empty


_loaded: list[str] = []


def loaded_modules(lab: Lab, options: Options) -> list[str]:
    """The names of all modules that this daemon brings; asked once."""
    if not _loaded:
        with tandem(lab, options) as daemon:
            _loaded.extend(module["name"] for module in daemon.api("/v1/modules"))
    return _loaded


def knobs(status: Mapping[str, Any]) -> str:
    """The knobs of the enabled modules as the daemon knows them, e.g. "offload: strategy=validated window_mss=20"."""
    return "; ".join(f"{module['name']}: " + " ".join(f"{knob['name']}={knob['value']}" for knob in module["knobs"])
                     for module in status.get("modules", []) if module.get("enabled"))


def threads_of(pid: int) -> list[int]:
    """The present threads of a process; none of one that has just ended."""
    try:
        return [int(name) for name in os.listdir(f"/proc/{pid}/task")]
    except OSError:
        return []


def cpu_seconds(pid: int) -> float:
    """CPU time of a process so far, all threads, finished ones included."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2:].split()
    return (int(fields[11]) + int(fields[12])) / TICKS


def exact_cpu_seconds(pid: int) -> float:
    """CPU time so far of all present threads of a process, by the scheduler's clock of nanoseconds."""
    return sum(int(Path(f"/proc/{pid}/task/{task}/schedstat").read_text().split()[0]) for task in threads_of(pid)) / 1e9


def cpu_by_process() -> dict[str, float]:
    """CPU time so far of every other thread that lives, by its place in /proc, and of this process's ended children, s.

    By the scheduler's clock of nanoseconds: the ticks of /proc/stat miss whoever sleeps when one comes.
    """
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    found = {"ended": ended.ru_utime + ended.ru_stime}
    for pid in (name for name in os.listdir("/proc") if name.isdigit() and name != str(os.getpid())):
        for task in threads_of(int(pid)):
            path = f"/proc/{pid}/task/{task}/schedstat"
            with suppress(OSError):  # it ended just now
                found[path] = int(Path(path).read_text().split()[0]) / 1e9
    return found


def cpu_since(before: Mapping[str, float]) -> float:
    """CPU time spent since `before` by all that live now, and by this process's children that ended, in seconds."""
    return sum(seconds - before.get(place, 0.0) for place, seconds in cpu_by_process().items())


def machine_cpu_seconds() -> float:
    """CPU time that the whole machine has spent so far on anything but idling and waiting."""
    user, nice, kernel, _idle, _wait, irq, softirq, steal = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:9])
    return (user + nice + kernel + irq + softirq + steal) / TICKS


def busy_share(seconds: float = 0.5) -> float:
    """Share of the machine's CPU in use over the next `seconds`, 0 to 1."""
    before = machine_cpu_seconds()
    time.sleep(seconds)
    return min(1.0, (machine_cpu_seconds() - before) / seconds / len(os.sched_getaffinity(0)))
