"""TCP sockets of a namespace, as ss(8) tells them."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import system
from .scenario import CONGESTION_CONTROLS

_RATE = {"bps": 1.0, "Kbps": 1e3, "Mbps": 1e6, "Gbps": 1e9}


@dataclass(frozen=True)
class Socket:
    """One connection: addresses, the congestion control in force, and what `ss -i` says.

    rtt_ms, rttvar_ms, min_rtt_ms in milliseconds; cwnd and ssthresh in segments; retrans is the number of retransmitted
    segments in the life of the connection; bytes_* as the kernel counts them. A field ss does not show is 0.
    `fields` holds everything else by ss's own names.
    """

    local: str
    local_port: int
    peer: str
    peer_port: int
    state: str
    congestion: str = ""
    cwnd: int = 0
    ssthresh: int = 0
    mss: int = 0
    rtt_ms: float = 0.0
    rttvar_ms: float = 0.0
    min_rtt_ms: float = 0.0
    rto_ms: float = 0.0
    retrans: int = 0
    lost: int = 0
    bytes_sent: int = 0
    bytes_acked: int = 0
    bytes_received: int = 0
    bytes_retrans: int = 0
    unacked: int = 0
    delivered_ce: int = 0  # segments whose acknowledgement echoed a congestion mark
    delivery_mbps: float = 0.0
    pacing_mbps: float = 0.0
    fields: dict[str, Any] = field(default_factory=dict)


def totals(proc: Path = Path("/proc")) -> dict[str, int]:
    """What TCP holds on the whole machine, all namespaces together, by the names of sockstat: "orphan" sockets without a program, "mem" pages, ..."""
    words = next(line for line in (proc / "net/sockstat").read_text().splitlines() if line.startswith("TCP:")).split()[1:]
    return {name: int(count) for name, count in zip(words[::2], words[1::2])}


def listening(namespace: str) -> set[int]:
    """The TCP ports of a namespace that somebody listens on, by IPv4 or IPv6."""
    ports: set[int] = set()
    with system.inside(namespace):
        for table in ("tcp", "tcp6"):
            for line in Path("/proc/thread-self/net", table).read_text().splitlines()[1:]:
                words = line.split()  # number, local address:port, remote one, state, all in hexadecimal
                if words[3] == "0A":
                    ports.add(int(words[1].rsplit(":", 1)[1], 16))
    return ports


def parse(text: str) -> list[Socket]:
    """The lines of `ss -tinOH`."""
    return [_parse_line(line) for line in text.splitlines() if line.strip()]


def _split(endpoint: str) -> tuple[str, int]:
    address, _, port = endpoint.rpartition(":")
    return address.strip("[]").removeprefix("::ffff:").split("%")[0], int(port) if port.isdigit() else 0


def _parse_line(line: str) -> Socket:
    words = line.split()
    local, local_port = _split(words[3])
    peer, peer_port = _split(words[4])
    values: dict[str, Any] = {}
    congestion = ""
    rest = words[5:]
    index = 0
    while index < len(rest):
        word = rest[index]
        key, colon, value = word.partition(":")
        if colon:
            values[key] = value
        elif word in CONGESTION_CONTROLS:
            congestion = word
        elif word in ("send", "pacing_rate", "delivery_rate", "max_pacing_rate") and index + 1 < len(rest):
            values[word] = rest[index + 1]
            index += 1
        else:
            values[word] = True
        index += 1

    def number(key: str) -> float:
        found = re.match(r"[0-9.]+", str(values.get(key, "")))
        return float(found.group()) if found else 0.0

    def rate(key: str) -> float:
        found = re.match(r"([0-9.]+)([KMG]?bps)", str(values.get(key, "")))
        return float(found.group(1)) * _RATE[found.group(2)] / 1e6 if found else 0.0

    rtt, _, rttvar = str(values.get("rtt", "0/0")).partition("/")
    retrans = str(values.get("retrans", "0/0")).rpartition("/")[2]
    return Socket(
        local=local, local_port=local_port, peer=peer, peer_port=peer_port, state=words[0], congestion=congestion,
        cwnd=int(number("cwnd")), ssthresh=int(number("ssthresh")), mss=int(number("mss")),
        rtt_ms=float(rtt), rttvar_ms=float(rttvar or 0), min_rtt_ms=number("minrtt"), rto_ms=number("rto"),
        retrans=int(retrans or 0), lost=int(number("lost")), bytes_sent=int(number("bytes_sent")),
        bytes_acked=int(number("bytes_acked")), bytes_received=int(number("bytes_received")),
        bytes_retrans=int(number("bytes_retrans")), unacked=int(number("unacked")), delivered_ce=int(number("delivered_ce")),
        delivery_mbps=rate("delivery_rate"), pacing_mbps=rate("pacing_rate"), fields=values)
