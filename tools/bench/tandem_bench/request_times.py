#!/usr/bin/python3
"""HTTP requests one after the other, each timed: from connecting (or, on a kept connection, from sending) to the last byte. A program of its own.

Prints one JSON list of milliseconds.
"""

from __future__ import annotations

import argparse
import gc
import json
import socket
import time


def body(connection: socket.socket, request: bytes) -> int:
    """One request and its answer; gives the body's length. Raises ValueError for anything but a complete 200."""
    connection.sendall(request)
    data = b""
    while b"\r\n\r\n" not in data:
        part = connection.recv(65536)
        if not part:
            raise ValueError("connection closed before the answer")
        data += part
    head, _, rest = data.partition(b"\r\n\r\n")
    if head.split()[1:2] != [b"200"]:
        raise ValueError(f"the server answered: {head.splitlines()[0]!r}")
    length = next(int(line.split(b":")[1]) for line in head.splitlines() if line.lower().startswith(b"content-length:"))
    left = length - len(rest)
    while left > 0:
        part = connection.recv(min(left, 262144))
        if not part:
            raise ValueError(f"connection closed {left} bytes early")
        left -= len(part)
    return length


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("path")
    parser.add_argument("--count", type=int, default=50)
    parser.add_argument("--pause", type=float, default=0.0, help="seconds between two requests")
    parser.add_argument("--keep", action="store_true", help="all on one connection; the first, which opens it, is not counted")
    options = parser.parse_args()
    gc.disable()
    request = (f"GET {options.path} HTTP/1.1\r\nHost: {options.address}\r\n"
               f"Connection: {'keep-alive' if options.keep else 'close'}\r\n\r\n").encode()
    times: list[float] = []
    connection: socket.socket | None = None
    for number in range(options.count + (1 if options.keep else 0)):
        began = time.perf_counter()
        if connection is None:
            connection = socket.create_connection((options.address, 80), timeout=30)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        body(connection, request)
        taken = 1e3 * (time.perf_counter() - began)
        if not options.keep:
            connection.close()
            connection = None
        if number or not options.keep:
            times.append(round(taken, 4))
        time.sleep(options.pause)
    print(json.dumps(times))


if __name__ == "__main__":
    main()
