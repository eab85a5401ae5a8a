"""The guest's first file system: busybox, the modules that reach the host's files, and a script that switches over to them."""

from __future__ import annotations

import gzip
import os
import shlex
import stat
from dataclasses import dataclass, field
from pathlib import Path

from kernel import Kernel, NoKernel

TAG = "tandemhost"
_BOOT_MODULES = ["virtio_pci", "9pnet_virtio", "9p", "overlay"]

# The host's root, or a directory of it, is the lower layer of an overlay: the guest may write anywhere, and nothing of it reaches the host.
_INIT = """\
#!/bin/busybox sh
b=/bin/busybox
$b mount -t devtmpfs dev /dev
$b mount -t proc proc /proc
$b mount -t sysfs sys /sys
stop() {{ $b echo "tandem-vm: $1 failed" >/dev/ttyS1; $b sleep 1; $b reboot -f; }}
while read module; do $b insmod /modules/$module || stop "loading $module"; done </modules/order
$b mount -t 9p -o trans=virtio,version=9p2000.L,ro,cache=loose,msize=262144 {tag} /host || stop "mounting the host's files"
$b mount -t tmpfs -o mode=755 rw /rw
$b mkdir /rw/upper /rw/work
$b mount -t overlay -o lowerdir=/host{root},upperdir=/rw/upper,workdir=/rw/work root /new || stop "overlay"
$b mkdir -p /new/lib/modules/{release}
$b mount -o bind /host{modules} /new/lib/modules/{release} || stop "finding the modules"
$b mount -t tmpfs -o mode=755 run /new/run
$b mkdir /new/run/lock
$b cp /job /new/run/job
for place in dev proc sys; do $b mount -o move /$place /new/$place; done
$b mkdir -p /new/dev/shm /new/dev/pts
$b mount -t tmpfs -o mode=1777 shm /new/dev/shm
$b mount -t devpts pts /new/dev/pts
$b ln -s /proc/self/fd /new/dev/fd
$b ip link set lo up
$b hostname tandem-vm
{start}
"""

_START_JOB = "exec $b switch_root /new /bin/bash /run/job"

# systemd starts the job as the last of its units. Not started: what nobody logs in to, and what takes long and has no part in this.
_START_SYSTEMD = """\
$b mkdir -p /new/host /new/run/systemd/system/multi-user.target.wants
$b mount -o bind /host /new/host || stop "showing the host's files"
$b echo 0123456789abcdef0123456789abcdef >/new/etc/machine-id
$b echo tandem-vm >/new/etc/hostname
$b cp /unit /new/run/systemd/system/tandem-vm.service
$b ln -s ../tandem-vm.service /new/run/systemd/system/multi-user.target.wants/tandem-vm.service
for unit in {masked}; do $b ln -s /dev/null /new/run/systemd/system/$unit; done
exec $b switch_root /new /sbin/init"""
_MASKED = ["getty.target", "getty-static.service", "serial-getty@.service", "apparmor.service", "ModemManager.service", "nginx.service",
           "systemd-udev-trigger.service", "apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "e2scrub_all.timer", "e2scrub_reap.service",
           "fstrim.timer"]
_UNIT = """\
[Unit]
Description=What the virtual machine was started for
After=basic.target dbus.socket systemd-logind.service
IgnoreOnIsolate=yes
[Service]
Type=exec
ExecStart=/bin/bash /run/job
"""

# Everything said goes to the second serial port, the first is the kernel's. The last line carries the exit code. The host ends the
# machine when it sees that line; the guest does so itself when nobody looks. Shortly before the time is over it says what it waits for.
_JOB = """\
exec </dev/null >/dev/ttyS1 2>&1
stty raw -echo -F /dev/ttyS1
{environment}
mount -t cgroup2 cgroup /sys/fs/cgroup 2>/dev/null
cd {directory} || exit 1
echo {nonce} start
for module in {modules}; do modprobe "$module" || echo "tandem-vm: no module $module"; done
(sleep {look}; echo; echo "tandem-vm: not done after {look} s; these run:"; ps -eo pid,ppid,stat,etimes,wchan:24,args) &
setsid -w {command}
code=$?
echo
echo {nonce} exit $code
sleep 5
echo b >/proc/sysrq-trigger
"""


@dataclass(frozen=True)
class Job:
    """What the guest is to do."""

    command: list[str]
    nonce: str  # marks the first and the last line, so that no output can be mistaken for them
    directory: Path
    environment: dict[str, str] = field(default_factory=dict)
    modules: list[str] = field(default_factory=list)  # loaded before, with modprobe
    root: Path | None = None  # a directory of the host with a system in it, which systemd starts; None: the host's own files, without systemd
    look_after: int = 100  # seconds from the start of the command until its processes are listed

    def text(self) -> str:
        environment = "\n".join(f"export {name}={shlex.quote(value)}" for name, value in self.environment.items())
        return _JOB.format(environment=environment, directory=shlex.quote(str(self.directory)), nonce=self.nonce,
                           modules=shlex.join(self.modules), command=shlex.join(self.command), look=self.look_after)


def write(path: Path, kernel: Kernel, busybox: Path, job: Job) -> None:
    """Writes the archive (cpio, gzip) that the kernel unpacks. Raises NoKernel when a module is missing."""
    archive = _Cpio()
    for directory in ("bin", "dev", "proc", "sys", "host", "rw", "new", "modules"):
        archive.directory(directory)
    archive.device("dev/console", 5, 1)
    try:
        archive.file("bin/busybox", busybox.read_bytes(), 0o755)
    except OSError as error:
        raise NoKernel(f"{busybox}: {error.strerror}") from error
    files = kernel.with_dependencies(_BOOT_MODULES)
    for file in files:
        archive.file(f"modules/{file.name}", file.read_bytes())
    archive.file("modules/order", "".join(f"{file.name}\n" for file in files).encode())
    start = _START_SYSTEMD.format(masked=shlex.join(_MASKED)) if job.root else _START_JOB
    archive.file("init", _INIT.format(tag=TAG, release=kernel.release, modules=shlex.quote(str(kernel.modules.resolve())),
                                      root=shlex.quote(str(job.root.resolve())) if job.root else "", start=start).encode(), 0o755)
    archive.file("job", job.text().encode())
    archive.file("unit", _UNIT.encode())
    path.write_bytes(gzip.compress(archive.bytes(), 1))


class _Cpio:
    """An archive in the "newc" format (Documentation/driver-api/early-userspace/buffer-format.rst)."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._inode = 0

    def directory(self, name: str) -> None:
        self._add(name, stat.S_IFDIR | 0o755)

    def file(self, name: str, content: bytes, mode: int = 0o644) -> None:
        self._add(name, stat.S_IFREG | mode, content)

    def device(self, name: str, major: int, minor: int) -> None:
        self._add(name, stat.S_IFCHR | 0o600, device=os.makedev(major, minor))

    def bytes(self) -> bytes:
        self._add("TRAILER!!!", 0)
        return b"".join(self._parts)

    def _add(self, name: str, mode: int, content: bytes = b"", device: int = 0) -> None:
        self._inode += 1
        encoded = name.encode() + b"\0"
        header = [self._inode, mode, 0, 0, 1, 0, len(content), 0, 0, os.major(device), os.minor(device), len(encoded), 0]
        self._parts += [_padded(b"070701" + b"".join(b"%08X" % value for value in header) + encoded), _padded(content)]


def _padded(data: bytes) -> bytes:
    return data + b"\0" * (-len(data) % 4)
