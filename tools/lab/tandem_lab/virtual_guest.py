"""The last stage of the guest's start: runs the job of the shared directory, hands out what it prints, and powers the guest off.

Started by the init script that virtual_machine.py writes, as process 1 of the guest.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import shutil
import stat
import subprocess
import sys
import time

_POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF
_MOST_PRINTED = 256 << 20  # bytes: what is printed is kept in the machine's memory
# Equal for every user and machine, but for what the job adds: hashes of Python, names of temporary files and messages follow from nothing else.
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": "dumb",
                "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def _append(path: str, data: bytes) -> None:
    # Closing brings it to the machine at once.
    with open(path, "ab") as file:
        file.write(data)


def _remove(path: str) -> None:
    shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)


def _made_anew(directory: str) -> bool:
    """Whether it hides what the overlay has below it: the command removed a directory and made one of the same name."""
    try:
        return os.getxattr(directory, "trusted.overlay.opaque", follow_symlinks=False) == b"y"
    except OSError:
        return False  # it has no such mark


class _Results:
    """A directory of the machine that the command may write to. What it writes is kept in memory and brought out at the end: a disk that is
    full, or a run that is killed, leaves no half of a file."""

    def __init__(self, directory: str, number: int):
        place = f"/run/results/{number}"
        self._directory, self._outside, self._written = directory, f"{place}/outside", f"{place}/written"
        for path in (directory, self._outside, self._written, f"{place}/work"):
            os.makedirs(path, exist_ok=True)
        subprocess.run(["/usr/bin/mount", "-t", "hostfs", "-o", directory, "none", self._outside], check=True)
        subprocess.run(["/usr/bin/mount", "-t", "overlay", "-o", f"lowerdir={self._outside},upperdir={self._written},workdir={place}/work",
                        "overlay", directory], check=True)

    def bring_out(self) -> str:
        """Each file whole or not at all. Gives what went wrong, naming the place; empty when nothing did."""
        try:
            self._bring_out("", anew=False)
        except OSError as error:
            name = str(error.filename or self._outside).replace(self._outside, self._directory)
            return f"{name}: {error.strerror}"
        return ""

    def _bring_out(self, below: str, anew: bool) -> None:
        """`anew`: the directory was made by the command, and what lies outside under its name is none of it."""
        if anew:
            for name in set(os.listdir(self._outside + below)) - set(os.listdir(self._written + below)):
                _remove(f"{self._outside}{below}/{name}")
        for entry in sorted(os.scandir(self._written + below), key=lambda entry: entry.name):
            target = f"{self._outside}{below}/{entry.name}"
            mode = entry.stat(follow_symlinks=False).st_mode
            if os.path.lexists(target) and stat.S_ISDIR(mode) != stat.S_ISDIR(os.lstat(target).st_mode):
                _remove(target)
            if stat.S_ISDIR(mode):
                os.makedirs(target, exist_ok=True)
                self._bring_out(f"{below}/{entry.name}", anew or _made_anew(entry.path))
            elif stat.S_ISREG(mode):
                self._copy(entry.path, target, stat.S_IMODE(mode))
            elif stat.S_ISLNK(mode):
                if os.path.lexists(target):
                    os.unlink(target)
                os.symlink(os.readlink(entry.path), target)
            elif stat.S_ISCHR(mode) and os.path.lexists(target):  # the overlay's mark of what was removed
                _remove(target)

    @staticmethod
    def _copy(source: str, target: str, mode: int) -> None:
        fresh = f"{target}.new"
        try:
            with open(source, "rb") as one, open(fresh, "wb") as other:
                shutil.copyfileobj(one, other)
                other.flush()
                os.fsync(other.fileno())  # some file systems say only now that they are full
            os.chmod(fresh, mode)
            os.replace(fresh, target)
        except OSError as error:
            if os.path.exists(fresh):
                os.unlink(fresh)
            raise OSError(error.errno, error.strerror, target) from error


def _run(job: dict, shared: str) -> int:
    subprocess.run(["/usr/sbin/ip", "link", "set", "lo", "up"], check=True)
    try:
        command = subprocess.Popen(job["argv"], cwd=job["directory"], env={**_ENVIRONMENT, **job["environment"]}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        _append(f"{shared}/stderr", f"{job['argv'][0]}: {error.strerror}\n".encode())
        return 127
    printed = 0
    with selectors.DefaultSelector() as selector:
        selector.register(command.stdout, selectors.EVENT_READ, "stdout")
        selector.register(command.stderr, selectors.EVENT_READ, "stderr")
        ended = os.pidfd_open(command.pid)
        selector.register(ended, selectors.EVENT_READ, "")
        # What is left in the pipes when the command ends is read, too; what a process left behind might still say is not waited for.
        while (ready := selector.select(0 if command.poll() is not None else None)) and any(key.data for key, _ in ready) or command.poll() is None:
            for key, _ in ready:
                if not key.data:
                    selector.unregister(ended)
                elif data := os.read(key.fd, 65536):
                    _append(f"{shared}/{key.data}", data)
                    printed += len(data)
                    if printed > _MOST_PRINTED:
                        command.kill()
                        raise RuntimeError(f"{job['argv'][0]} printed more than {_MOST_PRINTED >> 20} MB and was ended")
                else:
                    selector.unregister(key.fileobj)
    code = command.wait()
    return code if code >= 0 else 128 - code


def _work(shared: str) -> None:
    code = 125
    lost: list[str] = []
    began = time.monotonic()
    try:
        with open(f"{shared}/job.json") as file:
            job = json.load(file)
        results = [_Results(directory, number) for number, directory in enumerate(job["directories"])]
        code = _run(job, shared)
        lost = [words for words in (result.bring_out() for result in results) if words]
    except BaseException as error:
        _append(f"{shared}/stderr", f"guest: {error}\n".encode())
    _append(f"{shared}/end.json", json.dumps({"exit_code": code, "virtual_seconds": time.monotonic() - began, "lost": "; ".join(lost)}).encode())


def main(shared: str) -> None:
    worker = os.fork()
    if worker == 0:
        _work(shared)
        os._exit(0)
    # Process 1 takes in who lost its parent: a keeper that outlives its daemon would be there for ever.
    while os.wait()[0] != worker:
        pass
    os.sync()
    ctypes.CDLL(None).reboot(_POWER_OFF)


if __name__ == "__main__":
    main(sys.argv[1])
