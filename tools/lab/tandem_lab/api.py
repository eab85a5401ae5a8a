"""The lab for programs: tests, benches and the demo.

    with Lab("plain", overrides={"wifi.loss": 0.003, "cell.delay": "60ms"}, seed=3) as lab:
        lab.start_timeline()
        result = lab.download(seconds=10, warmup=2)
        print(result.goodput_mbps, lab.sock_stats("srv1"), lab.counters())
"""

from __future__ import annotations

import hashlib
import http.client
import json
import os
import re
import select
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Callable, Iterator, Mapping, Sequence

from . import counters, foreign, life, losses, relay, scenario, sockets, system, topology
from .air import AirControl
from .errors import BadInput, LabError
from .life import LabState
from .topology import CellGateway, WifiRouter

_HERE = Path(__file__).resolve().parent
PYTHON = system.PYTHON


@dataclass(frozen=True)
class Endpoint:
    """A place in the lab where programs can run: the client, a server, a gateway."""

    role: str
    namespace: str
    ipv4: str = ""
    ipv6: str = ""

    def argv(self, argv: Sequence[str]) -> list[str]:
        """The full command that runs argv here."""
        return system.in_namespace(self.namespace, [str(word) for word in argv])

    def run(self, argv: Sequence[str], *, check: bool = True, timeout: float | None = 60, input: str | None = None) -> subprocess.CompletedProcess:
        """Runs a command to its end, output captured as text. With check, a failure raises LabError in the command's words."""
        done = subprocess.run(self.argv(argv), capture_output=True, text=True, timeout=timeout, input=input)
        if check and done.returncode != 0:
            words = (done.stderr or done.stdout).strip()
            raise LabError(f"{self.role}: {' '.join(map(str, argv))}: exit code {done.returncode}: {words}")
        return done

    def popen(self, argv: Sequence[str], **options: Any) -> subprocess.Popen:
        """Starts a command; it ends with this process at the latest.

        The kernel ties it to the thread that starts it: start it from one that lives as long as the command shall.
        """
        return subprocess.Popen(system.owned(self.argv(argv)), **options)


@dataclass(frozen=True)
class DownloadResult:
    """What a download brought. Rates in Mb/s of HTTP body; `goodput_mbps` leaves the warm-up out."""

    bytes: int
    seconds: float
    goodput_mbps: float
    samples: list[tuple[float, int]]  # (seconds since start, bytes so far)
    sha256: str | None  # of the first flow
    flows: list[dict[str, Any]]  # per connection: bytes, local_port, connected, first_byte, end, error, sha256
    error: str | None
    began: float  # time.monotonic() of the start
    interfaces: dict[str, dict[str, Any]] = field(default_factory=dict)  # counters.interfaces(), the difference over the download
    received: dict[str, list[int]] = field(default_factory=dict)  # per interface: bytes on the wire so far, at the times of the samples

    def rates(self, width: float = 1.0) -> list[float]:
        """Mb/s per slice of `width` seconds from the start."""
        slices: list[float] = []
        edge, last_time, last_bytes = width, 0.0, 0
        for now, total in self.samples:
            if now >= edge - 0.02:
                slices.append((total - last_bytes) * 8e-6 / max(now - last_time, 1e-9))
                last_time, last_bytes = now, total
                edge = now + width
        return slices

    def goodput_from(self, second: float) -> float:
        """Mb/s from that second on."""
        return _goodput(self.samples, self.seconds, self.bytes, second)

    def shares(self, second: float = 0.0) -> dict[str, float]:
        """Which part of what came in from that second on each interface carried."""
        first = sum(now <= second + 0.001 for now, _ in self.samples) - 1
        carried = {name: counts[-1] - (counts[first] if first >= 0 else 0) for name, counts in self.received.items() if counts}
        total = sum(carried.values())
        return {name: count / total if total else 0.0 for name, count in carried.items()}

    def longest_gap(self) -> float:
        """Longest time without a byte, in seconds, to the sampling interval's precision."""
        longest, since, seen = 0.0, 0.0, 0
        for now, total in self.samples:
            if total > seen:
                since, seen = now, total
            longest = max(longest, now - since)
        return longest


class Download:
    """A download under way in the client's namespace."""

    def __init__(self, lab: "Lab", argv: list[str], warmup: float):
        self._lab = lab
        self._warmup = warmup
        self._before = lab.counters()
        self._lines: list[dict[str, Any]] = []
        self._rest = b""
        self._process = lab.client.popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE)

    def _read(self, timeout: float) -> bool:
        """Takes in what the downloader printed; False at its end."""
        assert self._process.stdout
        ready, _, _ = select.select([self._process.stdout], [], [], timeout)
        if not ready:
            return True
        data = os.read(self._process.stdout.fileno(), 1 << 16)
        self._rest += data
        *lines, self._rest = self._rest.split(b"\n")
        self._lines += [json.loads(line) for line in lines]
        return bool(data)

    def progress(self, timeout: float = 0.0) -> tuple[float, int]:
        """(seconds, bytes) as last reported."""
        self._read(timeout)
        last = self._lines[-1] if self._lines else {"t": 0.0, "bytes": 0}
        return last.get("t", last.get("seconds", 0.0)), last["bytes"]

    def running(self) -> bool:
        return self._process.poll() is None

    def wait_bytes(self, count: int, timeout: float = 30.0) -> None:
        """Returns when at least `count` bytes have arrived. Raises LabError after `timeout` seconds or at the end."""
        deadline = time.monotonic() + timeout
        while self.progress(0.05)[1] < count:
            if time.monotonic() > deadline or not self.running():
                raise LabError(f"download: {self.progress()[1]} of {count} bytes after waiting")

    def stop(self) -> DownloadResult:
        """Ends it now and gives what came so far."""
        if self.running():
            self._process.send_signal(signal.SIGINT)
        return self.wait()

    def wait(self, on_progress: Callable[[float, int], None] | None = None) -> DownloadResult:
        """Waits for the end. `on_progress(seconds, bytes)` is called as reports come in."""
        try:
            while self._read(0.5):
                if on_progress and self._lines and "t" in self._lines[-1]:
                    on_progress(self._lines[-1]["t"], self._lines[-1]["bytes"])
        except BaseException:
            self._process.kill()
            self._process.wait()
            raise
        self._process.wait()
        last = self._lines[-1] if self._lines else {}
        if not last.get("done"):
            assert self._process.stderr
            raise LabError(f"downloader failed: {self._process.stderr.read().decode().strip() or self._process.returncode}")
        samples = [(float(now), int(total)) for now, total in last["samples"]]
        errors = [flow["error"] for flow in last["flows"] if flow["error"]]
        return DownloadResult(
            bytes=last["bytes"], seconds=last["seconds"],
            goodput_mbps=_goodput(samples, last["seconds"], last["bytes"], self._warmup), samples=samples,
            sha256=last["flows"][0]["sha256"], flows=last["flows"], error=errors[0] if errors else None, began=last["began"],
            interfaces=counters.difference(self._lab.counters(), self._before), received=last.get("received", {}))


def _goodput(samples: list[tuple[float, int]], seconds: float, total: int, warmup: float) -> float:
    """Mb/s after the warm-up."""
    start, before = 0.0, 0
    for now, count in samples:
        if now <= warmup + 0.001:
            start, before = now, count
    return (total - before) * 8e-6 / (seconds - start) if seconds > start else 0.0


class Lab:
    """A lab of one's own: up inside `with`, gone after it, also when this process is killed.

    scenario    name of one that comes with the lab, path of a file, or a whole scenario as TOML text
    overrides   {"section.key": value}: replaces values of the scenario, e.g. {"wifi.loss": 0.003, "cell.delay": "60ms"}
    seed        of the air and of the pseudo-random file; the scenario's own by default
    prefix      of the namespaces; labs with different prefixes run side by side
    air         False: plain veth pairs instead of the emulator, for measurements of the programs alone
    congestion  congestion control for every server, in place of the scenario's
    counters    count pure ACKs per interface at the client (a few rules; leave out to measure raw speed)
    detached    the lab outlives this process; take it down with down()

    Raises BadInput for a bad scenario (file, line, value, what is allowed), LabError when the machine lacks something.
    """

    def __init__(self, scenario: str | Path = "plain", *, overrides: Mapping[str, Any] | None = None, seed: int | None = None,
                 prefix: str = topology.DEFAULT_PREFIX, air: bool = True, congestion: str | None = None, counters: bool = True,
                 detached: bool = False):
        self.state = LabState(prefix)
        self.prefix = prefix
        self._scenario = scenario
        self._overrides = dict(overrides or {})
        self._seed = seed
        self._air = air
        self._congestion = congestion
        self._counters = counters
        self._detached = detached
        self._supervisor: subprocess.Popen | None = None
        self.info: dict[str, Any] = {}

    @classmethod
    def attach(cls, prefix: str = topology.DEFAULT_PREFIX) -> "Lab":
        """A handle on a lab that is already up. Raises LabError when it is not."""
        lab = cls(prefix=prefix)
        info = lab.state.read()
        if info is None or lab.state.supervisor() is None:
            raise LabError(f"no lab is up under the prefix {prefix}; start one: tandem lab up SCENARIO")
        lab.info = info
        lab._air = info["air"]
        return lab

    # -- life

    def __enter__(self) -> "Lab":
        if not self.info:
            self.up()
        return self

    def __exit__(self, *_: object) -> None:
        self.down()

    def up(self) -> None:
        """Builds the lab; ruins of an earlier one under the same prefix are removed first."""
        system.require(self._air)
        text = self._scenario if isinstance(self._scenario, str) and "\n" in self._scenario else None
        path = None if text else scenario.find(self._scenario)
        with system.machine_lock():
            if self.state.supervisor():
                raise LabError(f"a lab is already up under the prefix {self.prefix}; "
                               "take it down first (tandem lab down) or choose another with --prefix")
            life.refuse_others(self.prefix)
            if self.state.exists():
                life.sweep(self.prefix)
            self.state.create()
            self.state.claim()  # for this process, until the supervisor takes over
        try:
            if text:
                path = self.state.directory / "scenario.toml"
                path.write_text(text)
            assert path is not None
            if self._air:
                scenario.check(path, self._overrides, self._seed)
            scenario.load(path, self._overrides, self._congestion)
            system.write_json(self.state.directory / "spec.json", {
                "scenario": str(path), "overrides": self._overrides, "seed": self._seed, "air": self._air,
                "congestion": self._congestion, "counters": self._counters})
            self._start_supervisor()
        except BaseException:
            self.down()
            raise
        self.info = self.state.read() or {}

    def _start_supervisor(self) -> None:
        reader, writer = os.pipe()
        argv = [PYTHON, str(_HERE.parent / "lab.py"), "_supervise", self.prefix, str(writer)]
        if not self._detached:
            argv = system.owned(argv, "TERM")
        with open(self.state.directory / "supervisor.log", "ab") as log:
            self._supervisor = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=log, stderr=log, pass_fds=[writer],
                                                start_new_session=True)
        os.close(writer)
        with os.fdopen(reader) as reports:
            line = reports.readline()
        report = json.loads(line) if line.strip() else {"error": "the supervisor ended without a word", "code": 1}
        if "error" in report:
            self._supervisor.wait()
            raise (BadInput if report["code"] == 2 else LabError)(report["error"])

    def down(self) -> None:
        """Takes the lab away, whatever state it is in. Harmless when it is not up."""
        if self._supervisor and self._supervisor.poll() is None:
            self._supervisor.terminate()
            try:
                self._supervisor.wait(20)
            except subprocess.TimeoutExpired:
                self._supervisor.kill()
                self._supervisor.wait()
        life.remove(self.prefix)
        self.info = {}
        self._supervisor = None

    # -- places

    def endpoint(self, role: str) -> Endpoint:
        """Any namespace by its role: client, ap1, cgw, wan, srv1, ..."""
        spaces = self.info["namespaces"]
        if role not in spaces:
            raise BadInput(f"no {role} in this lab; allowed: {', '.join(spaces)}")
        if role == "client":
            return Endpoint(role, spaces[role], *topology.WIFI_CLIENT)
        server = self.info["servers"].get(role)
        return Endpoint(role, spaces[role], server["ipv4"], server["ipv6"]) if server else Endpoint(role, spaces[role])

    @property
    def client(self) -> Endpoint:
        return self.endpoint("client")

    @property
    def gateway(self) -> Endpoint:
        """The cellular gateway."""
        return self.endpoint("cgw")

    def server(self, name: str = "srv1") -> Endpoint:
        return self.endpoint(name)

    @contextmanager
    def foreign_server(self, stack: str, *, congestion: str = "", beside: str = "srv1") -> Iterator[Endpoint]:
        """A server with another TCP than Linux's, "gvisor" (congestion: "reno", "cubic") or "lwip", for as long as the `with` lasts.

        It offers what the Linux server beside it does, by plain HTTP and IPv4: download(server=...) takes it. foreign.missing(stack) says why it
        cannot be had.
        """
        place, wan = self.server(beside), self.endpoint("wan")
        with foreign.running(stack, congestion, namespace=place.namespace, beside=("eth0", place.ipv4), wan=(wan.namespace, f"wan-{beside}"),
                             www=self.directory / "www", log=self.directory / f"{stack}.log") as address:
            yield Endpoint(stack, place.namespace, address)

    @property
    def directory(self) -> Path:
        """The state directory: frames.sock, logs, servers' files; room for a test's own."""
        return self.state.directory

    @property
    def random_file(self) -> dict[str, Any]:
        """The seeded pseudo-random file on every server: {"name", "size", "sha256"}."""
        return self.info["random_file"]

    def add_file(self, name: str, content: bytes) -> str:
        """Puts a file on every server; gives its SHA-256, in hexadecimal."""
        (self.directory / "www" / name).write_bytes(content)
        return hashlib.sha256(content).hexdigest()

    # -- air

    def _ask(self, cmd: str, **arguments: Any) -> dict[str, Any]:
        if not self._air:
            raise LabError(f"{cmd}: this lab runs without air (veth pairs)")
        with AirControl(self.directory) as control:
            return control.ask(cmd, **arguments)

    def start_timeline(self) -> None:
        """Starts the scenario's clock: from now on the timeline's events happen."""
        self._ask("start")

    def stats(self) -> dict[str, Any]:
        """The emulator's statistics."""
        return self._ask("stats")

    def set(self, key: str, value: Any, **where: str) -> None:
        """Changes a value of the scenario while traffic runs, e.g. set("wifi.loss", 0.01), set("wifi.signal", -70, ap="ap1"). cell.nat and
        cell.source_filter are switched in the gateway and hold when this returns."""
        if key in ("cell.nat", "cell.source_filter"):
            if not isinstance(value, bool):
                raise BadInput(f"{key} = {scenario.value_text(value)}: true or false is allowed")
            CellGateway(self.gateway.namespace, self.directory).apply(**{key.removeprefix("cell."): value})
            return
        self._ask("set", key=key, value=value, **where)

    def events(self) -> list[dict[str, Any]]:
        """What the timeline and the supervisor have done so far, oldest first; each is written after it took effect."""
        return [json.loads(line) for line in self.state.events.read_text().splitlines()]

    def wait_event(self, kind: str, timeout: float = 30.0, after: int = 0, **match: Any) -> dict[str, Any]:
        """Waits for an event of a kind, e.g. wait_event("handoff", ap="ap2"); `after` skips that many events of the log."""
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found.extend(event for event in self.events()[after:]
                         if event.get("event") == kind and all(event.get(key) == value for key, value in match.items()))
            return bool(found)

        if not system.wait_until(there, timeout):
            raise LabError(f"no event {kind} {match or ''} within {timeout:g} s; seen: {self.events()}")
        return found[0]

    # -- traffic

    def start_download(self, what: str = "100G", *, seconds: float | None = None, server: str | Endpoint = "srv1", tls: bool = False,
                       flows: int = 1, v6: bool = False, sha256: bool = False, mptcp: bool | None = None, interface: str = "",
                       warmup: float = 0.0, interval: float = 0.1, timeout: float = 120.0) -> Download:
        """Starts a download of a server's file (1k, 100k, 1M, 10M, 100M, 1G, 100G, random, or one of add_file) and returns.

        seconds stops it after that time; without it, the whole file is fetched, for at most `timeout` seconds. mptcp: by
        default when the scenario sets it up; interface: plain TCP by this one alone, e.g. "wlan1" ("cell0" needs a rule that
        what has its address leaves by it).
        """
        place = server if isinstance(server, Endpoint) else self.server(server)
        sources = {name: (entry["ipv4"], entry["ipv6"]) for name, entry in self.info["interfaces"].items()}
        if self.info["cell"]:
            sources["cell0"] = topology.CELL_CLIENT
        if interface and interface not in sources:
            raise BadInput(f"no {interface} in this lab; allowed: {', '.join(sources)}")
        argv = [PYTHON, str(_HERE / "fetch.py"), place.ipv6 if v6 else place.ipv4, "/" + what.lstrip("/"),
                "--flows", str(flows), "--interval", str(interval), "--timeout", str(timeout)]
        argv += ["--tls"] if tls else []
        argv += ["--sha256"] if sha256 else []
        argv += ["--seconds", str(seconds)] if seconds is not None else []
        argv += ["--mptcp"] if (self.info.get("mptcp", False) and not interface if mptcp is None else mptcp) else []
        argv += ["--source", sources[interface][int(v6)]] if interface else []
        argv += ["--interfaces", ",".join(self.info.get("interfaces", {"wlan0": {}}))]
        return Download(self, argv, warmup)

    def download(self, what: str = "100G", *, on_progress: Callable[[float, int], None] | None = None, check: bool = True,
                 **options: Any) -> DownloadResult:
        """Downloads and waits for the end (options: see start_download). With check, an error raises LabError."""
        result = self.start_download(what, **options).wait(on_progress)
        if check and result.error:
            raise LabError(f"download of {what}: {result.error}")
        return result

    def iperf3(self, *arguments: str, server: str = "srv1", timeout: float = 120.0) -> dict[str, Any]:
        """Runs an iperf3 client to a server (e.g. "-u", "-b", "10M", "-R", "-t", "5") and gives its JSON report."""
        done = self.client.run(["iperf3", "--json", "-c", self.server(server).ipv4, *arguments], check=False, timeout=timeout)
        report = json.loads(done.stdout or "{}")
        if "error" in report or not report:
            raise LabError(f"iperf3: {report.get('error', done.stderr.strip())}")
        return report

    def ping(self, server: str = "srv1", *, count: int = 5, interval: float = 0.05, device: str | None = None, v6: bool = False) -> list[float]:
        """Round-trip times in ms of the answered ones of `count` pings, by the routing table's way or out of a device."""
        place = self.server(server)
        source = ["-I", device] if device else []
        done = self.client.run(["ping", "-n", "-c", str(count), "-i", str(interval), "-W", "1", *source,
                                place.ipv6 if v6 else place.ipv4], check=False)
        return [float(part.split()[0]) for part in done.stdout.split("time=")[1:]]

    # -- what to look at

    def losses(self, *, data: bool = True) -> list[losses.Loss]:
        """Every TCP packet that the emulator has lost or marked so far, oldest first; with `data` those with payload only."""
        found, _ = self._truth()
        return [loss for loss in found if loss.length > 0] if data else found

    def repairs(self) -> list[losses.Repair]:
        """Every lost data packet that the client has acknowledged since, oldest acknowledgement first."""
        return self._truth()[1]

    def _truth(self) -> tuple[list[losses.Loss], list[losses.Repair]]:
        self._ask("flush")
        return losses.read(self.directory / "losses.bin", list(self.info["servers"]))

    def tcp_counters(self, role: str = "srv1") -> dict[str, int]:
        """What the kernel of a place has counted so far, by nstat's names without the protocol, e.g. RetransSegs, TCPFullUndo."""
        lines = self.endpoint(role).run(["cat", "/proc/net/snmp", "/proc/net/netstat"]).stdout.splitlines()
        counted: dict[str, int] = {}
        for names, values in zip(lines[::2], lines[1::2]):
            counted |= {key: int(value) for key, value in zip(names.split()[1:], values.split()[1:])}
        return counted

    def sock_stats(self, role: str = "srv1", port: int | None = None) -> list[sockets.Socket]:
        """The established connections at a place (by default those of the server's ports 80 and 443), richest first. At a server without those of the others
        behind an access point (ap.uplink_flows)."""
        text = self.endpoint(role).run(["ss", "-tinOH", "state", "established"]).stdout
        # With a state filter ss leaves the state column out.
        found = sockets.parse("\n".join("ESTAB " + line for line in text.splitlines()))
        ports = {port} if port else {80, 443}
        others = {address for number in range(1, len(self.info["aps"]) + 1) for address in topology.ap_uplink("", number).gateway_side}
        found = [entry for entry in found if (entry.local_port in ports or entry.peer_port in ports) and entry.peer not in others]
        return sorted(found, key=lambda entry: -max(entry.bytes_sent, entry.bytes_received))

    def mptcp_backup(self, interface: str, on: bool = True) -> None:
        """Sets or clears the backup flag of an interface's MPTCP endpoint by hand: MP_PRIO on its subflows. The scenario must set MPTCP up."""
        number = list(self.info["interfaces"]).index(interface) + 1
        self.client.run(["ip", "mptcp", "endpoint", "change", "id", str(number), "backup" if on else "nobackup"])

    def counters(self) -> dict[str, dict[str, Any]]:
        """wlan0 (wlan1, ...) and cell0 of the client: packets_in/out, bytes_in/out, acks_out (pure ACKs), sack_acks_out."""
        return counters.interfaces(self.client.namespace)

    def gateway_counters(self) -> dict[str, int]:
        """Packets that the cellular gateway filtered, translated (connections) or could not translate."""
        return counters.nft_counters(self.gateway.namespace, CellGateway.TABLE)

    def router_counters(self) -> dict[str, int]:
        """Packets to the laptop that the router behind the access points let pass or found invalid, and from it that were strange or translated."""
        return counters.nft_counters(self.endpoint("wan").namespace, WifiRouter.TABLE)

    @contextmanager
    def capture(self, role: str, device: str, expression: str = "", snap: int = 128) -> Iterator[Path]:
        """tcpdump at a place for as long as the `with` lasts; the pcap file is complete after it."""
        place = self.endpoint(role)
        with tempfile.NamedTemporaryFile(dir=self.directory, suffix=f"-{role}-{device}.pcap", delete=False) as file:
            path = Path(file.name)
            # To a file that is open already, so that tcpdump may be whichever user it likes: `-Z root -w FILE` crashes Ubuntu 24.04's (4.99.4).
            process = place.popen([system.tool("tcpdump"), "-i", device, "-n", "--immediate-mode", "-B", "32768", "-s", str(snap), "-U", "-w", "-",
                                   *expression.split()], stdout=file, stderr=subprocess.PIPE, text=True)
        assert process.stderr
        while True:
            line = process.stderr.readline()
            if "listening on" in line:
                break
            if not line:
                raise LabError(f"tcpdump on {device} in {place.namespace} did not start")
        words = ""
        try:
            yield path
        finally:
            time.sleep(0.1)  # what is in the kernel's capture buffer
            process.send_signal(signal.SIGINT)
            words = process.communicate()[1]
        if lost := dropped_by_kernel(words):
            raise LabError(f"tcpdump on {device} in {place.namespace}: {lost} packets were not captured (the kernel had no room for them), so the capture is not the truth; the machine is too busy")

    @contextmanager
    def daemon(self, modules: Sequence[str] = (), config: Mapping[str, Any] | str | None = None,
               arguments: Sequence[str] = ()) -> Iterator["Daemon"]:
        """tandemd in the client's namespace for as long as the `with` lasts.

        `modules` are switched on; `config` is merged over the lab's own settings, e.g.
        {"modules": {"offload": {"threshold": 20}}, "daemon": {"backend": "iptables"}}, or is a whole file as text.
        """
        daemon = Daemon(self, modules, config, arguments)
        daemon.start()
        try:
            yield daemon
        finally:
            daemon.stop()


class Daemon:
    """tandemd in the client's namespace, with its own configuration file and control socket in the state directory."""

    def __init__(self, lab: Lab, modules: Sequence[str], config: Mapping[str, Any] | str | None, arguments: Sequence[str]):
        self.lab = lab
        self.socket = lab.directory / "tandemd.sock"
        self.config_file = lab.directory / "tandemd.toml"
        self.log = lab.directory / "tandemd.log"
        self._arguments = list(arguments)
        self.program: Path | None = None  # another one than this build's
        self.environment: Mapping[str, str] = {}  # more of it, for the daemon alone
        self.process: subprocess.Popen | None = None
        self.config_file.write_text(config if isinstance(config, str) else to_toml(self._defaults(modules, config or {})))

    def _defaults(self, modules: Sequence[str], config: Mapping[str, Any]) -> dict[str, Any]:
        base: dict[str, Any] = {
            # Every address of the lab is a private one.
            "links": {"wifi": "wlan0", "cell": "cell0" if self.lab.info["cell"] else "none", "private_peers": "as_others",
                      # A bus of this machine may know a wlan0 that is not the lab's.
                      "validation": "none", **({"relay": [relay.WIFI, relay.CELL]} if self.lab.info.get("relay", False) else {}),
                      **({"more_wifi": more} if (more := list(self.lab.info["interfaces"])[1:]) else {})},
            # What a person had saved on this machine is no arm of an experiment.
            "daemon": {"socket": str(self.socket), "saved_directory": str(self.lab.directory / "saved")},
            "recorder": {"directory": str(self.lab.directory)},
            # Modules that come and go by themselves are no arm of an experiment, nor is what an earlier flow found; a test of just that asks for it.
            "evidence": {"share": 0, "paths": False, "directory": str(self.lab.directory / "evidence")},
            # Days and months are no arm either; and no experiment spends a person's budget.
            "budget": {"cell_day": "", "cell_month": "", "directory": str(self.lab.directory / "budget")},
            # The lab has no modem, but the machine may have a bus on which its own is known.
            "cell": {"metered": "ignore", "roaming": "budget"},
            "modules": {name: {"enabled": True} for name in modules},
        }
        return merged(base, config)

    def start(self, timeout: float = 10.0) -> None:
        """Starts it and waits until its control socket answers."""
        with open(self.log, "ab") as log:
            program = self.program or system.tandem_binary("tandemd")
            more = [system.tool("env"), *(f"{name}={value}" for name, value in self.environment.items())] if self.environment else []
            self.process = self.lab.client.popen([*more, str(program), "-c", str(self.config_file), *self._arguments],
                                                 stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.lab.state.record_process("tandemd", self.process.pid)

        def ready() -> bool:
            assert self.process
            if self.process.poll() is not None:
                raise LabError(f"tandemd ended with code {self.process.returncode}: {self.log.read_text().strip()[-2000:]}")
            with socket.socket(socket.AF_UNIX) as probe:
                return probe.connect_ex(str(self.socket)) == 0

        if not system.wait_until(ready, timeout):
            raise LabError(f"tandemd: no control socket after {timeout:g} s; see {self.log}")

    @property
    def pid(self) -> int:
        assert self.process
        return self.process.pid

    def signal(self, number: int) -> None:
        assert self.process
        self.process.send_signal(number)

    def kill(self) -> None:
        """kill -9, as a crash would."""
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self, timeout: float = 10.0) -> int:
        """Ends it in order (SIGTERM) and gives its exit code."""
        assert self.process
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.kill()
        return self.process.returncode

    def api(self, path: str, method: str = "GET", body: Any = None) -> Any:
        """One request to its control API; the answer as parsed JSON (or text when it is none)."""
        text = self._ask(path, method, body).decode()
        try:
            return json.loads(text)
        except ValueError:
            return text

    def recording(self) -> bytes:
        """What its flight recorder holds, pcapng."""
        return self._ask("/v1/recording", "GET", None)

    def _ask(self, path: str, method: str, body: Any) -> bytes:
        connection = _UnixHttp(str(self.socket))
        try:
            connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            content = answer.read()
            if answer.status >= 400:
                raise LabError(f"tandemd: {method} {path}: {answer.status} {content.decode().strip()}")
        finally:
            connection.close()
        return content


def dropped_by_kernel(words: str) -> int:
    """How many packets a capture lacks, by what tcpdump says at its end."""
    found = re.search(r"^(\d+) packets? dropped by kernel", words, re.MULTILINE)
    return int(found.group(1)) if found else 0


class _UnixHttp(http.client.HTTPConnection):
    def __init__(self, path: str):
        super().__init__("tandemd", timeout=5.0)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)


def merged(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """base with over's values, tables merged key by key."""
    result = dict(base)
    for key, value in over.items():
        result[key] = merged(result[key], value) if isinstance(value, Mapping) and isinstance(result.get(key), Mapping) else value
    return result


def to_toml(tree: Mapping[str, Any], path: str = "") -> str:
    """A nested mapping as TOML (tables, text, numbers, booleans, flat lists)."""
    plain = {key: value for key, value in tree.items() if not isinstance(value, Mapping)}
    lines = [f"[{path}]"] if path and plain else []
    lines += [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    text = "\n".join(lines) + "\n" if lines else ""
    for key, value in tree.items():
        if isinstance(value, Mapping):
            text += to_toml(value, f"{path}.{key}" if path else key)
    return text
