"""What is kept of all packets for a while: rings of headers at both ends of every connection, and what the kernel tells of resets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections import deque
from contextlib import suppress
from pathlib import Path

from tandem_lab import Endpoint, system
from tandem_lab.errors import LabError
from tandem_lab.tracepoints import Tracepoints

from . import packets
from .packets import Packet
from .resets import KernelReset, told_by_kernel

_ROOM = Path("/var/tmp")
SNAP = 128  # bytes of each packet: headers of IP and TCP with every option
# A ring's files: at 2.3 MB/s of transfers, as in docs/results/soak.md, it goes back six minutes; a transfer that hangs is found after two.
RING_FILES, FILE_MB = 8, 16
# What a capture still has in the kernel (tcpdump asks for it once a second), s.
_KERNEL_HOLDS = 1.3
_FLUSHED = 0.3  # s, for tcpdump to write what it has
_RESETS_MOST = 20000
_HEAD = 24  # bytes of a pcap file


class Ring:
    """tcpdump on all interfaces of a place, into a ring of files."""

    def __init__(self, place: Endpoint, directory: Path):
        self.role = place.role
        self._directory = directory / place.role
        self._directory.mkdir()
        links = json.loads(place.run(["ip", "-j", "link", "show"]).stdout)
        self._interfaces = {int(link["ifindex"]): str(link["ifname"]) for link in links}
        self._process = place.popen([system.tool("tcpdump"), "-i", "any", "-y", "LINUX_SLL2", "-n", "-s", str(SNAP), "-B", "16384", "-Z", "root",
                                     "-C", str(FILE_MB), "-W", str(RING_FILES), "-w", str(self._directory / "ring"), "tcp or icmp or icmp6"],
                                    stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self._process.stderr
        for line in self._process.stderr:
            if "listening on" in line:
                return
        raise LabError(f"tcpdump in {place.namespace} did not start")

    def flush(self) -> None:
        self._process.send_signal(signal.SIGUSR2)

    def taken(self, expression: str) -> bytes:
        """What of the ring fits the expression, as a pcap file."""
        pieces = sorted(self._directory.iterdir(), key=lambda piece: piece.stat().st_mtime)
        found = b""
        for piece in pieces:
            # Its last packet may be cut short, which tcpdump calls an error after it has told of the others.
            data = subprocess.run([system.tool("tcpdump"), "-n", "-r", str(piece), "-Z", "root", "-w", "-", expression], capture_output=True).stdout
            found += data[_HEAD if found else 0:]
        return found

    def read(self, data: bytes) -> list[Packet]:
        return list(packets.read(data, self._interfaces))

    def close(self) -> None:
        self._process.kill()
        self._process.wait()


class KernelWord:
    """Resets as the kernel tells of them, of all namespaces: tracepoints of its own instance. `told` is None where it has none (or may not be asked)."""

    def __init__(self, name: str):
        self._lines: deque[tuple[str, float]] = deque(maxlen=_RESETS_MOST)  # and what the wall clock was ahead of the trace's then: it may jump later
        # Other people's resets are among them; what is no reset is filtered in the kernel.
        self._trace = Tracepoints(name.rstrip("-"), [f"echo 1 > events/tcp/tcp_{which}_reset/enable" for which in ("send", "receive")], self._take)

    def _take(self, line: str) -> None:
        self._lines.append((line, time.time() - time.monotonic()))

    def told(self) -> list[KernelReset] | None:
        if self._trace.ended():
            return None
        return [word for line, offset in list(self._lines) if (word := told_by_kernel(line, offset))]

    def lines(self, port: int) -> list[str]:
        return [line for line, _ in list(self._lines) if f":{port} " in line or f"port={port} " in line]

    def close(self) -> None:
        self._trace.close()


def remove_ruins(room: Path) -> None:
    """Takes away the rings of runs that were killed, 256 MB each."""
    for ruin in room.glob("tandem-soak-*-*"):
        pid = ruin.name.split("-")[2]
        if pid.isdigit() and not Path("/proc", pid).exists():
            shutil.rmtree(ruin, ignore_errors=True)


class Captures:
    """Both ends of the lab's connections, while the `with` lasts."""

    def __init__(self, client: Endpoint, server: Endpoint, name: str):
        remove_ruins(_ROOM)
        self._directory = tempfile.TemporaryDirectory(prefix=f"tandem-soak-{os.getpid()}-", dir=_ROOM)
        self._open: list[Ring | KernelWord] = []
        try:
            for place in (client, server):
                self._open.append(Ring(place, Path(self._directory.name)))
            self.kernel = KernelWord(name)
            self._open.append(self.kernel)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Captures:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def _rings(self) -> list[Ring]:
        return [one for one in self._open if isinstance(one, Ring)]

    def flow(self, port: int, mptcp: bool) -> tuple[dict[str, bytes], dict[str, list[Packet]], set[int]]:
        """The packets of a client's port at both ends, as files and as read, with ICMP and everybody's resets; by MPTCP those of its other subflows, and behind a
        NAT of another port those that it was translated to. Also all these ports."""
        time.sleep(_KERNEL_HOLDS)
        for ring in self._rings:
            ring.flush()
        time.sleep(_FLUSHED)
        ports = {port}
        if mptcp:
            client = self._rings[0]
            handshakes = client.read(client.taken(f"{_SYN} or tcp port {port}"))
            ports = packets.subflows(handshakes, port)
        files, read = self._of(ports)
        # A reset to a translated port: the server's packets of that port belong to the flow, too.
        client_resets = [one for one in read["client"] if one.reset and one.to_port in ports]
        others = {one.to_port for role, found in read.items() if role != "client" for one in found if one.reset and any(one.same_segment(mine) for mine in client_resets)} - ports
        if others:
            files, read = self._of(ports | others)
        return files, read, ports

    def _of(self, ports: set[int]) -> tuple[dict[str, bytes], dict[str, list[Packet]]]:
        expression = " or ".join([*(f"tcp port {port}" for port in sorted(ports)), _RST, "icmp", "icmp6"])
        files = {ring.role: ring.taken(expression) for ring in self._rings}
        return files, {ring.role: ring.read(files[ring.role]) for ring in self._rings}

    def close(self) -> None:
        for one in self._open:
            with suppress(OSError):
                one.close()
        self._directory.cleanup()


# tcpdump's tcp[] is for IPv4.
_SYN = "(tcp[tcpflags] & tcp-syn != 0) or (ip6 and ip6[6] = 6 and ip6[53] & 2 != 0)"
_RST = "(tcp[tcpflags] & tcp-rst != 0) or (ip6 and ip6[6] = 6 and ip6[53] & 4 != 0)"
