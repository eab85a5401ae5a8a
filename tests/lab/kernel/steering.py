"""The steering_probe program in the client's namespace of a World, and what can be seen of its work."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from conftest import CELL4, CLIENT4, HERE, PORT, PROBE, SERVER4, Running, World, sh

STEERING_PROBE = str(Path(PROBE).parent / "steering_probe")
Json = dict[str, Any]


class Steering:
    """Plans in, states out."""

    def __init__(self, world: World, file: Path | str = "") -> None:
        if not Path(STEERING_PROBE).exists():
            pytest.skip(f"{STEERING_PROBE} is not built")
        self.process = subprocess.Popen(["ip", "netns", "exec", world.c, STEERING_PROBE, str(file)], stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        world.others.append(self.process)
        self.first = self._read()
        self.keeper = self.first["keeper"]

    def _read(self) -> Json:
        assert self.process.stdout is not None
        return json.loads(self.process.stdout.readline())

    def ask(self, **order: Any) -> Json:
        """One order; the keeper's state after it."""
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()
        return self._read()

    def mark(self, **rates: float) -> Json:
        """CE rates by interface, and nothing else."""
        return self.ask(plan=plan(ce=[{"interface": name, "rate": rate} for name, rate in rates.items()]))

    def steer(self, *paths: Json, **options: bool) -> Json:
        """MPTCP paths, and no marks; the steering part of the state."""
        return self.ask(plan=plan(paths=list(paths), **options))["steering"]

    def look(self) -> Json:
        return self.ask(look=True)["steering"]

    def stop(self) -> None:
        """Orders it to end and waits for it."""
        assert self.process.stdin is not None
        self.process.stdin.close()
        assert self.process.wait(20) == 0

    def kill_both(self) -> None:
        """Keeper first: it must not see the daemon's end."""
        os.kill(self.keeper, signal.SIGKILL)
        self.process.kill()
        self.process.wait()


def plan(ce: list[Json] | None = None, paths: list[Json] | None = None, setup: bool = False, foreign: bool = False) -> Json:
    return {"ce": ce or [], "paths": paths or [], "setup": setup, "foreign": foreign}


def path(interface: str, endpoint: bool = True, backup: bool = False, addresses: list[str] | None = None) -> Json:
    """A link of the World."""
    own = addresses or [CLIENT4 if interface == "wlan0" else CELL4]
    return {"interface": interface, "addresses": own, "endpoint": endpoint, "backup": backup}


def endpoints(world: World) -> dict[str, Json]:
    """What `ip mptcp` shows, by address."""
    return {one["address"]: one for one in json.loads(sh(f"ip -n {world.c} -j mptcp endpoint show") or "[]")}


def limits(world: World) -> Json:
    words = sh(f"ip -n {world.c} mptcp limits show").split()
    return {name: int(value) for name, value in zip(words[::2], words[1::2])}


def received(world: World, interface: str) -> int:
    """Bytes that arrived by an interface so far."""
    return json.loads(sh(f"ip -n {world.c} -s -j link show {interface}"))[0]["stats64"]["rx"]["bytes"]


def two_ways(world: World, rate: str) -> None:
    """Both ways shaped to `rate` towards the client, and MPTCP on at both ends."""
    for name, device in ((world.s, "w0"), (world.g, "c0")):
        sh(f"tc -n {name} qdisc replace dev {device} root tbf rate {rate} burst 32k latency 60ms")
    for name in (world.c, world.s):
        sh(f"ip netns exec {name} sysctl -qw net.mptcp.enabled=1")


def serve_mptcp(world: World, size: int = 0) -> str:
    """A server over MPTCP whose downloads never end; with a size, one that writes all of it a second after the first byte and closes. The digest."""
    server = world.spawn(world.s, [sys.executable, str(HERE / "endpoint.py"), "serve", str(PORT), str(size), "-1" if size else "0", "mptcp"],
                         stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    return server.stdout.readline().strip()  # it listens


def fetch_mptcp(world: World, host: str = SERVER4, timeout: float = 120.0) -> Running:
    client = world.spawn(world.c, [sys.executable, str(HERE / "endpoint.py"), "fetch", host, str(PORT), "mptcp"],
                         stdout=subprocess.PIPE, text=True)
    return Running(client, timeout)
