#!/usr/bin/python3
"""Runs a script on Debian's stock kernel in a virtual machine, with this machine's files, read-only, as its root.

    vmrun.py [--timeout SECONDS] [--module NAME]... SCRIPT [ARGUMENT...]

What the script prints is printed, its exit code is the exit code. It may write anywhere: the writes vanish with the machine.
124: the time was over. 125: the machine did not get as far as the script, or died. 126: it cannot run here, for the reason said.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import re
import secrets
import selectors
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Callable, Sequence

sys.dont_write_bytecode = True
sys.path[:0] = [str(Path(__file__).resolve().parent), str(Path(__file__).resolve().parents[2] / "tools" / "common")]

import initramfs  # noqa: E402
import kernel as kernels  # noqa: E402
from tandem_common.priority import lower_session  # noqa: E402

ROOT = Path(__file__).resolve().parents[2]
QEMU = "qemu-system-x86_64"
BUSYBOX = Path("/bin/busybox")
MEMORY_MB = 1024
_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


class Unavailable(Exception):
    """The machine cannot run here: what is missing and what to do."""


class Broken(Exception):
    """The machine ran, but not to the end of the script; says how far it came."""


class TimeOver(Broken):
    """The script was not done in time."""


@dataclass(frozen=True)
class Result:
    exit_code: int
    output: str
    seconds: float
    boot_seconds: float  # until the script started
    console: str  # the kernel's messages


def cache_directory() -> Path:
    """Where the unpacked kernel is: TANDEM_VM_CACHE, or build/vm of this checkout."""
    return Path(os.environ.get("TANDEM_VM_CACHE") or ROOT / "build" / "vm")


def requirements() -> tuple[kernels.Kernel, str]:
    """The kernel and the emulator. Raises Unavailable, naming what is missing."""
    if os.geteuid() != 0:
        raise Unavailable("root is needed: the guest reads this machine's files with your rights")
    if not (qemu := shutil.which(QEMU)):
        raise Unavailable(f"{QEMU} is not installed (Debian: qemu-system-x86); run: tools/install-deps vm")
    if not BUSYBOX.exists():
        raise Unavailable(f"{BUSYBOX} is not installed (Debian: busybox-static); run: tools/install-deps vm")
    try:
        return kernels.find(cache_directory()), qemu
    except kernels.NoKernel as error:
        raise Unavailable(str(error)) from error


def run(command: Sequence[str], *, timeout: float = 120.0, modules: Sequence[str] = (), environment: dict[str, str] | None = None,
        directory: Path | None = None, root: Path | None = None, devices: Sequence[str] = (), say: Callable[[bytes], None] | None = None) -> Result:
    """Runs a command (its first word is a path on this machine or a program's name) in a fresh machine and returns what came of it.

    With `root`, a directory with a system in it, systemd is started there and runs the command; this machine's files are below /host.
    `devices` are further words for the emulator. `say` gets the output while it comes. Raises Unavailable, TimeOver, Broken.
    """
    kernel, qemu = requirements()
    job = initramfs.Job(command=list(command), nonce=f"tandem-vm-{secrets.token_hex(8)}", directory=directory or (Path("/") if root else Path.cwd()), root=root,
                        modules=list(modules), look_after=int(timeout * 0.8),  # the rest is for the boot
                        environment={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root",
                                     "LC_ALL": "C.UTF-8", "PYTHONDONTWRITEBYTECODE": "1", "TANDEM_VM": "1", **(environment or {})})
    with tempfile.TemporaryDirectory(prefix="tandem-vm-") as scratch:
        image, console = Path(scratch) / "initramfs", Path(scratch) / "console"
        initramfs.write(image, kernel, BUSYBOX, job)
        started = time.monotonic()
        # Emulated unless told otherwise: /dev/kvm being there does not mean that a guest starts with it. For the emulator's sake, programs lie
        # where they lay the last time (norandmaps), which keeps what it has translated of them, pages have four levels, and the time comes from
        # a register that all processors share (tsc) instead of a device (hpet).
        accelerator = os.environ.get("TANDEM_VM_ACCEL", "tcg,thread=multi")
        machine = subprocess.Popen(
            [qemu, "-accel", accelerator, "-cpu", "max,la57=off", "-m", str(MEMORY_MB), "-smp", "2", "-nodefaults", "-display", "none", "-no-reboot",
             "-kernel", str(kernel.image), "-initrd", str(image), "-append",
             "console=ttyS0 panic=-1 quiet loglevel=5 mitigations=off net.ifnames=0 tsc=reliable norandmaps",
             "-virtfs", f"local,path=/,mount_tag={initramfs.TAG},security_model=none,readonly=on,multidevs=remap",
             "-serial", f"file:{console}", "-chardev", "stdio,id=out,signal=off", "-serial", "chardev:out", *devices],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True, preexec_fn=_before)
        try:
            heard = _Listener(job.nonce, say)
            ended = heard.listen(machine, started + timeout)
            seconds = time.monotonic() - started
        finally:
            machine.kill()
            machine.wait()
        messages = console.read_text(errors="replace") if console.exists() else ""
    if heard.exit_code is not None:
        return Result(heard.exit_code, heard.output(), seconds, (heard.script_started or started) - started, messages)
    where = "the script was running" if heard.script_started else "the script had not started"
    said = f"\noutput: ...{heard.output()[-2000:]}\nkernel: ...{messages[-6000:]}"
    if ended:
        raise Broken(f"the virtual machine stopped by itself after {seconds:.0f} s; {where}{said}")
    raise TimeOver(f"the virtual machine was not done after {timeout:.0f} s; {where}{said}")


def _before() -> None:
    """The machine dies with this process, and yields the processors as this process does, also to those of other sessions."""
    _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if (nice := os.nice(0)) > 0:
        lower_session(nice)


class _Listener:
    """Takes the script's output off the serial line, between the first and the last line that carry the nonce."""

    def __init__(self, nonce: str, say: Callable[[bytes], None] | None) -> None:
        self._start = f"{nonce} start\n".encode()
        self._end = re.compile(rb"\n?" + nonce.encode() + rb" exit (\d+)\n")
        self._say = say
        self._said = 0
        self._data = b""
        self.script_started: float | None = None
        self.exit_code: int | None = None

    def output(self) -> str:
        return self._data.decode(errors="replace")

    def listen(self, machine: subprocess.Popen, until: float) -> bool:
        """Returns True when the machine ended or the last line came, False when the time was over."""
        assert machine.stdout
        with selectors.DefaultSelector() as selector:
            selector.register(machine.stdout, selectors.EVENT_READ)
            while (left := until - time.monotonic()) > 0:
                if not selector.select(left):
                    continue
                if not (piece := os.read(machine.stdout.fileno(), 65536)):
                    return True
                if self._take(piece):
                    return True
        return False

    def _take(self, piece: bytes) -> bool:
        self._data += piece
        if self.script_started is None:
            head, found, tail = self._data.partition(self._start)
            if not found:
                return False
            self.script_started = time.monotonic()
            self._data = tail
        # The last line may be cut anywhere, and the line break before it is ours, too: withhold what may belong to it.
        if last := self._end.search(self._data, max(0, len(self._data) - len(piece) - 200)):
            self.exit_code = int(last[1])
            self._data = self._data[:last.start()]
        if self._say:
            safe = len(self._data) if last else self._data.rfind(b"\n", 0, max(0, len(self._data) - 80)) + 1
            if safe > self._said:
                self._say(self._data[self._said:safe])
                self._said = safe
        return last is not None


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="vmrun.py", usage="%(prog)s [--timeout SECONDS] [--module NAME]... SCRIPT [ARGUMENT...]",
                                     description=__doc__.split("\n")[0])
    parser.add_argument("--timeout", type=float, default=120.0, help="seconds until the machine is ended (default %(default).0f)")
    parser.add_argument("--module", action="append", default=[], metavar="NAME", help="kernel module to load first; may be repeated")
    parser.add_argument("script", metavar="SCRIPT")
    parser.add_argument("argument", nargs=argparse.REMAINDER, metavar="ARGUMENT")
    options = parser.parse_args(arguments)
    script = shutil.which(options.script) or str(Path(options.script).resolve())
    if not os.access(script, os.X_OK):
        parser.error(f"{options.script} is not a program that can be run")

    def say(piece: bytes) -> None:
        sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()

    passed_on = {name: value for name, value in os.environ.items() if name.startswith("TANDEM_")}
    try:
        return run([script, *options.argument], timeout=options.timeout, modules=options.module, environment=passed_on, say=say).exit_code
    except Unavailable as error:
        print(f"vmrun.py: cannot run here: {error}", file=sys.stderr)
        return 126
    except TimeOver as error:
        print(f"vmrun.py: {error}", file=sys.stderr)
        return 124
    except Broken as error:
        print(f"vmrun.py: {error}", file=sys.stderr)
        return 125


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
