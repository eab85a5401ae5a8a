"""Connections by the thousand beside the transfers: most stay open and are used now and then, others come and go."""

from __future__ import annotations

import json
import subprocess
import threading
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tandem_lab import Lab, system

_OPENED_A_SECOND = 500  # of those that stay, while they are opened
_TURN = 60.0  # s that they stay; then all end at once and as many come
_INTERVAL, _BYTES = 30, 1000  # each is asked for so many bytes that often: the air is the transfers'


@dataclass
class Crowd:
    """Runs while the lab is disturbed. What of it fails is counted and no fault: an answer that takes longer than 10 s is one that a blackout may have kept."""

    lab: Lab
    held: int
    opened: int  # a second, beside those that stay
    turns: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)
    most: int = 0  # that were open at once
    problem: str = ""

    def __post_init__(self) -> None:
        self._program = str(system.tandem_binary("tandem-bench-many-flows"))
        self._stopping = threading.Event()
        self._client: subprocess.Popen | None = None
        self._server: subprocess.Popen | None = None
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._server = self.lab.server().popen([self._program, "server"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        self._thread.start()

    def stop(self) -> None:
        """Every connection is reset, by the end of the program that has it."""
        self._stopping.set()
        for process in (self._client, self._server):
            if process:
                process.kill()
                process.wait()
        if self._thread.is_alive():
            self._thread.join()

    def report(self) -> dict[str, Any]:
        return {"held": self.held, "opened_a_second": self.opened, "turns": self.turns, "most_open": self.most, **self.counts, "failures": dict(self.failures)}

    def _run(self) -> None:
        while not self._stopping.is_set() and not self.problem:
            self._client = self.lab.client.popen(
                [self._program, "client", self.lab.server().ipv4, "--hold", str(self.held), "--churn-rate", str(self.opened), "--open-rate", str(_OPENED_A_SECOND),
                 "--seconds", str(_TURN), "--interval", str(_INTERVAL), "--bytes", str(_BYTES)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            told, words = self._client.communicate()
            for line in told.splitlines():
                self._hear(json.loads(line))
            if self._client.returncode != 0 and not self._stopping.is_set():
                self.problem = f"the held connections: {words.strip() or f'ended with {self._client.returncode}'}"

    def _hear(self, one: dict[str, Any]) -> None:
        if one.get("phase") == "held":
            self.most = max(self.most, int(one["open"]) - int(one["failed"]))
            return
        self.turns += 1
        self.counts += Counter({name: int(one[name]) for name in ("attempted", "uses", "failed") if name in one})
        self.failures += Counter(one.get("failures", {}))
