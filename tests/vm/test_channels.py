"""One card at access points of two channels on the kernel's own Wi-Fi stack: by the daemon, and what the access points really keep for a station."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import ROOT, Guest

STATION = "tandem-sta0"


@pytest.fixture(scope="module")
def facts(guest: Guest, programs: Path) -> dict[str, Any]:
    probe = Path(os.environ.get("TANDEM_TURNS_PROBE") or ROOT / "build" / "tests" / "turns_probe")
    if not os.access(probe, os.X_OK):
        pytest.skip(f"not built: {probe}")
    result = guest("channels.py", str(programs), str(probe), timeout=540.0, modules=["nfnetlink_queue", "nft_queue", "nf_tables", "veth", "sch_tbf", "bridge", "af_packet"])
    found = {name: json.loads(value) for name, value in re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE)}
    assert result.exit_code == 0, result.output
    return found


def judged(facts: dict[str, Any]) -> str:
    aps = facts["range"]
    return next(one["why"] for one in aps["access_points"] if one["ap"] == aps["other"])


def test_the_card_says_that_it_can_be_on_two_channels(facts: dict[str, Any]) -> None:
    card = facts["range"]["card"]
    assert card["channels_apart"] == 2 and card["stations_apart"] >= 2


def test_another_channel_is_not_joined_without_being_asked_for(facts: dict[str, Any]) -> None:
    assert "--several-channels" in judged(facts)
    assert facts["one_channel"]["stations"] == [] and "take turns" in facts["one_channel"]["why"]


def test_the_card_is_at_access_points_of_two_channels_at_once(facts: dict[str, Any]) -> None:
    assert facts["keep"][0] == 0
    kept = facts["kept"]
    assert (kept["interface"], kept["ap"], kept["state"], kept["endpoint"]) == (STATION, facts["range"]["other"], "in use", True), kept
    assert facts["at_once"] == {"own": True, "station": True}


def staying(facts: dict[str, Any], which: str) -> list[dict[str, Any]]:
    """What was seen after the card was kept on the channel that it chose, and had been obeyed. By real clocks an emulated machine, which has what
    others leave, looks too seldom to see it; the kernel in virtual time, the only one that says what access points know, misses nothing."""
    if not facts["power_save"]["says"]:
        pytest.skip("an emulated machine looks too seldom: tools/test vm --time virtual")
    download = facts[which]
    found = [one for one in download["seen"] if one["doing"] == "staying on the best channel"]
    assert found, download
    return found


def test_a_download_is_whole_and_comes_by_both_while_they_are_compared(facts: dict[str, Any]) -> None:
    for name in ("other_best", "own_best"):
        download = facts[name]
        assert download["whole"] == "True", download
        assert min(download["bytes"].values()) > 100_000, download


def test_the_better_channel_is_stayed_on_and_the_other_one_is_the_backup(facts: dict[str, Any]) -> None:
    other, own = facts["other_best"], facts["own_best"]
    assert any(one["backup"] == ["wlan2"] and one["endpoints"] == ["10.88.0.2"] for one in staying(facts, "other_best")), other
    assert other["bytes"][STATION] > other["bytes"]["wlan2"]
    assert any(one["backup"] == [STATION] and one["endpoints"] == [facts["kept"]["address"]] for one in staying(facts, "own_best")), own
    assert own["bytes"]["wlan2"] > own["bytes"][STATION]


def test_of_the_other_one_the_driver_is_asked_to_save_power_and_the_cards_own_is_left_alone(facts: dict[str, Any]) -> None:
    # What is seen at once is asked for one after the other: the order may be on its way at first.
    assert not staying(facts, "other_best")[-1]["power_save"]
    assert any(one["power_save"] for one in staying(facts, "own_best"))
    assert facts["own_best"]["turns"]["failed"] == 0 and facts["own_best"]["turns"]["problem"] == ""


def test_the_user_sees_it(facts: dict[str, Any]) -> None:
    assert "access points of several channels" in facts["table"] and "orders to the card" in facts["table"] and "on 2 channels" in facts["table"]


def test_off_and_a_stop_leave_nothing(facts: dict[str, Any]) -> None:
    assert facts["off"][0] == 0 and facts["stopped"]["exit"] == 0
    for left in (facts["after_off"], facts["stopped"]):
        assert left["stations"] == [] and left["arp_ignore"] == "0" and "10.88.0.10" not in left["endpoints"], left
    assert facts["stopped"]["endpoints"] == ""


def test_in_slots_the_access_point_keeps_everything_until_the_station_is_back(facts: dict[str, Any]) -> None:
    slots = facts["slots"]
    assert slots["orders"]["failed"] == 0 and slots["orders"]["orders"] > 6, slots
    assert all(slots[name]["away"] >= 2 and slots[name]["arrived"] > 10 for name in ("wlan2", "sta1")), slots
    if not all(one["says"] for one in slots["access_points"].values()):
        pytest.skip("Debian's kernel does not say what an access point keeps, nor does an emulated machine, which carries most orders out late, tell what was sent and arrived in a slot: "
                    "tools/test vm --time virtual")
    for name in ("wlan2", "sta1"):
        one = slots[name]
        assert one["sent_meanwhile"] > 10 and one["missing"] == 0, slots
        # What was on its way when the order was acknowledged may still come.
        assert one["arrived_meanwhile"] <= 0.1 * one["sent_meanwhile"], slots
        assert slots["access_points"][name]["asleep"] and slots["access_points"][name]["buffered"] > 3, slots


def test_an_mptcp_download_goes_on_in_slots(facts: dict[str, Any]) -> None:
    """Which channel is chosen is the lab's test (lab.turns): in slow start a comparison may err."""
    mptcp = facts["mptcp"]
    assert mptcp["whole"] == "True" and mptcp["orders"]["failed"] == 0 and mptcp["orders"]["orders"] > 10, mptcp
    assert any(mptcp["backup"]) and min(mptcp["bytes"].values()) > 100_000, mptcp


def test_power_save_by_nl80211_is_carried_out_with_one_station_and_ignored_with_two(facts: dict[str, Any]) -> None:
    """The limit that power_save.h names: an order that is agreed to, and of which nothing comes."""
    found = facts["power_save"]
    assert found["agreed"] == {"problem": ""}
    if not found["says"]:
        pytest.skip("Debian's kernel does not say whether a station saves power: tools/test vm --time virtual")
    assert found["first_away_ms"] is not None and found["first_present_ms"] is not None, found
    assert not found["two_stations"] and found["one_station"] and found["awake_again"], found
