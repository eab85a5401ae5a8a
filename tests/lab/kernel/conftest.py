"""Two ways between a client and a server over plain veth pairs, and the probe that stands in for the daemon."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Iterator

import pytest

HERE = Path(__file__).resolve().parent
PROBE = os.environ.get("TANDEM_PROBE", str(HERE.parents[2] / "build" / "tests" / "queue_probe"))
CLIENT4, CELL4, SERVER4 = "10.71.1.2", "10.71.2.2", "10.71.9.9"
CLIENT6, CELL6, SERVER6 = "fd71:1::2", "fd71:2::2", "fd71:9::9"
PORT = 7100
SCALE = float(os.environ.get("TANDEM_TEST_SCALE", "1"))  # sizes of the transfers; an emulated machine is slow


def sh(command: str, check: bool = True) -> str:
    """Runs one command line without a shell; its output."""
    done = subprocess.run(command.split(), capture_output=True, text=True)
    if check and done.returncode != 0:
        raise RuntimeError(f"{command}: {done.stderr.strip()}")
    return done.stdout


@dataclass
class Download:
    """What the client saw: the digest, and how many bytes had come at which time."""

    digest: str = ""
    length: int = 0
    seconds: float = 0.0
    start: float = 0.0
    progress: list[tuple[float, int]] = field(default_factory=list)
    error: str = ""

    def between(self, begin: float, end: float) -> int:
        """Bytes that arrived between two moments of time.monotonic()."""
        before = max((n for t, n in self.progress if t <= begin), default=0)
        after = max((n for t, n in self.progress if t <= end), default=0)
        return after - before


class World:
    """Namespaces c (client: wlan0, cell0), g (cellular gateway) and s (server). Names carry the process id."""

    def __init__(self) -> None:
        tag = f"k{os.getpid():x}"
        self.c, self.g, self.s = f"{tag}-c", f"{tag}-g", f"{tag}-s"
        self.probes: list[Probe] = []
        self.others: list[subprocess.Popen] = []

    def up(self) -> None:
        for name in (self.c, self.g, self.s):
            sh(f"ip netns add {name}")
            sh(f"ip -n {name} link set lo up")
            for setting in ("net.ipv4.conf.all.rp_filter=0", "net.ipv4.conf.default.rp_filter=0",
                            "net.ipv6.conf.all.accept_dad=0", "net.ipv6.conf.default.accept_dad=0"):
                sh(f"ip netns exec {name} sysctl -qw {setting}")
        self.wire()
        sh(f"ip netns exec {self.g} sysctl -qw net.ipv4.ip_forward=1 net.ipv6.conf.all.forwarding=1")
        self.join(self.g, "s0", self.s, "g0")
        self.address(self.g, "s0", "10.71.3.1/24", "fd71:3::1/64")
        self.address(self.s, "g0", "10.71.3.2/24", "fd71:3::2/64")
        sh(f"ip -n {self.s} addr add {SERVER4}/32 dev lo")
        sh(f"ip -n {self.s} addr add {SERVER6}/128 dev lo")
        sh(f"ip -n {self.g} route add {SERVER4}/32 via 10.71.3.2")
        sh(f"ip -n {self.g} -6 route add {SERVER6}/128 via fd71:3::2")
        sh(f"ip -n {self.s} route add 10.71.2.0/24 via 10.71.3.1")
        sh(f"ip -n {self.s} -6 route add fd71:2::/64 via fd71:3::1")

    def wire(self) -> None:
        """The client's two interfaces; again after one was deleted."""
        self.join(self.c, "wlan0", self.s, "w0")
        self.address(self.s, "w0", "10.71.1.1/24", "fd71:1::1/64")
        self.wifi_address()
        self.join(self.c, "cell0", self.g, "c0")
        self.address(self.c, "cell0", f"{CELL4}/24", f"{CELL6}/64")
        self.address(self.g, "c0", "10.71.2.1/24", "fd71:2::1/64")
        sh(f"ip -n {self.c} route add default via 10.71.2.1 dev cell0 metric 600")
        sh(f"ip -n {self.c} -6 route add default via fd71:2::1 dev cell0 metric 600")

    def wifi_address(self) -> None:
        self.address(self.c, "wlan0", f"{CLIENT4}/24", f"{CLIENT6}/64")
        sh(f"ip -n {self.c} route replace default via 10.71.1.1 dev wlan0 metric 100")
        sh(f"ip -n {self.c} -6 route replace default via fd71:1::1 dev wlan0 metric 100")

    @staticmethod
    def join(a: str, a_name: str, b: str, b_name: str) -> None:
        sh(f"ip link add {a_name} netns {a} type veth peer name {b_name} netns {b}")
        sh(f"ip -n {a} link set {a_name} up")
        sh(f"ip -n {b} link set {b_name} up")

    @staticmethod
    def address(name: str, device: str, v4: str, v6: str) -> None:
        sh(f"ip -n {name} addr add {v4} dev {device}")
        sh(f"ip -n {name} addr add {v6} dev {device} nodad")

    def down(self) -> None:
        for probe in self.probes:
            probe.kill()
        for other in self.others:
            other.kill()
            other.wait()
        for name in (self.c, self.g, self.s):
            sh(f"ip netns del {name}", check=False)

    def offload(self, on: bool) -> None:
        """Segmentation offload and merging on every interface of the Wi-Fi way."""
        word = "on" if on else "off"
        for name, device in ((self.c, "wlan0"), (self.s, "w0")):
            sh(f"ip netns exec {name} ethtool -K {device} tso {word} gso {word} gro {word}")

    def probe(self, **settings: object) -> "Probe":
        started = Probe(self, settings)
        self.probes.append(started)
        return started

    def spawn(self, where: str, words: list[str], **options: object) -> subprocess.Popen:
        process = subprocess.Popen(["ip", "netns", "exec", where, *words], **options)
        self.others.append(process)
        return process

    def serve(self, size: int, rate: int = 0) -> str:
        """A server that sends `size` seeded bytes to each client, paced to `rate` bytes a second; the digest."""
        server = self.spawn(self.s, [sys.executable, str(HERE / "endpoint.py"), "serve", str(PORT), str(size), str(rate)],
                            stdout=subprocess.PIPE, text=True)
        assert server.stdout is not None
        return server.stdout.readline().strip()

    def download(self, host: str = SERVER4, timeout: float = 60.0) -> Download:
        return self.begin(host, timeout).finish()

    def begin(self, host: str = SERVER4, timeout: float = 60.0) -> "Running":
        client = self.spawn(self.c, [sys.executable, str(HERE / "endpoint.py"), "fetch", host, str(PORT)],
                            stdout=subprocess.PIPE, text=True)
        return Running(client, timeout)

    def packets(self, name: str, device: str, direction: str) -> int:
        """tx or rx packets of an interface so far."""
        links = json.loads(sh(f"ip -n {name} -s -j link show {device}"))
        return links[0]["stats64"][direction]["packets"]

    def rules(self) -> str:
        """Everything of Tandem's that can be seen in the client: tables, chains, rules, routes."""
        seen = []
        for command in ("iptables-nft-save -t mangle", "ip6tables-nft-save -t mangle", "nft list ruleset"):
            seen += [line for line in sh(f"ip netns exec {self.c} {command}", check=False).splitlines()
                     if "TANDEM" in line or "NFQUEUE" in line or "tandem" in line or "queue" in line]
        for version in ("-4", "-6"):
            seen += [line for line in sh(f"ip -n {self.c} {version} rule").splitlines() if "8484" in line]
            seen += sh(f"ip -n {self.c} {version} route show table 8484", check=False).splitlines()
        return "\n".join(seen)


class Running:
    """A download under way."""

    def __init__(self, process: subprocess.Popen, timeout: float) -> None:
        self.process, self.timeout = process, timeout
        self.result = Download(start=time.monotonic())
        self.thread = threading.Thread(target=self.read, daemon=True)
        self.thread.start()

    def read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            words = line.split()
            if words[0] == "at":
                self.result.progress.append((float(words[1]), int(words[2])))
            elif words[0] == "done":
                self.result.digest, self.result.length, self.result.seconds = words[1], int(words[2]), float(words[3])

    def received(self) -> int:
        return self.result.progress[-1][1] if self.result.progress else 0

    def wait_for(self, length: int) -> None:
        wait_until(lambda: self.received() >= length, self.timeout)

    def finish(self) -> Download:
        try:
            self.process.wait(self.timeout)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.result.error = f"stalled after {self.received()} bytes"
        self.thread.join(5)
        return self.result


class Probe:
    """The queue_probe program in the client's namespace."""

    def __init__(self, world: World, settings: dict[str, object]) -> None:
        words = [f"{key}={value}" for key, value in settings.items()]
        self.process = subprocess.Popen(["ip", "netns", "exec", world.c, PROBE, *words], stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.first = self.process.stdout.readline().strip()

    @property
    def pid(self) -> int:
        return self.process.pid  # ip netns exec replaces itself

    def keeper(self) -> int:
        """Process id of its keeper."""
        return int(sh(f"pgrep -P {self.pid} tandem-keeper"))

    def signal(self, number: int) -> None:
        os.kill(self.pid, number)

    def stop(self) -> dict:
        """Orders it to end; what it counted."""
        self.process.terminate()
        out, _ = self.process.communicate(timeout=20)
        return json.loads(out.splitlines()[-1])

    def kill(self) -> None:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGCONT)
            self.process.kill()
        self.process.wait()


def wait_until(condition, timeout: float, pause: float = 0.02) -> None:
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {timeout} s")
        time.sleep(pause)


@pytest.fixture
def world() -> Iterator[World]:
    if os.geteuid() != 0:
        pytest.skip("namespaces need root")
    if not Path(PROBE).exists():
        pytest.skip(f"{PROBE} is not built")
    here = World()
    try:
        here.up()
        yield here
    finally:
        here.down()
