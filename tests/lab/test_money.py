"""What the cellular link costs: metered, roaming, and the budget of days and months, by a daemon between real TCPs.

NetworkManager and ModemManager are played on a bus of the test's own.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Iterator

import pytest

from message_bus import MM, MM_ROOT, NM, NM_ROOT, PROPERTIES, Bus, Service
from tandem_lab import system
from tandem_lab.api import to_toml

dbus = pytest.importorskip("dbus", reason="python3-dbus is missing")
pytest.importorskip("dbusmock", reason="python3-dbusmock is missing")

DEVICE, WIFI, MODEM = NM_ROOT + "/Devices/7", NM_ROOT + "/Devices/8", MM_ROOT + "/Modem/0"
GPP = MM + ".Modem.Modem3gpp"
HOME, ROAMING = 1, 5
UNKNOWN, YES, NO, GUESS_YES = 0, 1, 2, 3
LONG_ENOUGH = 20.0
# A path of any delay is accepted: these tests are about money.
ANY_DELAY = {"offload": {"added_delay_free": "2s", "goodput_loss_limit": 1.0}}


@pytest.fixture
def bus(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Bus]:
    bus = Bus(tmp_path)
    monkeypatch.setenv("DBUS_SYSTEM_BUS_ADDRESS", bus.environment["DBUS_SYSTEM_BUS_ADDRESS"])
    yield bus
    bus.stop()


@pytest.fixture
def network_manager(bus: Bus) -> Iterator[Service]:
    service = Service(bus, NM, NM_ROOT)
    service.at(NM_ROOT).AddObject(DEVICE, NM + ".Device", {"Metered": dbus.UInt32(UNKNOWN), "Interface": "cdc-wdm0"}, [])
    code = f"if args[0] != 'cell0':\n  raise dbus.exceptions.DBusException('no', name='{NM}.UnknownDevice')\nret = dbus.ObjectPath('{DEVICE}')"
    service.at(NM_ROOT).AddMethod(NM, "GetDeviceByIpIface", "s", "o", code)
    yield service
    service.stop()


@pytest.fixture
def modem_manager(bus: Bus) -> Iterator[Service]:
    service = Service(bus, MM, MM_ROOT)
    ports = dbus.Array([dbus.Struct(("cell0", dbus.UInt32(2)), signature="su")], signature="(su)")
    service.at(MM_ROOT).AddObject(MODEM, MM + ".Modem", {"Ports": ports}, [])
    service.at(MODEM).AddProperties(GPP, {"RegistrationState": dbus.UInt32(HOME)})
    yield service
    service.stop()


@pytest.fixture
def lab(air_lab):
    yield air_lab


def cell(daemon) -> dict[str, Any]:
    return daemon.api("/v1/status")["links"]["cell"]


def cell_bytes(daemon) -> int:
    return daemon.api("/v1/status")["datapath"]["cell_bytes"]


def pays(lab, daemon, more_than: int = 0) -> bool:
    """Whether a download comes to use cellular."""
    going = lab.start_download("random", seconds=LONG_ENOUGH)
    system.wait_until(lambda: cell_bytes(daemon) > more_than or not going.running(), LONG_ENOUGH)
    paid = cell_bytes(daemon) > more_than
    assert going.stop().error is None
    return paid


def test_roaming_is_never_paid_for(lab, modem_manager) -> None:
    modem_manager.at(MODEM, PROPERTIES).Set(GPP, "RegistrationState", dbus.UInt32(ROAMING))
    with lab.daemon(["offload"], {"cell": {"roaming": "never"}, "modules": ANY_DELAY}) as daemon:
        assert system.wait_until(lambda: cell(daemon)["denied"] == "roaming", LONG_ENOUGH)
        assert cell(daemon)["roaming"] is True and cell(daemon)["route"] is False
        result = lab.download("random", sha256=True)
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert cell_bytes(daemon) == 0 and result.interfaces["cell0"]["acks_out"] == 0
        modem_manager.at(MODEM, PROPERTIES).Set(GPP, "RegistrationState", dbus.UInt32(HOME))
        assert system.wait_until(lambda: cell(daemon)["denied"] == "", LONG_ENOUGH)
        assert pays(lab, daemon)
        # It begins to roam while ACKs go that way.
        going = lab.start_download("random", sha256=True)
        before = cell_bytes(daemon)
        assert system.wait_until(lambda: cell_bytes(daemon) > before + 1000 or not going.running(), 10) and going.running()
        modem_manager.at(MODEM, PROPERTIES).Set(GPP, "RegistrationState", dbus.UInt32(ROAMING))
        assert system.wait_until(lambda: cell(daemon)["denied"] == "roaming", LONG_ENOUGH)
        then = cell_bytes(daemon)
        result = going.wait()
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        assert cell_bytes(daemon) == then


def test_roaming_may_be_allowed(lab, modem_manager) -> None:
    modem_manager.at(MODEM, PROPERTIES).Set(GPP, "RegistrationState", dbus.UInt32(ROAMING))
    with lab.daemon(["offload"], {"cell": {"roaming": "budget"}, "modules": ANY_DELAY}) as daemon:
        assert lab.download("random").error is None
        assert cell(daemon)["denied"] == "" and cell_bytes(daemon) > 0


@pytest.mark.parametrize("kind", [YES, GUESS_YES])
def test_metered_is_never_used_when_so_configured(lab, network_manager, kind) -> None:
    network_manager.at(DEVICE, PROPERTIES).Set(NM + ".Device", "Metered", dbus.UInt32(kind))
    with lab.daemon(["offload"], {"cell": {"metered": "never"}, "modules": ANY_DELAY}) as daemon:
        assert system.wait_until(lambda: cell(daemon)["denied"] == "metered", LONG_ENOUGH)
        assert lab.download("random").error is None
        assert cell_bytes(daemon) == 0
        network_manager.at(DEVICE, PROPERTIES).Set(NM + ".Device", "Metered", dbus.UInt32(NO))
        assert system.wait_until(lambda: cell(daemon)["denied"] == "", LONG_ENOUGH)
        assert cell(daemon)["metered"] is False


def test_metered_is_used_within_the_budget(lab, network_manager) -> None:
    network_manager.at(DEVICE, PROPERTIES).Set(NM + ".Device", "Metered", dbus.UInt32(YES))
    with lab.daemon(["offload"], {"cell": {"metered": "budget"}, "budget": {"cell_month": "20kB"}, "modules": ANY_DELAY}) as daemon:
        assert system.wait_until(lambda: cell(daemon)["metered"] is True, LONG_ENOUGH)
        assert lab.download("random").error is None
        assert 0 < cell_bytes(daemon) <= 20_000


def test_as_shipped_a_metered_link_costs_ten_megabytes_a_day(lab, network_manager) -> None:
    """Nobody has set anything: the link is used, since nearly every cellular link is metered, and the last bytes of the day are the last (decision 0021)."""
    network_manager.at(DEVICE, PROPERTIES).Set(NM + ".Device", "Metered", dbus.UInt32(GUESS_YES))
    spent, left = lab.directory / "budget" / "spent", 15_000
    # All but [cell] and the limits of [budget], which are no experiment's.
    shipped = to_toml({"links": {"wifi": "wlan0", "cell": "cell0", "private_peers": "as_others", "validation": "none"}, "evidence": {"share": 0}, "recorder": {"directory": str(lab.directory)},
                       "daemon": {"socket": str(lab.directory / "tandemd.sock"), "saved_directory": str(lab.directory / "saved")}, "budget": {"directory": str(spent.parent)},
                       "modules": {"offload": {"enabled": True, **ANY_DELAY["offload"]}}})
    with lab.daemon(config=shipped) as daemon:
        assert system.wait_until(lambda: cell(daemon)["metered"] is True, LONG_ENOUGH)
        assert cell(daemon)["denied"] == ""
        budget = daemon.api("/v1/budget")
        assert (budget["today"]["limit_bytes"], budget["month"]["limit_bytes"]) == (10_000_000, 50_000_000)
        assert pays(lab, daemon, left)
    text, changed = re.subn(r"^(day \d+ offload) \d+$", rf"\1 {10_000_000 - left}", spent.read_text(), flags=re.M)
    assert changed == 1
    spent.write_text(text)
    with lab.daemon(config=shipped) as daemon:
        assert lab.download("random").error is None
        assert 0 < cell_bytes(daemon) <= left
        assert lab.download("random").error is None
        assert cell_bytes(daemon) <= left
    spent.unlink()


def test_behind_a_captive_portal_nothing_is_touched(lab, network_manager) -> None:
    none, portal, limited, full = (dbus.UInt32(number) for number in (1, 2, 3, 4))
    network_manager.at(NM_ROOT).AddObject(WIFI, NM + ".Device", {"Ip4Connectivity": portal, "Ip6Connectivity": none,
                                                                 "ActiveConnection": dbus.ObjectPath(NM_ROOT + "/ActiveConnection/1")}, [])
    network_manager.at(NM_ROOT).AddMethod(NM, "GetDeviceByIpIface", "s", "o", f"ret = dbus.ObjectPath('{WIFI}')")
    device = network_manager.at(WIFI, PROPERTIES)

    def hands_off(daemon) -> str:
        return daemon.api("/v1/status")["hands_off"]

    with lab.daemon(["offload"], {"links": {"validation": "auto"}, "detector": {"watch": "always"}, "modules": ANY_DELAY}) as daemon:
        assert system.wait_until(lambda: "captive portal" in hands_off(daemon), LONG_ENOUGH)
        result = lab.download("random", sha256=True)
        assert result.sha256 == lab.random_file["sha256"] and result.interfaces["cell0"]["acks_out"] == 0
        status = daemon.api("/v1/status")
        assert status["datapath"]["queued"] == 0 and status["links"]["wifi"]["blackout"]["probes_sent"] == 0 and "portal" in cell(daemon)["denied"]
        device.Set(NM + ".Device", "Ip4Connectivity", full)
        assert system.wait_until(lambda: hands_off(daemon) == "", LONG_ENOUGH)
        assert pays(lab, daemon)
        # What was validated stays so: this is what a blackout looks like from there.
        device.Set(NM + ".Device", "Ip4Connectivity", limited)
        device.Set(NM + ".Device", "Ip6Connectivity", limited)
        network_manager.stop()
        assert hands_off(daemon) == ""


def test_without_the_services_nothing_stands_in_the_way(lab, bus) -> None:
    with lab.daemon(["offload"], {"cell": {"metered": "never", "roaming": "never"}}) as daemon:
        assert system.wait_until(lambda: cell(daemon)["denied"] == "", LONG_ENOUGH)
        assert cell(daemon)["metered"] is None and cell(daemon)["roaming"] is None


def test_a_service_that_comes_later_is_heard(lab, bus, request) -> None:
    with lab.daemon(["offload"], {"cell": {"roaming": "never"}}) as daemon:
        assert system.wait_until(lambda: cell(daemon)["denied"] == "", LONG_ENOUGH)
        manager = request.getfixturevalue("modem_manager")
        manager.at(MODEM, PROPERTIES).Set(GPP, "RegistrationState", dbus.UInt32(ROAMING))
        assert system.wait_until(lambda: cell(daemon)["denied"] == "roaming", LONG_ENOUGH)
        manager.stop()
        assert system.wait_until(lambda: cell(daemon)["denied"] == "", LONG_ENOUGH)


def test_what_is_learnt_is_the_operators(lab, modem_manager) -> None:
    def known_as(daemon) -> str:
        return daemon.api("/v1/status")["evidence"]["cell"]

    def registered(where: str) -> None:
        modem_manager.at(MODEM, PROPERTIES).Set(GPP, "OperatorCode", where)

    modem_manager.at(MODEM).AddProperty(GPP, "OperatorCode", "26201")
    # Nothing else is asked of the services.
    with lab.daemon(["offload"], {"evidence": {"share": 0.05}, "cell": {"roaming": "budget", "metered": "ignore"}}) as daemon:
        assert system.wait_until(lambda: known_as(daemon) == "cell0 26201", LONG_ENOUGH)
        registered("../../etc")
        registered("310260")
        assert system.wait_until(lambda: known_as(daemon) == "cell0 310260", LONG_ENOUGH)
        modem_manager.stop()
        assert lab.download("random").error is None
        assert known_as(daemon) == "cell0 310260", "nobody says that it is another one"


def test_the_month_outlives_the_daemon(lab) -> None:
    limit = 60_000
    config = {"budget": {"cell_month": "60kB", "cell_day": "1GB"}, "modules": ANY_DELAY}
    with lab.daemon(["offload"], config) as daemon:
        start = daemon.api("/v1/budget")
        assert start["month"]["limit_bytes"] == limit and start["kept"] is True
        going = lab.start_download("random")
        assert system.wait_until(lambda: 5_000 < cell_bytes(daemon) or not going.running(), 10)
        daemon.stop()
        going.wait()
    with lab.daemon(["offload"], config) as daemon:
        used = daemon.api("/v1/budget")["month"]["used_bytes"]
        assert 5_000 < used <= limit, "what the first one spent is not forgotten"
        assert daemon.api("/v1/budget")["month"]["by"]["offload"] == used
        for _ in range(3):
            assert lab.download("random").error is None
        spent = daemon.api("/v1/budget")
        assert used < spent["month"]["used_bytes"] <= limit
        assert cell_bytes(daemon) == spent["month"]["used_bytes"] - used == spent["since_start"]["used_bytes"]
        daemon.kill()
    with lab.daemon(["offload"], config) as daemon:
        after = daemon.api("/v1/budget")
        assert after["month"]["by"]["uncounted"] > 0 and after["left_bytes"] == 0, "a death is not worth a budget"
        assert lab.download("random").error is None
        assert cell_bytes(daemon) == 0
    system_file = lab.directory / "budget" / "spent"
    system_file.write_text("tandem-budget 1 closed\nday 1 off")
    with lab.daemon(["offload"], {"budget": {"cell_month": "60kB", "cell_day": "60kB"}}) as daemon:
        assert daemon.api("/v1/budget")["left_bytes"] == 0 and "put aside" in daemon.log.read_text()
