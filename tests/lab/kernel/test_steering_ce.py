"""CE marks by rules of the kernel, on packets of every kind."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from ce_packets import ECT0, KINDS
from conftest import HERE, World, sh, wait_until
from steering import Steering, plan

CE = 3
SCRIPT = [sys.executable, str(HERE / "ce_packets.py")]


def exchange(world: World, count: int, way: tuple[str, str, str] | None = None) -> dict[str, dict]:
    """`count` packets of each kind to the client; what the kernel delivered, by kind."""
    name, device, arriving = way or (world.s, "w0", "wlan0")
    mac = json.loads(sh(f"ip -n {world.c} -j link show {arriving}"))[0]["address"]
    receiver = world.spawn(world.c, [*SCRIPT, "receive"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert receiver.stdout is not None and receiver.stdout.readline() == "ready\n"
    subprocess.run(["ip", "netns", "exec", name, *SCRIPT, "send", device, mac, str(count)], check=True, timeout=120)
    out, _ = receiver.communicate(timeout=60)  # closes its input
    seen = json.loads(out)
    for kind in KINDS:
        assert sum(seen[kind]["ecn"]) > 0.9 * count, kind
        assert seen[kind]["bad"] == 0, kind  # checksum and DSCP
    return seen


def share(one: dict) -> float:
    return one["ecn"][CE] / sum(one["ecn"])


def tables(world: World) -> str:
    return sh(f"ip netns exec {world.c} nft list tables")


def marking(world: World) -> bool:
    """While the keeper runs the table stays, without rules, for its hook."""
    return "ecn set" in sh(f"ip netns exec {world.c} nft list ruleset")


@pytest.fixture
def wide(world: World) -> World:
    """Room for packets as long as merged ones."""
    for name, device in ((world.s, "w0"), (world.c, "wlan0"), (world.g, "c0"), (world.c, "cell0")):
        sh(f"ip -n {name} link set {device} mtu 9000")
    return world


def test_share(wide: World) -> None:
    """About the share that was asked for, of ECT(0) packets of MPTCP only."""
    steering = Steering(wide)
    state = steering.mark(wlan0=0.05)["steering"]
    assert state["ce_backend"] == "nftables", state["ce_why"]
    assert state["refused"] == [] and state["ce"] == [{"interface": "wlan0", "rate": 0.05}]
    seen = exchange(wide, 8000)
    for kind in ("ect0", "ect0 v6"):
        assert 0.03 < share(seen[kind]) < 0.075, seen  # 0.0024 is one standard deviation
        assert seen[kind]["ecn"][CE] + seen[kind]["ecn"][ECT0] == sum(seen[kind]["ecn"])
    # As often as at least one of its 5.5 packets would be.
    assert 0.20 < share(seen["merged"]) < 0.30, seen
    for kind in set(KINDS) - {"ect0", "ect0 v6", "merged"}:
        assert share(seen[kind]) == 0, (kind, seen)
    steering.stop()
    assert tables(wide) == ""


def test_other_rate_other_interface(wide: World) -> None:
    """A rate is an interface's own; a new one holds from the next packet on; rate 0 takes its rules away."""
    steering = Steering(wide)
    steering.mark(wlan0=1.0, cell0=0.0)
    assert share(exchange(wide, 200)["ect0"]) == 1
    assert share(exchange(wide, 200, (wide.g, "c0", "cell0"))["ect0"]) == 0
    changed = steering.mark(wlan0=0.0, cell0=0.3)
    assert changed["steering"]["ce"] == [{"interface": "cell0", "rate": 0.3}]
    assert share(exchange(wide, 200)["ect0"]) == 0
    assert 0.2 < share(exchange(wide, 2000, (wide.g, "c0", "cell0"))["ect0"]) < 0.4
    steering.mark(wlan0=0.0)
    assert not marking(wide)
    assert share(exchange(wide, 200, (wide.g, "c0", "cell0"))["ect0"]) == 0


def test_standstill_takes_marks_away(world: World) -> None:
    steering = Steering(world)
    steering.mark(wlan0=0.1)
    assert marking(world)
    steering.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: not marking(world), 10)
    steering.process.send_signal(signal.SIGCONT)
    wait_until(lambda: marking(world), 10)
    wait_until(lambda: not steering.look()["suspended"], 10)


@pytest.mark.parametrize("victims", ["daemon", "keeper", "both"])
def test_killed(world: World, victims: str) -> None:
    """Whoever is killed, no mark outlives the keeper."""
    steering = Steering(world)
    steering.mark(wlan0=0.1)
    if victims == "daemon":
        steering.process.kill()
    elif victims == "keeper":
        os.kill(steering.keeper, signal.SIGKILL)
    else:
        steering.kill_both()
    wait_until(lambda: tables(world) == "", 10)


def test_someone_elses_tables_stay(world: World) -> None:
    sh(f"ip netns exec {world.c} nft add table inet other")
    steering = Steering(world)
    steering.mark(wlan0=0.1)
    steering.mark(wlan0=0.2)
    steering.stop()
    assert tables(world) == "table inet other\n"


def test_what_cannot_be_meant_is_refused(world: World) -> None:
    steering = Steering(world)
    for bad, word in (({"interface": "wlan0\" accept #", "rate": 0.1}, "interface name"), ({"interface": "wlan0", "rate": 1.5}, "0 to 1"),
                      ({"interface": "wlan0", "rate": -0.1}, "0 to 1")):
        assert word in steering.ask(plan=plan(ce=[bad]))["failed"]
    many = [{"interface": f"w{i}", "rate": 0.1} for i in range(17)]
    assert "at most 16" in steering.ask(plan=plan(ce=many))["failed"]
    assert steering.mark(absent0=0.1)["steering"]["refused"] == []  # may come yet
    assert tables(world) != ""
