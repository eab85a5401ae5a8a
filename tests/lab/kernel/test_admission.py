"""The kernel's rules and the observer's filter against tandem/admission.h: every mix of TCP flags, payload, options and IP headers as a real
packet. What is queued, and what is copied, must be what the rule says, packet by packet."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path

import pytest

from conftest import PROBE, World, sh
from mixes import PORT0, Mix, mixes

HERE = Path(__file__).resolve().parent
ALL = "egress_pure_ack,egress_data,egress_closing,ingress_data,ingress_ack"
WANTS = [("egress_pure_ack", "ingress_data"), ("egress_data", "egress_pure_ack,ingress_ack"), ("egress_closing", ALL), ("ingress_data", "none"),
         ("ingress_ack", "ingress_data"), (ALL, ALL), ("none", ALL)]


def requested(traffic: str, observe: str) -> list[str]:
    """What is to become of each mix: "queued", "observed" or "unseen"."""
    done = subprocess.run([PROBE, "mode=admission", f"traffic={traffic}", f"observe={observe}"], capture_output=True, text=True, check=True)
    table = iter(json.loads(done.stdout))
    rule = {(egress, payload, flags, special): next(table) for egress in (True, False) for payload in (False, True) for flags in range(512)
            for special in (False, True)}
    return [rule[mix.egress, mix.payload > 0, mix.flags, mix.special != ""] for mix in mixes()]


def send(world: World) -> None:
    for where, direction in ((world.c, "egress"), (world.s, "ingress")):
        sh(f"ip netns exec {where} {sys.executable} -B {HERE / 'mixes.py'} {direction}")
    time.sleep(0.3)


def number(name: str) -> tuple[str, int]:
    direction, port = name.split()
    return direction, int(port) - PORT0


def ports(seen: dict, all_mixes: list[Mix]) -> Counter:
    """How often each mix was seen. What the other end's TCP answers comes the other way."""
    counts: Counter = Counter()
    for name, count in seen.get("ports", {}).items():
        direction, n = number(name)
        if 0 <= n < len(all_mixes) and all_mixes[n].egress == (direction == "egress"):
            counts[n] += count
    return counts


@pytest.mark.parametrize("traffic,observe", WANTS)
def test_each_mix_is_queued_or_copied_as_the_rule_says(world: World, traffic: str, observe: str) -> None:
    world.offload(False)
    all_mixes, request = mixes(), requested(traffic, observe)
    probe = world.probe(traffic=traffic, observe=observe, ports="yes", gso="no")
    assert probe.first == "ready"
    send(world)
    seen = probe.stop()
    assert seen["queue_drops"] == seen["user_drops"] == seen["observer_drops"] == 0
    assert {"queued", "unseen"} <= set(request) or traffic == "none"  # it would notice
    queued, observed = ports(seen["queued"], all_mixes), ports(seen["observed"], all_mixes)
    wrong = [f"{mix}: {queued[n]} times queued, {observed[n]} times observed, is to be {request[n]}" for n, mix in enumerate(all_mixes)
             if (queued[n], observed[n]) != {"queued": (1, 0), "observed": (0, 1), "unseen": (0, 0)}[request[n]]]
    assert not wrong, f"{len(wrong)} of {len(all_mixes)}: " + "\n".join(wrong[:20])


@pytest.mark.parametrize("traffic", [traffic for traffic, _ in WANTS if traffic != "none"])
def test_nftables_takes_the_same(world: World, traffic: str) -> None:
    """The text of the nftables rules, on kernels without its queue expression too: the queue becomes a set of the ports that came to it."""
    all_mixes, request = mixes(), requested(traffic, "none")
    text = sh(f"ip netns exec {world.c} {PROBE} mode=render traffic={traffic}")
    for direction, field in (("egress", "dport"), ("ingress", "sport")):
        for chain in ("empty", "payload"):
            begin = text.find(f"chain {direction}_{chain} {{")
            if begin >= 0:
                end = text.index("}", begin)
                text = text[:begin] + text[begin:end].replace("queue flags bypass to 84", f"add @{direction} {{ tcp {field} }} return") + text[end:]
    sets = "".join(f"  set {name} {{\n    type inet_service; flags dynamic; size 65535;\n  }}\n" for name in ("egress", "ingress"))
    head, tail = text.rsplit("table inet tandem {\n", 1)
    assert "queue" not in tail
    done = subprocess.run(["ip", "netns", "exec", world.c, "nft", "-f", "-"], input=head + "table inet tandem {\n" + sets + tail, capture_output=True, text=True)
    if done.returncode != 0 and "not supported" in done.stderr.lower():
        pytest.skip(f"nftables cannot load it here: {done.stderr.splitlines()[0]}")
    assert done.returncode == 0, done.stderr + text
    send(world)
    came = set()
    for name in ("egress", "ingress"):
        listed = json.loads(sh(f"ip netns exec {world.c} nft -j list set inet tandem {name}"))["nftables"][-1]["set"].get("elem", [])
        came |= {f"{name} {port}" for port in listed}
    queued = ports({"ports": {name: 1 for name in came}}, all_mixes)
    wrong = [f"{mix}: {'queued' if queued[n] else 'not queued'}, is to be {request[n]}" for n, mix in enumerate(all_mixes)
             if (queued[n] > 0) != (request[n] == "queued")]
    assert not wrong, f"{len(wrong)} of {len(all_mixes)}: " + "\n".join(wrong[:20])
