"""tandemd under a service manager's care: started again when it was killed, and looked at."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any, Mapping

from tandem_lab import Lab, system
from tandem_lab.api import Daemon
from tandem_lab.errors import LabError

MODULES = ("offload", "freeze", "mirror", "ecn", "rate")
CONFIG: dict[str, Any] = {
    "links": {"more_wifi": ["wlan1"], "modem": "none"},
    "evidence": {"share": 0.05},
    "mptcp": {"setup": True},
    "fetch": {"ports": [80]},
    "modules": {"mirror": {"enabled": True, "strategy": "replay"}, "rate": {"enabled": True, "uploads": True}},
}

# A daemon of which a thread stands still lives on: /v1/status takes both of them. A question may find all places taken, so it is asked again.
ASKED, ASKED_FOR = 3, 5.0  # times; s each
LOG_MOST = 32 << 20  # bytes: a hundred toggles a second are a line each


class Installed:
    """The daemon and its modules in a directory of this run's own, as a package has them."""

    def __init__(self, directory: Path):
        self._directory = directory
        self._from = system.tandem_binary("tandemd").resolve().parents[1]
        self.program = directory / "bin" / "tandemd"
        self.exchange()

    def exchange(self) -> None:
        """Each file is made beside the one of before and takes its name; whoever runs keeps the one that it has."""
        for source in (self._from / "bin" / "tandemd", *sorted(self._from.glob("lib*/**/tandem/**/*"))):
            target = self._directory / source.relative_to(self._from)
            if not source.is_file() or source.suffix == ".py":
                continue
            target.parent.mkdir(parents=True, exist_ok=True)
            fresh = target.with_name(target.name + ".fresh")
            shutil.copy(source, fresh)
            fresh.rename(target)


class Watched:
    """The daemon. It may be killed by this run; when it ends by itself, that is a finding."""

    def __init__(self, lab: Lab, idle: float, more: Mapping[str, Any] | None = None, radio: bool = True):
        """`idle`: s until a flow is forgotten; `more`: of the configuration, by table; `radio`: the air's frames are heard."""
        self.lab = lab
        links = {**CONFIG["links"], "radio": f"lab:{lab.directory / 'frames.sock'}" if radio else "none"}
        self.daemon = Daemon(lab, MODULES, {**CONFIG, **(more or {}), "links": links, "daemon": {"flow_idle": f"{idle:g}s"}}, ())
        self._installed = Installed(lab.directory / "installed")
        self.daemon.program = self._installed.program
        self._slept = lab.directory / "slept"
        self._slept.write_text("0")
        library = system.tandem_binary("tandemd").resolve().parents[1] / "tests" / "tandem_asleep.so"
        self.can_sleep = library.exists()
        if self.can_sleep:
            self.daemon.environment = {"LD_PRELOAD": str(library), "TANDEM_ASLEEP": str(self._slept), "TANDEM_ASLEEP_TELLS": "1"}
        self.text = self.daemon.config_file.read_text()
        self.counts: Counter[str] = Counter()
        self.findings: list[str] = []
        self.memory: list[tuple[float, int, int]] = []  # life, seconds of it, KiB resident
        self.lives = 0
        self.silent_life = 0  # in which it was found not to answer
        self.born = 0.0
        self.lock = threading.RLock()  # while it is started, ended or stopped; readers do not take it
        # The kernel ends the daemon with the thread that started it.
        self._starter = ThreadPoolExecutor(max_workers=1)

    def start(self) -> None:
        with self.lock:
            self.daemon.config_file.write_text(self.text)
            for attempt in range(20):  # after kill -9 its keeper clears up first, and holds the lock meanwhile
                try:
                    self._starter.submit(self.daemon.start, 20.0).result()
                    break
                except LabError as error:
                    if attempt == 19 or "another tandemd is running" not in str(error) and "lock" not in str(error):
                        raise
                    self.daemon.stop()
                    time.sleep(0.25)
            self.lives += 1
            self.born = time.monotonic()

    @property
    def alive(self) -> bool:
        return self.daemon.process is not None and self.daemon.process.poll() is None

    def kill(self) -> None:
        """kill -9 and a new start, as a service manager does it."""
        with self.lock:
            self._note_faults()
            self.daemon.kill()
            self.start()

    def kill_both(self) -> None:
        """Daemon and keeper at once: nobody is left to clean."""
        with self.lock:
            self._note_faults()
            for pid in (*self.children(), self.daemon.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert self.daemon.process
            self.daemon.process.wait()
            self.start()

    def kill_keeper(self) -> None:
        """Without its keeper the daemon ends with a failure, and is started again."""
        with self.lock:
            self._note_faults()
            for pid in self.children():
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
            assert self.daemon.process
            try:
                if (code := self.daemon.process.wait(30)) != 1:
                    self.finding(f"without its keeper the daemon ended with {code} and not with 1")
            except Exception:  # noqa: BLE001 - whatever it is, it did not end
                self.finding("without its keeper the daemon did not end within 30 s")
                self.daemon.kill()
            self.start()

    def sleep(self, seconds: int) -> None:
        """The machine has slept so long, as the daemon is told by its clocks; nobody else's leap."""
        self._slept.write_text(str(int(self._slept.read_text()) + seconds))

    def suspend(self, seconds: int) -> None:
        """The whole machine has slept so long: CLOCK_MONOTONIC stands, CLOCK_BOOTTIME and the wall clock leap. The wall clock has to be nobody else's."""
        self.daemon.signal(signal.SIGSTOP)
        self.sleep(seconds)
        time.clock_settime(time.CLOCK_REALTIME, time.clock_gettime(time.CLOCK_REALTIME) + seconds)
        self.daemon.signal(signal.SIGCONT)

    def upgrade(self, seconds: float) -> None:
        """As a package manager does it: other files under the same names, while the daemon runs; after so many seconds the restart of the package's script."""
        with self.lock:
            self._installed.exchange()
        time.sleep(seconds)
        self.restart()

    def restart(self) -> None:
        """In order, as a service manager does it."""
        with self.lock:
            self._note_faults()
            if (code := self.daemon.stop(timeout=20.0)) != 0:
                self.finding(f"stopped in order, the daemon ended with {code}")
            self.start()

    def pause(self, seconds: float) -> None:
        with self.lock:
            self.daemon.signal(signal.SIGSTOP)
            time.sleep(seconds)
            self.daemon.signal(signal.SIGCONT)

    def reload(self, text: str) -> None:
        with self.lock:
            self.daemon.config_file.write_text(text)
            self.daemon.signal(signal.SIGHUP)

    def check(self) -> None:
        """Whether it still lives, and answers; if not, that is a finding. When it does not live it is started again."""
        with self.lock:
            if self.alive:
                if self.daemon.log.stat().st_size > LOG_MOST:
                    os.truncate(self.daemon.log, 0)  # it is appended to
                self.memory.append((self.lives, time.monotonic() - self.born, self.resident()))
                if self.silent_life != self.lives and not self.answers() and self.alive:
                    self.silent_life = self.lives
                    self.finding(f"the daemon lives and did not answer {ASKED} times in life {self.lives}, for {ASKED_FOR:g} s each")
                return
            assert self.daemon.process
            words = self.daemon.log.read_text(errors="replace").strip().splitlines()[-6:]
            self.finding(f"the daemon ended by itself with {self.daemon.process.returncode}: {' | '.join(words)}")
            self.start()

    def children(self) -> list[int]:
        try:
            return [int(word) for word in Path(f"/proc/{self.daemon.pid}/task/{self.daemon.pid}/children").read_text().split()]
        except FileNotFoundError:  # a kernel without CONFIG_PROC_CHILDREN
            return [pid for pid in left(self.lab) if parent(pid) == self.daemon.pid]

    def resident(self) -> int:
        """KiB of the daemon and its children."""
        total = 0
        for pid in (self.daemon.pid, *self.children()):
            with suppress(OSError, IndexError):
                total += int(Path(f"/proc/{pid}/status").read_text().split("VmRSS:", 1)[1].split()[0])
        return total

    def descriptors(self) -> Counter[str]:
        """Of daemon and keeper, by kind."""
        found: Counter[str] = Counter()
        for name, pid in (("daemon", self.daemon.pid), *(("keeper", child) for child in self.children())):
            for entry in Path(f"/proc/{pid}/fd").iterdir():
                with suppress(OSError):
                    found[f"{name} {os.readlink(entry).split(':')[0]}"] += 1
            found[f"{name} threads"] += len(list(Path(f"/proc/{pid}/task").iterdir()))
        return found

    def _note_faults(self) -> None:
        """Counters that end with this life. Raises for an answer without them: it would pass for one without faults."""
        try:
            status = self.daemon.api("/v1/status")
        except (LabError, OSError, ValueError):  # it may have ended just now
            return
        self.take_counters(status)

    def take_counters(self, status: dict[str, Any]) -> None:
        for name in ("queued", "rerouted", "injected"):
            value = status.get("datapath", {}).get(name)
            if isinstance(value, int):
                self.counts[f"packets {name}"] += value
        # The guard let such packets pass as they were: nobody's transfer shows it.
        for module in status.get("modules", []):
            for what, count in (("faults", module["faults"]), *((f"violations ({which})", count) for which, count in module["violations"].items())):
                if count:
                    self.counts[f"{what} of {module['name']}"] += count
                    self.finding(f"{module['name']}: {count} {what} in life {self.lives}")
        self.counts["sleeps noticed"] += int(status.get("datapath", {}).get("sleeps", 0))
        self.counts["paces asked for uploads"] += int(status.get("pacing", {}).get("asked", 0))

    def finding(self, words: str) -> None:
        self.findings.append(words)

    def ask(self, data: bytes, timeout: float = 2.0) -> bytes:
        """Bytes to the control socket, and what comes back; empty when it does not answer."""
        with socket.socket(socket.AF_UNIX) as made:
            made.settimeout(timeout)
            try:
                made.connect(str(self.daemon.socket))
                made.sendall(data)
                answer = b""
                while piece := made.recv(65536):
                    answer += piece
                return answer
            except OSError:
                return b""

    def answers(self) -> bool:
        """Whether it says how it is."""
        for attempt in range(ASKED):
            if attempt:
                time.sleep(0.2)
            if b" 200 " in self.ask(b"GET /v1/status HTTP/1.1\r\nHost: tandem\r\nConnection: close\r\n\r\n", ASKED_FOR)[:20]:
                return True
        return False

    def log_tail(self, most: int) -> bytes:
        """The last so many bytes of its log."""
        with open(self.daemon.log, "rb") as log:
            log.seek(max(0, log.seek(0, os.SEEK_END) - most))
            return log.read()

    def gone(self) -> bool:
        """After the end: no process of it."""
        return system.wait_until(lambda: not left(self.lab), 15.0)


def parent(pid: int) -> int:
    """0 when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:
        return 0


def left(lab: Lab) -> list[int]:
    """Processes in the client's namespace that are tandemd."""
    found = []
    for word in system.call(["ip", "netns", "pids", lab.client.namespace]).split():
        with suppress(OSError):
            if Path(f"/proc/{word}/comm").read_text().startswith("tandemd"):
                found.append(int(word))
    return found
