"""Servers whose TCP is not Linux's: user-space stacks on a TUN device in a server's namespace, each with an address of its own beside the
Linux server's, so that the client, the WAN and the air treat it like any other."""

from __future__ import annotations

import json
import os
import select
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Iterator

from . import system
from .errors import BadInput, LabError


@dataclass(frozen=True)
class Stack:
    """A stack that the lab can be a server with."""

    program: str
    host: int  # of its address: 10.77.10.HOST
    congestion: tuple[str, ...]  # what it may be told to use, the default first; empty: it has one, without a name


STACKS = {
    "gvisor": Stack("tandem-gvisor-server", 21, ("reno", "cubic")),
    "lwip": Stack("tandem-lwip-server", 22, ()),
}
_READY = 20.0  # seconds until the program must listen


def missing(name: str) -> str:
    """Why this stack cannot be a server here, with what to do; empty when it can."""
    try:
        system.tandem_binary(STACKS[name].program)
    except LabError as error:
        return f"{error} (its packages: tools/install-deps foreign)"
    return ""


def _checked(name: str, congestion: str) -> Stack:
    if name not in STACKS:
        raise BadInput(f"no stack {name}; allowed: {', '.join(STACKS)}")
    stack = STACKS[name]
    if congestion and congestion not in stack.congestion:
        raise BadInput(f"congestion control {congestion}: {name} has {', '.join(stack.congestion) or 'one of its own'}")
    if why := missing(name):
        raise LabError(why)
    return stack


def _wait_until_ready(process: subprocess.Popen, name: str, log: Path) -> None:
    assert process.stdout
    ready, _, _ = select.select([process.stdout], [], [], _READY)
    if not ready or process.stdout.readline().strip() != b"ready":
        process.kill()
        process.wait()
        raise LabError(f"{name} did not start: {log.read_text().strip()[-500:] or 'it said nothing'}")


@contextmanager
def running(name: str, congestion: str, *, namespace: str, beside: tuple[str, str], wan: tuple[str, str], www: Path, log: Path) -> Iterator[str]:
    """The stack as a server of the files in `www`, for as long as the `with` lasts; gives its IPv4 address.

    namespace, beside   of the Linux server at whose side it is: its namespace, and its device and address there
    wan                 namespace and device at the other end of that device
    """
    stack = _checked(name, congestion)
    device, neighbour = beside
    address = f"{neighbour.rsplit('.', 1)[0]}.{stack.host}"
    mac = json.loads(system.call(["ip", "-n", namespace, "-j", "link", "show", "dev", device]))[0]["address"]
    argv = [str(system.tandem_binary(stack.program)), f"{name}0", address, str(www), *([congestion] if congestion else [])]
    # One thread at a time, never interrupted from outside: in virtual time Go's runtime then does the same in every run.
    environment = {**os.environ, "GOMAXPROCS": "1", "GODEBUG": "asyncpreemptoff=1"}
    with open(log, "ab") as words:
        process = subprocess.Popen(system.owned(argv, namespace=namespace), stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=words, env=environment)
    try:
        _wait_until_ready(process, name, log)
        system.call(["ip", "-n", namespace, "link", "set", f"{name}0", "up"])
        system.call(["ip", "-n", namespace, "route", "add", f"{address}/32", "dev", f"{name}0"])
        system.set_sysctls(namespace, {"net.ipv4.ip_forward": 1})
        system.call(["ip", "-n", wan[0], "neigh", "replace", address, "lladdr", mac, "dev", wan[1], "nud", "permanent"])
        yield address
    finally:
        process.kill()
        process.wait()
        if process.stdout:
            process.stdout.close()
        subprocess.run([system.tool("ip"), "-n", wan[0], "neigh", "del", address, "dev", wan[1]], capture_output=True, check=False)
