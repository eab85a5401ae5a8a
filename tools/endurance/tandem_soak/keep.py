"""Keeps what a transfer that went wrong, or nearly did, was made of: its packets at both ends, what befell it, and the daemon's own words."""

from __future__ import annotations

import json
import queue
import subprocess
import threading
import time
from pathlib import Path
from typing import Any

from tandem_lab import Endpoint
from tandem_lab.errors import LabError

from .captures import Captures
from .disturbances import Chaos
from .resets import decisive, resets
from .watched import Watched

BEFORE = 130.0  # s of disturbances before a fault: as long as what hangs stood still
TOGGLES_BEFORE = 30.0  # s of those that come a hundred times a second
CASES_MOST = 50  # directories: a run in which everything breaks does not fill the disk
LOG_TAIL = 256 << 10  # bytes of the daemon's log
LOOKS_MOST = 50  # at transfers that stood still and have not failed yet; a look is half a megabyte
# Sockets of TCP and of MPTCP with all that the kernel tells of them, its counters, and the laptop's ways.
LOOKS = ["ss -tieOmnoH", "ss -MieOmnH", "nstat -asz"], ["ip -br addr", "ip route", "ip mptcp endpoint"]


class Keeper:
    """A thread that takes faults, one after another, and makes a directory of each. What it learns it writes into the fault itself: `packets`, `reset`."""

    def __init__(self, captures: Captures, directory: Path, chaos: Chaos, watched: Watched | None, places: tuple[Endpoint, Endpoint]):
        self._captures, self._directory, self.chaos, self._watched, self._places = captures, directory, chaos, watched, places
        self._looks: dict[int, str] = {}  # by port
        self._faults: queue.Queue[tuple[dict[str, Any], dict[str, Any]] | None] = queue.Queue()
        self._count = 0
        self._thread = threading.Thread(target=self._work, daemon=True)
        self._thread.start()

    def take(self, fault: dict[str, Any]) -> None:
        """A transfer that failed just now, or took very long."""
        self._faults.put((fault, self._moment()))

    def look(self, transfer: dict[str, Any]) -> None:
        """What the kernels say of a transfer that stands still now; kept should it fail."""
        client, server = self._places
        words = f"{time.time():.3f} {json.dumps(transfer)}\n"
        for place, commands in ((client, LOOKS[0]), (server, LOOKS[0]), (client, LOOKS[1])):
            for command in commands:
                try:
                    words += f"\n{place.role}: {command}\n{place.run(command.split(), check=False, timeout=20).stdout}"
                except (OSError, subprocess.TimeoutExpired) as error:
                    words += f"\n{place.role}: {command}: {error}\n"
        while len(self._looks) >= LOOKS_MOST:
            self._looks.pop(next(iter(self._looks)))
        self._looks[int(transfer["port"])] = words

    def close(self) -> None:
        """All that was taken is kept when it returns."""
        self._faults.put(None)
        self._thread.join()

    def _moment(self) -> dict[str, Any]:
        """What is known now and may be gone soon."""
        watched = self._watched
        return {"wall_clock": time.time(),
                "daemon": {"life": watched.lives, "age_s": round(time.monotonic() - watched.born, 2)} if watched else None,
                "disturbances": self.chaos.since(BEFORE, TOGGLES_BEFORE)}

    def _work(self) -> None:
        while (one := self._faults.get()) is not None:
            if self._count == CASES_MOST:
                continue
            self._count += 1
            fault, moment = one
            try:
                self._keep(fault, moment)
            except (LabError, OSError, ValueError) as error:
                fault["packets"] = f"not kept: {error}"

    def _keep(self, fault: dict[str, Any], moment: dict[str, Any]) -> None:
        port = fault.get("port")
        place = self._directory / f"{time.strftime('%Y%m%dT%H%M%S', time.gmtime(moment['wall_clock']))}-{fault['outcome']}-port-{port or 'unknown'}"
        place.mkdir(parents=True)
        recording = self._watched.ask(b"GET /v1/recording?last_s=30 HTTP/1.1\r\nHost: tandem\r\nConnection: close\r\n\r\n", timeout=5.0) if self._watched else b""
        head, _, body = recording.partition(b"\r\n\r\n")
        if b" 200 " in head[:20]:
            (place / "recording.pcapng").write_bytes(body)
        if self._watched:
            (place / "daemon.log").write_bytes(self._watched.log_tail(LOG_TAIL))
        if looked := self._looks.pop(port, ""):
            (place / "stalled.txt").write_text(looked)
        if port:
            files, read, ports = self._captures.flow(port, "MPTCP" in fault["kind"])
            for role, data in files.items():
                (place / f"{role}.pcap").write_bytes(data)
            client, server = read.values()
            found = resets(client, server, self._captures.kernel.told(), ports)
            (place / "kernel.txt").write_text("".join(line for one in sorted(ports) for line in self._captures.kernel.lines(one)))
            one = decisive(found)
            fault["reset"] = one.words() if one else "no reset was seen"
            moment["resets"] = [{"at": each.first.time, "taken": each.taken, "by": each.words()} for each in found]
        (place / "fault.json").write_text(json.dumps({**fault, **moment}, indent=1) + "\n")
        fault["packets"] = str(place)
