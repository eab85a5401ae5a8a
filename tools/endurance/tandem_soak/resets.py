"""Who reset a connection, from what was captured at both of its ends and from what the kernels tell of their own resets. Pure.

What came before what at one place is told by the order of its capture, since the wall clock may jump.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import Iterable

from .packets import ACK, Packet

_WRAP = 1 << 32
# Between a kernel's word and the capture of the same reset, s: both are of one machine, with other work on it.
_SAME_MOMENT = 0.1


@dataclass(frozen=True)
class KernelReset:
    """A kernel's own word (tracepoints tcp_send_reset, tcp_receive_reset): it sent a reset, or took one for good. `reason`: its own, where it tells one."""

    time: float
    sent: bool
    source: str
    source_port: int
    to: str
    to_port: int
    reason: str = ""


_SENT = re.compile(r" ([\d.]+): tcp_send_reset: .*src=(\S+) dest=(\S+)(?:.* reason=(\S+))?")
_TAKEN = re.compile(r" ([\d.]+): tcp_receive_reset: .*?family=(\S+) sport=(\d+) dport=(\d+) saddr=(\S+) daddr=(\S+) saddrv6=(\S+) daddrv6=(\S+)")


def _end(text: str) -> tuple[str, int]:
    """10.77.1.2:80 or [fd77:1::2]:80."""
    address, port = text.rsplit(":", 1)
    return _plain(address.strip("[]")), int(port)


def _plain(address: str) -> str:
    """A server that listens by IPv6 has its IPv4 connections with mapped addresses."""
    found = ip_address(address)
    return str(getattr(found, "ipv4_mapped", None) or found)


def told_by_kernel(line: str, offset: float) -> KernelReset | None:
    """A line of the trace. `offset`: what the wall clock is ahead of the trace's. In a reset that was taken `source` is who took it."""
    if sent := _SENT.search(line):
        return KernelReset(float(sent[1]) + offset, True, *_end(sent[2]), *_end(sent[3]), sent[4] or "")
    if taken := _TAKEN.search(line):
        here, there = (taken[5], taken[6]) if taken[2] == "AF_INET" else (taken[7], taken[8])
        return KernelReset(float(taken[1]) + offset, False, _plain(here), int(taken[3]), _plain(there), int(taken[4]))
    return None


@dataclass(frozen=True)
class Reset:
    """One reset, wherever it was seen."""

    first: Packet
    origin: str
    evoked: str = ""  # by which segment
    arrived: Packet | None = None  # at the client, or at the server when the client's side sent it
    taken: bool = False  # and ended the connection, as the kernel tells or the numbers say

    def words(self) -> str:
        number = f"seq {self.first.seq}" + (f" ack {self.first.ack}" if self.first.flags & ACK else "")
        came = f", arrived by {self.arrived.interface}" if self.arrived else ", was not seen to arrive"
        return f"{self.origin} ({number}{came})" + (f", in answer to {self.evoked}" if self.evoked else "")


def resets(client: list[Packet], server: list[Packet], kernel: Iterable[KernelReset] | None, ports: set[int]) -> list[Reset]:
    """Every reset of the flow (or, by MPTCP, of its subflows), in the order of time. `ports`: the client's; `kernel`: None where it cannot be asked."""
    told = None if kernel is None else list(kernel)
    found: list[Reset] = []
    here, there = [one for one in client if one.reset], [one for one in server if one.reset]
    for packet in sorted([*here, *there], key=lambda one: one.time):
        if any(packet.same_segment(one.first) for one in found):
            continue
        at_client = [one for one in here if one.same_segment(packet)]
        at_server = [one for one in there if one.same_segment(packet)]
        if any(ports & {one.source_port, one.to_port} for one in [*at_client, *at_server]):
            down = any(not one.out for one in at_client) or any(one.out for one in at_server)
            found.append(_from_server(packet, at_client, at_server, client, server, told) if down else _from_client(packet, at_client, at_server, told))
    return found


def decisive(found: list[Reset]) -> Reset | None:
    """Which one ended it for the application: the first that was taken, else the first."""
    return next((one for one in found if one.taken), found[0] if found else None)


def _of_kernel(packet: Packet, told: list[KernelReset], sent: bool) -> KernelReset | None:
    ends = (packet.source_port, packet.to_port) if sent else (packet.to_port, packet.source_port)
    return next((one for one in told if one.sent == sent and (one.source_port, one.to_port) == ends and abs(one.time - packet.time) < _SAME_MOMENT), None)


def _from_server(packet: Packet, at_client: list[Packet], at_server: list[Packet], client: list[Packet], server: list[Packet], told: list[KernelReset] | None) -> Reset:
    arrived = next((one for one in at_client if not one.out), None)
    taken = arrived is not None and (_of_kernel(arrived, told, False) is not None if told is not None else _next_expected(client, arrived))
    left = next((one for one in at_server if one.out), None)
    if left is None:
        return Reset(packet, "something between client and server: the server's capture does not have it", arrived=arrived, taken=taken)
    # Linux 6.18 does not tell of the resets with which a listener answers what belongs to no connection of its own.
    word = _of_kernel(left, told, True) if told is not None else None
    return Reset(packet, f"the server, its kernel: {word.reason or 'no reason told'}" if word else "the server", _evoked_by(left, client, server), arrived, taken)


def _from_client(packet: Packet, at_client: list[Packet], at_server: list[Packet], told: list[KernelReset] | None) -> Reset:
    arrived = next((one for one in at_server if not one.out), None)
    taken = arrived is not None and told is not None and _of_kernel(arrived, told, False) is not None
    left = next((one for one in at_client if one.out), None)
    if left is None:
        return Reset(packet, "something between client and server: the client's capture does not have it", arrived=arrived, taken=taken)
    if told is None:
        return Reset(packet, "the client, its kernel or the daemon (this kernel does not tell)", arrived=arrived, taken=taken)
    word = _of_kernel(left, told, True)
    return Reset(packet, f"the client's kernel: {word.reason or 'no reason told'}" if word else "the client, by a raw socket: the daemon, or who else injects there",
                 arrived=arrived, taken=taken)


def _next_expected(client: list[Packet], arrived: Packet) -> bool:
    """Whether its number is what the client had acknowledged up to: others do not end a connection (RFC 5961 3.2)."""
    acks = [one.ack for one in client[:client.index(arrived)] if one.out and one.flags & ACK and one.source_port == arrived.to_port]
    return any(one == arrived.seq for one in acks) and not any(0 < (one - arrived.seq) % _WRAP < _WRAP // 2 for one in acks)


def _evoked_by(left: Packet, client: list[Packet], server: list[Packet]) -> str:
    """The ACK that the server had no connection for: its number is the reset's sequence number (RFC 9293 3.10.7.1)."""
    if left.flags & ACK:
        return ""
    came = [one for one in server[:server.index(left)] if not one.out and one.flags & ACK and one.ack == left.seq and one.source_port == left.to_port]
    if not came:
        return ""
    segment = came[-1]
    words = f"ack {segment.ack} of {segment.source} port {segment.source_port}"
    origin = next((one for one in reversed(client) if one.out and one.same_segment(segment)), None)
    if origin is None:
        return words + ", which the client's capture does not have"
    if (origin.source, origin.source_port) != (segment.source, segment.source_port):
        words += f", which is a NAT's for {origin.source} port {origin.source_port}"
    return words + f", sent by {origin.interface}"
