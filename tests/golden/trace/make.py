#!/usr/bin/python3
"""Makes the captures of this directory anew, as root: real kernel TCP in the lab, but reordering, which no part of the lab does and scapy writes.

Each capture is of the laptop's wlan0 and shows one cause of a stall (tests/unit/trace_tool/stalls_test.py says what is to be found in it).
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools/lab"))

from tandem_lab import Lab, system  # noqa: E402

HERE = Path(__file__).resolve().parent
SNAP = 100  # headers with all options, and little payload

# Answers a request of words: a number of bytes to send, or a pause such as 0.5s.
SERVER = """
import socket, threading, time
def serve(c):
    for line in c.makefile():
        for word in line.split():
            if word.endswith("s"): time.sleep(float(word[:-1]))
            else: c.sendall(b"x" * int(word))
s = socket.create_server(("10.77.10.1", 9000))
print("ready", flush=True)
while True: threading.Thread(target=serve, args=(s.accept()[0],), daemon=True).start()
"""

# Asks `count` times, every `every` seconds; reads all that was asked for, with a pause after so many bytes of the first answer.
CLIENT = """
import socket, sys, time
request, count, every, buffer, pause_at, pause, port = sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), int(sys.argv[4]), int(sys.argv[5]), float(sys.argv[6]), int(sys.argv[7])
s = socket.socket()
if buffer: s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
if port: s.bind(("", port))
s.connect(("10.77.10.1", 9000))
size = sum(int(w) for w in request.split() if not w.endswith("s"))
for i in range(count):
    s.sendall(request.encode() + b"\\n")
    got = 0
    while got < size:
        got += len(s.recv(min(65536, pause_at - got if got < pause_at else 65536)))
        if pause_at and got == pause_at: time.sleep(pause)
    time.sleep(every)
"""


class Scene:
    """A lab with the server above, slow enough for small files."""

    def __init__(self, congestion=None, **overrides):
        self.lab = Lab("plain", overrides={"wifi.rate": "6", **overrides}, seed=5, prefix="trg-", congestion=congestion)

    def __enter__(self):
        self.lab.__enter__()
        self.server = self.lab.server("srv1").popen([sys.executable, "-c", SERVER], stdout=subprocess.PIPE, text=True)
        self.server.stdout.readline()
        self.lab.start_timeline()
        return self

    def __exit__(self, *fault):
        self.server.kill()
        return self.lab.__exit__(*fault)

    def ask(self, request, count=1, every=0.0, buffer=0, pause_at=0, pause=0.0, port=0):
        words = [request, count, every, buffer, pause_at, pause, port]
        return self.lab.client.popen([sys.executable, "-c", CLIENT, *map(str, words)])

    def capture(self, name):
        return Saved(self.lab.capture("client", "wlan0", "tcp", snap=SNAP), HERE / f"{name}.pcap")


class Saved:
    def __init__(self, capture, to):
        self.capture, self.to = capture, to

    def __enter__(self):
        self.path = self.capture.__enter__()

    def __exit__(self, *fault):
        self.capture.__exit__(*fault)
        shutil.copy(self.path, self.to)
        self.to.chmod(0o644)


def radio_silent():
    with Scene() as scene, scene.capture("radio-silent"):
        going = scene.ask("600000")
        time.sleep(0.6)
        scene.lab.set("wifi.blackout", "drop")
        time.sleep(1.2)
        scene.lab.set("wifi.blackout", "none")
        going.wait()


def queue():
    with Scene("reno", **{"wifi.queue": 300}) as scene, scene.capture("queue"):
        small = scene.ask("2000", count=12, every=0.1)
        time.sleep(0.5)
        scene.ask("1200000").wait()
        small.wait()


def server_idle():
    with Scene() as scene, scene.capture("server-idle"):
        scene.ask("150000 1.1s 150000").wait()


def receive_window():
    with Scene() as scene, scene.capture("receive-window"):
        scene.ask("300000", buffer=32768, pause_at=100000, pause=1.3).wait()


def server_timeout():
    rule = ["FORWARD", "-p", "tcp", "--sport", "9000", "--dport", "45000", "-j", "DROP"]
    with Scene() as scene, scene.capture("server-timeout"):
        alive = scene.ask("400 0.04s " * 60)
        going = scene.ask("400000", port=45000)
        time.sleep(0.45)
        wan = scene.lab.endpoint("wan")
        wan.run(["iptables", "-A", *rule])
        time.sleep(0.6)
        wan.run(["iptables", "-D", *rule])
        going.wait()
        alive.wait()


def tandem():
    """Tandem is told of a blackout that does not come, and closes the window for it. Its own recording."""
    with Scene() as scene:
        with scene.lab.daemon(["freeze"], {"modules": {"freeze": {"strategy": "proactive"}}, "recorder": {"everything": True, "snap": SNAP}}) as daemon:
            going = scene.ask("800000")
            time.sleep(1.0)
            daemon.api("/v1/links/wifi/announce", "POST", {"what": "risk", "for_s": 1.0})
            going.wait()
            command = [str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "trace", "save", str(HERE / "tandem.pcapng")]
            scene.lab.client.run(command)
            (HERE / "tandem.pcapng").chmod(0o644)


def reordering():
    """Written by scapy: one segment of 40 comes 320 ms late, though sent before those that overtake it."""
    from scapy.all import IP, TCP, Ether, Raw, wrpcap

    here, there, frames = ("10.0.0.2", 40000), ("192.0.2.1", 443), []

    def put(at, source, target, **tcp):
        length = tcp.pop("length", 0)
        frame = Ether(src="02:00:00:00:00:01", dst="02:00:00:00:00:02") / IP(src=source[0], dst=target[0]) / TCP(
            sport=source[1], dport=target[1], **tcp) / Raw(b"x" * length)
        frame.time = 1_700_000_000 + at
        frames.append(frame)

    def clock(at):
        return int(at * 1000)

    put(0, here, there, flags="S", seq=999, window=64240, options=[("MSS", 1460), ("SAckOK", b""), ("Timestamp", (1000, 0)), ("WScale", 7)])
    put(0.04, there, here, flags="SA", seq=4999, ack=1000, window=65160,
        options=[("MSS", 1460), ("SAckOK", b""), ("Timestamp", (9020, 1000)), ("WScale", 7)])
    put(0.0401, here, there, flags="A", seq=1000, ack=5000, window=502, options=[("Timestamp", (1040, 9020))])
    put(0.041, here, there, flags="PA", seq=1000, ack=5000, window=502, options=[("Timestamp", (1041, 9020))], length=100)
    arrivals = []
    for i in range(40):
        sent = 0.061 + 0.01 * i
        arrivals.append((sent + 0.02 + (0.32 if i == 20 else 0.0), i, sent))
    expected, beyond = 0, set()
    for at, i, sent in sorted(arrivals):
        put(at, there, here, flags="A", seq=5000 + 1400 * i, ack=1100, window=509, options=[("Timestamp", (9000 + clock(sent), 1041))], length=1400)
        beyond.add(i)
        while expected in beyond:
            beyond.discard(expected)
            expected += 1
        options = [("Timestamp", (1000 + clock(at), 9000 + clock(sent)))]
        if beyond:
            options.append(("SAck", (5000 + 1400 * min(beyond), 5000 + 1400 * (max(beyond) + 1))))
        put(at + 0.0001, here, there, flags="A", seq=1100, ack=5000 + 1400 * expected, window=502, options=options)
    for frame in frames:
        frame.wirelen = len(frame)
    wrpcap(str(HERE / "reordering.pcap"), [cut(frame) for frame in frames])


def cut(frame):
    from scapy.all import Ether

    short = Ether(bytes(frame)[:SNAP])
    short.time, short.wirelen = frame.time, len(frame)
    return short


SCENES = {f.__name__: f for f in (radio_silent, queue, server_idle, receive_window, server_timeout, tandem, reordering)}

if __name__ == "__main__":
    for name in sys.argv[1:] or SCENES:
        print(name, flush=True)
        SCENES[name]()
