#!/usr/bin/python3
"""The daemon has nothing of the fetch service in it: neither its code, nor a shared library that would bring it.

apart.py TANDEMD FETCH_SO, both with their symbols.
"""

from __future__ import annotations

import re
import subprocess
import sys

# What fetching is made of. Each must be found in the service, so that a renamed one cannot make the test blind.
PARTS = {
    "the fetch thread": r"^tandem::fetch::FetchThread::",
    "range requests": r"^tandem::fetch::Range::",
    "replay": r"^tandem::fetch::Replay::",
    "a mirror connection's TCP": r"^tandem::fetch::MirrorTcp::",
    "the follower": r"^tandem::fetch::Follower::",
    "heads of HTTP": r"^tandem::fetch::read_answer_head",
    "rules of replay": r"^tandem::fetch::why_not_replay",
    "taps": r"^tandem::kernel::Tap::",
    "raw ports": r"^tandem::kernel::RawPort::",
    "local input": r"^tandem::kernel::LocalInput::",
    "socket diagnosis": r"^tandem::kernel::SocketQuery::",
    "a socket's cost": r"^tandem::kernel::tcp_cost",
}


def defined(file: str) -> list[str]:
    lines = subprocess.run(["nm", "--demangle", "--defined-only", file], capture_output=True, text=True, check=True).stdout
    return [line.split(maxsplit=2)[2] for line in lines.splitlines() if len(line.split(maxsplit=2)) == 3]


def needed(file: str) -> list[str]:
    lines = subprocess.run(["readelf", "-d", file], capture_output=True, text=True, check=True).stdout
    return re.findall(r"\(NEEDED\).*\[(.*)\]", lines)


def main(daemon: str, service: str) -> int:
    there, here = defined(service), defined(daemon)
    faults = []
    if not any(name.startswith("tandem::daemon::") for name in here):
        faults.append(f"{daemon} has no symbols: nothing can be told")
    for part, pattern in PARTS.items():
        if not any(re.match(pattern, name) for name in there):
            faults.append(f"{part} ({pattern}) is not in {service}: was it renamed?")
        faults += [f"{part} is in {daemon}: {name}" for name in here if re.match(pattern, name)][:1]
    faults += [f"{daemon} needs {library}" for library in needed(daemon) if "fetch" in library]
    print("\n".join(faults) or f"{len(PARTS)} parts are in the service, and none in the daemon")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
