#!/usr/bin/python3
"""Takes the station's network away, and measures when the daemon says so; run by detection.sh inside the virtual machine.

    detection.py RADIO TANDEM FEEDER_PROBE HWSIM CYCLES

RADIO "protected": what the daemon has is the radio of the run before, and the access points protect their management frames. Then a
deauthentication in the access point's name comes from somebody else, and one from itself.

Prints one JSON object a line: what was done, and the delays of the verdicts in milliseconds. Times are the kernel's monotonic clock.
"""

from __future__ import annotations

import json
import socket
import struct
import subprocess
import sys
import threading
import time
from typing import Any, Callable, Iterator

STATION = "02:00:00:00:02:00"
INTERFACE = "wlan2"
TIMEOUT = 30.0
AP_RADIOS = (0, 1)


class Failed(Exception):
    """What was waited for, in vain."""


def wait_for(what: str, found: Callable[[], Any], seconds: float = TIMEOUT) -> Any:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if result := found():
            return result
        time.sleep(0.05)
    raise Failed(f"waited {seconds:.0f} s in vain for {what}")


class Station:
    """What the driver says, by the feeder's own source in another process."""

    def __init__(self, probe: str) -> None:
        self._process = subprocess.Popen(["ip", "netns", "exec", "sta", probe, "nl80211", INTERFACE], stdout=subprocess.PIPE, text=True)
        self.changes: list[dict[str, Any]] = []
        self.ap = ""
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            said = json.loads(line)
            if said.get("kind") == "wifi":
                self.changes.append({"change": "disconnected", **said})
            elif said.get("kind") == "station":
                self.ap = said["ap"]

    def first(self, change: str, after_ns: int) -> dict[str, Any] | None:
        return next((c for c in list(self.changes) if c["change"] == change and c["at_ns"] > after_ns), None)

    def stop(self) -> None:
        self._process.terminate()
        self._process.wait()


class Daemon:
    def __init__(self, tandem: str) -> None:
        self._tandem = tandem

    def status(self) -> dict[str, Any]:
        done = subprocess.run(["ip", "netns", "exec", "sta", self._tandem, "status", "--json"], capture_output=True, text=True, timeout=30)
        return json.loads(done.stdout)

    def blackout(self) -> dict[str, Any]:
        """The detector's part of it."""
        return next(find(self.status(), "blackout"))

    def down_after(self, at_ns: int) -> dict[str, Any]:
        return wait_for("a verdict", lambda: (b := self.blackout())["last_verdict_at_ns"] > at_ns and b)

    def up_after(self, at_ns: int) -> dict[str, Any]:
        return wait_for("the link to be up again", lambda: (b := self.blackout())["last_up_at_ns"] > at_ns and not b["down"] and b)


def find(tree: Any, name: str) -> Iterator[dict[str, Any]]:
    """Objects of this name, wherever they are."""
    if isinstance(tree, dict):
        if isinstance(tree.get(name), dict):
            yield tree[name]
        for value in tree.values():
            yield from find(value, name)


def flowing(seconds: float) -> None:
    """Waits until the download has run over Wi-Fi for so long, without a pause."""
    counter = ["ip", "netns", "exec", "sta", "cat", f"/sys/class/net/{INTERFACE}/statistics/rx_bytes"]
    since, last = time.monotonic(), 0
    end = time.monotonic() + TIMEOUT
    while time.monotonic() - since < seconds:
        total = int(subprocess.run(counter, capture_output=True, text=True).stdout)
        if total - last < 5000:
            since = time.monotonic()
        last = total
        time.sleep(0.2)
        if time.monotonic() > end:
            raise Failed("no download over Wi-Fi")


def forge_deauthentication(ap: str) -> int:
    """By radiotap on a monitor interface of the access point's own radio: as strong as its own, on its channel. When it was sent."""
    number = int(ap.split(":")[4], 16)
    subprocess.run(["ip", "netns", "exec", "ap", "iw", "dev", f"wlan{number}", "interface", "add", "forger", "type", "monitor"], check=True)
    subprocess.run(["ip", "-n", "ap", "link", "set", "forger", "up"], check=True)
    by, to = (bytes.fromhex(address.replace(":", "")) for address in (ap, STATION))
    frame = struct.pack("<BBHI", 0, 0, 8, 0) + struct.pack("<HH6s6s6sHH", 0x00c0, 0, to, by, by, 0, 7)  # reason 7: a frame before an association
    sender = "import socket, sys; s = socket.socket(socket.AF_PACKET, socket.SOCK_RAW); s.bind(('forger', 0)); s.send(bytes.fromhex(sys.argv[1]))"
    at = time.monotonic_ns()
    subprocess.run(["ip", "netns", "exec", "ap", sys.executable, "-c", sender, frame.hex()], check=True)
    subprocess.run(["ip", "netns", "exec", "ap", "iw", "dev", "forger", "del"], check=True)
    return at


def say(radio: str, what: str, **values: Any) -> None:
    print(json.dumps({"radio": radio, "what": what, **values}), flush=True)


def causes(before: dict[str, Any], after: dict[str, Any]) -> list[str]:
    """Of the verdicts in between."""
    return [cause for cause, count in after["verdicts"].items() if count > before["verdicts"][cause]]


def ms(later: int, earlier: int) -> float:
    return round((later - earlier) / 1e6, 1)


def main(radio: str, tandem: str, probe: str, hwsim: str, cycles: str) -> int:
    count = int(cycles)
    groups = [open(f"{hwsim}/phy{number}/hwsim/group", "w") for number in AP_RADIOS]

    def reach(group: int) -> int:
        """2: the access points are out of reach; nothing tells the station. 1: back."""
        at = time.monotonic_ns()
        for file in groups:
            file.write(str(group))
            file.flush()
        return at

    def deauthenticate() -> int:
        number = int(station.ap.split(":")[4], 16)
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as control:
            control.bind(f"/run/deauth{time.monotonic_ns()}")
            control.connect(f"/run/hostapd{number}/wlan{number}")
            at = time.monotonic_ns()
            control.send(f"DEAUTHENTICATE {STATION}".encode())
            control.recv(100)
        return at

    station = Station(probe)
    daemon = Daemon(tandem)
    wait_for("the station's counters", lambda: station.ap)
    say(radio, "started", sources=daemon.status().get("feeder", {}))
    try:
        if radio == "protected":
            flowing(1.0)
            before = daemon.blackout()
            at = forge_deauthentication(station.ap)
            heard = wait_for("the monitor to hear it", lambda: (b := daemon.blackout())["deauthentications"] > before["deauthentications"] and b)
            time.sleep(2.0)
            say(radio, "forged", told=station.first("disconnected", at) is not None, causes=causes(before, daemon.blackout()), heard=heard["deauthentications"])
            flowing(1.0)
            before = daemon.blackout()
            at = deauthenticate()
            say(radio, "its own", causes=causes(before, daemon.down_after(at)))
            return 0
        if "monitor" in radio:
            flowing(1.0)
            before = daemon.blackout()
            at = forge_deauthentication(station.ap)
            verdict = daemon.down_after(at)
            wait_for("the association", lambda: station.first("connected", at))
            daemon.up_after(verdict["last_verdict_at_ns"])
            say(radio, "forged", told=station.first("disconnected", at) is not None, causes=causes(before, verdict))
        for _ in range(count):
            flowing(1.0)
            before = daemon.blackout()
            at = deauthenticate()
            verdict = daemon.down_after(at)
            connected = wait_for("the association", lambda: station.first("connected", at))["at_ns"]
            back = daemon.up_after(verdict["last_verdict_at_ns"])
            told = station.first("disconnected", at)
            say(radio, "deauthenticated", causes=causes(before, verdict), down_ms=ms(verdict["last_verdict_at_ns"], at), kernel_ms=ms(told["at_ns"], at),
                up_ms=ms(back["last_up_at_ns"], connected))
        for _ in range(count):  # too short for the driver to notice
            flowing(1.0)
            before = daemon.blackout()
            at = reach(2)
            time.sleep(0.5)
            again = reach(1)
            blackout = daemon.blackout()
            seen = blackout["last_verdict_at_ns"] > at
            gone = station.first("beacon_loss", at)
            values = {"down_ms": ms(blackout["last_verdict_at_ns"], at), "causes": causes(before, blackout)} if seen else {}
            if seen:
                values["up_ms"] = ms(daemon.up_after(at)["last_up_at_ns"], again)
            say(radio, "short silence", noticed=seen, driver_noticed=gone is not None, **values)
        for _ in range(count):
            flowing(1.0)
            before = daemon.blackout()
            at = reach(2)
            verdict = daemon.down_after(at)
            gone = wait_for("the driver to give up", lambda: station.first("disconnected", at))
            lost = station.first("beacon_loss", at)
            again = reach(1)
            connected = wait_for("the association", lambda: station.first("connected", at))["at_ns"]
            back = daemon.up_after(verdict["last_verdict_at_ns"])
            say(radio, "long silence", causes=causes(before, verdict), down_ms=ms(verdict["last_verdict_at_ns"], at),
                beacon_loss_ms=lost and ms(lost["at_ns"], at), driver_ms=ms(gone["at_ns"], at), up_ms=ms(back["last_up_at_ns"], connected))
        flowing(1.0)
        say(radio, "ended", status=daemon.status())
    except Failed as reason:
        say(radio, "failed", why=str(reason), blackout=daemon.blackout(), changes=station.changes[-5:])
        return 1
    finally:
        reach(1)
        station.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
