"""Two recordings of what should be the same: what differs, connection by connection."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any, Callable, Sequence

from .errors import BadInput
from .reader import program

Flow = dict[str, Any]
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]")
CAUSES = {"radio_silent": "radio silent", "queue": "queue at the access point", "server_idle": "server idle", "receive_window": "receive window",
          "server_timeout": "the server's timeout", "reordering": "reordering", "tandem": "Tandem itself", "loss": "slow repair of a loss", "unknown": "unknown"}


def explained(file: Path, options: Sequence[str]) -> dict[str, Any]:
    """What `tandem trace explain --stalls` tells; with `fault` when the file is damaged later on. Raises BadInput when nothing can be read."""
    done = subprocess.run([program(), "trace", "explain", "--stalls", "--json", *options, str(file)], capture_output=True, text=True, check=False)
    try:
        return dict(json.loads(done.stdout))
    except ValueError:
        raise BadInput(done.stderr.strip().removeprefix("tandem trace: ") or f"{file}: cannot be explained") from None


def split(endpoint: str) -> tuple[str, str]:
    """Address and port of "10.0.0.1:80" or "[fd00::1]:80"."""
    address, _, port = endpoint.rpartition(":")
    return address, port


def matched(a: list[Flow], b: list[Flow]) -> tuple[list[tuple[Flow, Flow]], list[Flow], list[Flow], str]:
    """Pairs by server and port in the order in which they began, what is left of each, and by what it was matched. Pure.

    Two files that share no server (anonymised apart from each other, or another of a name's addresses) are matched by port alone.
    """
    shared = {flow["remote"] for flow in a} & {flow["remote"] for flow in b}
    key: Callable[[Flow], str] = (lambda flow: flow["remote"]) if shared else (lambda flow: split(flow["remote"])[1])
    waiting: dict[str, list[Flow]] = defaultdict(list)
    for flow in sorted(b, key=lambda one: one["begin_s"]):
        waiting[key(flow)].append(flow)
    pairs, only_a = [], []
    for flow in sorted(a, key=lambda one: one["begin_s"]):
        if waiting[key(flow)]:
            pairs.append((flow, waiting[key(flow)].pop(0)))
        else:
            only_a.append(flow)
    only_b = sorted((flow for left in waiting.values() for flow in left), key=lambda one: one["begin_s"])
    return pairs, only_a, only_b, "server, port and order" if shared else "port and order"


def figures(flow: Flow) -> dict[str, float | None]:
    """What is compared of a flow, None where it is not known. Pure."""
    lasted = flow["end_s"] - flow["begin_s"]
    return {"goodput_mbps": flow["bytes_in"] * 8e-6 / lasted if lasted > 0 and flow["bytes_in"] else None, "bytes_in": flow["bytes_in"], "lasted_s": lasted,
            "shortest_rtt_ms": flow["shortest_rtt_ms"], "repeated_segments": flow["repeated_segments"],
            "stalled_s": sum(stall["duration_ms"] for stall in flow["stalls"]) * 1e-3}


def stalls(flow: Flow) -> dict[str, dict[str, float]]:
    """Number and seconds by cause. Pure."""
    found: dict[str, dict[str, float]] = {}
    for stall in flow["stalls"]:
        one = found.setdefault(stall["cause"], {"count": 0, "seconds": 0.0})
        one["count"] += 1
        one["seconds"] += stall["duration_ms"] * 1e-3
    return found


def both(a: dict[str, Any], b: dict[str, Any], missing: Any) -> dict[str, dict[str, Any]]:
    """Every key of either with both values."""
    return {key: {"a": a.get(key, missing), "b": b.get(key, missing)} for key in sorted(a.keys() | b.keys())}


def decided(flows: list[Flow]) -> Counter[str]:
    total: Counter[str] = Counter()
    for flow in flows:
        total.update(flow["decisions"])
    return total


def compared(a: dict[str, Any], b: dict[str, Any]) -> dict[str, Any]:
    """The whole difference, for programs. Pure."""
    pairs, only_a, only_b, by = matched(a["flows"], b["flows"])
    nothing = {"count": 0, "seconds": 0.0}
    flows = [{"a": one["flow"], "b": other["flow"], "server": one["remote"], "server_b": other["remote"], **both(figures(one), figures(other), None),
              "stalls": both(stalls(one), stalls(other), nothing), "decisions": both(one["decisions"], other["decisions"], 0)} for one, other in pairs]
    sides = {name: {"file": told["file"], "packets": told["packets"], "flows": len(told["flows"]), "lasted_s": (told["last_ns"] - told["first_ns"]) * 1e-9, "fault": told.get("fault", "")}
             for name, told in (("a", a), ("b", b))}
    return {**sides, "matched_by": by, "flows": flows, "decisions": both(decided(a["flows"]), decided(b["flows"]), 0),
            "only_a": [{"flow": flow["flow"], "server": flow["remote"], "bytes_in": flow["bytes_in"]} for flow in only_a],
            "only_b": [{"flow": flow["flow"], "server": flow["remote"], "bytes_in": flow["bytes_in"]} for flow in only_b]}


def change(one: float | None, other: float | None) -> str:
    """By how much of the first; empty where that is less than half a per cent, or nothing was there."""
    return f"  ({(other / one - 1) * 100:+.0f} %)" if one and other is not None and abs(other / one - 1) >= 0.005 else ""


def lines(told: dict[str, Any]) -> list[str]:
    """In words; what is equal is left out, but for the goodput. Pure."""
    made = [f"{name.upper()}  {side['file']}: {side['packets']} packets, {side['flows']} flows in {side['lasted_s']:.3f} s" for name, side in (("a", told["a"]), ("b", told["b"]))]
    made.append(f"flows are matched by {told['matched_by']}; A -> B")
    for flow in told["flows"]:
        there = flow["server"] + (f", in B {flow['server_b']}" if flow["server_b"] != flow["server"] else "")
        made += ["", f"flow {flow['a']}{'' if flow['a'] == flow['b'] else ' of A, ' + str(flow['b']) + ' of B'}: {there}", *_rows(flow)]
    for name in ("a", "b"):
        made += [""] if told[f"only_{name}"] else []
        made += [f"only in {name.upper()}: flow {flow['flow']}, {flow['server']}, {flow['bytes_in'] * 1e-6:.3f} MB" for flow in told[f"only_{name}"]]
    total = [row for why, count in told["decisions"].items() if count["a"] != count["b"] for row in [f"  {count['a']:>9} -> {count['b']:<9} {why}"]]
    if total and len(told["flows"]) > 1:
        made += ["", "all flows, decisions of Tandem by reason (packets)", *total]
    return [_CONTROL.sub("?", line) for line in made]  # reasons are of the files, which may be a stranger's


def _rows(flow: dict[str, Any]) -> list[str]:
    found = []

    def row(words: str, key: str, unit: str, scale: float = 1.0, digits: int = 2) -> str:
        one, other = flow[key]["a"], flow[key]["b"]
        shown = ["not known" if value is None else f"{value * scale:.{digits}f}" for value in (one, other)]
        return f"  {words:<24} {shown[0]} -> {shown[1]} {unit}{change(one, other)}"

    for figure in (("downloaded", "bytes_in", "MB", 1e-6, 3), ("lasted", "lasted_s", "s", 1.0, 3), ("shortest round trip", "shortest_rtt_ms", "ms", 1.0, 1),
                   ("arrived a second time", "repeated_segments", "segments", 1.0, 0), ("stalled", "stalled_s", "s", 1.0, 3)):
        if flow[figure[1]]["a"] != flow[figure[1]]["b"]:
            found.append(row(*figure))
    for cause, value in flow["stalls"].items():
        if value["a"] != value["b"]:
            found.append(f"    {CAUSES.get(cause, cause):<22} {value['a']['count']:.0f}, {value['a']['seconds']:.3f} s -> {value['b']['count']:.0f}, {value['b']['seconds']:.3f} s")
    for why, value in flow["decisions"].items():
        if value["a"] != value["b"]:
            found.append(f"  Tandem, packets          {value['a']} -> {value['b']}  {why}")
    return [row("goodput", "goodput_mbps", "Mbit/s"), *(found or ["  nothing differs"])]


def diff(a: Path, b: Path, options: Sequence[str]) -> dict[str, Any]:
    return compared(explained(a, options), explained(b, options))
