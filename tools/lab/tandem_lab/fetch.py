#!/usr/bin/python3
"""The lab's downloader: HTTP(S) GET on one or more connections, with byte counts at exact times.

A program of its own (it runs inside the client's namespace). Plain HTTP data is discarded in the kernel (MSG_TRUNC), so
the reader takes next to no CPU and does not disturb what it measures. Prints one JSON object per line: progress
({"t": seconds, "bytes": total}) while it runs, and a last one with "done".
"""

from __future__ import annotations

import argparse
import hashlib
import json
import socket
import ssl
import sys
import threading
import time

CHUNK = 256 << 10
AGAIN_S = 1.0
IPPROTO_MPTCP = 262  # socket.IPPROTO_MPTCP, where Python was built with it


def received(interfaces: list[str]) -> dict[str, int]:
    """Bytes that came in by each of these interfaces of the present namespace."""
    counted: dict[str, int] = {}
    with open("/proc/self/net/dev") as file:
        for line in file:
            name, colon, numbers = line.partition(":")
            if colon and name.strip() in interfaces:
                counted[name.strip()] = int(numbers.split()[0])
    return counted


class Flow:
    """One connection. `bytes` counts the body; read by the sampling thread while it grows."""

    def __init__(self, address: str, port: int, path: str, tls: bool, digest: bool, mptcp: bool = False, source: str = ""):
        self.mptcp, self.source = mptcp, source
        self.address, self.port, self.path, self.tls = address, port, path, tls
        self.digest = hashlib.sha256() if digest else None
        self.bytes = 0
        self.expected: int | None = None
        self.local_port = 0
        self.connected = self.first_byte = self.end = 0.0
        self.error: str | None = None
        self.stopping = False
        self.socket: socket.socket | None = None

    def run(self, began: float) -> None:
        try:
            self._run(began)
        except (OSError, ValueError) as error:
            if not self.stopping:
                self.error = f"{type(error).__name__}: {error}"
        self.end = time.monotonic() - began
        if self.error is None and not self.stopping and self.expected is not None and self.bytes < self.expected:
            self.error = f"connection closed after {self.bytes} of {self.expected} bytes"

    def _run(self, began: float) -> None:
        self.socket = socket.socket(socket.AF_INET6 if ":" in self.address else socket.AF_INET, socket.SOCK_STREAM,
                                    IPPROTO_MPTCP if self.mptcp else 0)
        if self.source:
            self.socket.bind((self.source, 0))
        self.socket.connect((self.address, self.port))
        self.connected = time.monotonic() - began
        self.local_port = self.socket.getsockname()[1]
        if self.tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
            context.check_hostname = False
            context.verify_mode = ssl.CERT_NONE  # the lab's certificate is self-signed
            self.socket = context.wrap_socket(self.socket)
        host = f"[{self.address}]" if ":" in self.address else self.address
        self.socket.sendall(f"GET {self.path} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n\r\n".encode())
        head = b""
        while b"\r\n\r\n" not in head:
            data = self.socket.recv(4096)
            if not data:
                raise ValueError("connection closed before the answer")
            head += data
        self.first_byte = time.monotonic() - began
        head, _, body = head.partition(b"\r\n\r\n")
        lines = head.decode("latin-1").split("\r\n")
        if lines[0].split()[1:2] != ["200"]:
            raise ValueError(f"the server answered: {lines[0]}")
        for line in lines[1:]:
            name, _, value = line.partition(":")
            if name.lower() == "content-length":
                self.expected = int(value)
        self.bytes = len(body)
        if self.digest:
            self.digest.update(body)
        buffer = bytearray(CHUNK)
        view = memoryview(buffer)
        receive = self.socket.recv_into
        flags = 0 if self.tls or self.digest else socket.MSG_TRUNC
        while self.expected is None or self.bytes < self.expected:
            count = receive(buffer, CHUNK, flags)
            if count == 0:
                return
            if self.digest:
                self.digest.update(view[:count])
            self.bytes += count

    def run_again(self, began: float) -> None:
        """One download after another until stop(), whatever ends each. `error` is that of the latest, `bytes` those of the latest that was answered."""
        while not self.stopping:
            self.error = self.expected = None
            self.run(began)
            time.sleep(AGAIN_S)

    def stop(self) -> None:
        self.stopping = True
        if self.socket:
            try:
                self.socket.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("address")
    parser.add_argument("path")
    parser.add_argument("--port", type=int)
    parser.add_argument("--tls", action="store_true")
    parser.add_argument("--flows", type=int, default=1)
    parser.add_argument("--seconds", type=float, help="stop after this time")
    parser.add_argument("--timeout", type=float, default=300.0, help="give up after this time")
    parser.add_argument("--interval", type=float, default=0.1)
    parser.add_argument("--sha256", action="store_true")
    parser.add_argument("--again", action="store_true", help="a download that ends or breaks begins again")
    parser.add_argument("--mptcp", action="store_true", help="ask for MPTCP")
    parser.add_argument("--source", default="", metavar="ADDRESS", help="bind to this address")
    parser.add_argument("--interfaces", default="", metavar="NAME,...", help="sample what comes in by these")
    options = parser.parse_args()
    port = options.port or (443 if options.tls else 80)

    began = time.monotonic()
    flows = [Flow(options.address, port, options.path, options.tls, options.sha256, options.mptcp, options.source) for _ in range(options.flows)]
    threads = [threading.Thread(target=flow.run_again if options.again else flow.run, args=(began,), daemon=True) for flow in flows]
    for thread in threads:
        thread.start()
    limit = options.seconds if options.seconds is not None else options.timeout
    samples: list[list[float]] = []
    watched = [name for name in options.interfaces.split(",") if name]
    before = received(watched)
    counted: dict[str, list[int]] = {name: [] for name in before}
    tick = 0
    try:
        while any(thread.is_alive() for thread in threads):
            tick += 1
            now = time.monotonic() - began
            pause = min(tick * options.interval, limit) - now
            if pause > 0:
                if pause > 0.05:
                    time.sleep(pause - 0.02)
                    pause = tick * options.interval - (time.monotonic() - began)
                threads[0].join(max(0.0, min(pause, limit - (time.monotonic() - began))))
            now = time.monotonic() - began
            samples.append([round(now, 4), sum(flow.bytes for flow in flows)])
            for name, count in received(watched).items() if watched else ():
                if name in counted:
                    counted[name].append(count - before[name])
            sys.stdout.write(json.dumps({"t": samples[-1][0], "bytes": samples[-1][1]}) + "\n")
            sys.stdout.flush()
            if now >= limit:
                break
    except KeyboardInterrupt:
        pass
    seconds = time.monotonic() - began
    total = sum(flow.bytes for flow in flows)
    late = options.seconds is None and any(thread.is_alive() for thread in threads)
    for flow in flows:
        if late and flow.end == 0.0:
            flow.error = f"not finished after {options.timeout:g} s"
        flow.stop()
    for thread in threads:
        thread.join(1.0)
    print(json.dumps({
        "done": True,
        "began": began,
        "seconds": seconds if options.seconds is not None or late else max(flow.end for flow in flows),
        "bytes": total,
        "samples": samples,
        "received": counted,
        "flows": [{"bytes": flow.bytes, "local_port": flow.local_port, "connected": flow.connected, "first_byte": flow.first_byte,
                   "end": flow.end, "error": flow.error,
                   "sha256": flow.digest.hexdigest() if flow.digest else None} for flow in flows],
    }))
    sys.stdout.flush()
    return 1 if any(flow.error for flow in flows) else 0


if __name__ == "__main__":
    sys.exit(main())
