#!/usr/bin/python3
"""Connections that stay for weeks, both ends: chats, on which every few seconds or minutes something is asked and answered, and a radio, which plays on.

    kept.py serve                on the server: until it is killed
    kept.py keep PLAN            on the laptop: a line of JSON for each connection that ended, or brought other bytes than it should; SIGUSR1: what each has brought
"""

from __future__ import annotations

import hashlib
import json
import random
import signal
import socket
import struct
import sys
import threading
import time
from contextlib import suppress
from typing import Any

PORT = 9100
IPPROTO_MPTCP = 262
LARGEST = 30_000  # bytes of a question or an answer
RADIO_BYTES, RADIO_EVERY = 20_000, 30.0  # 5 kb/s, and never as long as a flow is forgotten after
SLOWEST = 300.0  # s until an answer counts as one that does not come
AGAIN = 5.0  # s until a connection that ended is made anew


def piece(number: int, size: int) -> bytes:
    """What the radio plays as its number-th piece."""
    words = hashlib.sha256(str(number).encode()).digest()
    return (words * (size // len(words) + 1))[:size]


def answer_to(question: bytes) -> bytes:
    """Its bytes backwards, and a digest of them: neither an echo, nor to be had without the question."""
    return question[::-1] + hashlib.sha256(question).digest()


def received(connection: socket.socket, size: int) -> bytes:
    """So many bytes. Raises OSError when the connection ends before."""
    found = bytearray()
    while len(found) < size:
        data = connection.recv(min(65536, size - len(found)))
        if not data:
            raise ConnectionError(f"closed by the other end, {len(found)} of {size} bytes")
        found += data
    return bytes(found)


def made(family: int, mptcp: bool) -> socket.socket:
    return socket.socket(family, socket.SOCK_STREAM, IPPROTO_MPTCP if mptcp else 0)


def serve() -> int:
    listening: socket.socket
    try:
        listening = made(socket.AF_INET6, True)
    except OSError:  # a kernel without MPTCP
        listening = made(socket.AF_INET6, False)
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("::", PORT))
    listening.listen(64)
    print("ready", flush=True)
    while True:
        connection, _ = listening.accept()
        threading.Thread(target=_serve, args=(connection,), daemon=True).start()


def _serve(connection: socket.socket) -> None:
    with suppress(OSError), connection:
        if received(connection, 1) == b"r":
            number = 0
            while True:
                connection.sendall(piece(number, RADIO_BYTES))
                number += 1
                time.sleep(RADIO_EVERY)
        while True:
            (size,) = struct.unpack("!I", received(connection, 4))
            if size > LARGEST:
                return
            connection.sendall(answer_to(received(connection, size)))


class Changed(OSError):
    """Bytes came that were never sent."""


class Kept(threading.Thread):
    """One connection that stays; made anew when it ended."""

    def __init__(self, name: str, plan: dict[str, Any], v6: bool, mptcp: bool, until: float):
        super().__init__(name=name, daemon=True)
        self._address, self._v6, self._mptcp, self._until = plan["ipv6" if v6 else "ipv4"], v6, mptcp, until
        self.random = random.Random(f"{plan['seed']} kept {name}")
        self.bytes, self.turns, self.since, self.port = 0, 0, 0.0, 0

    def run(self) -> None:
        while time.monotonic() < self._until:
            self.since = time.monotonic()
            try:
                with made(socket.AF_INET6 if self._v6 else socket.AF_INET, self._mptcp) as connection:
                    connection.settimeout(SLOWEST)
                    connection.connect((self._address, PORT))
                    self.port = connection.getsockname()[1]
                    self.use(connection)
            except OSError as error:
                outcome = "changed" if isinstance(error, Changed) else "hung" if isinstance(error, TimeoutError) else "broken"
                say({"kept": self.name, "outcome": outcome, "why": repr(error), **self.told()})
                time.sleep(AGAIN)

    def use(self, connection: socket.socket) -> None:
        raise NotImplementedError

    def over(self) -> bool:
        return time.monotonic() >= self._until

    def got(self, right: bool, size: int) -> None:
        self.bytes += size
        self.turns += 1
        if not right:
            raise Changed(f"other bytes than it should have brought, in turn {self.turns}")

    def told(self) -> dict[str, Any]:
        return {"bytes": self.bytes, "turns": self.turns, "port": self.port, "age": round(time.monotonic() - self.since, 1)}


class Chat(Kept):
    def __init__(self, name: str, plan: dict[str, Any], v6: bool, mptcp: bool, until: float, pauses: tuple[float, float]):
        super().__init__(name, plan, v6, mptcp, until)
        self._pauses = pauses

    def use(self, connection: socket.socket) -> None:
        connection.sendall(b"c")
        while not self.over():
            question = self.random.randbytes(int(LARGEST ** self.random.random()))
            connection.sendall(struct.pack("!I", len(question)) + question)
            wanted = answer_to(question)
            self.got(received(connection, len(wanted)) == wanted, len(wanted))
            time.sleep(max(0.0, min(self.random.uniform(*self._pauses), self._until - time.monotonic())))


class Radio(Kept):
    def use(self, connection: socket.socket) -> None:
        connection.sendall(b"r")
        number = 0
        while not self.over():
            self.got(received(connection, RADIO_BYTES) == piece(number, RADIO_BYTES), RADIO_BYTES)
            number += 1


_printing = threading.Lock()


def say(line: dict[str, Any]) -> None:
    with _printing:
        print(json.dumps(line), flush=True)


def keep(plan: dict[str, Any]) -> int:
    end = time.monotonic() + plan["seconds"]
    # Pauses below and above what the daemon takes for the end of a flow (daemon.flow_idle, 2 min as shipped), and whole hours.
    kept: list[Kept] = [Chat("chat, IPv4", plan, False, False, end, (20.0, 110.0)), Chat("chat, IPv6", plan, True, False, end, (20.0, 110.0)),
                        Chat("chat, MPTCP", plan, False, True, end, (20.0, 110.0)), Chat("rare chat, IPv4", plan, False, False, end, (60.0, 7200.0)),
                        Chat("rare chat, MPTCP", plan, True, True, end, (60.0, 7200.0)), Radio("radio, IPv4", plan, False, False, end),
                        Radio("radio, MPTCP", plan, True, True, end)]
    signal.signal(signal.SIGUSR1, lambda *_: say({"all": {one.name: one.told() for one in kept}}))
    for one in kept:
        one.start()
    for one in kept:
        while one.is_alive():
            one.join(60.0)  # with a timeout: a signal is handled in between
    say({"all": {one.name: one.told() for one in kept}})
    return 0


def main(arguments: list[str]) -> int:
    if arguments == ["serve"]:
        return serve()
    return keep(json.loads(arguments[1]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
