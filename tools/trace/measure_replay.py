#!/usr/bin/python3
"""How many packets a second one core replays: `measure_replay.py CAPTURE.pcap`, a classic Ethernet capture of one IPv4 download from port 80.

The capture is copied 100 times, each later and with another port, as pcap; each set of modules replays it three times. CPU time counts (user and system), since the
machine may be busy; the median is told.
"""

from __future__ import annotations

import os
import resource
import statistics
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

COPIES, ROUNDS, SERVER = 100, 3, 80
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


def main() -> None:
    tandem = os.environ.get("TANDEM_PROGRAM", "tandem")
    with tempfile.TemporaryDirectory() as directory:
        pcap, pcapng = Path(directory) / "many.pcap", Path(directory) / "many.pcapng"
        packets = copies(Path(sys.argv[1]).read_bytes(), pcap)
        subprocess.run(["editcap", "-F", "pcapng", pcap, pcapng], check=True)
        print(f"{packets} packets\n\n| modules | format | CPU seconds | million packets a second |\n|---|---|---|---|")
        for modules in SETS:
            for file in (pcap, pcapng):
                times = sorted(cpu_seconds([tandem, "trace", "replay", str(file), "--module", modules, "--json"]) for _ in range(ROUNDS))
                shown = ", ".join(f"{time:.2f}" for time in times)
                print(f"| {modules} | {file.suffix[1:]} | {shown} | {packets / statistics.median(times) * 1e-6:.2f} |", flush=True)


if __name__ == "__main__":
    main()
