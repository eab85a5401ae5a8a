"""Which packets of a recording are wanted: of these flows, decided by these modules. Pure but for names, which are resolved once."""

from __future__ import annotations

import ipaddress
import re
import socket
import struct
from dataclasses import dataclass
from typing import Callable, Sequence

from .errors import BadInput
from .looks import comment, packet

_TCP = 6


@dataclass(frozen=True)
class Peer:
    """The other end of flows."""

    addresses: frozenset[bytes]
    port: int = 0  # 0: any


def _resolved(host: str) -> list[str]:
    try:
        return [str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)]
    except (OSError, UnicodeError):
        raise BadInput(f"--flow {host}: no address is known for this name") from None


def peer(text: str, resolve: Callable[[str], Sequence[str]] = _resolved) -> Peer:
    """Of HOST, HOST:PORT, [IPV6]:PORT or IPV6. Raises BadInput."""
    match = re.fullmatch(r"\[([^\]]+)\](?::(\d+))?|([^:\[\]]+)(?::(\d+))?|([0-9A-Fa-f:.]+)", text)
    host, port = (match[1] or match[3] or match[5], int(match[2] or match[4] or 0)) if match else ("", 0)
    if not host or port > 65535 or (match and (match[2] or match[4]) and port == 0):
        raise BadInput(f"--flow {text}: HOST, HOST:PORT or [IPV6]:PORT is needed")
    try:
        found = [str(ipaddress.ip_address(host.partition("%")[0]))]
    except ValueError:
        if match and not match[3]:
            raise BadInput(f"--flow {text}: {host} is no IPv6 address") from None
        found = list(resolve(host))
    return Peer(frozenset(ipaddress.ip_address(one.partition("%")[0]).packed for one in found), port)


def _ends(ip: bytes) -> tuple[tuple[bytes, int], tuple[bytes, int]] | None:
    """Addresses and TCP ports of source and destination; port 0 where it cannot be told. Nothing for what is no IP packet."""
    version = ip[0] >> 4 if ip else 0
    if version == 4 and len(ip) >= 20:
        at, protocol, source, destination = (ip[0] & 15) * 4, ip[9], ip[12:16], ip[16:20]
        if struct.unpack_from(">H", ip, 6)[0] & 0x1FFF:
            protocol = 0  # a later fragment has no ports
    elif version == 6 and len(ip) >= 40:
        at, protocol, source, destination = 40, ip[6], ip[8:24], ip[24:40]
        while protocol in (0, 43, 60) and at + 8 <= len(ip):  # hop-by-hop, routing and destination options
            protocol, at = ip[at], at + (ip[at + 1] + 1) * 8
    else:
        return None
    ports = struct.unpack_from(">HH", ip, at) if protocol == _TCP and at + 4 <= len(ip) else (0, 0)
    return (source, ports[0]), (destination, ports[1])


@dataclass(frozen=True)
class Selection:
    peers: tuple[Peer, ...] = ()
    modules: tuple[str, ...] = ()

    @property
    def all(self) -> bool:
        return not self.peers and not self.modules

    def takes(self, raw: bytes) -> bool:
        """A packet block: of one of the flows (if any are named) and decided by one of the modules (if any are)."""
        return (not self.modules or comment(raw).partition(": ")[2].partition(":")[0] in self.modules) and (not self.peers or self._of_a_peer(packet(raw)))

    def _of_a_peer(self, ip: bytes) -> bool:
        ends = _ends(ip) or ()
        return any(address in one.addresses and one.port in (0, port) for address, port in ends for one in self.peers)
