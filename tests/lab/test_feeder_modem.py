"""The modem source against a real D-Bus service that plays ModemManager on a bus of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Callable, Iterator

import pytest

from feeder_probe_run import LONG_ENOUGH, Line, Probe, program
from message_bus import MM, MM_ROOT, PROPERTIES, Bus, Service

from tandem_lab import system

dbus = pytest.importorskip("dbus", reason="python3-dbus is missing")
pytest.importorskip("dbusmock", reason="python3-dbusmock is missing")

MODEM = MM + ".Modem"
SIGNAL = MODEM + ".Signal"
POLL_MS = "1000"
LTE, NR5G = 1 << 14, 1 << 15
UNKNOWN = -sys.float_info.max  # ModemManager's mark


class Manager(Service):
    """ModemManager, made up."""

    def __init__(self, bus: Bus) -> None:
        super().__init__(bus, MM, MM_ROOT)

    def add(self, number: int = 0, signal: dict[str, Any] | None = None, announce: bool = True, refuse: bool = False) -> str:
        path = f"{MM_ROOT}/Modem/{number}"
        self.at(MM_ROOT).AddObject(path, MODEM, {"State": dbus.Int32(11), "AccessTechnologies": dbus.UInt32(LTE),
                                                   "SignalQuality": dbus.Struct((dbus.UInt32(63), True), signature="ub")}, [])
        modem = self.at(path)
        values = {name: dbus.Dictionary({}, signature="sv") for name in ("Gsm", "Umts", "Lte", "Nr5g")}
        modem.AddProperties(SIGNAL, {"Rate": dbus.UInt32(0), **values})
        if signal is not None:
            self.signal(path, Lte=signal)
        code = f"self.UpdateProperties('{SIGNAL}', {{'Rate': dbus.UInt32(args[0])}})"
        if refuse:
            code = "raise dbus.exceptions.DBusException('not for you', name='org.freedesktop.DBus.Error.AccessDenied')"
        modem.AddMethod(SIGNAL, "Setup", "u", "", code)
        if announce:
            self.announce(path)
        return path

    def announce(self, path: str) -> None:
        """InterfacesAdded with what a modem needs."""
        self.at(MM_ROOT).EmitSignal("org.freedesktop.DBus.ObjectManager", "InterfacesAdded", "oa{sa{sv}}", [
            dbus.ObjectPath(path),
            dbus.Dictionary({MODEM: dbus.Dictionary({"State": dbus.Int32(11, variant_level=1)}, signature="sv")}, signature="sa{sv}")])

    def remove(self, path: str, announce: bool = True) -> None:
        self.at(MM_ROOT).RemoveObject(path)
        if announce:
            self.at(MM_ROOT).EmitSignal("org.freedesktop.DBus.ObjectManager", "InterfacesRemoved", "oas",
                                          [dbus.ObjectPath(path), dbus.Array([MODEM, SIGNAL], signature="s")])

    def signal(self, path: str, **technologies: dict[str, Any]) -> None:
        for name, values in technologies.items():
            self._properties(path).Set(SIGNAL, name, dbus.Dictionary(values, signature="sv"))

    def set(self, path: str, **properties: Any) -> None:
        for name, value in properties.items():
            self._properties(path).Set(MODEM, name, value)

    def _properties(self, path: str) -> Any:
        return self.at(path, PROPERTIES)

    def property(self, path: str, name: str) -> Any:
        return self._properties(path).Get(SIGNAL, name)

    def freeze(self, on: bool) -> None:
        self._process.send_signal(signal.SIGSTOP if on else signal.SIGCONT)


@pytest.fixture
def bus(tmp_path: Path) -> Iterator[Bus]:
    program()
    bus = Bus(tmp_path)
    yield bus
    bus.stop()


@pytest.fixture
def start(bus: Bus) -> Iterator[Callable[[], Manager]]:
    managers: list[Manager] = []

    def make() -> Manager:
        managers.append(Manager(bus))
        return managers[-1]

    yield make
    for manager in managers:
        manager.stop()


@pytest.fixture
def listen(bus: Bus) -> Iterator[Callable[[], Probe]]:
    probes: list[Probe] = []

    def make() -> Probe:
        probes.append(Probe("modem", POLL_MS, environment=bus.environment))
        return probes[-1]

    yield make
    for probe in probes:
        assert probe.close() == 0


def says(**wanted: Any) -> Callable[[Line], bool]:
    return lambda line: line.get("kind") == "modem" and all(line.get(name) == value for name, value in wanted.items())


def test_tells_what_the_modem_says(start, listen) -> None:
    manager = start()
    path = manager.add(signal={"rssi": -61.0, "rsrp": -92.5, "rsrq": -11.0, "snr": 7.25})
    probe = listen()
    line = probe.wait(says(modem=path, rsrp=-92.5))
    assert {name: line[name] for name in ("state", "technology", "rssi", "rsrq", "snr", "quality")} == {
        "state": "connected", "technology": "lte", "rssi": -61, "rsrq": -11, "snr": 7.25, "quality": 0.63}
    # It is asked for measurements, at the rate of the polls.
    end = time.monotonic() + LONG_ENOUGH
    while manager.property(path, "Rate") != 1:
        assert time.monotonic() < end, "Setup was not called"
        time.sleep(0.05)


def test_follows_changes(start, listen) -> None:
    manager = start()
    path = manager.add(signal={"rsrp": -92.5})
    probe = listen()
    probe.wait(says(rsrp=-92.5))
    manager.signal(path, Lte={"rsrp": -101.0})
    probe.wait(says(rsrp=-101))
    manager.set(path, State=dbus.Int32(8))
    probe.wait(says(state="registered", rsrp=-101))
    manager.signal(path, Nr5g={"rsrp": -88.0, "snr": 15.0})
    manager.set(path, AccessTechnologies=dbus.UInt32(LTE | NR5G))
    line = probe.wait(says(technology="lte+5gnr", rsrp=-88))
    assert line["snr"] == 15 and "rssi" not in line  # of one technology, not a mixture


def test_what_does_not_change_is_told_again(start, listen) -> None:
    manager = start()
    manager.add(signal={"rsrp": -92.5})
    probe = listen()
    for _ in range(3):
        mark = probe.mark()
        probe.wait(says(rsrp=-92.5), after=mark)


def test_absent_stays_absent(start, listen) -> None:
    manager = start()
    path = manager.add(signal={"rssi": UNKNOWN, "rsrp": -92.5, "snr": float("nan"), "error-rate": 3.0})
    manager.set(path, State=dbus.Int32(0), AccessTechnologies=dbus.UInt32(0),
                SignalQuality=dbus.Struct((dbus.UInt32(63), False), signature="ub"))
    line = listen().wait(says(rsrp=-92.5))
    assert set(line) == {"at_ns", "source", "kind", "modem", "rsrp"}


def test_odd_types_are_counted_and_nothing_breaks(start, listen) -> None:
    manager = start()
    path = manager.add(signal={"rssi": "strong", "rsrp": dbus.Int32(-90), "rsrq": dbus.Array([1], signature="i"), "snr": 5.0})
    probe = listen()
    line = probe.wait(says(rsrp=-90))
    assert line["snr"] == 5 and "rssi" not in line and "rsrq" not in line
    properties = {"State": dbus.Array(["connected"], signature="s"), "SignalQuality": "good", "AccessTechnologies": -1.5}
    manager.at(path).EmitSignal(PROPERTIES, "PropertiesChanged", "sa{sv}as",
                                     [MODEM, dbus.Dictionary(properties, signature="sv"), dbus.Array([], signature="s")])
    # Another signature than the interface has.
    manager.at(path).EmitSignal(PROPERTIES, "PropertiesChanged", "iv", [7, "nonsense"])
    manager.signal(path, Lte={"rsrp": -95.0})
    probe.wait(says(rsrp=-95))
    probe.wait(says(rsrp=-95, state="connected"))  # the next poll puts it right


def test_a_modem_that_vanishes_is_told(start, listen) -> None:
    manager = start()
    first, second = manager.add(0, {"rsrp": -92.5}), manager.add(1, {"rsrp": -80.0})
    probe = listen()
    probe.wait(says(modem=first, rsrp=-92.5))
    probe.wait(says(modem=second, rsrp=-80))
    manager.remove(first)
    assert set(probe.wait(says(modem=first, gone=True))) == {"at_ns", "source", "kind", "modem", "gone"}
    manager.remove(second, announce=False)  # found out by the poll
    mark = probe.mark()
    probe.wait(says(modem=second, gone=True))
    manager.add(0, {"rsrp": -70.0})
    probe.wait(says(modem=first, rsrp=-70), after=mark)


def test_modem_manager_dies_and_returns(start, listen) -> None:
    manager = start()
    path = manager.add(signal={"rsrp": -92.5})
    probe = listen()
    probe.wait(says(rsrp=-92.5))
    manager.stop()
    probe.wait(says(modem=path, gone=True))
    probe.wait(lambda line: "ModemManager" in line.get("problem", ""))
    mark = probe.mark()
    start().add(signal={"rsrp": -77.0})
    probe.wait(says(rsrp=-77), after=mark)
    probe.wait(lambda line: line.get("problem") == "", after=mark)


def test_no_modem_manager_at_all(start, listen) -> None:
    probe = listen()
    problem = probe.wait(lambda line: line.get("problem"))["problem"]
    assert "there is no ModemManager on the bus" in problem and "systemctl start ModemManager" in problem
    start().add(signal={"rsrp": -92.5})
    probe.wait(says(rsrp=-92.5))


def test_no_bus_at_all(tmp_path: Path) -> None:
    probe = Probe("modem", POLL_MS, environment={"DBUS_SYSTEM_BUS_ADDRESS": f"unix:path={tmp_path / 'nobody'}"})
    problem = probe.wait(lambda line: line.get("problem"))["problem"]
    assert "the system bus cannot be used: " in problem and "start dbus" in problem
    assert probe.close() == 0


def test_the_bus_dies(bus: Bus, start, listen) -> None:
    path = start().add(signal={"rsrp": -92.5})
    probe = listen()
    probe.wait(says(rsrp=-92.5))
    bus.stop()
    probe.wait(says(modem=path, gone=True))
    probe.wait(lambda line: "the system bus" in line.get("problem", ""))


def test_a_refusal_to_measure_is_said(start, listen) -> None:
    manager = start()
    manager.add(signal={"rsrp": -92.5}, refuse=True)
    probe = listen()
    probe.wait(says(rsrp=-92.5, quality=0.63))
    problem = probe.wait(lambda line: line.get("problem"))["problem"]
    assert "AccessDenied: not for you" in problem and "Device.Control" in problem
    mark = probe.mark()
    probe.wait(says(rsrp=-92.5), after=mark)  # it goes on


def test_others_cannot_speak_for_modem_manager(bus: Bus, start, listen) -> None:
    manager = start()
    path = manager.add(signal={"rsrp": -92.5})
    probe = listen()
    probe.wait(says(rsrp=-92.5))
    liar = dbus.bus.BusConnection(bus.environment["DBUS_SYSTEM_BUS_ADDRESS"])
    unique = [name for name in bus.connection.list_names()]
    for name in unique:  # to everyone, past the bus's filter
        message = dbus.lowlevel.SignalMessage(path, PROPERTIES, "PropertiesChanged")
        message.set_destination(name)
        message.append(MODEM, dbus.Dictionary({"State": dbus.Int32(3)}, signature="sv"), dbus.Array([], signature="s"), signature="sa{sv}as")
        liar.send_message(message)
    liar.flush()
    manager.signal(path, Lte={"rsrp": -93.0})
    probe.wait(says(rsrp=-93))
    assert not [line for line in probe.lines if line.get("state") == "disabled"]
    liar.close()


def test_a_manager_that_hangs_holds_nobody_up(start, listen) -> None:
    manager = start()
    manager.add(signal={"rsrp": -92.5})
    probe = listen()
    probe.wait(says(rsrp=-92.5))
    manager.freeze(True)
    time.sleep(1.5)
    mark = probe.mark()
    time.sleep(1.5)
    assert probe.mark() == mark  # silence: what it said last becomes stale
    before = time.monotonic()
    assert probe.close() == 0
    assert time.monotonic() - before < 10
    manager.freeze(False)


def test_gives_back_the_measurements(start, bus: Bus) -> None:
    manager = start()
    path = manager.add(signal={"rsrp": -92.5})
    probe = Probe("modem", POLL_MS, environment=bus.environment)
    probe.wait(says(rsrp=-92.5))
    end = time.monotonic() + LONG_ENOUGH
    while manager.property(path, "Rate") != 1 and time.monotonic() < end:
        time.sleep(0.05)
    assert probe.close() == 0
    while manager.property(path, "Rate") != 0:
        assert time.monotonic() < end, "it still measures"
        time.sleep(0.05)


def test_doctor_shows_what_the_modem_tells_and_changes_nothing(bus: Bus, start, tmp_path: Path) -> None:
    tandem = program().parent.parent / "bin" / "tandem"
    if not tandem.exists():
        pytest.skip(f"{tandem} is not built")
    manager = start()
    path = manager.add()
    (tmp_path / "tandem.toml").write_text('[links]\nwifi = "lo"\ncell = "none"\n')

    def matrix() -> dict[tuple[str, str], str]:
        done = subprocess.run([str(tandem), "doctor", "--json", "--config", str(tmp_path / "tandem.toml")], capture_output=True, text=True,
                              env={**os.environ, **bus.environment}, timeout=60)
        return {(row["source"], row["field"]): row["there"] for row in json.loads(done.stdout)["radio"]}

    def with_modem() -> dict[tuple[str, str], str]:
        """The doctor listens for two seconds; on a busy machine the made-up service may need longer."""
        for _ in range(5):
            if ("modem", "state") in (rows := matrix()):
                return rows
        return rows

    seen = with_modem()
    assert seen["modem", "ModemManager"] == seen["modem", "state"] == seen["modem", "quality"] == "yes"
    assert seen["modem", "rsrp"] == seen["modem", "snr"] == "unknown"  # nobody measures
    assert seen["rtnetlink", "carrier of lo"] == "yes"
    assert manager.property(path, "Rate") == 0  # an onlooker
    manager.signal(path, Lte={"rsrp": -92.5})
    seen = with_modem()
    assert seen["modem", "rsrp"] == "yes" and seen["modem", "snr"] == "absent"
    manager.stop()
    assert matrix()["modem", "ModemManager"] == "absent"


def test_a_modem_that_vanishes_under_the_daemon(bus: Bus, start, air_lab, monkeypatch) -> None:
    """Gone with its service, the modem is forgotten; the daemon runs on, and knows it again when it is back."""
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.environment["DBUS_SYSTEM_BUS_ADDRESS"])
    manager = start()
    manager.add(signal={"rsrp": -92.5})
    with air_lab.daemon([], {"detector": {"watch": "always"}}) as daemon:
        def modems() -> list[dict[str, Any]]:
            return daemon.api("/v1/links")["cell"]["modems"]

        assert system.wait_until(lambda: [modem.get("rsrp_dbm") for modem in modems()] == [-92.5], 15)
        assert "rsrq_db" not in modems()[0] and modems()[0]["technology"] == "lte"
        manager.stop()
        assert system.wait_until(lambda: not modems(), 15)
        assert air_lab.download("1M").error is None and daemon.process.poll() is None
        source = next(one for one in daemon.api("/v1/links")["wifi"]["sources"] if one["name"] == "modem")
        assert source["state"] == "closed" and "ModemManager" in source["problem"]
        start().add(signal={"rsrp": -80.0})
        assert system.wait_until(lambda: [modem.get("rsrp_dbm") for modem in modems()] == [-80.0], 20)
