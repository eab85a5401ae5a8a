"""Runs one command inside a kernel in virtual time, with this machine's files as its root.

The guest sees the machine's file system read-only below a layer in its own memory: whatever it writes is gone with it, but for what
it wrote to the directories handed to it, which comes out when its command has ended. What it does follows from its command line and
these files alone: the command line carries the seed and no path that changes from run to run, no device of the host reaches it, and
it is told nothing while it runs.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Callable, Mapping, Sequence

from . import system
from .errors import BadInput, LabError
from . import kernels, virtual, virtual_clock

_HERE = Path(__file__).resolve().parent
MEMORY_MB = 1536
START_NS = 1767225600_000000000  # the guest's clock at boot: 2026-01-01 00:00 UTC
SHARED = "/run/tandem-virtual"  # in the guest: the directory that output, exit code and events come out by
# In the namespace of the guest's kernel: its working directory, in a file system that goes with it, where nobody's results can be.
_ROOM = "/sys/tandem-virtual"
_ROOM_MB = 512  # for what comes out, beside the guest's memory
_LOOK_EVERY = 0.05  # seconds between looks at what came out
# CPU seconds that a guest may compute while its clock stands. What the lab's own programs do between two waits takes below a second.
SPIN_LIMIT = 120.0
SPIN_LIMIT_VARIABLE = "TANDEM_SPIN_LIMIT"

# What a listener gets: "stdout", "stderr" or "events", and what was written there since.
Listener = Callable[[str, bytes], None]

# The first program in the guest. Its root becomes an overlay whose lower layer is the machine's; then virtual_guest.py takes over.
_INIT = """\
#!/bin/sh
set -e
export PATH=/usr/sbin:/usr/bin:/sbin:/bin
mount -t tmpfs -o size=75% tmpfs /tmp
mkdir /tmp/upper /tmp/work /tmp/root
mount -t overlay -o lowerdir=/,upperdir=/tmp/upper,workdir=/tmp/work overlay /tmp/root
cd /tmp/root
mount -t proc proc proc
mount -t sysfs sysfs sys
mount -t devtmpfs dev dev
# The links that udev makes on other machines: `nft -f -` of nftables 1.0.9 opens /dev/stdin.
ln -s /proc/self/fd dev/fd
ln -s fd/0 dev/stdin
ln -s fd/1 dev/stdout
ln -s fd/2 dev/stderr
mkdir -p dev/pts dev/shm
mount -t devpts devpts dev/pts
mount -t tmpfs tmpfs dev/shm
mount -t tmpfs tmpfs run
mkdir .{shared}
mount -t hostfs -o {room}/shared none .{shared}
exec chroot . /usr/bin/env -i /usr/bin/python3 -B -S -E {guest} {shared}
"""


# Around the kernel: what it works with lies in memory that nobody else sees, so a killed run leaves nothing. It waits for the word
# to go on. The kernel is not process 1, which cannot die of its own signals: in a panic it has to.
_AROUND = """\
mount -t tmpfs -o size={size}M tmpfs /sys && mkdir -p {room}/shared && cd {room} && echo ready && read -r go || exit 125
"$@" </dev/null >console 2>&1
exit $?
"""


@dataclass(frozen=True)
class Result:
    exit_code: int
    seconds: float  # of real time, boot included
    virtual_seconds: float  # that the command took by the guest's clock


class Died(LabError):
    """The guest ended before its command did."""


class NoMappings(Died):
    """A program in the guest was killed because the machine lets the kernel's process have no more memory mappings."""

    def __init__(self, limit: int):
        super().__init__(f"a program in the lab was killed: every page of its memory may be a mapping of this machine's, which allows a process {limit} of them. "
                         f"Allow more: sysctl -w vm.max_map_count={max(2 * limit, 1 << 20)}")


class Spins(Died):
    """The guest computed on and on while its clock stood, and was ended."""

    def __init__(self, computed: float, clock: float):
        super().__init__(f"the lab in virtual time computed for {computed:.0f} s while its clock stood at {clock:.3f} s after boot, and was ended: a program in it loops "
                         "without waiting or reading the clock. Mend the loop, run it with --time real, or allow long computing: "
                         f"{SPIN_LIMIT_VARIABLE}=SECONDS (now {spin_limit():g})")


def mappings_ran_out(console: bytes) -> bool:
    """Whether user-mode Linux said so (arch/um/kernel/skas/mmu.c and arch/um/os-Linux/skas/mem.c: it then kills the process)."""
    return b"UML ran out of memory on the host side" in console


def spin_limit() -> float:
    """SPIN_LIMIT, or what the environment says. Raises BadInput."""
    text = os.environ.get(SPIN_LIMIT_VARIABLE, "")
    try:
        limit = float(text) if text else SPIN_LIMIT
    except ValueError:
        limit = 0.0
    if not 0 < limit < float("inf"):
        raise BadInput(f"{SPIN_LIMIT_VARIABLE}={text}: allowed: CPU seconds, above 0")
    return limit


def _free_mb() -> int:
    return next(int(line.split()[1]) >> 10 for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable:"))


def most_at_a_time() -> int:
    """As many guests as there are cores, unless memory is short."""
    return max(1, min(len(os.sched_getaffinity(0)), _free_mb() // MEMORY_MB))


def requirements() -> kernels.Kernel:
    """The kernel to run on. Raises LabError naming what is missing."""
    if virtual.inside():
        raise LabError("this is virtual time already; run it without --time virtual")
    kernel = kernels.find()
    if os.geteuid() != 0:
        raise LabError("virtual time needs root: the guest reads this machine's files with your rights")
    for name in ("unshare", "setarch", "setpriv", "taskset"):
        if not shutil.which(name, path=system.SEARCH_PATH):
            raise LabError(f"{name}: not found; install it: apt-get install util-linux")
    if (free := _free_mb()) < MEMORY_MB:
        raise LabError(f"{free} MB of memory are free, a lab in virtual time may need {MEMORY_MB} MB; end something or run fewer at a time")
    return kernel


def hidden(path: Path, directories: Sequence[Path] = ()) -> str:
    """The directory of the machine that a path lies in and the guest does not see, as it has one of its own there (_INIT); empty when it sees the path, also
    as one below `directories` that it is handed."""
    if any(path.resolve().is_relative_to(one.resolve()) for one in directories):
        return ""
    return next((place for place in ("/dev", "/proc", "/run", "/sys") if path.resolve().is_relative_to(place)), "")


class Machine:
    """A guest at work. It ends with this object's process at the latest, and leaves nothing."""

    def __init__(self, argv: Sequence[str], *, seed: int, directory: Path | None = None, environment: Mapping[str, str] | None = None,
                 directories: Sequence[Path] = (), cpu: int | None = None, radios: int = 0, say: Listener | None = None):
        """Boots a guest that runs argv.

        seed         of the kernel: TCP's initial numbers and ports, hashes, /dev/urandom
        directory    that argv runs in; the present one when it is not given
        directories  of this machine that the guest may write to, at the same path; what it wrote comes out at the end, each file whole
        cpu          run on this core alone; the one that was used least just now when it is not given
        radios       simulated ones (mac80211_hwsim): phy0, phy1, ... with wlan0, wlan1, ...
        """
        kernel = requirements()
        limit = spin_limit()
        here = (directory or Path.cwd()).resolve()
        if place := hidden(here, directories):
            raise BadInput(f"virtual time: {here}: a lab in virtual time has a {place} of its own and does not see this directory; run it in another one")
        for results in directories:
            try:
                results.mkdir(parents=True, exist_ok=True)
            except OSError as error:
                raise LabError(f"{results}: {error.strerror}") from error
        self._say = say
        self._seen = {"stdout": 0, "stderr": 0, "events": 0}
        self._began = time.monotonic()
        self._process = subprocess.Popen(_command(kernel, seed, _quietest_core() if cpu is None else cpu, radios), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                         env={"PATH": system.SEARCH_PATH, "HOME": _ROOM, "TMPDIR": _ROOM}, start_new_session=True)
        assert self._process.stdin and self._process.stdout
        line = self._process.stdout.readline().decode(errors="replace").strip()
        if line != "ready":
            self._process.kill()
            self._process.wait()
            raise LabError(f"virtual time: {line or 'the namespaces for the kernel could not be made'}")
        self._room = os.open(f"/proc/{self._process.pid}/root{_ROOM}", os.O_RDONLY | os.O_DIRECTORY)
        self._write("init", _INIT.format(shared=SHARED, room=_ROOM, guest=shlex.quote(str(_HERE / "virtual_guest.py"))))
        self._write("shared/job.json", json.dumps({"argv": list(argv), "directory": str(directory or Path.cwd()), "directories": [str(path.resolve()) for path in directories],
                                                   "environment": {"TANDEM_VIRTUAL": kernel.words, **(environment or {})}}))
        self._process.stdin.write(b"go\n")
        self._process.stdin.close()
        self._clock = virtual_clock.Clock(kernel.image, self._process.pid, limit)
        self._spins: Spins | None = None

    def _open(self, path: str, flags: int) -> int:
        return os.open(path, flags, 0o755, dir_fd=self._room)

    def _write(self, name: str, text: str) -> None:
        with open(name, "w", opener=lambda path, flags: self._open(path, flags)) as file:
            file.write(text)

    def _read(self, name: str, start: int = 0) -> bytes:
        try:
            with open(name, "rb", opener=self._open) as file:
                file.seek(start)
                return file.read()
        except FileNotFoundError:
            return b""

    def running(self) -> bool:
        """Whether it still works; hands on what came out since the last call."""
        if self._process.poll() is None and self._clock.spins():
            self._spins = Spins(self._clock.computed, self.clock() or 0.0)
            self._process.kill()
            self._process.wait()
        alive = self._process.poll() is None
        for name, seen in self._seen.items() if self._say else ():
            if fresh := self._read(f"shared/{name}", seen):
                self._seen[name] = seen + len(fresh)
                self._say(name, fresh)
        return alive

    def clock(self) -> float | None:
        """Seconds of its own clock since its boot; None when it does not run."""
        now = self._clock.nanoseconds()
        return None if now is None else now / 1e9

    def cpu_seconds(self) -> float:
        """CPU time that it took until now."""
        return virtual_clock.cpu_seconds(self._process.pid)

    def result(self) -> Result:
        """What came of it, after its end. Raises Died when the command did not come to its end, LabError when results did not come out."""
        if self._spins:
            raise self._spins
        try:
            ended = json.loads(self._read("shared/end.json"))
        except ValueError:
            words = self._read("console").decode(errors="replace").strip().splitlines()[-12:]
            raise Died("the kernel in virtual time ended before its command:\n  " + "\n  ".join(words or ["it said nothing"])) from None
        if mappings_ran_out(self._read("console")):
            raise NoMappings(int(Path("/proc/sys/vm/max_map_count").read_text()))
        if ended["lost"]:
            raise LabError(f"{ended['lost']}; what was written before lies there whole")
        return Result(ended["exit_code"], time.monotonic() - self._began, ended["virtual_seconds"])

    def close(self) -> None:
        """Ends it, whatever it does, and forgets what it left in memory."""
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        if self._room >= 0:
            os.close(self._room)
        self._room = -1

    def __enter__(self) -> "Machine":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def run(argv: Sequence[str], **options: Any) -> Result:
    """Runs argv in a guest (options: see Machine) and waits for its end."""
    with Machine(argv, **options) as machine:
        while machine.running():
            time.sleep(_LOOK_EVERY)
        machine.running()  # what came out with the last words
        return machine.result()


def _quietest_core() -> int:
    """The core that was used least over the last tenth of a second. A guest is one thread at a time and hands over between its processes at
    every step: among several cores that costs more than the work."""
    def idle() -> dict[int, int]:
        lines = [line.split() for line in Path("/proc/stat").read_text().splitlines() if line.startswith("cpu") and line[3].isdigit()]
        return {int(words[0][3:]): int(words[4]) for words in lines}

    before = idle()
    time.sleep(0.1)
    after = idle()
    return max(os.sched_getaffinity(0), key=lambda core: after.get(core, 0) - before.get(core, 0))


def _command(kernel: kernels.Kernel, seed: int, cpu: int, radios: int) -> list[str]:
    """The guest in namespaces of its own: its processes end with the first of them, and it cannot reach the machine's network."""
    argv = ["taskset", "-c", str(cpu), "unshare", "--mount", "--pid", "--net", "--ipc", "--uts", "--fork", "--kill-child", "--mount-proc",
             "sh", "-c", _AROUND.format(size=MEMORY_MB + _ROOM_MB, room=_ROOM), "sh", "setarch", "-R", str(kernel.image), f"mem={MEMORY_MB}M",
             "root=/dev/root", "rootfstype=hostfs", "rootflags=/", "ro", f"init={_ROOM}/init", "time-travel=inf-cpu",
             f"time-travel-start={START_NS}", f"seed={seed}", f"mac80211_hwsim.radios={radios}", "norandmaps", "con=null", "ssl=null", "stderr=1", "quiet", "panic=-1", "noreboot", "umid=lab"]
    return system.owned(argv)


def to_terminal(name: str, data: bytes) -> None:
    """A listener that prints what the command prints."""
    if name in ("stdout", "stderr"):
        stream = getattr(sys, name).buffer
        stream.write(data)
        stream.flush()
