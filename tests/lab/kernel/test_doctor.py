"""What the doctor says of a machine, sound and with planted trouble."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest

from conftest import PROBE, World, sh


def examine(world: World, **settings: str) -> dict:
    words = [f"{key}={value}" for key, value in settings.items()]
    return json.loads(sh(" ".join(["ip netns exec", world.c, PROBE, "mode=doctor", *words])))


def test_sound(world: World) -> None:
    seen = examine(world)
    assert not [name for name, check in seen.items() if check["health"] in ("fail", "warn")]
    assert seen["wifi interface"]["found"] == "wlan0: up, 2 addresses, MTU 1500"
    assert world.rules() == ""
    assert sh(f"ip netns exec {world.c} nft list ruleset") == ""  # not even an empty table stays


def test_beside_a_running_one(world: World) -> None:
    """The probes leave a running Tandem's rules alone."""
    probe = world.probe()
    before = world.rules()
    seen = examine(world)
    assert seen["queue number 84"]["found"] == "in use by the running Tandem"
    assert seen["leftover rules"]["health"] == "ok"
    # Its own are nobody else's, also as nft shows those of iptables-nft.
    assert not [(name, check) for name, check in seen.items() if check["health"] in ("fail", "warn")]
    assert world.rules() == before != ""
    probe.stop()


def test_a_second_way_is_optional(world: World) -> None:
    """A laptop without a modem is no fault: freeze, mirror, ecn and half of offload need none."""
    for given, health in (("none", "ok"), ("", "absent"), ("cell9", "warn")):
        seen = examine(world, cell=given)
        assert seen["cell interface"]["health"] == health, seen["cell interface"]
        assert not [name for name, check in seen.items() if check["health"] == "fail"]


def test_planted_trouble(world: World) -> None:
    for command in ("iptables -t mangle -A OUTPUT -p udp -j NFQUEUE --queue-num 84 --queue-bypass",
                    "iptables -t mangle -A POSTROUTING -j CONNMARK --save-mark",
                    "ip rule add fwmark 0x10000000/0x10000000 lookup 99 priority 8484",
                    "ip route del default via 10.71.2.1",
                    "ip -6 route del default via fd71:2::1",
                    "sysctl -qw net.ipv4.tcp_timestamps=0",
                    "ip link set wlan0 down"):
        sh(f"ip netns exec {world.c} {command}")
    seen = examine(world)
    for name, health in (("other rules on queue 84", "fail"), ("mark bits 0x70000000", "warn"), ("routing table 8484", "warn"),
                         ("second default route", "warn"), ("tcp_timestamps", "warn"), ("wifi interface", "warn")):
        assert seen[name]["health"] == health and seen[name]["remedy"], name
    assert "CONNMARK --save-mark" in seen["mark bits 0x70000000"]["found"]
    assert "ip rule 8484" in seen["mark bits 0x70000000"]["found"]
    assert "set `daemon.mark_mask`" in seen["mark bits 0x70000000"]["remedy"]
    assert "set `daemon.route_table`; a foreign ip rule of priority 8484" in seen["routing table 8484"]["remedy"]


def test_leftovers(world: World) -> None:
    probe = world.probe()
    keeper = probe.keeper()
    subprocess.run(["kill", "-9", str(keeper)], check=True)
    probe.signal(signal.SIGKILL)
    probe.process.wait()
    found = examine(world)["leftover rules"]
    # With nftables the table died with its owner: only routes are left, and those are harmless.
    if "TANDEM" in world.rules():
        assert found["health"] == "warn" and "next start" in found["remedy"]


def test_mptcp(world: World) -> None:
    """Endpoints are found and named, whoever made them; a path manager in user space is said."""
    if not Path("/proc/sys/net/mptcp").exists():
        pytest.skip("no MPTCP in this kernel")
    sh(f"ip netns exec {world.c} sysctl -qw net.mptcp.enabled=1")
    assert "no endpoints" in examine(world)["MPTCP"]["found"]
    sh(f"ip -n {world.c} mptcp endpoint add 10.71.1.2 dev wlan0 subflow backup")
    seen = examine(world)
    assert "10.71.1.2 on wlan0 (backup)" in seen["MPTCP"]["found"] and "mptcp.foreign" in seen["MPTCP"]["remedy"]
    assert seen["CE marks by rule"]["health"] in ("ok", "absent")
    sh(f"ip netns exec {world.c} sysctl -qw net.mptcp.pm_type=1")
    assert "user space" in examine(world)["MPTCP"]["found"]
    sh(f"ip netns exec {world.c} sysctl -qw net.mptcp.enabled=0")
    assert "sysctl" in examine(world)["MPTCP"]["found"]


def test_placement(world: World) -> None:
    """Whether the kernel can place connections is found without leaving a rule, also beside rules that do."""
    rules = "add table inet sample; add chain inet sample c { type nat hook postrouting priority 100; }; " \
            "add rule inet sample c ct mark set numgen inc mod 2; add rule inet sample c masquerade"
    can = subprocess.run(["ip", "netns", "exec", world.c, "nft", "-c", rules], capture_output=True).returncode == 0
    check = examine(world)["placement"]
    assert check["health"] == ("ok" if can else "absent") and bool(check["remedy"]) != can
    assert sh(f"ip netns exec {world.c} nft list ruleset") == ""
    sh(f"ip netns exec {world.c} nft add table inet tandem_place")
    assert examine(world)["placement"]["health"] == "ok"
    assert sh(f"ip netns exec {world.c} nft list tables").split() == ["table", "inet", "tandem_place"]


def test_without_permissions(world: World) -> None:
    """What is missing is said in the table, not by libraries on standard error."""
    done = subprocess.run(["ip", "netns", "exec", world.c, "setpriv", "--bounding-set", "-all", PROBE, "mode=doctor"], capture_output=True, text=True, timeout=60)
    assert done.stderr == ""
    seen = json.loads(done.stdout)
    assert seen["permissions"]["health"] == "fail" and seen["permissions"]["remedy"] and "CE marks by rule" not in seen
