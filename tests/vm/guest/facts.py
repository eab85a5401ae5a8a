"""What the scripts inside the virtual machine share: commands, facts that the tests read, waiting."""

from __future__ import annotations

import json
import subprocess
import time
from typing import Any, Callable

TIMEOUT = 40.0
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
