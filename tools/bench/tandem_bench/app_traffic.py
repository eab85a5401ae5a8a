#!/usr/bin/python3
"""What applications do to a network, each wait of their user timed. A program of its own, which runs inside the client's namespace.

Prints one JSON list of seconds: a page's from its first connection to its last byte, a segment's from its request to its last byte, and the whole
time of any other.
"""

from __future__ import annotations

import argparse
import json
import random
import socket
import subprocess
import sys
import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Callable, Sequence

KB, MB = 1000, 1_000_000
OBJECTS = 36  # of a page, its HTML not counted
CONNECTIONS = 6  # of a browser to one server (HTTP/1.1)
TYPED = 30 * KB  # the HTML


class Connection:
    """A kept HTTP connection."""

    def __init__(self, address: str):
        self.address = address
        self.socket = socket.create_connection((address, 80), timeout=60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.spare = b""

    def ask(self, path: str, size: int) -> None:
        """Asks for the first `size` bytes of a file."""
        self.socket.sendall(f"GET {path} HTTP/1.1\r\nHost: {self.address}\r\nRange: bytes=0-{size - 1}\r\n\r\n".encode())
        while b"\r\n\r\n" not in self.spare:
            self.spare += self._received(65536)
        head, _, self.spare = self.spare.partition(b"\r\n\r\n")
        if head.split()[1:2] != [b"206"]:
            raise ValueError(f"the server answered: {head.splitlines()[0]!r}")

    def take(self, count: int) -> None:
        """Waits for so many bytes of the answer."""
        had, self.spare = self.spare[:count], self.spare[count:]
        count -= len(had)
        while count > 0:
            count -= len(self._received(min(count, 262144)))

    def fetch(self, path: str, size: int) -> None:
        self.ask(path, size)
        self.take(size)

    def close(self) -> None:
        self.socket.close()

    def _received(self, most: int) -> bytes:
        data = self.socket.recv(most)
        if not data:
            raise ValueError("connection closed early")
        return data


def side_by_side(tasks: Sequence[Callable[[], None]]) -> None:
    """All at the same time; returns when the last has ended, and raises what the first that failed did."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()


def page(address: str, sizes: list[int]) -> None:
    """A page: its HTML, then all that belongs to it on six connections, each taking the next object when it is free."""
    first = Connection(address)
    first.fetch("/1M", TYPED)
    waiting = deque(sizes)

    def worker(mine: Connection | None) -> None:
        connection = mine or Connection(address)
        try:
            while True:
                connection.fetch("/1M", waiting.popleft())
        except IndexError:  # nothing waits any more
            connection.close()

    side_by_side([partial(worker, first if number == 0 else None) for number in range(CONNECTIONS)])


def pages(address: str, count: int, pause: float, seed: int) -> list[float]:
    """Pages one after the other. Sizes of objects are log-normal, median 12 kB, at most 400 kB; the same for equal seeds."""
    chance = random.Random(seed)
    times = []
    for _ in range(count):
        sizes = [min(400 * KB, max(500, int(chance.lognormvariate(9.4, 1.3)))) for _ in range(OBJECTS)]
        began = time.monotonic()
        page(address, sizes)
        times.append(time.monotonic() - began)
        time.sleep(pause)
    return times


def segments(address: str, count: int, size: int, period: float) -> list[float]:
    """Video as players fetch it whose buffer is full: a segment each period on one connection, the next at once when one was late."""
    connection = Connection(address)
    times, due = [], time.monotonic()
    for _ in range(count):
        began = time.monotonic()
        connection.fetch("/10M", size)
        times.append(time.monotonic() - began)
        due = max(due + period, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    return times


def played(address: str, size: int, rate: float) -> list[float]:
    """One download that is read as it is played, ten times a second; what comes late stops the play."""
    connection = Connection(address)
    began = due = time.monotonic()
    connection.ask("/100M", size)
    part = int(rate / 10)
    for _ in range(size // part):
        connection.take(part)
        due = max(due + 0.1, time.monotonic())
        time.sleep(max(0.0, due - time.monotonic()))
    return [time.monotonic() - began]


def paced(address: str, size: int) -> list[float]:
    """One download from a server that sends no faster than it has been told to."""
    began = time.monotonic()
    Connection(address).fetch("/paced/100M", size)
    return [time.monotonic() - began]


def at_once(address: str, count: int, size: int) -> list[float]:
    """One file by several connections, a part each, as download managers and package managers do."""
    began = time.monotonic()
    side_by_side([lambda: Connection(address).fetch("/100M", size // count)] * count)
    return [time.monotonic() - began]


def beside_upload(address: str, size: int, seconds: float) -> list[float]:
    """One download while something else uploads as much as the uplink takes."""
    upload = subprocess.Popen(["iperf3", "--client", address, "--time", str(round(seconds))], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        time.sleep(2.0)  # it has filled the queue
        began = time.monotonic()
        Connection(address).fetch("/100M", size)
        taken = time.monotonic() - began
        if upload.poll() is not None:
            raise ValueError(f"the upload ended first: {(upload.stderr.read() if upload.stderr else '').strip()}")
        return [taken]
    finally:
        upload.kill()
        upload.wait()


DOES = {"pages": lambda address, seed: pages(address, 10, 1.0, seed),
        "segments": lambda address, seed: segments(address, 12, 1 * MB, 2.0),
        "played": lambda address, seed: played(address, 10 * MB, 500 * KB),
        "paced": lambda address, seed: paced(address, 12 * MB),
        "at once": lambda address, seed: at_once(address, 8, 40 * MB),
        "beside": lambda address, seed: beside_upload(address, 12 * MB, 90.0)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=DOES)
    parser.add_argument("address")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    try:
        print(json.dumps([round(taken, 5) for taken in DOES[options.what](options.address, options.seed)]))
    except (OSError, ValueError) as error:
        print(f"{options.what}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
