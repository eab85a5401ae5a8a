#!/usr/bin/python3
"""How many packets a second one core replays: `measure_replay.py CAPTURE.pcap [OWN.pcapng]`, a classic Ethernet capture of one IPv4 download from port 80, and a recording of the daemon.

The capture is copied 100 times, each later and with another port, as pcap and pcapng; each set of modules replays it five times. The recording is replayed as it is, to the same decisions.
CPU time counts (user and system), since the machine may be busy: the median, and the least, which other programs have disturbed least.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

COPIES, ROUNDS, SERVER = 100, 5, 80
SOURCE, DESTINATION = slice(34, 36), slice(36, 38)  # ports behind Ethernet and a plain IPv4 header
SETS = ("offload", "freeze", "mirror", "ecn", "offload,freeze,mirror,ecn")


def copies(original: bytes, out: Path) -> int:
    records, at = [], 24
    while at < len(original):
        seconds, micros, kept, length = struct.unpack_from("<IIII", original, at)
        records.append((seconds, micros, length, original[at + 16:at + 16 + kept]))
        at += 16 + kept
    span = records[-1][0] - records[0][0] + 2
    with out.open("wb") as file:
        file.write(original[:24])
        for copy in range(COPIES):
            for seconds, micros, length, frame in records:
                fresh = bytearray(frame)
                mine = DESTINATION if frame[SOURCE] == struct.pack(">H", SERVER) else SOURCE
                fresh[mine] = struct.pack(">H", 20000 + copy)
                file.write(struct.pack("<IIII", seconds + span * copy, micros, len(fresh), length) + fresh)
    return len(records) * COPIES


def cpu_seconds(command: list[str]) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, stdout=subprocess.DEVNULL, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def measure(name: str, kind: str, packets: int, command: list[str]) -> None:
    times = sorted(cpu_seconds(command) for _ in range(ROUNDS))
    shown = ", ".join(f"{time:.2f}" for time in times)
    print(f"| {name} | {kind} | {shown} | {packets / statistics.median(times) * 1e-6:.2f} | {packets / times[0] * 1e-6:.2f} |", flush=True)


def main() -> None:
    tandem = os.environ.get("TANDEM_PROGRAM", "tandem")
    with tempfile.TemporaryDirectory() as directory:
        pcap, pcapng = Path(directory) / "many.pcap", Path(directory) / "many.pcapng"
        packets = copies(Path(sys.argv[1]).read_bytes(), pcap)
        subprocess.run(["editcap", "-F", "pcapng", pcap, pcapng], check=True)
        load = os.getloadavg()[0]
        print(f"{packets} packets; load {load:.1f} before\n\n| modules | format | CPU seconds | million packets a second: median | best |\n|---|---|---|---|---|")
        for modules in SETS:
            for file in (pcap, pcapng):
                measure(modules, file.suffix[1:], packets, [tandem, "trace", "replay", str(file), "--module", modules, "--json"])
        for own in sys.argv[2:3]:
            command = [tandem, "trace", "replay", own, "--json"]
            told = json.loads(subprocess.run(command, stdout=subprocess.PIPE, check=True).stdout)
            measure("as recorded", f"recording of the daemon, {told['packets']} packets", told["packets"], command)
    print(f"\nload {os.getloadavg()[0]:.1f} after")


if __name__ == "__main__":
    main()
