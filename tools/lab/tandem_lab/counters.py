"""Packet counts at the client: per interface, with pure ACKs counted by themselves.

Pure ACKs are counted by rules of the client's own namespace, exactly: no flag but ACK (ECE and CWR may be set), and a
length that is headers only. The rules sit last on the way out, so they see the interface that a packet really leaves by.
"""

from __future__ import annotations

import json
import re
from typing import Any, Sequence

from . import system

TABLE = "tandem_lab_count"
_OURS = re.compile(r"wlan[0-7]|cell0")


def install(namespace: str, interfaces: Sequence[str] = ("wlan0", "cell0")) -> None:
    """Puts the counting rules into a namespace."""
    lines: list[str] = []
    for interface in interfaces:
        lines += [f"counter acks_{interface} {{", "}", f"counter sack_acks_{interface} {{", "}"]
    for interface in interfaces:
        lines.append(f"chain pure_{interface} {{")
        # Most frequent first: bare timestamps, then one to three SACK blocks.
        for words in (8, 11, 13, 15, 10, 5, 6, 7, 9, 12, 14):
            for ip_header, family in ((20, "ipv4"), (40, "ipv6")):
                names = [f"acks_{interface}"] + ([f"sack_acks_{interface}"] if words >= 8 + 3 else [])
                for name in names[1:]:
                    lines.append(f"meta nfproto {family} tcp doff {words} meta length {ip_header + 4 * words} counter name {name}")
                lines.append(f"meta nfproto {family} tcp doff {words} meta length {ip_header + 4 * words} counter name {names[0]} return")
        lines.append("}")
    lines += ["chain out {", "type filter hook postrouting priority 400; policy accept;"]
    for interface in interfaces:
        lines.append(f'oifname "{interface}" meta length 40-100 tcp flags & (fin|syn|rst|psh|ack|urg) == ack jump pure_{interface}')
    lines.append("}")
    text = f"table inet {TABLE} {{\n" + "\n".join(lines) + "\n}\n"
    system.call(["nft", "-f", "-"], stdin=text, what=f"counters of {namespace}", namespace=namespace)


def nft_counters(namespace: str, table: str) -> dict[str, int]:
    """The named counters of a table, in packets; empty when the table is not there."""
    listed = json.loads(system.call(["nft", "-j", "list", "counters"], namespace=namespace))
    found = [entry["counter"] for entry in listed["nftables"] if "counter" in entry]
    return {entry["name"]: entry["packets"] for entry in found if entry["table"] == table}


def interfaces(namespace: str) -> dict[str, dict[str, Any]]:
    """For wlan0 (wlan1, ...) and cell0: packets and bytes each way, and (with the rules installed) `acks_out` and `sack_acks_out`."""
    counted = nft_counters(namespace, TABLE)
    result: dict[str, dict[str, Any]] = {}
    for link in json.loads(system.call(["ip", "-s", "-j", "link", "show"], namespace=namespace)):
        name = link["ifname"]
        if not _OURS.fullmatch(name):
            continue
        stats = link["stats64"]
        result[name] = {
            "packets_in": stats["rx"]["packets"],
            "bytes_in": stats["rx"]["bytes"],
            "packets_out": stats["tx"]["packets"],
            "bytes_out": stats["tx"]["bytes"],
            "acks_out": counted.get(f"acks_{name}", 0),
            "sack_acks_out": counted.get(f"sack_acks_{name}", 0),
        }
    return result


def difference(after: dict[str, dict[str, Any]], before: dict[str, dict[str, Any]]) -> dict[str, dict[str, Any]]:
    """What was counted between two calls of interfaces()."""
    return {name: {key: value - before.get(name, {}).get(key, 0) for key, value in counts.items()}
            for name, counts in after.items()}
