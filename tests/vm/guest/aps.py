#!/usr/bin/python3
"""One card at two access points: virtual stations by the daemon, wpa_supplicant and udhcpc on simulated radios.

    aps.py PROGRAMS         inside the virtual machine; prints "fact NAME JSON", one a line

radios.sh makes the radios; here both access points are on one channel and want a password. What is waited for in vain becomes a fact
like any other, so that each test says what failed. Only what the rest needs ends it all.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from facts import SERVICE, TIMEOUT, fact, sh, wait_for

HERE = Path(__file__).resolve().parent
WORK = Path("/run/work")
RUN = Path("/run/tandem")
SUPPLICANT = Path("/run/wpa-global")
IN_STA = ["ip", "netns", "exec", "sta"]
AP = {0: "02:00:00:00:00:00", 1: "02:00:00:00:01:00"}
STATION = "tandem-sta0"
DISPATCHER = HERE.parents[2] / "packaging" / "networkmanager" / "50-tandem"
HWSIM = Path("/sys/kernel/debug/ieee80211")
MPTCP = """
import hashlib, socket, sys
IPPROTO_MPTCP = 262
if sys.argv[1] == "serve":
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    listener.bind(("10.71.9.9", 7000)); listener.listen()
    print("listening", flush=True)
    while True:
        peer, _ = listener.accept()
        blocks = [bytes([n]) * 65536 for n in range(251)]
        for n in range(int(peer.recv(20))):
            peer.sendall(blocks[n % 251])
        peer.close()
peer = socket.socket(socket.AF_INET, socket.SOCK_STREAM, IPPROTO_MPTCP)
peer.connect(("10.71.9.9", 7000))
blocks = int(sys.argv[2])
peer.sendall(str(blocks).encode())
digest, wanted, length = hashlib.sha256(), hashlib.sha256(), 0
while data := peer.recv(1 << 18):
    digest.update(data); length += len(data)
for n in range(blocks):
    wanted.update(bytes([n % 251]) * 65536)
print(length == blocks * 65536 and digest.digest() == wanted.digest(), flush=True)
"""


def sta(command: str, check: bool = True) -> str:
    return sh(f"ip netns exec sta {command}", check)


# ---- the world: radios.sh's, with passwords, one channel, DHCP, and a server behind


OWN_NETWORK = """ssid=tandem "vm"
wpa=2
wpa_key_mgmt=WPA-PSK
rsn_pairwise=CCMP
wpa_passphrase=correct horse
"""


def access_point(number: int, channel: int, network: str = OWN_NETWORK) -> None:
    (WORK / f"hostapd{number}.conf").write_text(f"""interface=wlan{number}
driver=nl80211
{network}hw_mode=g
channel={channel}
ieee80211n=1
wmm_enabled=1
bridge=br0
ctrl_interface=/run/hostapd{number}
""")
    sh(f"ip netns exec ap hostapd -B -P /run/hostapd{number}.pid {WORK}/hostapd{number}.conf")
    # Each way carries less than the server sends, so that a download has a use for both.
    sh(f"ip netns exec ap tc qdisc replace dev wlan{number} root tbf rate 4mbit burst 16k latency 60ms")


def without_access_point(number: int) -> None:
    sh(f"kill $(cat /run/hostapd{number}.pid)")
    wait_for(lambda: not Path(f"/run/hostapd{number}.pid").exists())


def supplicant(interface: str = "wlan2") -> None:
    (WORK / "wpa.conf").write_text("""ctrl_interface=DIR=/run/wpa GROUP=nogroup
ap_scan=1
freq_list=2412 2437
network={
  ssid="somewhere else"
  key_mgmt=NONE
}
network={
  ssid=P"tandem \\"vm\\""
  key_mgmt=WPA-PSK
  psk="correct horse"
  scan_freq=2412 2437
}
""")
    sta(f"wpa_supplicant -B -D nl80211 -i {interface} -c {WORK}/wpa.conf -P /run/wpa.pid -g {SUPPLICANT} -G nogroup")


def associated_with() -> str:
    words = sta("iw dev wlan2 link").split()
    return words[2] if words[:1] == ["Connected"] else ""


def build(channels: tuple[int, int] = (6, 6)) -> None:
    WORK.mkdir(parents=True, exist_ok=True)
    sh(f"bash -c '. {HERE}/radios.sh; start_ap() {{ :; }}; start_radios'")
    for number, channel in enumerate(channels):
        access_point(number, channel)
    (WORK / "udhcpd.conf").write_text("start 10.88.0.100\nend 10.88.0.150\ninterface br0\nlease_file /run/work/leases\npidfile /run/work/udhcpd.pid\n"
                                      "option subnet 255.255.255.0\noption router 10.88.0.1\noption lease 600\n")
    (WORK / "leases").touch()
    sh(f"ip netns exec ap busybox udhcpd {WORK}/udhcpd.conf")
    sh("ip netns add srv; ip -n srv link set lo up; ip link add r0 netns ap type veth peer name s0 netns srv")
    sh("ip -n ap address add 10.71.9.1/24 dev r0; ip -n srv address add 10.71.9.9/24 dev s0; ip -n ap link set r0 up; ip -n srv link set s0 up")
    sh("ip -n srv route add default via 10.71.9.1; ip netns exec ap sysctl -qw net.ipv4.ip_forward=1")
    sh("ip netns exec srv sysctl -qw net.mptcp.enabled=1; ip -n srv mptcp limits set subflows 4 add_addr_accepted 4")
    sta("sysctl -qw net.mptcp.enabled=1 net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.wlan2.arp_ignore=0")
    supplicant()
    if not wait_for(associated_with):
        raise SystemExit("the station is not associated")
    sh("ip -n sta route add default via 10.88.0.1 dev wlan2 metric 100")


# ---- the daemon


class Daemon:
    def __init__(self, programs: Path, setup: bool = True, socket: Path = SUPPLICANT) -> None:
        RUN.mkdir(exist_ok=True)
        os.chown(RUN, 65534, 65534)
        (WORK / "tandem.toml").write_text(f"""
[links]
wifi = "wlan2"
cell = "none"
modem = "none"
validation = "none"
supplicant = "{socket}"
[recorder]
seconds = 0
[mptcp]
setup = {str(setup).lower()}
[budget]
directory = "{RUN}/budget"
[evidence]
share = 0
paths = false
[daemon]
saved_directory = "{RUN}/saved"
[profile.own]
ssid = ['tandem "vm"']
modules.freeze.enabled = true
""")
        self._tandem = str(programs / "tandem")
        self.log = WORK / "tandemd.log"
        with open(self.log, "w") as log:
            self.process = subprocess.Popen([*IN_STA, *SERVICE, str(readable(programs) / "tandemd"), "-c", str(WORK / "tandem.toml")], stdout=log, stderr=log)
        if not wait_for(lambda: self.tandem("status", "--json")[0] == 0):
            raise SystemExit("the daemon is not ready: " + self.log.read_text())

    def tandem(self, *words: str) -> tuple[int, str]:
        done = subprocess.run([*IN_STA, self._tandem, *words], capture_output=True, text=True, timeout=TIMEOUT)
        return done.returncode, done.stdout + done.stderr

    def place(self) -> dict[str, Any]:
        """What follows from the network that the card is in."""
        status = json.loads(self.tandem("status", "--json")[1])
        return {"profile": status["profile"]["name"], "why": status["profile"]["why"], "hands_off": status["hands_off"],
                "freeze": next(one["enabled"] for one in status["modules"] if one["name"] == "freeze")}

    def aps(self) -> dict[str, Any]:
        code, said = self.tandem("aps", "--json")
        return json.loads(said) if code == 0 else {"problem": said, "stations": [], "access_points": []}

    def station(self) -> dict[str, Any]:
        return (self.aps()["stations"] or [{}])[0]

    def in_use(self) -> dict[str, Any]:
        """The virtual station, once it has everything."""
        return wait_for(lambda: (one := self.station()).get("endpoint") and one) or {**self.aps(), "log": self.log.read_text()}

    def judged(self, number: int) -> str:
        return next((one["why"] for one in self.aps()["access_points"] if one["ap"] == AP[number]), "not listed")

    def stop(self) -> int:
        self.process.terminate()
        return self.process.wait(TIMEOUT)

    def kill_with_keeper(self) -> None:
        both = [self.process.pid, *map(int, sh(f"pgrep -P {self.process.pid}").split())]
        for number in (signal.SIGSTOP, signal.SIGKILL):
            for pid in both:
                os.kill(pid, number)
        self.process.wait()


def strength(number: int, dbm: int) -> None:
    """How its frames are heard. Linux 6.1 takes no minus sign, but the same number without one, and adds the power of 20 dBm."""
    (HWSIM / f"phy{number}/hwsim/rx_rssi").write_text(str((1 << 32) + dbm - 20))


def left() -> dict[str, Any]:
    """What of Tandem's is there."""
    return {"stations": [word for word in sta("iw dev").split() if word.startswith("tandem")], "arp_ignore": sta("sysctl -n net.ipv4.conf.wlan2.arp_ignore").strip(),
            "endpoints": sta("ip mptcp endpoint show").strip(), "supplicant": [name for name in sta(f"wpa_cli -g {SUPPLICANT} interface", False).split() if name.startswith("tandem")]}


def received() -> dict[str, int]:
    return {name: int(sta(f"cat /sys/class/net/{name}/statistics/rx_bytes", False) or 0) for name in ("wlan2", STATION)}


def download(blocks: int) -> subprocess.Popen:
    return subprocess.Popen([*IN_STA, sys.executable, "-c", MPTCP, "fetch", str(blocks)], stdout=subprocess.PIPE, text=True)


# ---- what is tried


def readable(programs: Path) -> Path:
    """The daemon with its modules and services where an ordinary user may read them: the source tree may be in root's home."""
    made = WORK / "prefix"
    if not made.exists():
        shutil.copytree(programs.parent / "lib" / "tandem", made / "lib" / "tandem")
        (made / "bin").mkdir()
        shutil.copy(programs / "tandemd", made / "bin")
    return made / "bin"


def roaming(daemon: Daemon) -> dict[str, Any]:
    """What became of the roams that modules asked for."""
    return json.loads(daemon.tandem("status", "--json")[1])["roaming"]


def roams_of_modules(daemon: Daemon, own: int, other: int) -> None:
    """What `rate` asks for. wpa_supplicant does not roam by itself: there is no scan of its own that could bring it to."""
    daemon.tandem("module", "rate", "on")
    daemon.tandem("set", "rate.roam", "on")
    fetch = download(160)
    daemon.tandem("aps", "--scan")
    fact("rate_waits", {**roaming(daemon), "at": associated_with() == AP[own]})
    strength(own, -80)
    fact("rate_roams", {"moved": wait_for(lambda: roaming(daemon)["moved"] == 1), "at": associated_with() == AP[other], **roaming(daemon), "table": daemon.tandem("status")[1]})
    # Now the other way round, at once. With a download of its own: `rate` wishes for nothing without one, and on a slow machine the first is over by now.
    again = download(120)
    strength(own, -30)
    strength(other, -80)
    daemon.tandem("aps", "--scan")
    stays: dict[str, Any] = {}

    def said() -> bool:
        stays.update(roaming(daemon))  # of one moment: the wish goes as the signal does
        return "left less than a minute ago" in stays["last"] and stays["wanted"]

    fact("rate_stays", {"said": wait_for(said, 15), "at": associated_with() == AP[other], **stays})
    fact("rate_download", [one.communicate(timeout=180)[0].strip() for one in (fetch, again)])
    strength(other, -30)


def without_supplicant(daemon: Daemon, own: int) -> None:
    """It answers no more; the association is the kernel's and goes on."""
    sh("kill -STOP $(cat /run/wpa.pid)")
    fetch = download(40)
    strength(own, -80)
    said = wait_for(lambda: "wpa_supplicant" in roaming(daemon)["last"], 15)
    fact("rate_alone", {"said": said, "at": associated_with() == AP[own], **roaming(daemon), "download": fetch.communicate(timeout=180)[0].strip()})
    fact("rate_log", [line for line in daemon.log.read_text().splitlines() if "roam" in line or "wpa_supplicant" in line])
    daemon.tandem("set", "rate.roam", "off")
    strength(own, -30)
    sh("kill -CONT $(cat /run/wpa.pid)")


def main(programs: Path) -> None:
    build()
    server = subprocess.Popen(["ip", "netns", "exec", "srv", sys.executable, "-c", MPTCP, "serve"], stdout=subprocess.PIPE, text=True)
    assert server.stdout and server.stdout.readline() == "listening\n"
    own = 0 if associated_with() == AP[0] else 1
    other = 1 - own
    fact("found", left())

    # By the socket of the card's own interface, which is all there is beside NetworkManager.
    daemon = Daemon(programs, setup=False, socket=Path("/run/wpa/wlan2"))
    fact("without_mptcp", daemon.tandem("aps", "keep", "2"))
    daemon.tandem("aps", "--scan")
    fact("interface_socket", {"aps": daemon.aps(), "other": AP[other], "roam": daemon.tandem("aps", "roam", AP[other]), "roamed": wait_for(lambda: associated_with() == AP[other])})
    daemon.stop()
    own, other = other, own

    daemon = Daemon(programs)
    daemon.tandem("aps", "--scan")
    fact("range", {"own": AP[own], "other": AP[other], **daemon.aps()})
    fact("table", daemon.tandem("aps")[1])
    fact("usage", [daemon.tandem("aps", *words)[0] for words in (["keep", "1"], ["keep", "9"], ["keep"], ["roam"])])

    fact("keep", daemon.tandem("aps", "keep", "2"))
    fact("kept", daemon.in_use())
    fact("settings", {"routes": sta("ip route"), "arp_ignore": sta(f"sysctl -n net.ipv4.conf.wlan2.arp_ignore net.ipv4.conf.{STATION}.arp_ignore").split(),
                      "ipv6": sta(f"ip -6 address show dev {STATION}").strip()})
    fact("links", {name: link.get("interface") for name, link in json.loads(daemon.tandem("status", "--json")[1])["links"].items()})
    before = received()
    fetch = download(150)
    fact("download", {"whole": fetch.communicate(timeout=120)[0].strip(), "bytes": {name: total - before[name] for name, total in received().items()}})

    daemon.kill_with_keeper()
    fact("killed", left())
    daemon = Daemon(programs)
    wait_for(lambda: not left()["stations"])
    fact("cleared", left())

    daemon.tandem("aps", "keep", "2")
    fact("kept_again", daemon.in_use())
    # The other access point falls silent while a download runs.
    fetch = download(120)
    time.sleep(3)
    (HWSIM / f"phy{other}/hwsim/group").write_text("2")
    fact("silent", bool(wait_for(lambda: not daemon.aps()["stations"])))
    fact("silent_why", [line for line in daemon.log.read_text().splitlines() if "leaves" in line])
    fact("silent_download", fetch.communicate(timeout=180)[0].strip())
    (HWSIM / f"phy{other}/hwsim/group").write_text("1")

    fact("off", daemon.tandem("aps", "off"))
    fact("after_off", wait_for(lambda: (now := left()) and not now["stations"] and now) or left())

    roams_of_modules(daemon, own, other)
    own, other = other, own

    fact("roam_unknown", daemon.tandem("aps", "roam", "02:00:00:00:77:00"))
    fact("roam_here", daemon.tandem("aps", "roam", AP[own]))
    daemon.tandem("aps", "--scan")
    fact("roam", daemon.tandem("aps", "roam", AP[other]))
    fact("roamed", wait_for(lambda: associated_with() == AP[other]))
    own, other = other, own

    # Another channel.
    without_access_point(other)
    access_point(other, 1)
    daemon.tandem("aps", "--scan")
    fact("other_channel", daemon.judged(other))
    without_supplicant(daemon, own)  # while there is another access point of this network

    # The dispatcher script, as NetworkManager calls it.
    for interface, event in (("lo", "pre-down"), ("wlan2", "up"), ("wlan2", "pre-down")):
        sta(f"env PATH={programs}:/usr/bin:/bin sh {DISPATCHER} {interface} {event}")
        fact(f"dispatched_{interface}_{event.replace('-', '_')}", daemon.log.read_text().count("announces"))

    # Another network, and back.
    without_access_point(other)
    access_point(other, 1, "ssid=somewhere else\n")
    fact("at_home", daemon.place())
    daemon.tandem("exclude", "add", "ssid", "somewhere else")
    sta("wpa_cli -p /run/wpa -i wlan2 select_network 0")
    wait_for(lambda: daemon.place()["hands_off"])
    fact("elsewhere", daemon.place())
    sta("wpa_cli -p /run/wpa -i wlan2 select_network 1")
    wait_for(lambda: daemon.place()["profile"])
    fact("home_again", daemon.place())

    sh("kill -KILL $(cat /run/wpa.pid); rm /run/wpa.pid")
    fact("no_supplicant", daemon.tandem("aps"))
    fact("stopped", {"exit": daemon.stop(), **left()})
    server.kill()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
