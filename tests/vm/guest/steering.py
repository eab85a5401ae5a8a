#!/usr/bin/python3
"""Steering on the kernel's own MPTCP: endpoints, CE marks and backup flags while one download runs over two Wi-Fi ways.

    steering.py PROGRAMS REQUEST_PROBE      inside the virtual machine; prints "fact NAME JSON", one a line
    steering.py serve                    one download of no certain length; prints its length and SHA-256 when the client wants no more
    steering.py fetch                    reads it until standard input ends; prints the same of what came
    steering.py small                    serves small downloads
    steering.py knock                    fetches them, one after the other

What is waited for in vain becomes a fact like any other, so that each test says what failed. Only a daemon that does not start ends it all.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from endless import send_until_enough
from facts import SERVICE, SOCKET, TIMEOUT, api, fact, sh, wait_for

WORK = Path("/run/work")
SERVER, SMALL = ("10.71.9.9", 7000), ("10.71.9.9", 7001)
IPPROTO_MPTCP = 262
WIFI, WIFI_2 = 0, 3  # Link of the SDK, as request_probe's knob counts
CE_RATE = 0.05  # it grows by 0.01 in a tenth of a second at most
ENOUGH = 1000  # data packets to tell a share by
BUSY, QUIET = 250_000, 100_000  # bytes a second; each way carries 1.25 million, and the small downloads make 40 thousand
AT_SERVER = ["ip", "netns", "exec", "srv"]


# ---- the two ends of the download


def serve() -> None:
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    listener.bind(SERVER)
    listener.listen()
    print("listening", flush=True)
    peer, _ = listener.accept()
    print(json.dumps(send_until_enough(peer)), flush=True)


def fetch() -> None:
    peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    peer.connect(SERVER)

    def end() -> None:
        sys.stdin.read()
        peer.shutdown(socket.SHUT_WR)

    threading.Thread(target=end, daemon=True).start()
    digest, length = hashlib.sha256(), 0
    while data := peer.recv(1 << 18):
        digest.update(data)
        length += len(data)
    print(json.dumps({"length": length, "sha256": digest.hexdigest()}), flush=True)


def small() -> None:
    listener = socket.create_server(SMALL)
    while True:
        peer, _ = listener.accept()
        with peer:
            peer.sendall(bytes(24_000))


def knock() -> None:
    """Three decisions that take long, as they do in an emulated machine, cost a flow its module. New flows keep it speaking."""
    while True:
        try:
            with socket.create_connection(SMALL, TIMEOUT) as peer:
                while peer.recv(1 << 16):
                    pass
        except OSError:
            pass
        time.sleep(0.6)


def other_end(what: str, *before: str) -> subprocess.Popen:
    """This program as one end of a download."""
    return subprocess.Popen([*before, __file__, what], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


class Download:
    def __init__(self) -> None:
        self._server = other_end("serve", *AT_SERVER)
        assert self._server.stdout and self._server.stdout.readline() == "listening\n"
        self._client = other_end("fetch")

    def end(self) -> dict[str, Any]:
        """What was sent and what came, None of an end that was not done in time."""
        said: dict[str, Any] = {}
        for name, process in (("came", self._client), ("sent", self._server)):
            try:
                said[name] = json.loads(process.communicate(timeout=TIMEOUT)[0])
            except (subprocess.TimeoutExpired, json.JSONDecodeError):
                process.kill()
                said[name] = None
        return said


# ---- the two ways


def build() -> None:
    """The machine itself has two ways of 10 Mb/s to the server, which is a namespace, and an MPTCP endpoint and limits of somebody else."""
    sh("ip netns add srv; ip -n srv link set lo up")
    for where in ("", "ip netns exec srv "):
        sh(f"{where}sysctl -qw net.mptcp.enabled=1 net.ipv4.tcp_ecn=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0")
    sh(f"ip -n srv address add {SERVER[0]}/32 dev lo")
    for n in (0, 1):
        sh(f"ip link add wlan{n} type veth peer name w{n} netns srv")
        sh(f"ip address add 10.71.{n}.2/24 dev wlan{n}; ip -n srv address add 10.71.{n}.1/24 dev w{n}")
        sh(f"ip link set wlan{n} up; ip -n srv link set w{n} up")
        sh(f"ip route add default via 10.71.{n}.1 dev wlan{n} metric {100 + n}")
        # Segments as they are on air: packets are counted.
        sh(f"ip netns exec srv ethtool -K w{n} tso off gso off")
        sh(f"tc -n srv qdisc add dev w{n} root netem delay 5ms rate 10mbit limit 60")
    sh("ip -n srv mptcp limits set subflows 4 add_addr_accepted 4")
    sh("ip mptcp limits set subflows 0 add_addr_accepted 1")
    sh("ip link add other0 type dummy; ip address add 10.71.3.2/24 dev other0")
    sh("ip mptcp endpoint add 10.71.3.2 id 99 signal")
    # After the marks (priority mangle), before TCP: data packets of MPTCP by link and ECN field.
    kinds = [(ecn, n) for n in (0, 1) for ecn in ("ect0", "ce")]
    lines = ["add table inet count", "add chain inet count input { type filter hook input priority filter; }"]
    lines += [f"add counter inet count {ecn}{n}" for ecn, n in kinds]
    lines += [f"add rule inet count input iifname wlan{n} ip length > 1000 ip ecn {ecn} tcp option mptcp exists counter name {ecn}{n}" for ecn, n in kinds]
    subprocess.run(["nft", "-f", "-"], input="\n".join(lines) + "\n", text=True, check=True)


def counted() -> dict[str, int]:
    listed = json.loads(sh("nft -j list counters table inet count"))["nftables"]
    return {one["counter"]["name"]: one["counter"]["packets"] for one in listed if "counter" in one}


def carried() -> dict[str, int]:
    """Bytes a second that came by each way for a second."""
    def total() -> dict[str, int]:
        return {way: int(Path(f"/sys/class/net/{way}/statistics/rx_bytes").read_text()) for way in ("wlan0", "wlan1")}

    start, before = time.monotonic(), total()
    time.sleep(1)
    after, seconds = total(), time.monotonic() - start
    return {way: round((after[way] - before[way]) / seconds) for way in before}


def carry(*busy: str) -> dict[str, int]:
    """Waits until just these ways carry the download; what they carried last."""
    end = time.monotonic() + TIMEOUT
    while True:
        seen = carried()
        if all(total > BUSY if way in busy else total < QUIET for way, total in seen.items()) or time.monotonic() > end:
            return seen


def mptcp() -> dict[str, Any]:
    """What `ip mptcp` says: endpoints by address, and limits."""
    listed = json.loads(sh("ip -j mptcp endpoint show") or "[]")
    words = sh("ip mptcp limits show").split()
    return {"endpoints": {one["address"]: one for one in listed}, "limits": dict(zip(words[::2], map(int, words[1::2])))}


def backup(address: str) -> bool:
    return bool(mptcp()["endpoints"].get(address, {}).get("backup"))


def heard() -> dict[str, int]:
    """Packets that each subflow's receiver has reported as CE, by the client's address, as the server's TCP counts."""
    lines = sh("ip netns exec srv ss -tiHnO state established").splitlines()
    found = {}
    for line in lines:
        words = line.split()
        if any("10.71." in word for word in words[3:4]):
            marks = [word.split(":")[1] for word in words if word.startswith("delivered_ce:")]
            found[words[3].rsplit(":", 1)[0]] = int(marks[0]) if marks else 0
    return found


# ---- the daemon


def turn(**knobs: float | str) -> None:
    for name, value in knobs.items():
        api(f"/v1/modules/request_probe/knobs/{name}", "PUT", {"value": value})


def steering() -> dict[str, Any]:
    return api("/v1/status")["steering"]


def rules() -> str:
    return sh("nft list table inet tandem_steer", check=False)


def tables() -> list[str]:
    return sh("nft list tables").splitlines()


class Daemon:
    def __init__(self, programs: Path, setup: bool) -> None:
        (WORK / "tandem.toml").write_text(f"""
[links]
wifi = "wlan0"
more_wifi = ["wlan1"]
radio = "none"
modem = "none"
[daemon]
socket = "{SOCKET}"
module_dir = "{WORK}/modules"
[recorder]
seconds = 0
[mptcp]
setup = {str(setup).lower()}
[modules.request_probe]
enabled = true
""")
        with open(WORK / "tandemd.log", "w") as log:
            self.process = subprocess.Popen([*SERVICE, str(programs / "tandemd"), "-c", str(WORK / "tandem.toml")],
                                            stdout=log, stderr=log)
        if not wait_for(self._answers):
            raise SystemExit("the daemon is not ready: " + (WORK / "tandemd.log").read_text())

    def _answers(self) -> bool:
        try:
            return bool(api("/v1/status"))
        except OSError:
            return False

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(TIMEOUT)

    def kill_with_keeper(self) -> None:
        """At once: neither sees the other's end."""
        both = [self.process.pid, *map(int, sh(f"pgrep -P {self.process.pid}").split())]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in both:
                os.kill(pid, number)
        self.process.wait()


# ---- what is tried


def marks() -> None:
    fact("unmarked", counted())
    turn(link=WIFI_2, ce_rate=CE_RATE)
    wait_for(lambda: api("/v1/status")["links"]["wifi2"].get("steering", {}).get("ce_rate", 0) > 0.999 * CE_RATE)
    fact("rules", rules())
    end = time.monotonic() + TIMEOUT
    while True:
        before, changes = counted(), steering()["ce_changes"]
        while True:
            seen = counted()
            now = [seen[name] - before[name] for name in ("ect01", "ce1")]
            if sum(now) >= ENOUGH or time.monotonic() > end:
                break
            time.sleep(0.3)
        # A daemon that stood still meanwhile has had its marks taken away: that is another test's.
        if steering()["ce_changes"] == changes or time.monotonic() > end:
            break
    fact("marked", {"ect0": now[0], "ce": now[1], "asked": CE_RATE})
    fact("heard", heard())
    turn(ce_rate=0)
    fact("rules_after_marks", wait_for(lambda: "wlan1" not in rules()) and rules())
    before = counted()
    now = wait_for(lambda: (seen := counted())["ect01"] - before["ect01"] > 100 and seen) or counted()
    fact("marked_after", {name: now[name] - before[name] for name in now})
    fact("at_last", now)


def backups() -> None:
    for link, way in ((WIFI_2, "wlan1"), (WIFI, "wlan0")):
        turn(link=link, backup="yes")
        fact(f"backup_{way}", carry("wlan0" if way == "wlan1" else "wlan1"))
        turn(backup="no")
        fact(f"backup_{way}_back", carry("wlan0", "wlan1"))


def main(programs: Path, probe: Path) -> None:
    (WORK / "modules").mkdir(parents=True)
    SOCKET.parent.mkdir()
    shutil.chown(SOCKET.parent, 65534, 65534)
    # Beside the checkout, which may lie where an ordinary user cannot look.
    shutil.copytree(programs, WORK / "bin")
    shutil.copy(probe, WORK / "modules")
    programs = WORK / "bin"
    build()
    fact("found", mptcp())

    daemon = Daemon(programs, setup=True)
    wait_for(lambda: len(mptcp()["endpoints"]) >= 3)
    fact("set_up", mptcp())
    fact("stopped", {"exit": daemon.stop(), **mptcp(), "tables": tables()})

    daemon = Daemon(programs, setup=True)
    wait_for(lambda: len(mptcp()["endpoints"]) >= 3)
    others = [other_end("small", *AT_SERVER), other_end("knock")]
    download = Download()
    fact("both", carry("wlan0", "wlan1"))
    marks()
    backups()

    turn(link=WIFI_2, ce_rate=CE_RATE, backup="yes")
    wait_for(lambda: "wlan1" in rules() and backup("10.71.1.2"))
    fact("before_kill", {**mptcp(), "tables": tables()})
    daemon.kill_with_keeper()
    wait_for(lambda: "tandem" not in " ".join(tables()))
    fact("killed", {**mptcp(), "tables": tables(), "wlan0": carry("wlan0")["wlan0"]})
    fact("download", download.end())
    for process in others:
        process.kill()
    print((WORK / "tandemd.log").read_text())

    daemon = Daemon(programs, setup=False)
    wait_for(lambda: len(mptcp()["endpoints"]) == 1)
    fact("next_start", mptcp())
    fact("stopped_again", {"exit": daemon.stop(), **mptcp(), "tables": tables()})
    fact("kernel_warnings", int(sh("dmesg | grep -c 'WARNING: '", check=False)))


if __name__ == "__main__":
    if ends := {"serve": serve, "fetch": fetch, "small": small, "knock": knock}.get(sys.argv[1]):
        ends()
    else:
        main(Path(sys.argv[1]), Path(sys.argv[2]))
