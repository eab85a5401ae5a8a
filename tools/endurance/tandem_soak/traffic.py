#!/usr/bin/python3
"""The laptop's applications: transfers one after another on many threads, each checked by SHA-256. Runs inside the client's namespace.

One line of JSON per transfer goes to standard output. SIGTERM: nothing new is begun, what runs may end. SIGUSR1: what is under way
is told. So is each transfer that stands still, once.
"""

from __future__ import annotations

import errno
import hashlib
import http.client
import json
import random
import signal
import socket
import ssl
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from stalls import Stalls  # beside this file

IPPROTO_MPTCP = 262
# A laptop whose interface is gone cannot begin a connection, with or without Tandem. Whether one was is for the run to say (run.py).
NO_WAY = {errno.ENETUNREACH, errno.EHOSTUNREACH, errno.EADDRNOTAVAIL, errno.EINVAL, errno.ENETDOWN, errno.EACCES}
IDLE_LONGEST = 20.0  # the server closes after 60 s


@dataclass(frozen=True)
class Way:
    """What kind of connection."""

    tls: bool
    v6: bool
    mptcp: bool
    up: bool

    def name(self) -> str:
        return " ".join(["https" if self.tls else "http", "IPv6" if self.v6 else "IPv4", *(["MPTCP"] if self.mptcp else []), "up" if self.up else "down"])


class Unreachable(Exception):
    """No connection could be begun, for want of a route or an address."""


class Application(threading.Thread):
    """One thread: connections, one after another, each of one or more transfers."""

    def __init__(self, number: int, plan: dict[str, Any], content: bytes, files: dict[str, bytes], stopping: threading.Event):
        super().__init__(daemon=True)
        self.plan, self.content, self.files, self.stopping = plan, content, files, stopping
        self.random = random.Random(f"{plan['seed']} application {number}")
        self.now: dict[str, Any] | None = None  # the transfer under way

    def run(self) -> None:
        while not self.stopping.is_set():
            way = Way(self.random.random() < 0.4, self.random.random() < 0.4, self.plan["mptcp"] > 0 and self.random.random() < self.plan["mptcp"], self.random.random() < 0.35)
            count = self.random.choice([1, 1, 1, 1, 3, 8])  # short, or kept alive
            began = time.monotonic()
            try:
                self._connection(way, count)
            except Unreachable as fault:
                say({"kind": way.name(), "outcome": "no route", "why": f"while connecting: {fault}", "bytes": 0, "wanted": 0, "seconds": round(time.monotonic() - began, 3)})
                self.stopping.wait(0.5)

    def _connection(self, way: Way, count: int) -> None:
        connection = self._connected(way, count > 1)
        if connection is None:
            return
        try:
            for number in range(count):
                if number and (self.stopping.is_set() or self.stopping.wait(self._pause())):
                    return
                if not self._transfer(connection, way, count > 1, number):
                    return
        finally:
            connection.close()

    def _pause(self) -> float:
        return self.random.choice([0.0, 0.0, 0.2, self.random.uniform(1.0, IDLE_LONGEST)])

    def _connected(self, way: Way, kept: bool) -> http.client.HTTPConnection | None:
        address = self.plan["ipv6" if way.v6 else "ipv4"]
        port = ((8443 if way.tls else 8080) if way.up else (443 if way.tls else 80))
        connection = http.client.HTTPConnection(address, port, timeout=self.plan["patience"])
        began = time.monotonic()
        self.now = {"kind": way.name(), "kept": kept, "began": began, "bytes": 0, "wanted": 0}
        connection.sock = socket.socket(socket.AF_INET6 if way.v6 else socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP if way.mptcp else 0)
        connection.sock.settimeout(self.plan["patience"])
        begun = False
        try:
            connection.sock.connect((address, port))
            begun = True
            self.now["address"], self.now["port"] = connection.sock.getsockname()[:2]
            if way.tls:
                context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
                context.check_hostname = False
                context.verify_mode = ssl.CERT_NONE  # the lab's certificate is self-signed
                connection.sock = context.wrap_socket(connection.sock)
            return connection
        except OSError as error:
            connection.close()
            # In the middle of a TLS handshake it is a connection that broke.
            if not begun and error.errno in NO_WAY:
                self.now = None
                raise Unreachable(repr(error)) from error
            self._done(outcome_of(error), f"while connecting: {error!r}")
            return None

    def _transfer(self, connection: http.client.HTTPConnection, way: Way, kept: bool, number: int) -> bool:
        """One request and its answer; False when the connection cannot be used any more."""
        address, port = connection.sock.getsockname()[:2]
        self.now = {"kind": way.name(), "kept": kept, "number": number, "began": time.monotonic(), "bytes": 0, "wanted": 0, "address": address, "port": port}
        headers = {} if kept else {"Connection": "close"}
        try:
            if way.up:
                self._upload(connection, headers)
            else:
                self._download(connection, headers)
            return self._done("whole" if self.now["right"] else "changed", self.now.get("why", ""))
        except (OSError, http.client.HTTPException, ValueError) as error:
            return self._done(outcome_of(error), repr(error))

    def _download(self, connection: http.client.HTTPConnection, headers: dict[str, str]) -> None:
        assert self.now is not None
        if self.random.random() < 0.6:
            name = self.random.choice(list(self.files))
            wanted = self.files[name]
        else:
            size = int(1024 * 2 ** self.random.uniform(0, 10))
            start = self.random.randrange(len(self.content) - size)
            name, wanted = self.plan["random"], self.content[start:start + size]
            headers = {**headers, "Range": f"bytes={start}-{start + size - 1}"}
        self.now["wanted"] = len(wanted)
        connection.request("GET", f"/{name}", headers=headers)
        answer = connection.getresponse()
        digest = hashlib.sha256()
        while data := answer.read1(65536):
            digest.update(data)
            self.now["bytes"] += len(data)
        got = int(self.now["bytes"])
        # What ended early was cut off, not changed: read1() does not tell.
        if answer.length and digest.digest() == hashlib.sha256(wanted[:got]).digest():
            raise http.client.IncompleteRead(b"", answer.length)
        answer.close()
        if answer.status != (206 if "Range" in headers else 200):
            self.now["why"] = f"status {answer.status}"
        self.now["right"] = "why" not in self.now and digest.digest() == hashlib.sha256(wanted).digest()

    def _upload(self, connection: http.client.HTTPConnection, headers: dict[str, str]) -> None:
        assert self.now is not None
        size = int(1024 * 2 ** self.random.uniform(0, 10))
        start = self.random.randrange(len(self.content) - size)
        body = self.content[start:start + size]
        self.now["wanted"] = size
        connection.putrequest("PUT", "/")
        for key, value in {**headers, "Content-Length": str(size)}.items():
            connection.putheader(key, value)
        connection.endheaders()
        for at in range(0, size, 65536):
            connection.sock.sendall(body[at:at + 65536])
            self.now["bytes"] = min(at + 65536, size)
        answer = connection.getresponse()
        told = answer.read().decode()
        self.now["right"] = answer.status == 200 and told == hashlib.sha256(body).hexdigest()

    def _done(self, outcome: str, why: str = "") -> bool:
        """Tells how the transfer ended; whether the connection is good for another one."""
        one = self.now or {}
        self.now = None
        say({**one, "outcome": outcome, "why": why, "seconds": round(time.monotonic() - one["began"], 3)})  # the dictionary stays whole: others look at it
        return outcome == "whole"


def outcome_of(error: Exception) -> str:
    if isinstance(error, ssl.SSLError) and not isinstance(error, (ssl.SSLEOFError, ssl.SSLZeroReturnError)) and "timed out" not in str(error):
        return "changed"  # a record that does not verify
    if isinstance(error, http.client.BadStatusLine) and not isinstance(error, http.client.RemoteDisconnected):
        return "changed"
    if isinstance(error, ValueError) and not isinstance(error, OSError):
        return "changed"  # an answer that is none: no number, no text
    if isinstance(error, TimeoutError) or getattr(error, "errno", None) == errno.ETIMEDOUT or "timed out" in str(error):
        return "hung"
    return "broken"


_printing = threading.Lock()


def say(line: dict[str, Any]) -> None:
    with _printing:
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()


def under_way(applications: list[Application]) -> list[dict[str, Any]]:
    """Each transfer that goes on now; its thread may end it at any moment."""
    return [{**now, "seconds": time.monotonic() - now["began"]} for each in applications if (now := each.now)]


def main() -> int:
    plan = json.loads(sys.argv[1])
    www = Path(plan["www"])
    files = {name: (www / name).read_bytes() for name in plan["files"]}
    stopping, asked = threading.Event(), threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    signal.signal(signal.SIGUSR1, lambda *_: asked.set())  # told below: here say() would wait for itself when it was just at work
    applications = [Application(number, plan, (www / plan["random"]).read_bytes(), files, stopping) for number in range(plan["threads"])]
    for application in applications:
        application.start()
    stalls, died = Stalls(), False
    for application in applications:
        while application.is_alive():
            application.join(0.2)  # with a timeout: a signal is handled in between
            for one in stalls.look([dict(now) for each in applications if (now := each.now)], time.monotonic()):
                say({"stalled": one})
            if asked.is_set():
                asked.clear()
                say({"under_way": under_way(applications)})
        died |= not stopping.is_set()  # by a fault of its own, which is on standard error
    return 1 if died else 0


if __name__ == "__main__":
    sys.exit(main())
