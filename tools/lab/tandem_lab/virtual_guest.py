"""The last stage of the guest's start: runs the job of the shared directory, hands out what it prints, and powers the guest off.

Started by the init script that virtual_machine.py writes, as process 1 of the guest.
"""

from __future__ import annotations

import ctypes
import json
import os
import selectors
import subprocess
import sys
import time

_POWER_OFF = 0x4321FEDC  # LINUX_REBOOT_CMD_POWER_OFF
# Equal for every user and machine, but for what the job adds: hashes of Python, names of temporary files and messages follow from nothing else.
_ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/root", "LC_ALL": "C.UTF-8", "TERM": "dumb",
                "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}


def _append(path: str, data: bytes) -> None:
    # Closing brings it to the machine at once.
    with open(path, "ab") as file:
        file.write(data)


def _mount(directory: str) -> None:
    """A directory of the machine, to be written to, at its own place."""
    os.makedirs(directory, exist_ok=True)
    subprocess.run(["/usr/bin/mount", "-t", "hostfs", "-o", directory, "none", directory], check=True)


def _run(job: dict, shared: str) -> int:
    for directory in job["directories"]:
        _mount(directory)
    subprocess.run(["/usr/sbin/ip", "link", "set", "lo", "up"], check=True)
    try:
        command = subprocess.Popen(job["argv"], cwd=job["directory"], env={**_ENVIRONMENT, **job["environment"]}, stdin=subprocess.DEVNULL,
                                   stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    except OSError as error:
        _append(f"{shared}/stderr", f"{job['argv'][0]}: {error.strerror}\n".encode())
        return 127
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
                else:
                    selector.unregister(key.fileobj)
    code = command.wait()
    return code if code >= 0 else 128 - code


def main(shared: str) -> None:
    code = 125
    began = time.monotonic()
    try:
        with open(f"{shared}/job.json") as file:
            job = json.load(file)
        code = _run(job, shared)
    except BaseException as error:
        _append(f"{shared}/stderr", f"guest: {error!r}\n".encode())
    _append(f"{shared}/end.json", json.dumps({"exit_code": code, "virtual_seconds": time.monotonic() - began}).encode())
    os.sync()
    ctypes.CDLL(None).reboot(_POWER_OFF)


main(sys.argv[1])
