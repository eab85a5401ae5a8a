#!/usr/bin/python3
"""One card at access points of two channels at once: by the daemon, and by hand, where what the access points do is seen frame by frame.

    channels.py PROGRAMS TURNS_PROBE         inside the virtual machine; prints "fact NAME JSON", one a line

The world is that of aps.py, but the station's radio can be on two channels, and the access points are on channels 6 and 1.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import aps
import hwsim_radio
from aps import AP, HWSIM, IN_STA, MPTCP, STATION, WORK, Daemon, associated_with, sta
from facts import fact, sh, wait_for

CHANNELS = (6, 1)
MHZ = (2437, 2412)
SECOND, SECOND_ADDRESS = "sta1", "10.88.0.61"
OWN_ADDRESS = "10.88.0.2"
MONITOR = "mon0"
PORT = 7001


def rate(number: int, mbit: int) -> None:
    """What the access point sends at most."""
    sh(f"ip netns exec ap tc qdisc replace dev wlan{number} root tbf rate {mbit}mbit burst 16k latency 60ms")


def build() -> None:
    if not Path("/sys/class/net/wlan2").exists():
        sh("modprobe mac80211_hwsim radios=3")
    hwsim_radio.remove(2)
    hwsim_radio.add(channels=2)
    if not wait_for(Path("/sys/class/net/wlan2").exists):
        raise SystemExit("the radio with two channels has no interface wlan2")
    aps.build(CHANNELS)


# ---- by the daemon


def endpoints() -> dict[str, bool]:
    """Address of each of MPTCP's endpoints, and whether it is a backup."""
    return {words[0]: "backup" in words for line in sta("ip mptcp endpoint show").splitlines() if (words := line.split())}


def saves_power(interface: str) -> bool:
    return sta(f"iw dev {interface} get power_save", False).strip().endswith("on")


def follow(daemon: Daemon, download: subprocess.Popen) -> dict[str, Any]:
    """What is seen while it runs, each change once, and what came of it."""
    seen: list[dict[str, Any]] = []
    before = aps.received()
    while download.poll() is None:
        turns = daemon.aps().get("turns", {})
        now = {"doing": turns.get("doing"), "best": turns.get("best_mhz"), "backup": turns.get("backup"),
               "endpoints": sorted(address for address, backup in endpoints().items() if backup), "power_save": saves_power(STATION)}
        if not seen or now != seen[-1]:
            seen.append(now)
        time.sleep(0.1)
    assert download.stdout
    return {"whole": download.stdout.read().strip(), "seen": seen, "bytes": {name: total - before[name] for name, total in aps.received().items()},
            "turns": daemon.aps().get("turns")}


def by_the_daemon(programs: Path, own: int) -> None:
    other = 1 - own
    daemon = Daemon(programs)
    daemon.tandem("aps", "--scan")
    fact("range", {"other": AP[other], **daemon.aps()})
    daemon.tandem("aps", "keep", "2")
    time.sleep(3)
    fact("one_channel", {"stations": daemon.aps()["stations"], "why": daemon.judged(other)})
    fact("keep", daemon.tandem("aps", "keep", "2", "--several-channels"))
    fact("kept", daemon.in_use())
    fact("at_once", {"own": associated_with() == AP[own], "station": f"channel {CHANNELS[other]} (" in sta(f"iw dev {STATION} info")})

    rate(own, 2)
    rate(other, 6)
    fact("other_best", follow(daemon, aps.download(180)))
    rate(own, 6)
    rate(other, 2)
    fact("own_best", follow(daemon, aps.download(180)))
    fact("table", daemon.tandem("aps")[1])
    fact("off", daemon.tandem("aps", "off"))
    fact("after_off", wait_for(lambda: (now := aps.left()) and not now["stations"] and now) or aps.left())
    fact("stopped", {"exit": daemon.stop(), **aps.left()})


# ---- by hand


class Known:
    """What an access point says of a station, as long as this is followed. Debian's kernel says nothing (CONFIG_MAC80211_DEBUGFS)."""

    def __init__(self, number: int, mac: str) -> None:
        self._directory = HWSIM / f"phy{number}/netdev:wlan{number}/stations/{mac}"
        self.asleep, self.buffered = 0, 0
        self.says = self._directory.exists()

    def look(self) -> None:
        try:
            self.asleep += "PS_STA" in (self._directory / "flags").read_text().split()
            self.buffered = max(self.buffered, sum(int(word.partition("=")[2] or word) for word in (self._directory / "num_ps_buf_frames").read_text().split() if word[-1].isdigit()))
        except (OSError, ValueError):
            pass


class Stream:
    """Small datagrams to one of the card's addresses, every 5 ms, and when each left and arrived (CLOCK_MONOTONIC, ns)."""

    CODE = """
import socket, struct, sys, time
port = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
if sys.argv[1] == "send":
    n, next = 0, time.monotonic()
    end = next + float(sys.argv[3])
    while next < end:
        port.sendto(struct.pack("=IQ", n, time.monotonic_ns()) + bytes(100), (sys.argv[2], %(port)d))
        n, next = n + 1, next + 0.005
        time.sleep(max(0, next - time.monotonic()))
    sys.exit()
port.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, sys.argv[2].encode())
port.bind(("", %(port)d)); port.settimeout(float(sys.argv[3]))
print("listening", flush=True)
end = time.monotonic() + float(sys.argv[3])
while time.monotonic() < end:
    try:
        data = port.recv(2000)
    except TimeoutError:
        break
    print(*struct.unpack_from("=IQ", data), time.monotonic_ns(), flush=True)
""" % {"port": PORT}

    def __init__(self, interface: str, address: str, seconds: float) -> None:
        self._listener = subprocess.Popen([*IN_STA, sys.executable, "-c", self.CODE, "listen", interface, str(seconds + 1)], stdout=subprocess.PIPE, text=True)
        assert self._listener.stdout and self._listener.stdout.readline() == "listening\n"
        self._sender = subprocess.Popen(["ip", "netns", "exec", "ap", sys.executable, "-c", self.CODE, "send", address, str(seconds)])

    def end(self) -> None:
        self._sender.terminate()

    def arrivals(self) -> list[tuple[int, int, int]]:
        """Number, left, arrived."""
        self._sender.wait()
        return [tuple(map(int, line.split())) for line in self._listener.communicate()[0].splitlines()]


def second_station() -> None:
    """What the daemon does, by hand."""
    phy = f"phy{sta('cat /sys/class/net/wlan2/phy80211/index').strip()}"
    sta(f"iw phy {phy} interface add {SECOND} type managed addr 02:00:00:00:77:00")
    # Whatever a station sends tells its access point that it is there.
    sta(f"sysctl -qw net.ipv6.conf.all.disable_ipv6=1 net.ipv4.conf.{SECOND}.rp_filter=0 net.ipv4.conf.{SECOND}.arp_ignore=1 net.ipv4.conf.wlan2.arp_ignore=1")
    (WORK / "second.conf").write_text((WORK / "wpa.conf").read_text().replace("/run/wpa ", "/run/wpa1 ").replace('psk="correct horse"', f'psk="correct horse"\n  bssid={AP[1]}'))
    sta(f"wpa_supplicant -B -D nl80211 -i {SECOND} -c {WORK}/second.conf -P /run/second.pid")
    if not wait_for(lambda: "Connected" in sta(f"iw dev {SECOND} link")):
        raise SystemExit("the second station is not associated")
    sta(f"ip address add {SECOND_ADDRESS}/24 dev {SECOND}")
    sta(f"iw phy {phy} interface add {MONITOR} type monitor")
    sta(f"ip link set {MONITOR} up")
    for interface, address in (("wlan2", OWN_ADDRESS), (SECOND, SECOND_ADDRESS)):
        sh(f"ip -n ap neigh replace {address} lladdr {mac(interface)} dev br0 nud permanent")


def mac(interface: str) -> str:
    return sta(f"cat /sys/class/net/{interface}/address").strip()


class Turns:
    """turns_probe at work, and what the access points know meanwhile."""

    def __init__(self, probe: Path, seconds: float) -> None:
        self._process = subprocess.Popen([*IN_STA, str(probe), "null-frames", MONITOR, "wlan2", str(MHZ[0]), AP[0], SECOND, str(MHZ[1]), AP[1], "--seconds", str(seconds)],
                                         stdout=subprocess.PIPE, text=True)
        self.known = {"wlan2": Known(0, mac("wlan2")), SECOND: Known(1, mac(SECOND))}
        self.lines: list[dict[str, Any]] = []
        self._watcher = threading.Thread(target=self._watch)
        self._watcher.start()

    def _watch(self) -> None:
        while self._process.poll() is None:
            for one in self.known.values():
                one.look()
            time.sleep(0.01)

    def run(self) -> None:
        """To its end; subflows become backups as it says."""
        assert self._process.stdout
        for text in self._process.stdout:
            self.lines.append(line := json.loads(text))
            for mhz, address in zip(MHZ, (OWN_ADDRESS, SECOND_ADDRESS)) if "backup" in line else ():
                sta(f"ip mptcp endpoint change {address} {'backup' if mhz in line['backup'] else 'nobackup'}", False)
        self._watcher.join()

    def away(self, interface: str) -> list[tuple[int, int]]:
        """From when, until when (ns) the access point knew that it was away: acknowledged, and not yet called back."""
        began, since, all = self.lines[0]["began_ns"], None, []
        for line in self.lines:
            if line.get("interface") != interface:
                continue
            if not line["present"]:
                since = began + int(line["done_ms"] * 1e6)
            elif since is not None:
                all.append((since, began + int(line["sent_ms"] * 1e6)))
                since = None
        return all

    def told(self) -> dict[str, Any]:
        took = [line["done_ms"] - line["sent_ms"] for line in self.lines if "sent_ms" in line]
        return {"orders": self.lines[-1], "median_ms": sorted(took)[len(took) // 2] if took else None, "most_ms": max(took, default=None),
                "access_points": {name: {"says": one.says, "asleep": one.asleep, "buffered": one.buffered} for name, one in self.known.items()}}


def slots(probe: Path) -> None:
    """A stream to each station while the card takes turns: it arrives in the station's slots, all of it."""
    seconds = 1.2  # of the comparison, which has slots
    # Longer than it: on a slow machine the probe takes its time to start.
    streams = {"wlan2": Stream("wlan2", OWN_ADDRESS, seconds + 8), SECOND: Stream(SECOND, SECOND_ADDRESS, seconds + 8)}
    time.sleep(0.3)
    turns = Turns(probe, seconds)
    turns.run()
    time.sleep(0.3)
    for stream in streams.values():
        stream.end()
    found: dict[str, Any] = turns.told()
    for name, stream in streams.items():
        arrivals, away = stream.arrivals(), turns.away(name)
        found[name] = {"away": len(away), "away_ms": sum(end - begin for begin, end in away) / 1e6,
                       "sent_meanwhile": sum(begin <= left < end for _, left, _ in arrivals for begin, end in away),
                       "arrived_meanwhile": sum(begin <= at < end for _, _, at in arrivals for begin, end in away),
                       "arrived": len(arrivals), "missing": 1 + max((number for number, _, _ in arrivals), default=-1) - len(arrivals),
                       "longest_wait_ms": max((at - left for _, left, at in arrivals), default=0) / 1e6}
    fact("slots", found)


def mptcp_in_slots(probe: Path) -> None:
    """One MPTCP download meanwhile; the second station's access point sends faster."""
    sta("ip mptcp limits set subflows 2 add_addr_accepted 2")
    for interface, address, table in (("wlan2", OWN_ADDRESS, 61), (SECOND, SECOND_ADDRESS, 62)):
        sta(f"ip route add default via 10.88.0.1 dev {interface} table {table}")
        sta(f"ip rule add from {address} table {table}")
        sta(f"ip mptcp endpoint add {address} dev {interface} subflow")
    rate(0, 2)
    rate(1, 6)
    before = {name: int(sta(f"cat /sys/class/net/{name}/statistics/rx_bytes")) for name in ("wlan2", SECOND)}
    download = aps.download(100)
    time.sleep(1)
    turns = Turns(probe, 10)
    turns.run()
    assert download.stdout
    fact("mptcp", {**turns.told(), "backup": [line["backup"] for line in turns.lines if "backup" in line], "whole": download.communicate(timeout=180)[0].strip(),
                   "bytes": {name: int(sta(f"cat /sys/class/net/{name}/statistics/rx_bytes")) - total for name, total in before.items()}})


def power_save(probe: Path) -> None:
    """What nl80211's power save does where mac80211 carries it out: with two stations nothing, with one as soon as it is quiet."""
    known = Known(0, mac("wlan2"))

    def asleep(seconds: float) -> bool:
        known.asleep = 0
        return bool(wait_for(lambda: known.look() or known.asleep, seconds))

    def order(state: str) -> dict[str, Any]:
        return json.loads(sta(f"{probe} power-save wlan2 {state}"))

    found: dict[str, Any] = {"says": known.says, "agreed": order("away"), "two_stations": asleep(2)}
    order("present")
    sta(f"iw dev {MONITOR} del")
    sh("kill $(cat /run/second.pid)")
    sta(f"iw dev {SECOND} del")
    order("away")
    found["one_station"] = asleep(5)
    for state in ("away", "present"):
        order(state)
        time.sleep(0.5)
        stream = Stream("wlan2", OWN_ADDRESS, 0.004)
        arrivals = stream.arrivals()
        found[f"first_{state}_ms"] = (arrivals[0][2] - arrivals[0][1]) / 1e6 if arrivals else None
    found["awake_again"] = not asleep(1)
    fact("power_save", found)


def main(programs: Path, probe: Path) -> None:
    build()
    server = subprocess.Popen(["ip", "netns", "exec", "srv", sys.executable, "-c", MPTCP, "serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout and server.stdout.readline() == "listening\n"
    by_the_daemon(programs, 0 if associated_with() == AP[0] else 1)
    sta(f"wpa_cli -p /run/wpa -i wlan2 roam {AP[0]}", False)
    wait_for(lambda: associated_with() == AP[0])
    second_station()
    slots(probe)
    mptcp_in_slots(probe)
    power_save(probe)
    server.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
