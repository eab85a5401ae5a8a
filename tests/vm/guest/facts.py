"""What the scripts inside the virtual machine share: commands, facts that the tests read, waiting, the daemon's API."""

from __future__ import annotations

import http.client
import json
import socket
import subprocess
import time
from pathlib import Path
from typing import Any, Callable

TIMEOUT = 40.0
SOCKET = Path("/run/tandem/api.sock")
# As tandemd.service does: an ordinary user with two capabilities. 65534 is in the group of wpa_supplicant's socket.
SERVICE = ["setpriv", "--reuid", "65534", "--regid", "65534", "--clear-groups", "--no-new-privs", "--inh-caps=-all,+net_admin,+net_raw",
           "--ambient-caps=-all,+net_admin,+net_raw", "--bounding-set=-all,+net_admin,+net_raw"]


def sh(command: str, check: bool = True) -> str:
    """What it printed. A command that fails ends the script, unless `check` is off."""
    done = subprocess.run(command, shell=True, capture_output=True, text=True)
    if check and done.returncode != 0:
        raise SystemExit(f"{command}: {done.stderr or done.stdout}")
    return done.stdout


def fact(name: str, value: Any) -> None:
    print(f"fact {name} {json.dumps(value)}", flush=True)


def wait_for(found: Callable[[], Any], seconds: float = TIMEOUT) -> Any:
    """The last answer, be it a true one or not."""
    end = time.monotonic() + seconds
    while not (answer := found()) and time.monotonic() < end:
        time.sleep(0.1)
    return answer


class Api(http.client.HTTPConnection):
    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(TIMEOUT)
        self.sock.connect(str(SOCKET))


def api(path: str, method: str = "GET", body: Any = None) -> Any:
    for left in reversed(range(5)):
        status, text = answered(path, method, body)
        # Nothing was done: the packet thread of a machine that is emulated, and has what others leave, took more than a second.
        if status != 503 or left == 0:
            break
    if status >= 300:
        raise SystemExit(f"{method} {path}: {status} {text.decode()}")
    return json.loads(text) if text else None


def answered(path: str, method: str, body: Any) -> tuple[int, bytes]:
    connection = Api("localhost")
    try:
        connection.request(method, path, json.dumps(body) if body is not None else None, {"Content-Type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()
