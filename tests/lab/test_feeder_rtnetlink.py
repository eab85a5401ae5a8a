"""The rtnetlink source on real interfaces in a namespace."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from feeder_probe_run import Line, Probe, program


def ip(*words: str) -> None:
    subprocess.run(["ip", *words], check=True)


def add(space: str, name: str) -> None:
    """A veth pair, both ends down."""
    ip("-n", space, "link", "add", name, "type", "veth", "peer", "name", "peer")


@pytest.fixture
def space(without_air: None) -> Iterator[str]:
    program()
    for left in Path("/run/netns").glob("tb*-rtnl"):  # by a run that was killed
        if not Path(f"/proc/{int(left.name[2:-5], 16)}").exists():
            ip("netns", "delete", left.name)
    name = f"tb{os.getpid():x}-rtnl"
    ip("netns", "add", name)
    yield name
    ip("netns", "delete", name)


@pytest.fixture
def listen(space: str) -> Iterator[Callable[..., Probe]]:
    probes: list[Probe] = []

    def make(*interfaces: str) -> Probe:
        probes.append(Probe("rtnetlink", *interfaces, prefix=("ip", "netns", "exec", space)))
        return probes[-1]

    yield make
    for probe in probes:
        assert probe.close() == 0


def says(interface: str, **wanted: Any) -> Callable[[Line], bool]:
    """A field at its default is left out of the line."""
    full = {"up": None, "carrier": None, "gone": None, **wanted}
    return lambda line: line.get("interface") == interface and all(line.get(name) == value for name, value in full.items())


def test_an_interface_comes_and_goes(space: str, listen) -> None:
    probe = listen("w0", "w1")
    probe.wait(says("w0", gone=True))
    probe.wait(says("w1", gone=True))
    mark = probe.mark()
    add(space, "w0")
    assert probe.wait(says("w0"), after=mark)["ifindex"] > 0
    ip("-n", space, "link", "set", "w0", "up")
    probe.wait(says("w0", up=True), after=mark)
    ip("-n", space, "link", "set", "peer", "up")
    probe.wait(says("w0", up=True, carrier=True), after=mark)
    mark = probe.mark()
    ip("-n", space, "link", "set", "peer", "down")
    probe.wait(says("w0", up=True), after=mark)
    ip("-n", space, "link", "set", "w0", "down")
    probe.wait(says("w0"), after=mark)
    ip("-n", space, "link", "delete", "w0")
    probe.wait(says("w0", gone=True), after=mark)
    assert not [line for line in probe.lines if line.get("interface") not in ("w0", "w1", None)]


def test_what_is_there_is_told_at_the_start(space: str, listen) -> None:
    ip("-n", space, "link", "set", "lo", "up")
    add(space, "w0")
    probe = listen("lo", "w0")
    probe.wait(says("lo", up=True, carrier=True))
    probe.wait(says("w0"))


def test_a_renamed_interface_is_another_one(space: str, listen) -> None:
    add(space, "w0")
    probe = listen("w0", "w1")
    probe.wait(says("w0"))
    probe.wait(says("w1", gone=True))
    mark = probe.mark()
    ip("-n", space, "link", "set", "w0", "name", "w1")
    probe.wait(says("w0", gone=True), after=mark)
    probe.wait(says("w1"), after=mark)


def test_a_thousand_changes_end_in_the_right_state(space: str, listen) -> None:
    """More than the socket holds: what is lost is read anew."""
    add(space, "w0")
    ip("-n", space, "link", "set", "peer", "up")
    probe = listen("w0")
    probe.wait(says("w0"))
    batch = "".join(f"link add d{i} type veth peer name e{i}\nlink set d{i} up\nlink delete d{i}\n" for i in range(50))
    batch += "link set w0 up\nlink set w0 down\n" * 150 + "link set w0 up\n"
    subprocess.run(["ip", "-n", space, "-batch", "-"], input=batch, text=True, check=True)
    probe.wait(lambda line: line is probe.lines[-1] and says("w0", up=True, carrier=True)(line))
