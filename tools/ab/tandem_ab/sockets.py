"""This host's TCP sockets as the kernel counts them (sock_diag(7)): the same for every setting, also for one without Tandem; no privilege is needed."""

from __future__ import annotations

import ipaddress
import socket
import struct
import time
from dataclasses import dataclass
from typing import Collection, Iterator, Mapping

from tandem_common.errors import Failure

_SOCK_DIAG, _BY_FAMILY, _DUMP = 4, 20, 0x301  # NETLINK_SOCK_DIAG, SOCK_DIAG_BY_FAMILY, NLM_F_REQUEST | NLM_F_DUMP
_ERROR, _DONE = 2, 3  # NLMSG_ERROR, NLMSG_DONE
_STATES = 1 << 1 | 1 << 4 | 1 << 5 | 1 << 8  # established, FIN-WAIT-1 and -2, CLOSE-WAIT: those that may hold new data
_INFO = 2  # INET_DIAG_INFO, whose value is struct tcp_info
# In struct tcp_info (linux/tcp.h).
_RTT_US, _RECEIVED, _SENT, _RESENT = 68, 128, 200, 208
NEEDED = 216  # bytes of it: Linux 4.19 and newer


@dataclass(frozen=True)
class Counted:
    """One socket: payload received, payload sent for the first time, what its application has not read, smoothed round trip."""

    received: int
    sent: int
    unread: int
    rtt_ms: float


@dataclass(frozen=True)
class Look:
    """All sockets at one moment, by the kernel's cookie: a number that no other socket gets."""

    at: float  # time.monotonic()
    sockets: Mapping[int, Counted]


def _request(family: int) -> bytes:
    body = struct.pack("<BBBxI", family, socket.IPPROTO_TCP, 1 << (_INFO - 1), _STATES) + bytes(48)
    return struct.pack("<IHHII", 16 + len(body), _BY_FAMILY, _DUMP, 1, 0) + body


def parse(message: bytes) -> tuple[str, int, Counted] | None:
    """Local address, cookie and counters of one answer (struct inet_diag_msg and its attributes); None without what is needed."""
    family, = struct.unpack_from("B", message)
    raw = message[8:24]
    address = str(ipaddress.ip_address(raw[:4] if family == socket.AF_INET else raw))
    cookie, = struct.unpack_from("<Q", message, 44)
    unread, = struct.unpack_from("<I", message, 56)
    at = 72
    while at + 4 <= len(message):
        length, kind = struct.unpack_from("<HH", message, at)
        if length < 4:
            break
        if kind == _INFO and length - 4 >= NEEDED:
            info = message[at + 4:at + length]
            received, = struct.unpack_from("<Q", info, _RECEIVED)
            sent, resent = struct.unpack_from("<QQ", info, _SENT)
            return address.removeprefix("::ffff:"), cookie, Counted(received, sent - resent, unread, struct.unpack_from("<I", info, _RTT_US)[0] * 1e-3)
        at += (length + 3) & ~3
    return None


def _open() -> socket.socket:
    asked = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, _SOCK_DIAG)
    asked.settimeout(5)
    asked.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 20)
    return asked


class Sockets:
    """`look()` gives the sockets whose local address is one of `addresses`."""

    def __init__(self) -> None:
        try:
            _open().close()
        except OSError as error:
            raise Failure(f"sock_diag: {error.strerror}; the kernel's counters of connections are needed (module tcp_diag)") from error

    def look(self, addresses: Collection[str]) -> Look:
        """Raises Failure when the kernel does not answer."""
        found = {}
        try:
            # One of its own for each look: the rest of an answer that was broken off must not be taken for the next one.
            with _open() as asked:
                for family in (socket.AF_INET, socket.AF_INET6):
                    asked.send(_request(family))
                    for message in _answers(asked):
                        told = parse(message)
                        if told and told[0] in addresses:
                            found[told[1]] = told[2]
        except OSError as error:
            raise Failure(f"sock_diag: {error.strerror or error}; the kernel's counters of connections cannot be read (module tcp_diag)") from error
        return Look(time.monotonic(), found)


def _answers(asked: socket.socket) -> Iterator[bytes]:
    while True:
        data, at = asked.recv(1 << 18), 0
        while at + 16 <= len(data):
            length, kind = struct.unpack_from("<IH", data, at)
            if kind == _DONE:
                return
            if kind == _ERROR:
                raise OSError(-struct.unpack_from("<i", data, at + 16)[0], "the request was refused")
            yield data[at + 16:at + length]
            at += max(16, (length + 3) & ~3)
