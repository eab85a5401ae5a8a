#!/usr/bin/python3
"""Downloads that last until the client wants no more, each compared as a whole.

    endless.py     the server, of all addresses: a line of JSON for each download that is over
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import subprocess
import threading
from typing import Any

from facts import TIMEOUT, wait_for

PORT = 7000


def send_until_enough(peer: socket.socket) -> dict[str, Any]:
    """Sends until the client wants no more; what that was."""
    digest, length, rest = hashlib.sha256(), 0, os.urandom(65528)
    while True:
        try:
            if peer.recv(1, socket.MSG_DONTWAIT) == b"":
                break
        except BlockingIOError:
            pass
        block = length.to_bytes(8, "big") + rest  # no two are the same
        peer.sendall(block)
        digest.update(block)
        length += len(block)
    peer.close()
    return {"length": length, "sha256": digest.hexdigest()}


def _send(peer: socket.socket, name: str) -> None:
    print(json.dumps({"client": name, **send_until_enough(peer)}), flush=True)


def _accept(listener: socket.socket) -> None:
    while True:
        peer, (address, port, *_) = listener.accept()
        threading.Thread(target=_send, args=(peer, f"{address} {port}"), daemon=True).start()


def serve() -> None:
    listeners = []
    for family, address in ((socket.AF_INET, "0.0.0.0"), (socket.AF_INET6, "::")):
        listener = socket.socket(family, socket.SOCK_STREAM)
        if family == socket.AF_INET6:
            listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
        listener.bind((address, PORT))
        listener.listen()
        listeners.append(listener)
    print("listening", flush=True)
    threading.Thread(target=_accept, args=listeners[1:], daemon=True).start()
    _accept(listeners[0])


class Server:
    """In the network namespace `srv`."""

    def __init__(self) -> None:
        self.sent: dict[str, dict[str, Any]] = {}  # by client
        self._process = subprocess.Popen(["ip", "netns", "exec", "srv", __file__], stdout=subprocess.PIPE, text=True)
        assert self._process.stdout and self._process.stdout.readline() == "listening\n"
        threading.Thread(target=self._listen, daemon=True).start()

    def _listen(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            said = json.loads(line)
            self.sent[said.pop("client")] = said

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


class Download:
    def __init__(self, server: Server, address: str) -> None:
        self._server = server
        self._socket = socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET, socket.SOCK_STREAM)
        self._socket.settimeout(TIMEOUT)
        self._socket.connect((address, PORT))
        self._name = " ".join(map(str, self._socket.getsockname()[:2]))
        self._digest = hashlib.sha256()
        self.length = 0
        self.error = ""
        self._thread = threading.Thread(target=self._read, daemon=True)
        self._thread.start()

    def _read(self) -> None:
        try:
            while data := self._socket.recv(1 << 18):
                self._digest.update(data)
                self.length += len(data)
        except OSError as error:
            self.error = str(error)

    def goes_on(self, size: int) -> bool:
        """So many more bytes came."""
        start = self.length
        return bool(wait_for(lambda: self.length - start >= size or not self._thread.is_alive())) and self.length - start >= size

    def end(self) -> dict[str, Any]:
        """What was sent and what came; None of an end that was not done in time."""
        try:
            self._socket.shutdown(socket.SHUT_WR)
        except OSError as error:
            self.error = self.error or str(error)
        self._thread.join(TIMEOUT)
        came = {"length": self.length, "sha256": self._digest.hexdigest()} if not self._thread.is_alive() and not self.error else None
        sent = wait_for(lambda: self._server.sent.get(self._name)) if came else None
        return {"came": came, "sent": sent, "error": self.error}


if __name__ == "__main__":
    serve()
