"""MPTCP's path manager, guided: on the kernel's own MPTCP at both ends, two ways of 20 Mb/s."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from conftest import CELL4, CELL6, CLIENT4, CLIENT6, SERVER6, World, sh, wait_until
from steering import Steering, endpoints, fetch_mptcp, limits, path, plan, received, serve_mptcp, two_ways

LONG = 20.0  # seconds; for a busy machine
CLOSED = 90.0  # seconds; Linux 6.1 keeps an MPTCP connection whose program was killed for a minute


@pytest.fixture
def ways(world: World) -> World:
    if not Path("/proc/sys/net/mptcp").exists():
        pytest.skip("no MPTCP in this kernel")
    two_ways(world, "20mbit")
    return world


@pytest.fixture
def note(tmp_path: Path) -> Path:
    return tmp_path / "steering.json"


def rest(world: World, interface: str, seconds: float = 0.4) -> int:
    """Bytes that come by an interface within a while."""
    before = received(world, interface)
    time.sleep(seconds)
    return received(world, interface) - before


def busy(world: World, interface: str) -> None:
    """Until the interface carries a good part of its 20 Mb/s."""
    wait_until(lambda: rest(world, interface) > 300_000, LONG)


def quiet(world: World, interface: str) -> None:
    """Until next to nothing comes by it; 0.4 s at full rate are a megabyte."""
    wait_until(lambda: rest(world, interface) < 30_000, LONG)


def deaf(world: World, on: bool) -> None:
    """Whether the server's TCP hears nothing."""
    for device in ("w0", "g0"):
        sh(f"ip netns exec {world.s} iptables -{'A' if on else 'D'} INPUT -i {device} -p tcp -j DROP")


def test_priority_moves_the_traffic(ways: World, note: Path) -> None:
    """A backup flag empties its way, be it the connection's first or a joined one, and gives it back."""
    serve_mptcp(ways)
    steering = Steering(ways, note)
    state = steering.steer(path("wlan0"), path("cell0"), setup=True)
    assert [e["own"] for e in state["endpoints"]] == [True, True] and state["last_error"] == "" and state["refused"] == []
    download = fetch_mptcp(ways)
    busy(ways, "wlan0")
    busy(ways, "cell0")
    steering.steer(path("wlan0", backup=True), path("cell0"), setup=True)
    quiet(ways, "wlan0")
    busy(ways, "cell0")
    steering.steer(path("wlan0"), path("cell0", backup=True), setup=True)
    quiet(ways, "cell0")
    busy(ways, "wlan0")
    assert steering.steer(path("wlan0"), path("cell0"), setup=True)["flag_changes"] == 4
    busy(ways, "cell0")
    # The endpoint goes: its subflow closes; it comes back: a new one joins.
    assert steering.steer(path("wlan0"), path("cell0", endpoint=False), setup=True)["endpoints_deleted"] == 1
    quiet(ways, "cell0")
    steering.steer(path("wlan0"), path("cell0"), setup=True)
    busy(ways, "cell0")
    steering.stop()
    # The way by which the connection was opened stays until the connection has ended: without it, it would stall.
    assert set(endpoints(ways)) == {CLIENT4} and note.exists()
    busy(ways, "wlan0")
    quiet(ways, "cell0")
    download.process.kill()
    download.process.wait()
    wait_until(lambda: "mptcp" not in sh(f"ip netns exec {ways.c} ss -tniHO state established"), CLOSED, 0.5)
    Steering(ways, note).stop()
    assert endpoints(ways) == {} and not note.exists()


def test_no_connection_loses_its_only_subflow(ways: World, note: Path) -> None:
    """An order to remove it is refused while there is no other."""
    serve_mptcp(ways)
    steering = Steering(ways, note)
    steering.steer(path("wlan0"), setup=True)
    fetch_mptcp(ways)
    busy(ways, "wlan0")
    state = steering.steer(path("wlan0", endpoint=False), setup=True)
    assert "stall" in state["refused"][0]["why"] and set(endpoints(ways)) == {CLIENT4}
    busy(ways, "wlan0")
    steering.steer(path("wlan0", endpoint=False), path("cell0"), setup=True)
    busy(ways, "cell0")
    assert steering.steer(path("wlan0", endpoint=False), path("cell0"), setup=True)["refused"] == []
    quiet(ways, "wlan0")
    busy(ways, "cell0")


def test_a_server_that_has_closed_and_hears_nothing_of_the_removal(ways: World, note: Path) -> None:
    """It has written all and closed; the first subflow's endpoint goes while nothing arrives there for 0.3 s, so that REMOVE_ADDR is lost. The FIN is not, and
    Linux would send by that subflow for a minute, to a client that acknowledges and drops."""
    digest = serve_mptcp(ways, 4_000_000)
    steering = Steering(ways, note)
    steering.steer(path("wlan0"), path("cell0"), setup=True)
    download = fetch_mptcp(ways)
    download.wait_for(400_000)
    busy(ways, "cell0")
    deaf(ways, True)
    state = steering.steer(path("wlan0", endpoint=False), path("cell0"), setup=True)
    assert state["refused"] == [] and state["endpoints_deleted"] == 1
    time.sleep(0.3)
    deaf(ways, False)
    download.timeout = LONG
    assert download.finish().digest == digest, download.result.error


def test_a_join_that_the_server_refused_keeps_no_connection(ways: World, note: Path) -> None:
    """Until the server's reset is here a joined subflow is established on this host alone; here it never comes."""
    serve_mptcp(ways)
    sh(f"ip netns exec {ways.s} ip mptcp limits set subflows 0 add_addr_accepted 0")
    sh(f"ip netns exec {ways.c} iptables -A INPUT -i cell0 -p tcp --tcp-flags RST RST -j DROP")
    steering = Steering(ways, note)
    steering.steer(path("wlan0"), path("cell0"), setup=True)
    fetch_mptcp(ways)
    busy(ways, "wlan0")
    state = steering.steer(path("wlan0", endpoint=False), path("cell0"), setup=True)
    assert "stall" in state["refused"][0]["why"] and set(endpoints(ways)) == {CLIENT4, CELL4}
    busy(ways, "wlan0")


def test_a_subflow_that_is_being_closed_keeps_no_connection(ways: World, note: Path) -> None:
    """Its endpoint went a moment ago, and the server does not know it yet. A backup: data that came by it would have it reset."""
    serve_mptcp(ways)
    steering = Steering(ways, note)
    steering.steer(path("wlan0"), path("cell0", backup=True), setup=True)
    fetch_mptcp(ways)
    busy(ways, "wlan0")
    wait_until(lambda: CELL4 in sh(f"ip netns exec {ways.c} ss -tnH state established"), LONG)
    time.sleep(0.3)  # until both ends have it
    deaf(ways, True)
    assert steering.steer(path("wlan0"), path("cell0", endpoint=False), setup=True)["endpoints_deleted"] == 1
    state = steering.steer(path("wlan0", endpoint=False), path("cell0", endpoint=False), setup=True)
    deaf(ways, False)
    assert "stall" in state["refused"][0]["why"] and set(endpoints(ways)) == {CLIENT4}
    busy(ways, "wlan0")


def test_six(ways: World, note: Path) -> None:
    steering = Steering(ways, note)
    serve_mptcp(ways)
    wlan, cell = [CLIENT4, CLIENT6], [CELL4, CELL6]
    steering.steer(path("wlan0", addresses=wlan), path("cell0", addresses=cell), setup=True)
    assert len(endpoints(ways)) == 4
    fetch_mptcp(ways, SERVER6)
    busy(ways, "wlan0")
    busy(ways, "cell0")
    steering.steer(path("wlan0", addresses=wlan, backup=True), path("cell0", addresses=cell), setup=True)
    quiet(ways, "wlan0")
    busy(ways, "cell0")


def test_limits_are_raised_and_put_back(ways: World, note: Path) -> None:
    sh(f"ip -n {ways.c} mptcp limits set subflows 1 add_addr_accepted 3")
    steering = Steering(ways, note)
    steering.steer(path("wlan0"), path("cell0"), setup=True)
    assert limits(ways) == {"add_addr_accepted": 3, "subflows": 2}
    steering.stop()
    assert limits(ways) == {"add_addr_accepted": 3, "subflows": 1}
    # Changed by somebody else meanwhile: it stays as they want it.
    steering = Steering(ways, note)
    steering.steer(path("wlan0"), path("cell0"), setup=True)
    sh(f"ip -n {ways.c} mptcp limits set subflows 5 add_addr_accepted 3")
    steering.stop()
    assert limits(ways)["subflows"] == 5


def test_someone_elses_endpoint_stays(ways: World, note: Path) -> None:
    """Not deleted, not changed, not doubled; with `foreign` its backup flag alone, which is put back."""
    sh(f"ip -n {ways.c} mptcp endpoint add {CELL4} dev cell0 id 7 subflow fullmesh")
    found = endpoints(ways)
    steering = Steering(ways, note)
    state = steering.steer(path("wlan0"), path("cell0", backup=True), setup=True)
    assert [request["what"] for request in state["refused"]] == [f"backup of {CELL4}"] and "foreign" in state["refused"][0]["why"]
    assert endpoints(ways)[CELL4] == found[CELL4] and set(endpoints(ways)) == {CLIENT4, CELL4}
    state = steering.steer(path("wlan0"), path("cell0", endpoint=False, backup=True), setup=True, foreign=True)
    assert [request["what"] for request in state["refused"]] == [f"removal of the endpoint {CELL4}"]
    assert endpoints(ways)[CELL4] == {**found[CELL4], "backup": True}
    steering.stop()
    assert endpoints(ways) == found


def test_a_backup_of_the_user_stays_one(ways: World, note: Path) -> None:
    sh(f"ip -n {ways.c} mptcp endpoint add {CELL4} dev cell0 subflow backup")
    found = endpoints(ways)
    steering = Steering(ways, note)
    for backup in (True, False):
        steering.steer(path("cell0", backup=backup), foreign=True)
        assert endpoints(ways) == found
    steering.stop()
    assert endpoints(ways) == found


@pytest.mark.parametrize("order", ["both", "daemon", "keeper"])
def test_killed(ways: World, note: Path, order: str) -> None:
    """Whoever is killed: at the latest after the next start all is as it was."""
    sh(f"ip -n {ways.c} mptcp endpoint add {CELL4} dev cell0 subflow")
    sh(f"ip -n {ways.c} mptcp limits set subflows 1 add_addr_accepted 0")
    found, before = endpoints(ways), limits(ways)
    steering = Steering(ways, note)
    steering.steer(path("wlan0"), path("cell0", backup=True), setup=True, foreign=True)
    assert endpoints(ways) != found and limits(ways) != before
    if order == "daemon":
        steering.process.kill()
        wait_until(lambda: endpoints(ways) == found and limits(ways) == before, LONG)
    elif order == "keeper":
        os.kill(steering.keeper, signal.SIGKILL)
        steering.stop()  # the daemon undoes it at its own end
        assert endpoints(ways) == found and limits(ways) == before
    else:
        steering.kill_both()
        assert endpoints(ways) != found  # nobody is left who could
        again = Steering(ways, note)
        assert endpoints(ways) == found and limits(ways) == before
        assert "1 MPTCP endpoint" in again.first["steering"]["recovered"]
        again.stop()
    assert not note.exists()


def test_standstill_puts_backup_flags_back(ways: World, note: Path) -> None:
    steering = Steering(ways, note)
    steering.steer(path("wlan0", backup=True), setup=True)
    assert endpoints(ways)[CLIENT4].get("backup")
    steering.process.send_signal(signal.SIGSTOP)
    wait_until(lambda: "backup" not in endpoints(ways)[CLIENT4], LONG)
    steering.process.send_signal(signal.SIGCONT)
    wait_until(lambda: endpoints(ways)[CLIENT4].get("backup"), LONG)
    steering.stop()


def test_what_does_not_work_is_said(ways: World, note: Path) -> None:
    """No such interface, MPTCP off, managed from user space, a note that cannot be read: a sentence, and no change."""
    note.write_text("{\"version\": 1,")
    steering = Steering(ways, note)
    assert str(note) in steering.first["steering"]["recovered"]
    state = steering.steer(path("nowhere0", addresses=["10.9.9.9"]), setup=True)
    assert "no interface nowhere0" in state["refused"][0]["why"] and endpoints(ways) == {}
    steering.steer(path("wlan0"), setup=True)
    sysctl = f"ip netns exec {ways.c} sysctl -qw net.mptcp."
    sh(sysctl + "pm_type=1")
    state = steering.steer(path("wlan0"), path("cell0"), setup=True)
    assert "user space" in state["mptcp_why"] and endpoints(ways) == {}  # and what was Tandem's is gone
    sh(sysctl + "pm_type=0")
    sh(sysctl + "enabled=0")
    assert "net.mptcp.enabled=1" in steering.steer(path("wlan0"), setup=True)["mptcp_why"]
    sh(sysctl + "enabled=1")
    assert steering.steer(path("wlan0"), setup=True)["mptcp_why"] == "" and CLIENT4 in endpoints(ways)
    assert "failed" in steering.ask(plan=plan(paths=[path("wlan0", addresses=["10.0.0.1/8"])]))
    steering.stop()
    assert endpoints(ways) == {}
