#!/usr/bin/python3
"""The daemon beside the kernel's WireGuard with a peer: wg-quick makes the tunnel, its peer is another network namespace.

    vpn.py PROGRAMS      inside the virtual machine; prints "fact NAME JSON", one a line

The machine itself is the laptop, with a way by Wi-Fi and one by cellular to the server; the server's end counts and captures what arrives by either.
What is waited for in vain becomes a fact like any other, so that each test says what failed.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from endless import Download, Server
from facts import SERVICE, SOCKET, TIMEOUT, api, fact, sh, wait_for

WORK = Path("/run/work")
SERVER, SERVER_6, BESIDE = "10.71.9.9", "fd71:9::9", "10.71.8.8"
PORT, MARK = 51820, 51820  # wg-quick's own number for the mark and the table of the default route
GATEWAYS = {"wlan0": "02:71:00:00:01:01", "cell0": "02:71:00:00:02:01"}
PART = 300_000  # bytes of a download
SOME = 5  # packets by cellular that are no chance
AT_SERVER = "ip netns exec srv "
FAR_END = {"wlan0": "w0", "cell0": "c0"}
# All but the tunnel's packets, and what the kernel says of itself to all of a link.
ANY = f"not (udp and dst port {PORT}) and not ip6 dst net ff02::/16"
# ARP is asked whether the access point is there, for as long as hands are on. No packet filter for IP sees it.
CLEAR = f"not arp and {ANY}"


# ---- two ways and a tunnel


def build() -> None:
    sh("ip netns add srv; ip -n srv link set lo up")
    for where in ("", AT_SERVER):
        sh(f"{where}sysctl -qw net.ipv4.conf.all.rp_filter=0 net.ipv4.conf.default.rp_filter=0 net.ipv6.conf.all.accept_dad=0 net.ipv6.conf.default.accept_dad=0")
    for address in (SERVER, BESIDE, SERVER_6):
        sh(f"ip -n srv address add {address}/{128 if ':' in address else 32} dev lo")
    for n, (way, far) in enumerate(FAR_END.items(), 1):
        sh(f"ip link add {way} type veth peer name {far} address {GATEWAYS[way]} netns srv")
        sh(f"ip address add 10.71.{n}.2/24 dev {way}; ip address add fd71:{n}::2/64 dev {way} nodad; ip link set {way} up")
        sh(f"ip -n srv address add 10.71.{n}.1/24 dev {far}; ip -n srv address add fd71:{n}::1/64 dev {far} nodad; ip -n srv link set {far} up")
        # Nobody has to ask for a neighbour: even ARP would be Tandem's doing.
        mac = sh(f"cat /sys/class/net/{way}/address").strip()
        for gateway, own in ((f"10.71.{n}.1", f"10.71.{n}.2"), (f"fd71:{n}::1", f"fd71:{n}::2")):
            sh(f"ip neighbour replace {gateway} lladdr {GATEWAYS[way]} dev {way} nud permanent")
            sh(f"ip -n srv neighbour replace {own} lladdr {mac} dev {far} nud permanent")
            sh(f"ip route add default via {gateway} dev {way} metric {100 if way == 'wlan0' else 600}")
        # Segments as they are on air: with super-packets one ACK covers so much that there is little to move.
        sh(f"{AT_SERVER}ethtool -K {far} tso off gso off")
    sh("tc -n srv qdisc add dev w0 root netem delay 10ms rate 4mbit limit 60")
    count()


def count() -> None:
    """At the server what came by cellular of each download. The tunnel's packets: what WireGuard sends and what arrives as it was sent, what arrives at the
    laptop and what WireGuard gets."""
    out, came = f"udp dport {PORT} meta mark {MARK} counter name", f"udp sport {PORT}"
    subprocess.run(["nft", "-f", "-"], check=True, text=True, input=f"""table inet count {{
        counter sent {{ }}
        counter arrived {{ }}
        counter got {{ }}
        chain before {{ type filter hook output priority -300; {out} sent; }}
        chain arriving {{ type filter hook prerouting priority -300; {came} counter name arrived; }}
        chain after {{ type filter hook input priority 300; {came} counter name got; }}
    }}""")
    subprocess.run(["ip", "netns", "exec", "srv", "nft", "-f", "-"], check=True, text=True, input=f"""table inet count {{
        counter received {{ }}
        counter astray {{ }}
        counter server {{ }}
        counter server_6 {{ }}
        counter beside {{ }}
        chain arriving {{
          type filter hook prerouting priority -300;
          iifname w0 udp dport {PORT} ip ttl 64 counter name received
          iifname c0 udp dport {PORT} counter name astray
          iifname c0 ip daddr {SERVER} tcp dport 7000 counter name server
          iifname c0 ip6 daddr {SERVER_6} tcp dport 7000 counter name server_6
          iifname c0 ip daddr {BESIDE} tcp dport 7000 counter name beside
        }}
    }}""")


def counted(where: str, name: str) -> tuple[int, int]:
    """Packets and bytes."""
    listed = json.loads(sh(f"{where}nft -j list counter inet count {name}"))["nftables"]
    return next((one["counter"]["packets"], one["counter"]["bytes"]) for one in listed if "counter" in one)


def by_cellular(address: str) -> int:
    """Packets of downloads from that address that came to the server by cellular."""
    return counted(AT_SERVER, {SERVER: "server", SERVER_6: "server_6", BESIDE: "beside"}[address])[0]


def outer() -> dict[str, tuple[int, int]]:
    return {name: counted(AT_SERVER if name in ("received", "astray") else "", name) for name in ("sent", "received", "astray", "arrived", "got")}


def transferred(where: str, device: str) -> list[int]:
    """Bytes that came, and bytes that were sent, as WireGuard counts them: what does not prove to be the peer's does not come."""
    return [int(word) for word in sh(f"{where}wg show {device} transfer").split()[1:]]


def set_up_wireguard() -> None:
    """The peer takes what has the laptop's own addresses, too: flows that are older than the tunnel go on in it."""
    key = {end: sh("wg genkey").strip() for end in ("near", "far")}
    public = {end: sh(f"echo {secret} | wg pubkey").strip() for end, secret in key.items()}
    Path("/etc/wireguard").mkdir(exist_ok=True)
    sh("ip -n srv link add wg9 type wireguard")
    (WORK / "far.conf").write_text(f"""[Interface]
PrivateKey = {key["far"]}
ListenPort = {PORT}
[Peer]
PublicKey = {public["near"]}
AllowedIPs = 10.99.0.2/32, fd99::2/128, 10.71.1.2/32, fd71:1::2/128
""")
    sh(f"{AT_SERVER}wg setconf wg9 {WORK}/far.conf")
    sh("ip -n srv address add 10.99.0.1/24 dev wg9; ip -n srv address add fd99::1/64 dev wg9 nodad; ip -n srv link set wg9 mtu 1420 up")
    # Everything but the tunnel's carrier is dropped from before there is a tunnel until after it. As wg-quick(8) has it, and with the time noted.
    (WORK / "killswitch").write_text(f"""table inet killswitch {{
        chain output {{
          type filter hook output priority filter;
          oifname != {{ lo, wg0 }} meta mark != {MARK} counter drop
        }}
    }}
""")
    switch = f"PreUp = nft -f {WORK}/killswitch; date +%s.%N >{WORK}/since"
    for file, allowed, first in (("plain/wg0", "0.0.0.0/0, ::/0", ""), ("switched/wg0", "0.0.0.0/0, ::/0", switch), ("v4_only/wg0", "0.0.0.0/0", ""),
                                 ("split/wg0", "10.71.8.0/24", "")):
        (WORK / file).parent.mkdir()
        (WORK / f"{file}.conf").write_text(f"""[Interface]
PrivateKey = {key["near"]}
Address = 10.99.0.2/24, fd99::2/64
{first}
[Peer]
PublicKey = {public["far"]}
AllowedIPs = {allowed}
Endpoint = {SERVER}:{PORT}
""")
        (WORK / f"{file}.conf").chmod(0o600)


def wg_quick(way: str, file: str) -> None:
    sh(f"wg-quick {way} {WORK}/{file}/wg0.conf")


class Capture:
    """What arrives at the server by either way, from the entry to the end."""

    def __enter__(self) -> "Capture":
        self._running = []
        for way, far in FAR_END.items():
            process = subprocess.Popen(["ip", "netns", "exec", "srv", "tcpdump", "-i", far, "-Q", "in", "-s", "128", "-n", "-U", "--immediate-mode", "-Z", "root",
                                        "-w", str(WORK / f"{way}.pcap")], stderr=subprocess.PIPE, text=True)
            assert process.stderr
            while "listening on" not in (line := process.stderr.readline()):
                if not line:
                    raise SystemExit(f"tcpdump ended: {process.wait()}")
            self._running.append(process)
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._running:
            process.terminate()
            process.wait()

    def packets(self, since: float, which: str = ANY) -> dict[str, dict[str, Any]]:
        """How many were in clear before `since` and after, and the first of these."""
        found = {}
        for way in FAR_END:
            lines = sh(f"tcpdump -n -tt -r {WORK}/{way}.pcap '{which}' 2>/dev/null").splitlines()
            after = [line for line in lines if float(line.split()[0]) > since]
            found[way] = {"before": len(lines) - len(after), "after": len(after), "first": after[:5]}
        return found


# ---- the daemon


def start_daemon(programs: Path) -> subprocess.Popen:
    (WORK / "tandem.toml").write_text(f"""
[links]
wifi = "wlan0"
cell = "cell0"
radio = "none"
modem = "none"
private_peers = "as_others"
[daemon]
socket = "{SOCKET}"
[recorder]
seconds = 0
[budget]
cell_day = ""
cell_month = ""
directory = "{WORK}/state/budget"
[cell]
metered = "ignore"
[evidence]
share = 0
paths = false
directory = "{WORK}/state/evidence"
[modules.offload]
enabled = true
# A path of any delay is accepted, and any window, so that ACKs do go by cellular.
window_mss = 1
retry_first = "100ms"
added_delay_free = "2s"
goodput_loss_limit = 1.0
[modules.freeze]
enabled = true
""")
    with open(WORK / "tandemd.log", "w") as log:
        daemon = subprocess.Popen([*SERVICE, str(programs / "tandemd"), "-c", str(WORK / "tandem.toml")], stdout=log, stderr=log)
    if not wait_for(answers):
        raise SystemExit("the daemon is not ready: " + (WORK / "tandemd.log").read_text())
    return daemon


def answers() -> bool:
    try:
        return bool(api("/v1/status"))
    except OSError:
        return False


def state() -> dict[str, Any]:
    return api("/v1/status")


def hands_off() -> str:
    return state().get("hands_off", "")


def told() -> dict[str, Any]:
    """What status and doctor say."""
    status = state()
    cell = status["links"]["cell"]
    tunnel = [check for check in api("/v1/doctor")["checks"] if check["name"] == "tunnel"]
    return {"hands_off": status.get("hands_off", ""), "denied": cell["denied"], "route": cell["route"], "queued": status["datapath"]["queued"],
            "flows": status["flows"]["count"], "tunnels": status["tunnels"], "doctor": tunnel[0] if tunnel else None}


def left_alone(server: str) -> list[str]:
    """Why the flows with it are left alone, of those that live."""
    return [flow.get("excluded", "") for flow in api("/v1/flows") if not flow["closed"] and flow["remote"].startswith((server, f"[{server}]"))]


def trouble() -> None:
    """What modules act on: two blackouts in three seconds."""
    for loss in ("100%", "0.5%", "100%", "0.5%"):
        sh(f"tc -n srv qdisc change dev w0 root netem delay 10ms rate 4mbit limit 60 loss {loss}")
        time.sleep(0.8)


def helped(server: Server, address: str, others: list[dict[str, Any]]) -> tuple[Download, int]:
    """A download that has its ACKs by cellular, and how many packets of it came that way. Three decisions that take long, as they do in an emulated machine, cost
    a flow its module: another download is begun then, and what came of the last one is added to `others`."""
    until = time.monotonic() + 2 * TIMEOUT
    while True:
        before, download = by_cellular(address), Download(server, address)

        def came() -> int:
            time.sleep(0.4)
            return by_cellular(address) - before

        came_by_cellular = wait_for(lambda: (packets := came()) > SOME and packets, 6) or 0
        if came_by_cellular or time.monotonic() > until:
            return download, came_by_cellular
        others.append(download.end())


def through(server: Server, address: str) -> dict[str, Any]:
    """A download that began beside the tunnel."""
    download = Download(server, address)
    download.goes_on(PART)
    return download.end()


# ---- what is tried


def tunnel_first(server: Server, programs: Path) -> subprocess.Popen:
    wg_quick("up", "plain")
    fact("rules", sh("ip rule; ip -6 rule"))
    daemon = start_daemon(programs)
    fact("first", told())
    with Capture() as capture:
        downloads = [through(server, address) for address in (SERVER, SERVER_6)]
    fact("first_downloads", downloads)
    fact("first_clear", capture.packets(0))
    time.sleep(0.5)  # what is on its way arrives
    fact("first_outer", outer())
    fact("first_authentic", {"near": transferred("", "wg0")[1], "far": transferred(AT_SERVER, "wg9")[0]})
    fact("first_told", told())
    wg_quick("down", "plain")
    fact("first_gone", wait_for(lambda: hands_off() == "") and hands_off())
    return daemon


def kill_switch(server: Server, others: list[dict[str, Any]]) -> None:
    trouble()
    with Capture() as capture:
        first, came = helped(server, SERVER, others)
        older = [first, Download(server, SERVER_6)]
        fact("older_by_cellular", came)
        older[1].goes_on(PART)
        wg_quick("up", "switched")
        since = float((WORK / "since").read_text())
        wait_for(hands_off)
        time.sleep(0.3)
        off = time.time()
        fact("switched", told())
        trouble()
        fact("switched_download", through(server, SERVER))
        dropped = sh("nft list chain inet killswitch output")
        # A tunnel alone stops nothing.
        sh("nft delete table inet killswitch")
        trouble()
        fact("older_go_on", [download.goes_on(PART) for download in older])
        fact("switched_told", told())
    fact("switched_dropped", int(dropped.split("packets ")[1].split()[0]))
    fact("switched_clear", capture.packets(since, CLEAR))
    fact("switched_off", capture.packets(off))
    wg_quick("down", "switched")
    fact("switched_gone", wait_for(lambda: hands_off() == "") and hands_off())
    fact("older", [download.end() for download in older])
    # After its last rule nothing else tells of it.
    wg_quick("up", "v4_only")
    fact("v4_only", wait_for(hands_off))
    wg_quick("down", "v4_only")
    again, came = helped(server, SERVER, others)
    fact("again_by_cellular", came)
    fact("again", again.end())


def split(server: Server, others: list[dict[str, Any]]) -> None:
    with Capture() as capture:
        older, came = helped(server, BESIDE, others)
        fact("split_before", came)
        wg_quick("up", "split")
        fact("split_left_alone", wait_for(lambda: (why := left_alone(BESIDE)) not in ([""], []) and why) or left_alone(BESIDE))
        time.sleep(0.3)
        since = time.time()
        trouble()
        fact("split_older_goes_on", older.goes_on(PART))
        fact("split_download", through(server, BESIDE))
        beside, came = helped(server, SERVER, others)
        fact("split_beside", came)
        fact("split_told", told())
    fact("split_clear", capture.packets(since, f"host {BESIDE} and {ANY}"))
    wg_quick("down", "split")
    fact("split_gone", wait_for(lambda: left_alone(BESIDE) == [""]) and left_alone(BESIDE))
    after, came = helped(server, BESIDE, others)
    fact("split_after", came)
    others += [download.end() for download in (older, beside, after)]


def main(programs: Path) -> None:
    (WORK / "state").mkdir(parents=True)
    SOCKET.parent.mkdir()
    for place in (WORK / "state", SOCKET.parent):
        shutil.chown(place, 65534, 65534)
    # Beside the checkout, which may lie where an ordinary user cannot look.
    shutil.copytree(programs, WORK / "bin")
    shutil.copytree(programs.parent / "lib" / "tandem", WORK / "lib" / "tandem")
    build()
    set_up_wireguard()
    server = Server()
    daemon = tunnel_first(server, WORK / "bin")
    others: list[dict[str, Any]] = []
    kill_switch(server, others)
    split(server, others)
    fact("others", others)
    fact("modules", [{name: entry[name] for name in ("name", "violations")} for entry in api("/v1/modules")])
    daemon.terminate()
    fact("stopped", {"exit": daemon.wait(TIMEOUT), "tables": sh("nft list tables").splitlines(), "rules": sh("ip rule; ip -6 rule")})
    fact("kernel_warnings", sh("dmesg | grep -A 24 'WARNING: '", check=False).splitlines())
    server.stop()
    print((WORK / "tandemd.log").read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
