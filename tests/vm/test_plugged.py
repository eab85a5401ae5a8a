"""What a laptop is plugged into: a phone that shares its connection by USB, a dock with Ethernet, and a Wi-Fi card whose MAC address changes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Guest

# Two Ethernet adapters at a USB bus, and what is at the other end of each cable. The emulated adapter speaks RNDIS, as phones do, or CDC. A dock's address
# is its maker's, a phone's is made up.
CABLES = {"phone": ("02:00:00:00:0a:01", "02:00:00:00:0a:02"), "dock": ("00:e0:4c:00:0b:01", "02:00:00:00:0b:02")}


def devices() -> list[str]:
    words = ["-device", "qemu-xhci"]
    for number, (name, (near, far)) in enumerate(CABLES.items()):
        words += ["-netdev", f"hubport,id={name}0,hubid={number}", "-device", f"usb-net,netdev={name}0,mac={near}",
                  "-netdev", f"hubport,id={name}1,hubid={number}", "-device", f"virtio-net-pci,netdev={name}1,mac={far},romfile="]
    return words


@pytest.fixture(scope="module")
def facts(guest: Guest, programs: Path) -> dict[str, str]:
    result = guest("plugged.sh", str(programs), *(mac for pair in CABLES.values() for mac in pair), timeout=300.0, devices=devices(),
                   modules=["nfnetlink_queue", "nft_queue", "nf_tables", "bridge", "virtio_net", "xhci_pci", "cdc_ether", "rndis_host"])
    assert result.exit_code == 0, result.output
    return dict(re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE))


def status(facts: dict[str, str], when: str) -> dict:
    return json.loads(facts[when])


def test_before_anything_is_plugged_in_there_is_no_second_way(facts: dict[str, str]) -> None:
    assert status(facts, "alone")["links"]["cell"]["interface"] == ""
    assert status(facts, "alone")["links"]["wifi"]["interface"] == "wlan2"


def test_a_phone_by_usb_is_the_cellular_link(facts: dict[str, str]) -> None:
    cell = status(facts, "phone")["links"]["cell"]
    assert cell["interface"] == facts["phone_name"] and cell["why"] == "is a phone by USB (rndis_host)"
    assert cell["present"] and cell["route"], cell
    assert facts["phone_download"] == facts["file"]
    assert status(facts, "phone_after")["datapath"]["queued"] > status(facts, "phone")["datapath"]["queued"]


def test_a_phone_pulled_out_in_a_download_costs_it_nothing(facts: dict[str, str]) -> None:
    assert facts["pulled_running"] == "yes", "the download was over before the phone was pulled out"
    assert facts["pulled_download"] == facts["large"]
    cell = status(facts, "pulled")["links"]["cell"]
    assert cell["interface"] == "" and not cell["route"], cell
    assert facts["pulled_rules"] == "0"


def test_a_phone_that_speaks_as_docks_do_is_known_by_its_address(facts: dict[str, str]) -> None:
    cell = status(facts, "other_phone")["links"]["cell"]
    assert cell["interface"] == facts["other_phone_name"] and cell["why"] == "is a phone by USB (cdc_ether, with an address of its own making)"
    assert cell["present"] and cell["route"], cell


def test_a_dock_is_no_phone_and_its_downloads_are_left_alone(facts: dict[str, str]) -> None:
    assert facts["dock_driver"] == "cdc_ether"
    docked = status(facts, "docked")
    assert docked["links"]["cell"]["interface"] == "" and docked["links"]["wifi"]["interface"] == "wlan2"
    assert facts["dock_way"] == facts["dock_name"], "the route leads over the dock"
    assert facts["dock_download"] == facts["file"]
    assert facts["dock_queued"] == "0"


def test_without_the_dock_it_is_wifi_again(facts: dict[str, str]) -> None:
    assert facts["undocked_download"] == facts["file"]
    assert int(facts["undocked_queued"]) > 0


def test_a_card_with_another_mac_address_stays_the_wifi_link(facts: dict[str, str]) -> None:
    first, second = facts["random_macs"].split()
    assert len({first, second, "02:00:00:00:02:00"}) == 3, "wpa_supplicant takes another address for each association"
    wifi = status(facts, "random")["links"]["wifi"]
    assert wifi["interface"] == "wlan2" and wifi["present"] and wifi["up"], wifi
    assert facts["random_download"] == facts["file"]
    assert int(facts["random_queued"]) > 0
    assert facts["same_process"] == "yes"


def test_nothing_stays_behind(facts: dict[str, str]) -> None:
    assert facts["exit"] == "0"
    assert facts["left"] == "0 0"
