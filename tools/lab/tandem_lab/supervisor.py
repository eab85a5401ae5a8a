"""The process behind a lab that is up: it builds everything, owns emulator and servers, carries out the timeline's
gateway and routing events, and takes everything away when it is told to end.

Started as `lab.py _supervise PREFIX FD`, with spec.json in the state directory saying what to build. It reports on file
descriptor FD: one JSON line, {"ready": true} or {"error": text, "code": exit code}.
"""

from __future__ import annotations

import json
import os
import selectors
import signal
import subprocess
import time
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Any

from . import air, counters, scenario, servers, system, topology
from .air import AirControl
from .errors import LabError
from .life import LabState, sweep
from .relay import Relay
from .topology import CellGateway, Topology, WifiRouter

class _Stop(BaseException):
    """A signal asked the supervisor to end."""


class Supervisor:
    """One lab, from first namespace to last."""

    def __init__(self, prefix: str):
        self.state = LabState(prefix)
        self.spec: dict[str, Any] = json.loads((self.state.directory / "spec.json").read_text())
        self.scenario = scenario.load(Path(self.spec["scenario"]), self.spec["overrides"], self.spec["congestion"])
        self.topology = Topology(prefix, self.scenario, self.spec["air"])
        self.gateway = CellGateway(self.topology.namespace("cgw"), self.state.directory)
        self.processes: list[tuple[str, subprocess.Popen]] = []
        self.control: AirControl | None = None
        self.began = time.monotonic()

    def build(self) -> None:
        """Sets everything up; the caller removes what is there when this raises."""
        directory = self.state.directory
        controls = {"cubic", *(server.congestion for server in self.scenario.servers)}
        with system.machine_lock():
            system.MachineSettings().allow_congestion(self.state.prefix, controls)
            self.topology.create()
        if self.spec["air"]:
            emulator = air.start(self.scenario.path, self.state.prefix, directory, self.spec["overrides"], self.spec["seed"])
            self._own("tandem-air", emulator)
        else:
            self.topology.wire_without_air()
        self.topology.finish()
        self.gateway.apply(nat=self.scenario.nat, source_filter=self.scenario.source_filter)
        WifiRouter(self.topology.namespace("wan"), self.scenario.aps, [topology.wifi_client(number) for number in range(len(self.scenario.interfaces))]).apply(
            self.scenario.firewall, self.scenario.wifi_nat)
        if self.scenario.relay:
            Relay(self.topology, directory / "relay").up()
        if self.spec["counters"]:
            counters.install(self.topology.namespace("client"), [f"wlan{number}" for number in range(len(self.scenario.interfaces))] +
                             (["cell0"] if self.scenario.cell else []))
        seed = self.spec["seed"] if self.spec["seed"] is not None else self.scenario.seed
        sha256 = servers.prepare_files(directory / "www", seed)
        servers.make_certificate(directory, self.topology.servers)
        for link in self.topology.servers:
            for name, process in servers.start(self.topology.namespace(link.name), link, directory, directory / "www",
                                               mptcp=self.scenario.mptcp or len(self.scenario.interfaces) > 1):
                self._own(name, process)
        for ap, uplink in self.scenario.uplinks.items():
            if uplink.flows:
                self._own(f"others at {ap}", servers.start_others(self.topology.namespace(ap), self.topology.servers[0], uplink.flows,
                                                                 directory))
        self.state.events.touch()
        if self.spec["air"]:
            self.control = AirControl(directory)
            self.control.ask("subscribe")
        system.write_json(self.state.file, {
            "prefix": self.state.prefix,
            "scenario": self.scenario.name,
            "summary": self.scenario.summary,
            "file": str(self.scenario.path),
            "duration": self.scenario.duration,
            "seed": seed,
            "air": self.spec["air"],
            "overrides": self.spec["overrides"],
            "supervisor": os.getpid(),
            "namespaces": {role: self.topology.namespace(role) for role in self.topology.roles},
            "aps": list(self.scenario.aps),
            "cell": self.scenario.cell,
            "interfaces": {f"wlan{number}": {"ap": ap, "ipv4": topology.wifi_client(number)[0], "ipv6": topology.wifi_client(number)[1]}
                           for number, ap in enumerate(self.scenario.interfaces)},
            "mptcp": self.scenario.mptcp,
            "relay": self.scenario.relay,
            "servers": {server.name: {"ipv4": link.server_side[0], "ipv6": link.server_side[1], "congestion": server.congestion}
                        for server, link in zip(self.scenario.servers, self.topology.servers)},
            "random_file": {"name": servers.RANDOM_FILE, "size": servers.RANDOM_SIZE, "sha256": sha256},
        })

    def _own(self, name: str, process: subprocess.Popen) -> None:
        self.processes.append((name, process))
        self.state.record_process(name, process.pid)

    def _note(self, event: dict[str, Any]) -> None:
        """Adds an event to events.jsonl: after it was carried out, so that who reads it can rely on it."""
        event = {"at": round(time.monotonic() - self.began, 4), **event}
        with open(self.state.events, "a") as file:
            file.write(json.dumps(event) + "\n")

    def _carry_out(self, event: dict[str, Any]) -> None:
        kind = event.get("event")
        if kind == "handoff":
            self.topology.follow_association(str(event["ap"]), int(str(event["interface"]).removeprefix("wlan")))
        elif kind in ("nat", "source_filter"):
            self.gateway.apply(**{kind: bool(event["value"])})

    def _happened(self, event: dict[str, Any]) -> None:
        try:
            self._carry_out(event)
        except LabError as error:  # of this event alone
            self._note({"event": "fault", "what": f"{event.get('event')} was not carried out: {error}"})
        else:
            self._note(event)

    def stay(self) -> None:
        """Watches until a signal asks to stop. After a fault of its own the lab stays, and says so: its users would never know what took it away."""
        try:
            self.watch()
        except Exception as error:
            with suppress(OSError):  # a disk that is full, perhaps
                traceback.print_exc()
            with suppress(OSError):
                self._note({"event": "fault", "what": f"the supervisor carries out nothing more: {type(error).__name__}: {error}; see {self.state.directory / 'supervisor.log'}"})
            while True:
                time.sleep(0.25)

    def watch(self) -> None:
        """Runs until a signal asks to stop."""
        selector = selectors.DefaultSelector()
        if self.control:
            selector.register(self.control, selectors.EVENT_READ)
        alive = dict(self.processes)
        while True:
            if self.control is None:
                time.sleep(0.25)
            elif selector.select(timeout=0.25):
                try:
                    for event in self.control.pending():
                        if "event" in event:
                            self._happened(event)
                except LabError as error:
                    selector.unregister(self.control)
                    self.control = None
                    self._note({"event": "fault", "what": str(error)})
            for name, process in list(alive.items()):
                if process.poll() is not None:
                    del alive[name]
                    self._note({"event": "fault", "what": f"{name} ended with code {process.returncode}"})

    def remove(self) -> None:
        for _, process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
        for _, process in self.processes:
            try:
                process.wait(timeout=1.0)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        with system.machine_lock():
            sweep(self.state.prefix)


def _report(descriptor: int, line: dict[str, Any]) -> None:
    try:
        os.write(descriptor, json.dumps(line).encode() + b"\n")
        os.close(descriptor)
    except OSError:
        pass  # nobody waits for it any more


def main(prefix: str, descriptor: int) -> int:
    """The supervisor process."""

    def stop(*_: object) -> None:
        raise _Stop

    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, stop)
    os.set_inheritable(descriptor, False)
    code = 0
    supervisor: Supervisor | None = None
    try:
        LabState(prefix).claim()
        supervisor = Supervisor(prefix)
        supervisor.build()
        _report(descriptor, {"ready": True})
        supervisor.stay()
    except _Stop:
        pass
    except LabError as error:
        _report(descriptor, {"error": str(error), "code": error.code})
        code = error.code
    except Exception:
        _report(descriptor, {"error": traceback.format_exc(), "code": 1})
        code = 1
    finally:
        for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        if supervisor:
            supervisor.remove()
        else:
            with system.machine_lock():
                sweep(prefix)
    return code
