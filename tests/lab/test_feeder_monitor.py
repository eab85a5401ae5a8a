"""The monitor source reads real captures: radiotap frames that a TAP device of that link type hands to libpcap, on any machine."""

from __future__ import annotations

import ctypes
import fcntl
import json
import os
import queue
import signal
import struct
import subprocess
import threading
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

ROOT = Path(__file__).resolve().parents[2]
CLONE_NEWNET, TUNSETIFF, TUNSETLINK = 0x40000000, 0x400454CA, 0x400454CD
IFF_TAP, IFF_NO_PI = 0x0002, 0x1000
ARPHRD_ETHER, ARPHRD_IEEE80211_RADIOTAP = 1, 803
OWN, AP, STRANGER = "02:00:00:00:01:01", "02:00:00:00:02:01", "02:00:00:00:07:01"
BEACON, DATA_DOWN, RETRY, ACK, BLOCK_ACK, RTS = 0x0080, 0x0208, 0x0800, 0x00D4, 0x0094, 0x00B4
_libc = ctypes.CDLL(None, use_errno=True)


def mac(text: str) -> bytes:
    return bytes.fromhex(text.replace(":", ""))


def frame(control: int, to: str, by: str | None, *, number: int = 1, damaged: bool = False, signal_dbm: int = -50, payload: int = 0) -> bytes:
    """Radiotap with flags, rate, channel and signal; then the 802.11 header."""
    radiotap = struct.pack("<BBHIBBHHb", 0, 0, 15, 0b101110, 0x40 if damaged else 0, 108, 2412, 0xC0, signal_dbm)
    header = struct.pack("<HH6s", control, 44, mac(to))
    if by is not None:
        header += mac(by) + mac(AP) + struct.pack("<H", number << 4)
    return radiotap + header + bytes(payload)


class Air:
    """The TAP device: what is written into it, a monitor interface would have captured."""

    def __init__(self, namespace: str, link: int = ARPHRD_IEEE80211_RADIOTAP) -> None:
        self.namespace = namespace
        self._fd = self._open(link)

    def _open(self, link: int) -> int:
        with open("/proc/thread-self/ns/net") as own, open(f"/run/netns/{self.namespace}") as inside:
            if _libc.setns(inside.fileno(), CLONE_NEWNET) != 0:
                raise OSError(ctypes.get_errno(), "setns")
            try:
                fd = os.open("/dev/net/tun", os.O_RDWR | os.O_CLOEXEC)
                fcntl.ioctl(fd, TUNSETIFF, struct.pack("16sH22x", b"air0", IFF_TAP | IFF_NO_PI))
                fcntl.ioctl(fd, TUNSETLINK, link)
            finally:
                _libc.setns(own.fileno(), CLONE_NEWNET)
        subprocess.run(["ip", "-n", self.namespace, "link", "set", "air0", "up"], check=True)
        return fd

    def send(self, record: bytes) -> None:
        os.write(self._fd, record)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
        self._fd = -1


class Probe:
    """feeder_probe in the namespace."""

    def __init__(self, program: Path, namespace: str, *arguments: str) -> None:
        self.process = subprocess.Popen(["ip", "netns", "exec", namespace, str(program), "monitor:air0", "wlan0", *arguments],
                                        stdout=subprocess.PIPE, text=True)
        self.lines: queue.Queue[dict[str, Any] | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout
        for line in self.process.stdout:
            self.lines.put(json.loads(line))
        self.lines.put(None)

    def until(self, wanted: Callable[[dict[str, Any]], bool], seconds: float = 20.0) -> list[dict[str, Any]]:
        """Lines up to the wanted one."""
        seen: list[dict[str, Any]] = []
        end = time.monotonic() + seconds
        while True:
            try:
                line = self.lines.get(timeout=max(0.0, end - time.monotonic()))
            except queue.Empty:
                pytest.fail(f"waited in vain; seen: {seen}")
            assert line is not None, f"the probe ended; seen: {seen}"
            seen.append(line)
            if wanted(line):
                return seen

    def listening(self, air: Air) -> None:
        """Waits until frames arrive: the socket is there then."""
        end = time.monotonic() + 20
        while time.monotonic() < end:
            air.send(frame(BEACON, "ff:ff:ff:ff:ff:ff", AP, number=4000))
            try:
                if (line := self.lines.get(timeout=0.1)) and line.get("sequence") == 4000:
                    return
            except queue.Empty:
                pass
        pytest.fail("the probe hears nothing")

    def stop(self) -> dict[str, Any]:
        """Ends it as a person would; its last line."""
        self.process.terminate()
        last: dict[str, Any] = {}
        while (line := self.lines.get(timeout=20)) is not None:
            last = line
        assert self.process.wait(timeout=20) == 0
        return last


@pytest.fixture(scope="module")
def program() -> Path:
    binaries = Path(os.environ.get("TANDEM_BIN_DIR") or ROOT / "build" / "bin")
    found = binaries.parent / "tests" / "feeder_probe"
    if not os.access(found, os.X_OK):
        pytest.skip(f"not built: {found}")
    return found


@pytest.fixture
def namespace(without_air: None, prefix: str) -> Iterator[str]:
    name = f"{prefix}mon"
    subprocess.run(["ip", "netns", "add", name], check=True)
    try:
        for words in (f"link add wlan0 address {OWN} type veth peer name other", "link set wlan0 up"):
            subprocess.run(["ip", "-n", name, *words.split()], check=True)
        yield name
    finally:
        subprocess.run(["ip", "netns", "del", name], check=False)


@pytest.fixture
def air(namespace: str) -> Iterator[Air]:
    device = Air(namespace)
    yield device
    device.close()


@pytest.fixture
def probe(program: Path, namespace: str, air: Air) -> Iterator[Probe]:
    one = Probe(program, namespace, "--ap", AP)
    try:
        one.listening(air)
        yield one
    finally:
        one.process.kill()
        one.process.wait()


def heard(probe: Probe, air: Air, records: list[bytes]) -> list[dict[str, Any]]:
    """What the source makes of them."""
    for record in records:
        air.send(record)
    air.send(frame(BEACON, "ff:ff:ff:ff:ff:ff", AP, number=4001))  # the last one
    lines = probe.until(lambda line: line.get("sequence") == 4001)
    return [line for line in lines[:-1] if line.get("sequence") != 4000]


def test_what_frames_say_arrives(probe: Probe, air: Air) -> None:
    before = time.monotonic_ns()
    got = heard(probe, air, [frame(DATA_DOWN, OWN, AP, number=7, signal_dbm=-61, payload=1500), frame(DATA_DOWN | RETRY, OWN, AP, number=7),
                             frame(DATA_DOWN, OWN, AP, number=8, damaged=True)])
    after = time.monotonic_ns()
    first, retry, damaged = got
    assert (first["type"], first["receiver"], first["transmitter"], first["sequence"]) == ("data", OWN, AP, 7)
    assert (first["signal"], first["mbps"], first["frequency"]) == (-61, 54, 2412)
    assert first["bytes"] == 24 + 1500  # all of it, although only the headers were fetched
    assert "retry" not in first and retry["retry"] and retry["sequence"] == 7
    assert damaged["damaged"]
    times = [line["at_ns"] for line in got]
    assert before - 1e6 <= times[0] <= times[1] <= times[2] <= after


def test_only_what_matters_leaves_the_kernel(probe: Probe, air: Air) -> None:
    matters = [frame(ACK, OWN, None), frame(ACK, AP, None), frame(BLOCK_ACK, AP, STRANGER), frame(DATA_DOWN, STRANGER, AP, number=2),
               frame(DATA_DOWN, AP, OWN, number=3, damaged=True), frame(RTS, OWN, AP)]
    others = [frame(ACK, STRANGER, None), frame(BEACON, "ff:ff:ff:ff:ff:ff", STRANGER, number=5), frame(DATA_DOWN, STRANGER, STRANGER, number=6),
              frame(RTS, AP, STRANGER), frame(DATA_DOWN, AP, STRANGER, number=9)]
    assert len(heard(probe, air, [*others, *matters, *others])) == len(matters)


def test_broken_headers_are_counted_and_harm_nothing(probe: Probe, air: Air) -> None:
    whole = frame(DATA_DOWN, OWN, AP, number=7)
    lies = bytearray(whole)
    struct.pack_into("<I", lies, 4, 0xFFFFFFFF)  # every field is there, it says, and more words of bits
    longer = bytearray(whole)
    struct.pack_into("<H", longer, 2, 60000)  # longer than the record
    cut = [whole[:size] for size in range(14, len(whole))]  # shorter ones a TAP device does not take
    got = heard(probe, air, [bytes(lies), bytes(longer), *cut, whole])
    # Of a frame that ends behind the addresses these are still known.
    assert got and got[-1]["sequence"] == 7
    assert all(line["receiver"] == OWN for line in got)
    assert probe.stop()["skipped"] >= 1


def test_what_nobody_fetches_in_time_is_counted(probe: Probe, air: Air) -> None:
    probe.process.send_signal(signal.SIGSTOP)
    record = frame(DATA_DOWN, OWN, AP, payload=400)
    for _ in range(30_000):
        air.send(record)
    probe.process.send_signal(signal.SIGCONT)
    time.sleep(1.5)  # the kernel is asked once a second
    last = probe.stop()
    print(last)
    assert last["skipped"] > 0
    assert last["received"] + last["skipped"] >= 30_000


def test_an_interface_that_goes_is_told_and_may_come_back(probe: Probe, air: Air, namespace: str) -> None:
    air.close()
    gone = probe.until(lambda line: "problem" in line)[-1]["problem"]
    assert "air0" in gone
    again = Air(namespace)
    try:
        probe.until(lambda line: line.get("problem") == "")
        probe.listening(again)
    finally:
        again.close()


def test_another_link_type_is_refused(program: Path, namespace: str) -> None:
    device = Air(namespace, ARPHRD_ETHER)
    try:
        one = Probe(program, namespace, "--seconds", "0.1")
        said = one.until(lambda line: "problem" in line)[-1]["problem"]
        assert "EN10MB" in said and "not radiotap" in said
        one.process.wait(timeout=20)
    finally:
        device.close()
