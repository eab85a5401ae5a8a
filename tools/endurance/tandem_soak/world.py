"""The laptop of the endurance run: two access points on two channels, a cellular link, one server; and its addresses and routes as they were."""

from __future__ import annotations

import json
import time
from typing import Any

from tandem_lab import Lab
from tandem_lab.errors import LabError

SCENARIO = """\
[scenario]
name = "soak"
summary = "a laptop at two access points, and LTE"
duration = "60s"
mptcp = {mptcp}

[wifi]
profile = "wifi-n"

[cell]
profile = "lte"

[wan]
delay = "8ms"

[[ap]]
name = "ap1"
interface = "wlan0"
channel = 1

[[ap]]
name = "ap2"
interface = "wlan1"
channel = 6

[[server]]
name = "srv1"
congestion = "cubic"
"""

_STRIP = "add table inet middlebox; add chain inet middlebox before { type filter hook prerouting priority raw; }; add rule inet middlebox before reset tcp option mptcp"

# In every table of an interface: what has its address does not leave by another one while it is down.
_LAST_RESORT = 9000


def strip_mptcp(lab: Lab) -> None:
    """MPTCP's options become NOPs before the server, as some middleboxes do it (RFC 8684 3.7): who asks for MPTCP falls back to TCP."""
    lab.server().run(["nft", _STRIP])


class Laptop:
    """The client's interfaces, which can be taken away and given back."""

    def __init__(self, lab: Lab):
        self.lab = lab
        self.interfaces = [*lab.info["interfaces"], "cell0"]
        for family in ("-4", "-6"):
            for number, _ in enumerate(lab.info["interfaces"]):
                table = self._table_of(family, number)
                if table:
                    lab.client.run(["ip", family, "route", "add", "unreachable", "default", "table", table, "metric", str(_LAST_RESORT)])
        lab.client.run(["sysctl", "-qw", "net.ipv6.conf.all.keep_addr_on_down=1"])
        self._routes = {(family, name): self._read(family, name) for family in ("-4", "-6") for name in self.interfaces}
        self._neighbours = {name: json.loads(lab.client.run(["ip", "-j", "neigh", "show", "dev", name, "nud", "permanent"]).stdout or "[]")
                            for name in self.interfaces}

    def _table_of(self, family: str, number: int) -> str:
        """The table that the lab gave the address of a Wi-Fi interface."""
        rules = json.loads(self.lab.client.run(["ip", family, "-j", "rule", "show"]).stdout)
        own = [str(rule["table"]) for rule in rules if rule.get("src", "all") != "all"]
        return own[number] if number < len(own) else ""

    def _read(self, family: str, name: str) -> list[str]:
        """The routes of an interface but for those that the kernel makes and those of Tandem's table."""
        lines = self.lab.client.run(["ip", family, "route", "show", "table", "all", "dev", name]).stdout.splitlines()
        return [line.strip() for line in lines if "proto kernel" not in line and "table local" not in line and "table 8484" not in line]

    def down(self, name: str) -> None:
        self.lab.client.run(["ip", "link", "set", name, "down"])

    def up(self, name: str) -> None:
        """As a network manager would: addresses have stayed, neighbours and routes are made anew."""
        self.lab.client.run(["ip", "link", "set", name, "up"])
        for one in self._neighbours[name]:
            self.lab.client.run(["ip", "neigh", "replace", one["dst"], "lladdr", one["lladdr"], "dev", name, "nud", "permanent"])
        for family in ("-4", "-6"):
            for route in self._routes[family, name]:
                self._retried(["ip", family, "route", "replace", *route.split(), "dev", name])

    def _retried(self, command: list[str]) -> None:
        """A gateway is reachable as soon as the interface's own network is."""
        deadline = time.monotonic() + 5.0
        while self.lab.client.run(command, check=False).returncode != 0:
            if time.monotonic() > deadline:
                raise LabError(f"client: {' '.join(command)}: not possible for 5 s")
            time.sleep(0.05)

    def whole(self) -> None:
        """Everything there."""
        for name in self.interfaces:
            self.up(name)


def left_behind(lab: Lab) -> dict[str, list[str]]:
    """What a daemon could leave in the client's kernel, sorted, without counters."""

    def lines(*command: str) -> list[str]:
        return sorted(line.strip() for line in lab.client.run(command, check=False).stdout.splitlines() if line.strip())

    # iptables leaves empty tables and chains of the names that it knows; whoever uses it first makes them.
    rules = [line for line in lines("nft", "-s", "list", "ruleset") if "tandem" in line.lower() or " counter" in line or "queue" in line or "mark" in line]
    return {
        "nft": rules,
        "iptables": [line for save in ("iptables-save", "ip6tables-save") for line in lines(save) if line.startswith("-A") or "TANDEM" in line],
        "ip rules": lines("ip", "-4", "rule") + lines("ip", "-6", "rule"),
        "routes": [" ".join(line.replace("linkdown", "").split()) for family in ("-4", "-6") for line in lines("ip", family, "route", "show", "table", "all")
                   if "fe80::" not in line],  # the lab has none; the kernel makes one where a link comes up
        "MPTCP": lines("ip", "mptcp", "endpoint") + lines("ip", "mptcp", "limits"),
        "settings": lines("sysctl", "net.ipv4.conf.cell0.arp_announce", "net.ipv4.conf.wlan0.arp_announce", "net.ipv4.conf.cell0.rp_filter", "net.ipv4.conf.wlan0.rp_filter"),
        "processes": [name for name in lines("sh", "-c", "cat $(ip netns pids " + lab.client.namespace + " | sed 's|.*|/proc/&/comm|') 2>/dev/null") if name.startswith("tandem")],
        # Without -p ss names nobody.
        "sockets": [line for line in lines("ss", "-0", "-anpH") if "tandem" in line],
    }


def difference(before: dict[str, list[str]], after: dict[str, list[str]]) -> list[str]:
    """What there is more, and what there is no more."""
    found: list[str] = []
    for kind, had in before.items():
        has: Any = list(after[kind])
        for line in had:
            if line in has:
                has.remove(line)
            elif kind not in ("nft", "iptables"):  # those are flushed by this run itself
                found.append(f"{kind}: gone: {line}")
        found += [f"{kind}: left: {line}" for line in has]
    return found
