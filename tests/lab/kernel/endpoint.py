#!/usr/bin/python3
"""Both ends of a transfer: `serve PORT SIZE RATE` sends SIZE seeded bytes to whoever connects and prints their SHA-256 (SIZE 0: never ends;
RATE -1: a byte at once, the rest a second later into one large buffer, and closes: it has closed long before the client has all);
`fetch HOST PORT` reads to the end, prints progress every 50 ms and the SHA-256 of what came. A further word "mptcp" makes it
MPTCP; the server then cannot pace, and RATE must be 0."""

from __future__ import annotations

import hashlib
import random
import socket
import sys
import threading
import time

SO_MAX_PACING_RATE = 47
SO_SNDBUFFORCE = 32
IPPROTO_MPTCP = 262


def serve(port: int, size: int, rate: int, protocol: int) -> None:
    block = random.Random(size).randbytes(1 << 20)
    data = (block * (size // len(block) + 1))[:size] if size else block
    listener = socket.socket(socket.AF_INET6, socket.SOCK_STREAM, protocol)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 0)
    listener.bind(("::", port))
    listener.listen(64)
    print(hashlib.sha256(data).hexdigest(), flush=True)

    def send(peer: socket.socket) -> None:
        peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")
        if rate > 0:
            peer.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, rate)
        with peer:
            try:
                if rate < 0:
                    peer.setsockopt(socket.SOL_SOCKET, SO_SNDBUFFORCE, 4 * size)
                    peer.sendall(data[:1])
                    time.sleep(1.0)
                peer.sendall(data[1:] if rate < 0 else data)
                while not size:
                    peer.sendall(data)
            except OSError as error:
                print(error, file=sys.stderr)

    while True:
        peer, _ = listener.accept()
        threading.Thread(target=send, args=(peer,), daemon=True).start()


def fetch(host: str, port: int, protocol: int) -> None:
    digest, length, shown, start = hashlib.sha256(), 0, 0.0, time.monotonic()
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM, protocol) as peer:
        peer.connect((host, port))
        buffer = bytearray(1 << 20)
        while n := peer.recv_into(buffer):
            digest.update(memoryview(buffer)[:n])
            length += n
            if (now := time.monotonic()) - shown >= 0.05:
                print("at", now, length, flush=True)
                shown = now
    print("at", time.monotonic(), length)
    print("done", digest.hexdigest(), length, time.monotonic() - start, flush=True)


chosen = IPPROTO_MPTCP if sys.argv[-1] == "mptcp" else 0
if sys.argv[1] == "serve":
    serve(*map(int, sys.argv[2:5]), chosen)
else:
    fetch(sys.argv[2], int(sys.argv[3]), chosen)
