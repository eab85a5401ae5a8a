"""Both ends of an upload, programs of their own: sender ADDRESS PORT SECONDS [OWN_PACE [CONGESTION]] | receiver PORT; before
either: --mptcp.

Each prints one line of JSON at its end: the bytes' SHA-256; the receiver when they came (seconds since 1970), the sender what its
TCP said of itself every 50 ms (with MPTCP nothing). OWN_PACE: bytes per second that the application itself allows.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import struct
import sys
import threading
import time

BLOCK = os.urandom(1 << 16)
IPPROTO_MPTCP = 262


def told(end: socket.socket) -> dict[str, float]:
    """Of TCP_INFO (include/uapi/linux/tcp.h)."""
    info = end.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 192)
    rtt, = struct.unpack_from("I", info, 68)
    retransmitted, = struct.unpack_from("I", info, 100)
    most, acknowledged = struct.unpack_from("QQ", info, 112)
    return {"t": time.time(), "rtt": rtt * 1e-6, "retransmitted": retransmitted, "most": most, "acknowledged": acknowledged}


def made(protocol: int) -> socket.socket:
    return socket.socket(socket.AF_INET, socket.SOCK_STREAM, protocol)


def send(protocol: int, address: str, port: int, seconds: float, own: int, congestion: str) -> dict:
    end = made(protocol)
    if congestion:
        end.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, congestion.encode())
    end.connect((address, port))
    if own:
        end.setsockopt(socket.SOL_SOCKET, 47, own)  # SO_MAX_PACING_RATE
    seen: list[dict] = []
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.05):
            if not protocol:
                seen.append(told(end))

    watcher = threading.Thread(target=look)
    watcher.start()
    digest, count, until = hashlib.sha256(), 0, time.monotonic() + seconds
    while time.monotonic() < until:
        digest.update(BLOCK)
        end.sendall(BLOCK)
        count += len(BLOCK)
    end.shutdown(socket.SHUT_WR)
    end.recv(1)
    over.set()
    watcher.join()
    return {"sha256": digest.hexdigest(), "bytes": count, "seen": seen}


def receive(protocol: int, port: int) -> dict:
    listening = made(protocol)  # to the end: MP_JOIN asks for it
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listening.bind(("", port))
    listening.listen()
    print("ready", flush=True)
    end, _ = listening.accept()
    digest, count, came = hashlib.sha256(), 0, []
    while data := end.recv(1 << 16):
        digest.update(data)
        count += len(data)
        came.append((time.time(), len(data)))
    end.close()
    listening.close()
    return {"sha256": digest.hexdigest(), "bytes": count, "came": came}


if __name__ == "__main__":
    kind, *words = [word for word in sys.argv[1:] if word != "--mptcp"]
    spoken = IPPROTO_MPTCP if "--mptcp" in sys.argv else 0
    if kind == "receiver":
        print(json.dumps(receive(spoken, int(words[0]))), flush=True)
    else:
        print(json.dumps(send(spoken, words[0], int(words[1]), float(words[2]), int((words + ["0"])[3]), (words + ["", ""])[4])), flush=True)
