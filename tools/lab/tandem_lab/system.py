"""The machine under the lab: rights, tools, processes, machine-wide settings."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Iterable, Iterator, Mapping, Sequence

from .errors import BadInput, LabError

STATE_ROOT = Path("/run/tandem-lab")

PYTHON = "/usr/bin/python3"

# Tool -> the Debian package that brings it.
TOOLS = {
    "ip": "iproute2",
    "ss": "iproute2",
    "nft": "nftables",
    "sysctl": "procps",
    "nginx": "nginx-light",
    "iperf3": "iperf3",
    "openssl": "openssl",
    "curl": "curl",
    "setpriv": "util-linux",
    "nsenter": "util-linux",
}

SEARCH_PATH = os.pathsep.join([os.environ.get("PATH", ""), "/usr/sbin", "/sbin", "/usr/bin", "/bin"])

_ALLOWED_CC = Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control")
_AVAILABLE_CC = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")


def tool(name: str) -> str:
    """Full path of a tool; /usr/sbin is searched too, since a plain user's PATH may lack it."""
    path = shutil.which(name, path=SEARCH_PATH)
    if path is None:
        package = TOOLS.get(name)
        hint = f"; install it: apt-get install {package}" if package else ""
        raise LabError(f"{name}: not found{hint}")
    return path


def output_unread() -> None:
    """After BrokenPipeError: whoever read the output has seen enough (... | head). The interpreter would complain once more at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tandem_binary(name: str) -> Path:
    """One of the project's own programs: $TANDEM_BIN_DIR, else the build beside this source tree, else PATH."""
    places: list[Path] = []
    if directory := os.environ.get("TANDEM_BIN_DIR"):
        places.append(Path(directory))
    places.append(Path(__file__).resolve().parents[3] / "build" / "bin")
    for place in places:
        if os.access(place / name, os.X_OK):
            return place / name
    if found := shutil.which(name, path=SEARCH_PATH):
        return Path(found)
    looked = ", ".join(str(place) for place in places)
    raise LabError(f"{name}: not found in {looked} nor in PATH; build it (cmake --build build --target {name}) "
                   "or name its directory in TANDEM_BIN_DIR")


def missing_requirements(air: bool = True) -> list[str]:
    """Everything this machine lacks for a lab, one line each; empty when a lab can be set up."""
    lacks: list[str] = []
    if os.geteuid() != 0:
        lacks.append("root: the lab creates network namespaces; run it with sudo")
    for name, package in TOOLS.items():
        if shutil.which(name, path=SEARCH_PATH) is None:
            lacks.append(f"{name}: not found; install it: apt-get install {package}")
    if air:
        if not Path("/dev/net/tun").exists():
            lacks.append("/dev/net/tun: missing; load the kernel module: modprobe tun")
        try:
            tandem_binary("tandem-air")
        except LabError as error:
            lacks.append(str(error))
    return lacks


def require(air: bool = True) -> None:
    """Raises LabError naming everything that is missing."""
    lacks = missing_requirements(air)
    if lacks:
        raise LabError("the lab cannot run here:\n" + "\n".join(f"  {line}" for line in lacks))


def _enter(namespace: int, flags: int = 0x40000000) -> None:  # CLONE_NEWNET
    if ctypes.CDLL(None, use_errno=True).setns(namespace, flags) != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


@contextmanager
def inside(namespace: str) -> Iterator[None]:
    """This thread in another network namespace, for as long as the `with` lasts: its sockets, its /proc/sys/net and /proc/thread-self/net, the
    programs that it starts. nsenter(1) before each of them would be one more program to start, and starting them is what a lab's set-up takes."""
    home = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        target = os.open(f"/run/netns/{namespace}", os.O_RDONLY)
        try:
            _enter(target)
        finally:
            os.close(target)
    except OSError as error:
        os.close(home)
        raise LabError(f"network namespace {namespace}: {error.strerror}") from error
    try:
        yield
    finally:
        try:
            _enter(home)
        except OSError:
            os.abort()  # whatever follows would happen in the wrong place
        os.close(home)


def call(argv: Sequence[str], *, stdin: str | None = None, what: str = "", namespace: str | None = None) -> str:
    """Runs a tool to its end, in a namespace if one is named, and gives its output; a failure becomes a LabError with the tool's own words."""
    with inside(namespace) if namespace else nullcontext():
        done = subprocess.run([tool(argv[0]), *argv[1:]], input=stdin, capture_output=True, text=True)
    if done.returncode != 0:
        words = (done.stderr or done.stdout).strip() or f"exit code {done.returncode}"
        raise LabError(f"{what or ' '.join(argv)}: {words}")
    return done.stdout


def set_sysctls(namespace: str, values: Mapping[str, object]) -> None:
    """Writes kernel settings (sysctl(8)'s names below net) of a namespace."""
    with inside(namespace):
        for key, value in values.items():
            try:
                Path("/proc/sys", *key.split(".")).write_text(f"{value}\n")
            except OSError as error:
                raise LabError(f"kernel settings of {namespace}: {key}={value}: {error.strerror}") from error


def in_namespace(namespace: str, argv: Sequence[str]) -> list[str]:
    """The command that runs argv inside a namespace, with /sys showing that namespace's interfaces."""
    return [tool("ip"), "netns", "exec", namespace, *argv]


def owned(argv: Sequence[str], signal_name: str = "KILL", namespace: str | None = None) -> list[str]:
    """The command that runs argv so that the kernel ends it when the process that started it dies."""
    enter = [tool("nsenter"), f"--net=/run/netns/{namespace}"] if namespace else []
    return [*enter, tool("setpriv"), "--pdeathsig", signal_name, *argv]


@dataclass(frozen=True)
class ProcessId:
    """A process that cannot be mistaken for a later one with the same number."""

    pid: int
    start: int  # clock ticks since boot, field 22 of /proc/PID/stat

    @classmethod
    def of(cls, pid: int) -> "ProcessId | None":
        try:
            text = Path(f"/proc/{pid}/stat").read_text()
        except OSError:
            return None
        fields = text[text.rindex(")") + 2:].split()
        if fields[0] in ("Z", "X"):
            return None
        return cls(pid, int(fields[19]))

    def alive(self) -> bool:
        return ProcessId.of(self.pid) == self

    def end(self, grace: float) -> None:
        """SIGTERM, then SIGKILL after `grace` seconds; returns when the process is gone."""
        for signal_number, timeout in ((signal.SIGTERM, grace), (signal.SIGKILL, 5.0)):
            if not self.alive():
                return
            try:
                os.kill(self.pid, signal_number)
            except ProcessLookupError:
                return
            wait_until(lambda: not self.alive(), timeout)


def wait_until(condition, timeout: float, pause: float = 0.01) -> bool:
    """Polls until the condition holds; False after `timeout` seconds."""
    deadline = time.monotonic() + timeout
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(pause)
    return True


def resident_bytes(pid: int) -> int:
    """Resident memory of a process (VmRSS)."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise LabError(f"/proc/{pid}/status: no VmRSS; did the process end?")


@contextmanager
def machine_lock(timeout: float = 60.0) -> Iterator[None]:
    """One set-up or tear-down at a time on this machine. An abstract socket leaves no file and dies with its owner."""
    lock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    lock.set_inheritable(False)
    deadline = time.monotonic() + timeout
    while True:
        try:
            lock.bind("\0tandem-lab")
            break
        except OSError as error:
            if time.monotonic() > deadline:
                lock.close()
                raise LabError("another lab is being set up or removed and does not finish") from error
            time.sleep(0.02)
    try:
        yield
    finally:
        lock.close()


def write_atomically(path: Path, text: str) -> None:
    """A reader sees the old or the new content, never half of it."""
    fresh = path.with_name(path.name + ".new")
    fresh.write_text(text)
    fresh.rename(path)


class MachineSettings:
    """Settings that no namespace can have for itself, changed for the labs in use and given back after the last one.

    A namespace may use a congestion control only if the machine allows it to all (tcp_allowed_congestion_control).
    What the labs have added is kept in STATE_ROOT/machine.json together with the prefixes that need it: what somebody else allows or forbids meanwhile stays.
    The caller holds machine_lock().
    """

    def __init__(self) -> None:
        self.file = STATE_ROOT / "machine.json"

    def _load(self) -> dict:
        try:
            return json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}

    def allow_congestion(self, prefix: str, wanted: Iterable[str]) -> None:
        """Lets namespaces use the wanted congestion controls."""
        wanted = set(wanted)
        for name in wanted - set(_AVAILABLE_CC.read_text().split()):
            modprobe = shutil.which("modprobe", path=SEARCH_PATH)
            if modprobe:
                subprocess.run([modprobe, "-q", f"tcp_{name}"], check=False)
        available = _AVAILABLE_CC.read_text().split()
        if lacking := sorted(wanted - set(available)):
            raise BadInput(f"congestion control {', '.join(lacking)}: not in this kernel; allowed: {', '.join(available)}")
        record = self._load()
        before = _ALLOWED_CC.read_text().split()
        missing = [name for name in sorted(wanted) if name not in before]
        record["added"] = sorted({*record.get("added", []), *missing})
        record["users"] = sorted({*record.get("users", []), prefix})
        write_atomically(self.file, json.dumps(record))
        if missing:
            _ALLOWED_CC.write_text(" ".join(before + missing))

    def release(self, prefix: str, still_used) -> None:
        """Forgets a prefix (and every other one for which still_used(prefix) is false); the last one takes back what labs have added."""
        record = self._load()
        if not record:
            return
        users = [name for name in record.get("users", []) if name != prefix and still_used(name)]
        if users:
            record["users"] = users
            write_atomically(self.file, json.dumps(record))
            return
        now = _ALLOWED_CC.read_text().split()
        if any(name in now for name in record.get("added", [])):
            _ALLOWED_CC.write_text(" ".join(name for name in now if name not in record["added"]))
        self.file.unlink(missing_ok=True)


def write_json(path: Path, value: object) -> None:
    write_atomically(path, json.dumps(value, indent=2) + "\n")
