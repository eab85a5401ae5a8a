"""A laptop at rest: what the whole program costs while nothing is sent, with NetworkManager and ModemManager there to be asked."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import ROOT, need_built

from message_bus import MM, MM_ROOT, NM, NM_ROOT, Bus, Service
from tandem_lab import system

sys.path[:0] = [str(ROOT / "tools" / "bench")]
from tandem_bench.wakeups import Counting, Woken  # noqa: E402

dbus = pytest.importorskip("dbus", reason="python3-dbus is missing")
pytest.importorskip("dbusmock", reason="python3-dbusmock is missing")

MODULES = ["offload", "freeze", "mirror", "ecn", "rate"]
DEVICE, MODEM = NM_ROOT + "/Devices/7", MM_ROOT + "/Modem/0"
LONG_ENOUGH = 20.0
SETTLE = 8.0  # s: it rests 5 s after the last packet
LOOK = 60.0  # s: what was learnt was once written in that time
MOST = 7  # wake-ups meanwhile: the goal of one in 10 s, and one more
UNIT = ROOT / "packaging" / "tandemd.service.in"


class Calls:
    """Method calls on a bus from now on, each as "destination member"."""

    def __init__(self, bus: Bus) -> None:
        address = bus.environment["DBUS_SYSTEM_BUS_ADDRESS"]
        self._process = subprocess.Popen(system.owned([system.tool("dbus-monitor"), "--address", address, "--profile", "type='method_call'"]), stdout=subprocess.PIPE, text=True)
        self._lines: list[str] = []
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self._process.stdout
        for line in self._process.stdout:
            self._lines.append(line)

    def all(self) -> list[str]:
        # "mc  SECONDS  SERIAL  SENDER  DESTINATION  PATH  INTERFACE  MEMBER"
        words = [line.split() for line in list(self._lines) if line.startswith("mc")]
        return [f"{one[4]} {one[-1]}" for one in words if len(one) >= 8]

    def stop(self) -> None:
        self._process.kill()
        self._process.wait()


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    """With NetworkManager, for whom the cellular link is metered, and ModemManager, whose modem is at home and measures its signal."""
    bus = Bus(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.environment["DBUS_SYSTEM_BUS_ADDRESS"])
    networks, modems = services = Service(bus, NM, NM_ROOT), Service(bus, MM, MM_ROOT)
    networks.at(NM_ROOT).AddObject(DEVICE, NM + ".Device", {"Metered": dbus.UInt32(1), "Interface": "cdc-wdm0", "Ip4Connectivity": dbus.UInt32(4)}, [])
    networks.at(NM_ROOT).AddMethod(NM, "GetDeviceByIpIface", "s", "o", f"ret = dbus.ObjectPath('{DEVICE}')")
    ports = dbus.Array([dbus.Struct(("cell0", dbus.UInt32(2)), signature="su")], signature="(su)")
    modems.at(MM_ROOT).AddObject(MODEM, MM + ".Modem", {"Ports": ports, "State": dbus.Int32(11), "AccessTechnologies": dbus.UInt32(1 << 14),
                                                        "SignalQuality": dbus.Struct((dbus.UInt32(63), True), signature="ub")}, [])
    modem = modems.at(MODEM)
    modem.AddProperties(MM + ".Modem.Modem3gpp", {"RegistrationState": dbus.UInt32(1), "OperatorCode": "26201"})
    modem.AddProperties(MM + ".Modem.Signal", {"Rate": dbus.UInt32(0), "Lte": dbus.Dictionary({"rsrp": -92.5}, signature="sv")})
    modem.AddMethod(MM + ".Modem.Signal", "Setup", "u", "", f"self.UpdateProperties('{MM}.Modem.Signal', {{'Rate': dbus.UInt32(args[0])}})")
    yield bus
    for service in services:
        service.stop()
    bus.stop()


@pytest.fixture
def lab(air_lab):
    need_built(*MODULES)
    yield air_lab


def laptop(watch: str) -> dict[str, Any]:
    """What a laptop's daemon asks of whom, writes, and limits, as shipped."""
    return {"links": {"modem": "auto", "validation": "auto"}, "cell": {"metered": "budget", "roaming": "never"}, "detector": {"watch": watch},
            "evidence": {"share": 0.05}, "budget": {"cell_day": "10MB", "cell_month": "50MB"}}


def rested(lab, daemon, calls: Calls, seconds: float) -> tuple[Woken, list[str]]:
    """A while after a download: how often daemon and keeper were woken, and who was called on the bus meanwhile."""
    result = lab.download("random", sha256=True)
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    keeper = daemon.api("/v1/status")["keeper"]["pid"]
    time.sleep(SETTLE)
    with Counting([daemon.pid, keeper]) as counting:
        before = len(calls.all())
        woken = counting.look(seconds)
    return woken, calls.all()[before:]


def test_at_rest_nobody_is_woken_and_no_modem_is_asked(lab, bus) -> None:
    calls = Calls(bus)
    try:
        with lab.daemon(MODULES, laptop("needed")) as daemon:
            assert system.wait_until(lambda: daemon.api("/v1/status")["evidence"]["cell"] == "cell0 26201", LONG_ENOUGH)
            woken, called = rested(lab, daemon, calls, LOOK)
            # Before: the modem's signal was measured while there was something to watch.
            assert any(call.endswith(" Setup") for call in calls.all()) and any(call.endswith(" GetManagedObjects") for call in calls.all())
    finally:
        calls.stop()
    print(f"{woken.count} wake-ups in {woken.seconds:.0f} s: {woken.said()}")
    assert called == []
    assert woken.count <= MOST, woken.said()


def test_a_laptop_that_is_always_watched_asks_its_modem_so_that_the_test_above_would_see_it(lab, bus) -> None:
    calls = Calls(bus)
    try:
        with lab.daemon(MODULES, laptop("always")) as daemon:
            woken, called = rested(lab, daemon, calls, 15.0)
    finally:
        calls.stop()
    assert any(call.endswith(" GetManagedObjects") for call in called)
    assert woken.count > MOST


def test_the_service_managers_watchdog_is_no_alarm_clock() -> None:
    """Each sign of life wakes three threads: at half the period, not oftener than the goal allows beside all else."""
    period = int(re.search(r"^WatchdogSec=(\d+)$", UNIT.read_text(), re.M).group(1))
    assert 3 / (period / 2) * 10 <= 0.25
