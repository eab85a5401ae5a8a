"""Namespaces, addresses, routes and per-namespace kernel settings of one lab.

    client --wlan0 ~~air~~ air0-- ap1..n --up0---ap1..n--.
       \\                                                  wan --wan-srv1 ~~WAN~~ eth0-- srv1..m
        `---cell0 ~~air~~ air0-- cgw --up0------cgw------'

The emulator brings the interfaces at both ends of a `~~`; without air they are veth pairs. All access points that an
interface comes to carry the same address in its subnet, and the emulator delivers to whichever it is associated with, so a
handoff keeps the client's address and its neighbour entry; the WAN's route to that subnet follows the association.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import socket
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Sequence

from . import system
from .errors import LabError
from .scenario import Scenario

PREFIX_PATTERN = re.compile(r"[a-z][a-z0-9]{0,9}-")
DEFAULT_PREFIX = "tdm-"

WIFI_CLIENT = ("10.77.1.2", "fd77:1::2")
WIFI_GATEWAY = ("10.77.1.1", "fd77:1::1")
CELL_CLIENT = ("10.77.2.2", "fd77:2::2")
CELL_GATEWAY = ("10.77.2.1", "fd77:2::1")
WIFI_NET = ("10.77.1.0/24", "fd77:1::/64")
CELL_NET = ("10.77.2.0/24", "fd77:2::/64")

def wifi_client(interface: int) -> tuple[str, str]:
    """The client's addresses on wlanN."""
    return WIFI_CLIENT if interface == 0 else (f"10.77.{240 + interface}.2", f"fd77:{240 + interface}::2")


def wifi_gateway(interface: int) -> tuple[str, str]:
    """The addresses of the access point that wlanN is at."""
    return WIFI_GATEWAY if interface == 0 else (f"10.77.{240 + interface}.1", f"fd77:{240 + interface}::1")


def wifi_net(interface: int) -> tuple[str, str]:
    """The subnets of wlanN."""
    return WIFI_NET if interface == 0 else (f"10.77.{240 + interface}.0/24", f"fd77:{240 + interface}::/64")


WIFI_METRIC = 100
SOURCE_TABLE = 1000  # plus the interface's number: the routing table of what comes from its address
MPTCP_MOST = 8  # subflows and addresses that the kernel's path manager may use
CELL_METRIC = 600

# Buffers for 500 Mb/s over 400 ms; the kernel grows a socket's buffer up to the last number by itself.
BUFFERS = {"net.ipv4.tcp_rmem": "4096 131072 33554432", "net.ipv4.tcp_wmem": "4096 65536 33554432"}


@dataclass(frozen=True)
class Uplink:
    """The /30 between the WAN and a gateway: the WAN's side is .1, the gateway's .2."""

    gateway: str  # ap1, ap2, ..., cgw
    net: int

    @property
    def wan_side(self) -> tuple[str, str]:
        return f"10.77.{self.net}.1", f"fd77:{self.net}::1"

    @property
    def gateway_side(self) -> tuple[str, str]:
        return f"10.77.{self.net}.2", f"fd77:{self.net}::2"


def ap_uplink(name: str, number: int) -> Uplink:
    """Of the number-th access point, from 1 on."""
    return Uplink(name, 100 + number)


@dataclass(frozen=True)
class ServerLink:
    """The subnet between the WAN (.254, ::fe) and a server (.1, ::1)."""

    name: str
    net: int

    @property
    def server_side(self) -> tuple[str, str]:
        return f"10.77.{self.net}.1", f"fd77:{self.net}::1"

    @property
    def wan_side(self) -> tuple[str, str]:
        return f"10.77.{self.net}.254", f"fd77:{self.net}::fe"


RELAY = ServerLink("relay", 220)  # a host of the user's own near the WAN's router, without delay


def namespaces_with(prefix: str) -> list[str]:
    """The namespaces on this machine that belong to a prefix."""
    pattern = re.compile(re.escape(prefix) + r"[a-z0-9]+")
    listed = system.call(["ip", "-j", "netns", "list"]).strip()
    names = [entry["name"] for entry in json.loads(listed)] if listed else []
    return sorted(name for name in names if pattern.fullmatch(name))


def delete_namespaces(names: Sequence[str]) -> None:
    if names:
        system.call(["ip", "-batch", "-"], stdin="".join(f"netns delete {name}\n" for name in names), what="remove namespaces")


def processes_in(namespaces: Sequence[str]) -> list[int]:
    """Processes whose network namespace is one of these; a name that is not there has none."""
    places = [place for name in namespaces if (place := Path("/run/netns", name)).exists()]
    wanted = {(found.st_dev, found.st_ino) for found in map(os.stat, places)}
    processes: list[int] = []
    for entry in os.listdir("/proc"):
        try:
            found = os.stat(f"/proc/{entry}/ns/net") if entry.isdigit() else None
        except OSError:
            continue  # it has just ended
        if found and (found.st_dev, found.st_ino) in wanted:
            processes.append(int(entry))
    return processes


def end_connections(namespace: str) -> None:
    """Aborts every TCP connection in it. A socket outlives its program while the far end has not acknowledged its data, and its namespace, and
    keeps that data in memory: a dozen of them, and the kernel lets no send buffer of the whole machine grow any more (net.ipv4.tcp_mem)."""
    with system.inside(namespace):
        tables = [Path(f"/proc/thread-self/net/{name}") for name in ("tcp", "tcp6")]
        if any(len(table.read_text().splitlines()) > 1 for table in tables if table.exists()):
            system.call(["ss", "--kill", "--tcp", "--all", "--no-header"], what=f"connections of {namespace}")


class Topology:
    """Builds the namespaces of a scenario under a prefix, in two steps around the start of the emulator."""

    def __init__(self, prefix: str, scenario: Scenario, air: bool):
        self.prefix = prefix
        self.scenario = scenario
        self.air = air
        self.uplinks = [ap_uplink(name, number) for number, name in enumerate(scenario.aps, 1)] + [Uplink("cgw", 200)]
        self.servers = [ServerLink(server.name, 10 + number) for number, server in enumerate(scenario.servers)]

    def namespace(self, role: str) -> str:
        return self.prefix + role

    @property
    def roles(self) -> list[str]:
        return ["client", *self.scenario.aps, "cgw", "wan", *(["relay"] if self.scenario.relay else []), *(server.name for server in self.servers)]

    def _ip(self, role: str, lines: list[str]) -> None:
        """Runs a batch of ip(8) lines in one namespace."""
        system.call(["ip", "-batch", "-"], stdin="\n".join(lines) + "\n", what=f"set up {self.namespace(role)}", namespace=self.namespace(role))

    def create(self) -> None:
        """Namespaces, kernel settings and the wires between gateways and WAN."""
        system.call(["ip", "-batch", "-"], stdin="".join(f"netns add {self.namespace(role)}\n" for role in self.roles), what="make namespaces")
        for role in self.roles:
            self._sysctl(role)
        self._pairs([(link.gateway, "up0", "wan", link.gateway) for link in self.uplinks])
        if self.scenario.relay:
            self._pairs([("wan", "relay", "relay", "eth0")])

    def _pairs(self, pairs: Sequence[tuple[str, str, str, str]]) -> None:
        """veth pairs: a role and its interface's name, and the same of the other end."""
        system.call(["ip", "-batch", "-"], what="make veth pairs", stdin="".join(
            f"link add {near_name} netns {self.namespace(near)} type veth peer name {far_name} netns {self.namespace(far)}\n"
            for near, near_name, far, far_name in pairs))

    def _sysctl(self, role: str) -> None:
        values = {
            "net.ipv4.conf.all.rp_filter": 0,
            "net.ipv4.conf.default.rp_filter": 0,
            "net.ipv6.conf.all.accept_dad": 0,
            "net.ipv6.conf.default.accept_dad": 0,
            "net.ipv6.conf.default.accept_ra": 0,
            "net.ipv6.conf.all.disable_ipv6": 0,
            "net.ipv6.conf.default.disable_ipv6": 0,
        }
        server = next((entry for entry in self.scenario.servers if entry.name == role), None)
        if role == "client" or server:
            values |= BUFFERS
            values |= {
                "net.ipv4.tcp_timestamps": 1,
                "net.ipv4.tcp_sack": 1,
                "net.ipv4.tcp_window_scaling": 1,
                "net.ipv4.tcp_no_metrics_save": 1,
                # 2, Linux's default: agree when asked; 1: ask.
                "net.ipv4.tcp_ecn": 1 if self.scenario.ecn and not server else 2,
                "net.ipv4.tcp_congestion_control": server.congestion if server else "cubic",
            }
            if role == "client":
                # Loose, as Debian ships it: replies to diverted packets arrive on the other interface.
                values["net.ipv4.conf.all.rp_filter"] = 2
                values["net.ipv4.conf.default.rp_filter"] = 2
        else:
            values |= {"net.ipv4.ip_forward": 1, "net.ipv6.conf.all.forwarding": 1, "net.ipv4.conf.all.send_redirects": 0}
        system.set_sysctls(self.namespace(role), values)

    def wire_without_air(self) -> None:
        """Plain veth pairs in the place of the emulated hops: no delay, no loss, no limit."""
        pairs = [("client", f"wlan{number}", ap, "air0") for number, ap in enumerate(self.scenario.interfaces)]
        if self.scenario.cell:
            pairs.append(("client", "cell0", "cgw", "air0"))
        pairs += [("wan", f"wan-{server.name}", server.name, "eth0") for server in self.servers]
        self._pairs(pairs)

    def finish(self) -> None:
        """Addresses, neighbours and routes, once every interface is there: one batch for each namespace."""
        lines: dict[str, list[str]] = {role: ["link set lo up"] for role in self.roles}
        for link in self.uplinks:
            gateway = link.gateway
            near, far = self._mac(gateway, "up0"), self._mac("wan", gateway)
            lines[gateway] += self._edge("up0", link.gateway_side, 30) + self._neighbours("up0", link.wan_side, far) + [
                f"route add default via {link.wan_side[0]} dev up0",
                f"route add ::/0 via {link.wan_side[1]} dev up0"]
            lines["wan"] += self._edge(gateway, link.wan_side, 30) + self._neighbours(gateway, link.gateway_side, near)
        for name in self.scenario.aps if self.air else self.scenario.interfaces:
            for number in self.scenario.visitors[name] if self.air else (self.scenario.interfaces.index(name),):
                lines[name] += self._edge("air0", wifi_gateway(number), 24)
                lines[name] += self._neighbours("air0", wifi_client(number), self._mac("client", f"wlan{number}"))
        for number, ap in enumerate(self.scenario.interfaces):
            lines["client"] += self._station(number, ap)
        if self.scenario.cell:
            gateway_mac = self._mac("cgw", "air0")
            cell_mac = self._mac("client", "cell0")
            lines["cgw"] += self._edge("air0", CELL_GATEWAY, 24) + self._neighbours("air0", CELL_CLIENT, cell_mac)
            lines["client"] += self._edge("cell0", CELL_CLIENT, 24) + self._neighbours("cell0", CELL_GATEWAY, gateway_mac) + [
                f"route add default via {CELL_GATEWAY[0]} dev cell0 metric {CELL_METRIC}",
                f"route add ::/0 via {CELL_GATEWAY[1]} dev cell0 metric {CELL_METRIC}"]
        for server in self.servers:
            device = f"wan-{server.name}"
            wan_mac, server_mac = self._mac("wan", device), self._mac(server.name, "eth0")
            lines["wan"] += self._edge(device, server.wan_side, 24) + self._neighbours(device, server.server_side, server_mac)
            lines[server.name] += self._edge("eth0", server.server_side, 24) + self._neighbours("eth0", server.wan_side, wan_mac) + [
                f"route add default via {server.wan_side[0]} dev eth0",
                f"route add ::/0 via {server.wan_side[1]} dev eth0"]
        if self.scenario.relay:
            lines["wan"] += self._edge("relay", RELAY.wan_side, 24)
            lines["relay"] += self._edge("eth0", RELAY.server_side, 24) + [f"route add default via {RELAY.wan_side[0]} dev eth0",
                                                                           f"route add ::/0 via {RELAY.wan_side[1]} dev eth0"]
        cgw = self.uplinks[-1]
        lines["wan"] += [f"route add {CELL_NET[0]} via {cgw.gateway_side[0]} dev cgw",
                         f"route add {CELL_NET[1]} via {cgw.gateway_side[1]} dev cgw"]
        for number, ap in enumerate(self.scenario.interfaces):
            lines["wan"] += self._towards(ap, number)
        for role, batch in lines.items():
            self._ip(role, batch)
        self._source_rules()
        self._limit_uplinks()
        if len(self.scenario.interfaces) > 1 or self.scenario.mptcp:
            self._mptcp()

    def _station(self, number: int, ap: str) -> list[str]:
        """Addresses and routes of one of the client's Wi-Fi interfaces. With several, each address leaves by its own."""
        device, here, there = f"wlan{number}", wifi_client(number), wifi_gateway(number)
        metric = WIFI_METRIC + number
        lines = self._edge(device, here, 24) + self._neighbours(device, there, self._mac(ap, "air0")) + [
            f"route add default via {there[0]} dev {device} metric {metric}",
            f"route add ::/0 via {there[1]} dev {device} metric {metric}"]
        if len(self.scenario.interfaces) > 1:
            table = SOURCE_TABLE + number
            lines += [f"route add default via {there[0]} dev {device} table {table}",
                      f"route add ::/0 via {there[1]} dev {device} table {table}",
                      f"rule add from {here[0]} lookup {table} priority {table}"]
        return lines

    def _source_rules(self) -> None:
        """The rules of _station() for IPv6, which a batch of ip(8) takes only by itself."""
        numbers = range(len(self.scenario.interfaces)) if len(self.scenario.interfaces) > 1 else ()
        if batch := "".join(f"rule add from {wifi_client(number)[1]} lookup {SOURCE_TABLE + number} priority {SOURCE_TABLE + number}\n"
                            for number in numbers):
            system.call(["ip", "-6", "-batch", "-"], stdin=batch, what="set up the client's rules", namespace=self.namespace("client"))

    def _limit_uplinks(self) -> None:
        """A token bucket with a FIFO behind it, each way, where the scenario limits an access point's wire."""
        for ap, uplink in self.scenario.uplinks.items():
            if not uplink.rate:
                continue
            for role, device in (("wan", ap), (ap, "up0")):
                # The bucket holds two packets: less, and a timer that is late costs rate; more, and the queue is not what is said.
                system.call(["tc", "-n", self.namespace(role), "qdisc", "replace", "dev", device, "root", "tbf",
                             "rate", f"{uplink.rate:.0f}bit", "burst", "3028", "limit", str(1514 * uplink.queue)],
                            what=f"the uplink of {ap} (it needs the kernel's sch_tbf)")

    def _mptcp(self) -> None:
        """The path managers' limits, and the client's endpoints when the scenario asks for them."""
        if not Path("/proc/sys/net/mptcp/enabled").exists():
            if self.scenario.mptcp:
                raise LabError("scenario.mptcp: this kernel has no MPTCP (CONFIG_MPTCP)")
            return
        for role in ["client", *(server.name for server in self.servers)]:
            system.call(["ip", "-n", self.namespace(role), "mptcp", "limits", "set", "subflows",
                         str(MPTCP_MOST if role != "client" or self.scenario.mptcp else 2),
                         "add_addr_accepted", str(MPTCP_MOST if role != "client" or self.scenario.mptcp else 0)])
        if self.scenario.mptcp:
            for number in range(len(self.scenario.interfaces)):
                system.call(["ip", "-n", self.namespace("client"), "mptcp", "endpoint", "add", wifi_client(number)[0],
                             "dev", f"wlan{number}", "id", str(number + 1), "subflow"])

    def follow_association(self, ap: str, interface: int = 0) -> None:
        """Sends what is meant for the subnet of a Wi-Fi interface by way of this access point."""
        self._ip("wan", self._towards(ap, interface))

    def _towards(self, ap: str, interface: int) -> list[str]:
        link = next((entry for entry in self.uplinks if entry.gateway == ap), None)
        if link is None:
            raise LabError(f"handoff to {ap}: no such access point")
        return [f"route replace {wifi_net(interface)[0]} via {link.gateway_side[0]} dev {ap}",
                f"route replace {wifi_net(interface)[1]} via {link.gateway_side[1]} dev {ap}"]

    def _edge(self, device: str, addresses: tuple[str, str], length: int) -> list[str]:
        return [f"link set {device} addrgenmode none", f"link set {device} up",
                f"addr add {addresses[0]}/{length} dev {device}", f"addr add {addresses[1]}/64 dev {device} nodad"]

    def _neighbours(self, device: str, addresses: tuple[str, str], mac: str) -> list[str]:
        # Permanent: runs with equal seeds must not differ by an ARP exchange, a blackout must not end in "no route", and
        # IPv6 needs no link-local addresses, whose traffic would be on the air, too.
        return [f"neigh replace {address} lladdr {mac} dev {device} nud permanent" for address in addresses]

    def _mac(self, role: str, device: str) -> str:
        with system.inside(self.namespace(role)), socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asked:
            try:
                answer = fcntl.ioctl(asked, 0x8927, struct.pack("16s24x", device.encode()))  # SIOCGIFHWADDR
            except OSError as error:
                raise LabError(f"{device} in {self.namespace(role)}: {error.strerror}") from error
        return answer[18:24].hex(":")


def nft_chain(name: str, place: str, *rules: str) -> str:
    """A chain as nft reads it. `place`: type, hook and priority. What no rule decides about is accepted."""
    return "\n".join([f"chain {name} {{", f"type {place}; policy accept;", *rules, "}"])


def nft_table(name: str, counters: Sequence[str], chains: Sequence[str]) -> str:
    """A table with named counters and these chains, for both IP versions."""
    return "\n".join([f"table inet {name} {{", *(f"counter {one} {{\n}}" for one in counters), *chains, "}"]) + "\n"


class CellGateway:
    """What the cellular gateway does to packets on their way out: translation and the source-address filter (BCP 38).

    One nft table in the gateway's namespace, replaced as a whole, so a switch is atomic.
    """

    TABLE = "tandem_lab_gateway"

    def __init__(self, namespace: str, state: Path):
        self.namespace = namespace
        self._file = state / "gateway.json"

    def apply(self, *, nat: bool | None = None, source_filter: bool | None = None) -> None:
        """Switches either; what is None stays as it was."""
        now = json.loads(self._file.read_text()) if self._file.exists() else {"nat": False, "source_filter": False}
        nat = now["nat"] if nat is None else nat
        source_filter = now["source_filter"] if source_filter is None else source_filter
        self._install(nat, source_filter)
        system.write_json(self._file, {"nat": nat, "source_filter": source_filter})

    def _install(self, nat: bool, source_filter: bool) -> None:
        forward: list[str] = []
        if source_filter:
            forward += [f'iifname "air0" ip saddr != {CELL_NET[0]} counter name filtered drop',
                        f'iifname "air0" ip6 saddr != {CELL_NET[1]} counter name filtered drop']
        if nat:
            # What connection tracking cannot place would leave untranslated; a carrier's NAT lets no such packet out.
            forward.append('oifname "up0" ct state invalid counter name untranslatable drop')
        chains = [nft_chain("forward", "filter hook forward priority filter", *forward)]
        if nat:
            chains.append(nft_chain("post", "nat hook postrouting priority srcnat", 'oifname "up0" counter name translated masquerade'))
        text = f"table inet {self.TABLE}\ndelete table inet {self.TABLE}\n" + nft_table(self.TABLE, ("filtered", "translated", "untranslatable"), chains)
        system.call(["nft", "-f", "-"], stdin=text, what=f"rules of {self.namespace}", namespace=self.namespace)


class WifiRouter:
    """What is behind the access points, as most homes have it: a firewall that keeps the state of connections, and a NAT. One for all access points, so
    that a handoff changes nothing. It is in the WAN's namespace; what comes and goes by the cellular gateway it does not see."""

    TABLE = "tandem_lab_router"
    VERDICTS = {"drop": "drop", "reject": "reject with tcp reset"}  # of TCP

    def __init__(self, namespace: str, aps: Sequence[str], clients: Sequence[tuple[str, str]]):
        self.namespace = namespace
        self._aps = "{ " + ", ".join(f'"{ap}"' for ap in aps) + " }"  # in quotes: a name may be a word of nft's
        self._clients = clients

    def apply(self, firewall: str, nat: bool) -> None:
        if firewall == "none" and not nat:
            return
        system.call(["nft", "-f", "-"], stdin=self.rules(firewall, nat), what=f"rules of {self.namespace}", namespace=self.namespace)

    def rules(self, firewall: str, nat: bool) -> str:
        """As nft reads them."""
        # Its own connections alone: ACKs by cellular must not tell it of those by Wi-Fi.
        chains = [nft_chain("raw", "filter hook prerouting priority raw", 'iifname "cgw" notrack')]
        forward = [f"oifname {self._aps} ct state established,related counter name passed accept",
                   f"iifname {self._aps} ct state invalid counter name strange drop"]
        if firewall != "none":
            only_tcp = "" if firewall == "drop" else "meta l4proto tcp "  # what else is there has no reset
            forward += [f"oifname {self._aps} counter name invalid", f"oifname {self._aps} {only_tcp}{self.VERDICTS[firewall]}"]
        chains.append(nft_chain("forward", "filter hook forward priority filter", *forward))
        if nat and firewall != "none":
            # What translation cannot place is for the router itself, whose TCP would answer it with an RST whatever its firewall is to do.
            chains.append(nft_chain("own", "filter hook input priority filter", 'iifname "wan-*" meta l4proto tcp ct state != { established, related } '
                                                                                f"counter name invalid {self.VERDICTS[firewall]}"))
        if nat:
            chains.append(nft_chain("post", "nat hook postrouting priority srcnat",
                                    *(f"{family} saddr {address} oifname != {self._aps} counter name translated masquerade"
                                      for client in self._clients for family, address in zip(("ip", "ip6"), client))))
        return nft_table(self.TABLE, ("passed", "invalid", "strange", "translated"), chains)


def machine_state() -> dict[str, object]:
    """What a lab could leave behind on this machine, for comparison before and after."""
    listed = system.call(["ip", "-j", "netns", "list"]).strip()
    return {
        "namespaces": sorted(entry["name"] for entry in json.loads(listed)) if listed else [],
        "links": sorted(entry["ifname"] for entry in json.loads(system.call(["ip", "-j", "link", "show"]))),
        "allowed": Path("/proc/sys/net/ipv4/tcp_allowed_congestion_control").read_text().strip(),
        "states": sorted(str(path) for path in system.STATE_ROOT.glob("*")),
    }
