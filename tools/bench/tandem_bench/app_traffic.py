#!/usr/bin/python3
"""What applications do to a network, each wait of their user timed. A program of its own, which runs inside the client's namespace.

Prints one JSON list of seconds: a page's from its first connection to its last byte, a segment's from its request to its last byte, an answer's from
its question, a file's that is sent from its connection to the word that it arrived, and the whole time of any other. With "take", in the server's
namespace, it takes the files that are sent, prints "ready", and runs until it is ended.
"""

from __future__ import annotations

import argparse
import http.client
import json
import random
import socket
import socketserver
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Callable, Sequence

KB, MB = 1000, 1_000_000
OBJECTS = 36  # of a page, its HTML not counted
CONNECTIONS = 6  # of a browser to one server (HTTP/1.1)
TYPED = 30 * KB  # the HTML
TAKEN_AT = 7001  # the port at which files that are sent are taken


class Connection:
    """A kept HTTP connection."""

    def __init__(self, address: str):
        self._http = http.client.HTTPConnection(address, timeout=60)

    def ask(self, path: str, size: int) -> None:
        """Asks for the first `size` bytes of a file."""
        self._http.putrequest("GET", path, skip_accept_encoding=True)
        self._http.putheader("Range", f"bytes=0-{size - 1}")
        self._http.endheaders()
        self._answer = self._http.getresponse()
        if self._answer.status != http.HTTPStatus.PARTIAL_CONTENT:
            raise ValueError(f"the server answered: {self._answer.status} {self._answer.reason}")

    def take(self, count: int) -> None:
        """Waits for so many bytes of the answer."""
        while count > 0:
            data = self._answer.read(min(count, 262144))
            if not data:
                raise ValueError("connection closed early")
            count -= len(data)

    def fetch(self, path: str, size: int) -> None:
        self.ask(path, size)
        self.take(size)

    def close(self) -> None:
        self._http.close()


def side_by_side(tasks: Sequence[Callable[[], None]]) -> None:
    """All at the same time; returns when the last has ended, and raises what the first that failed did."""
    with ThreadPoolExecutor(len(tasks)) as pool:
        for done in [pool.submit(task) for task in tasks]:
            done.result()


def page(address: str, sizes: list[int]) -> None:
    """A page: its HTML, then all that belongs to it on six connections, each taking the next object when it is free."""
    first = Connection(address)
    first.fetch("/1M", TYPED)
    waiting = iter(sizes)  # of a list: threads may share it

    def worker(mine: Connection | None) -> None:
        connection = mine or Connection(address)
        for size in waiting:
            connection.fetch("/1M", size)
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


def next_turn(due: float, period: float) -> float:
    """Waits until `period` after `due`, or not at all when that is past; gives when that was."""
    due = max(due + period, time.monotonic())
    time.sleep(max(0.0, due - time.monotonic()))
    return due


def in_turns(once: Callable[[], None], count: int, period: float) -> list[float]:
    """What is done each period, the next at once when one was late; how long each took."""
    times, due = [], time.monotonic()
    for _ in range(count):
        began = time.monotonic()
        once()
        times.append(time.monotonic() - began)
        due = next_turn(due, period)
    return times


def segments(address: str, count: int, size: int, period: float) -> list[float]:
    """Video as players fetch it whose buffer is full: a segment each period on one connection."""
    connection = Connection(address)
    return in_turns(lambda: connection.fetch("/10M", size), count, period)


def played(address: str, size: int, rate: float) -> list[float]:
    """One download that is read as it is played, ten times a second; what comes late stops the play."""
    connection = Connection(address)
    began = due = time.monotonic()
    connection.ask("/100M", size)
    part = int(rate / 10)
    for _ in range(size // part):
        connection.take(part)
        due = next_turn(due, 0.1)
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


class Taking(socketserver.BaseRequestHandler):
    """Takes a file, and says how much it was."""

    def handle(self) -> None:
        count = 0
        while data := self.request.recv(262144):
            count += len(data)
        self.request.sendall(count.to_bytes(8, "big"))


class Receiver(socketserver.ThreadingTCPServer):
    """Who takes the files that are sent."""

    allow_reuse_address = daemon_threads = True


def send(address: str, port: int, size: int) -> None:
    """Sends a file on a connection of its own; returns when the receiver has had all of it."""
    with socket.create_connection((address, port), timeout=60) as connection:
        connection.sendall(bytes(size))
        connection.shutdown(socket.SHUT_WR)
        told = connection.recv(8, socket.MSG_WAITALL)
    if int.from_bytes(told, "big") != size:
        raise ValueError("the receiver has not had all that was sent")


def sent(address: str, count: int, size: int, period: float, port: int = TAKEN_AT) -> list[float]:
    """Files that are sent, photographs for instance: one each period."""
    return in_turns(lambda: send(address, port, size), count, period)


def asked(address: str, count: int, period: float) -> list[float]:
    """Small questions and answers on a kept connection, as a remote shell, a chat or a page that is in use has them."""
    connection = Connection(address)
    return in_turns(lambda: connection.fetch("/1k", 500), count, period)


DOES = {"pages": lambda address, seed: pages(address, 10, 1.0, seed),
        "segments": lambda address, seed: segments(address, 12, 1 * MB, 2.0),
        "played": lambda address, seed: played(address, 10 * MB, 500 * KB),
        "paced": lambda address, seed: paced(address, 12 * MB),
        "at once": lambda address, seed: at_once(address, 8, 40 * MB),
        "beside": lambda address, seed: beside_upload(address, 12 * MB, 90.0),
        "sent": lambda address, seed: sent(address, 12, 1 * MB, 2.0),
        "asked": lambda address, seed: asked(address, 240, 0.1)}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", choices=(*DOES, "take"))
    parser.add_argument("address")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    if options.what == "take":
        with Receiver((options.address, TAKEN_AT), Taking) as receiver:
            print("ready", flush=True)
            receiver.serve_forever()
    try:
        print(json.dumps([round(taken, 5) for taken in DOES[options.what](options.address, options.seed)]))
    except (OSError, ValueError, http.client.HTTPException) as error:
        print(f"{options.what}: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
