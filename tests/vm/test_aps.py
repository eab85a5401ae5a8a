"""One card at two access points on the kernel's own Wi-Fi stack: virtual stations, under the service's rights, and one MPTCP download by both."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Guest

STATION = "tandem-sta0"
NOTHING = {"stations": [], "arp_ignore": "0", "supplicant": []}


@pytest.fixture(scope="module")
def facts(guest: Guest, programs: Path) -> dict[str, Any]:
    result = guest("aps.py", str(programs), timeout=540.0, modules=["nfnetlink_queue", "nft_queue", "nf_tables", "veth", "sch_tbf", "bridge", "af_packet"])
    found = {name: json.loads(value) for name, value in re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE)}
    assert result.exit_code == 0, result.output
    return found


def undone(now: dict[str, Any]) -> None:
    assert {name: now[name] for name in NOTHING} == NOTHING
    assert "10.88.0.10" not in now["endpoints"]  # of stations


def judged(aps: dict[str, Any], ap: str) -> dict[str, Any]:
    return next(one for one in aps["access_points"] if one["ap"] == ap)


def test_what_is_in_range_is_told_with_what_it_is_worth(facts: dict[str, Any]) -> None:
    aps = facts["range"]
    own, other = judged(aps, aps["own"]), judged(aps, aps["other"])
    assert (own["interface"], own["worth"], other["interface"], other["worth"]) == ("wlan2", True, "", True)
    assert own["ssid"] == 'tandem "vm"' and own["channel"] == 6 and own["signal_dbm"] == -30 and own["age_s"] < 60
    assert aps["card"]["stations"] > 1 and aps["card"]["channels"] == 1 and not aps["problem"]
    assert "worth it" in facts["table"] and aps["other"] in facts["table"]


def test_bad_words_are_refused_with_exit_code_2(facts: dict[str, Any]) -> None:
    assert facts["usage"] == [2, 2, 2, 2]


def test_without_leave_for_mptcp_nothing_is_kept(facts: dict[str, Any]) -> None:
    code, said = facts["without_mptcp"]
    assert code == 1 and "mptcp.setup" in said


def test_a_station_gets_association_address_and_endpoint(facts: dict[str, Any]) -> None:
    assert facts["keep"][0] == 0
    kept = facts["kept"]
    assert (kept["interface"], kept["ap"], kept["state"], kept["endpoint"]) == (STATION, facts["range"]["other"], "in use", True), kept
    assert kept["address"].startswith("10.88.0.1")
    assert facts["links"]["wifi"] == "wlan2" and facts["links"]["wifi2"] == STATION


def test_the_machines_own_routes_come_first(facts: dict[str, Any]) -> None:
    routes = facts["settings"]["routes"].splitlines()
    metrics = {line.split(" dev ")[1].split()[0]: int(line.split(" metric ")[1].split()[0]) for line in routes if line.startswith("default")}
    assert metrics["wlan2"] == 100 < metrics[STATION]
    assert facts["settings"]["arp_ignore"] == ["1", "1"] and facts["settings"]["ipv6"] == ""


def test_one_download_comes_by_both_access_points_and_whole(facts: dict[str, Any]) -> None:
    download = facts["download"]
    assert download["whole"] == "True"
    assert min(download["bytes"].values()) > 0.25 * sum(download["bytes"].values()), download


def test_what_a_killed_run_left_the_next_start_clears(facts: dict[str, Any]) -> None:
    assert facts["killed"]["stations"] == [STATION] and facts["killed"]["arp_ignore"] == "1"
    undone(facts["cleared"])


def test_a_silent_access_point_is_left_and_the_download_goes_on(facts: dict[str, Any]) -> None:
    assert facts["silent"]
    assert any("association was lost" in line or "interface has gone" in line for line in facts["silent_why"]), facts["silent_why"]
    assert facts["silent_download"] == "True"


def test_off_takes_everything_back(facts: dict[str, Any]) -> None:
    assert facts["off"][0] == 0
    undone(facts["after_off"])


def test_roaming_is_asked_of_wpa_supplicant(facts: dict[str, Any]) -> None:
    assert facts["roam"][0] == 0 and facts["roamed"]
    assert facts["roam_unknown"][0] == 1 and "no access point 02:00:00:00:77:00 is in range" in facts["roam_unknown"][1]
    assert facts["roam_here"][0] == 1 and "already" in facts["roam_here"][1]


def test_the_socket_of_one_interface_is_enough_to_roam_and_said_to_be_too_little_for_stations(facts: dict[str, Any]) -> None:
    found = facts["interface_socket"]
    assert found["roam"][0] == 0 and found["roamed"]
    assert not found["aps"]["problem"] and "global control socket" in judged(found["aps"], found["other"])["why"]


def test_rate_asks_for_a_roam_in_the_handoff_stage_and_not_before(facts: dict[str, Any]) -> None:
    assert facts["rate_waits"]["at"] and facts["rate_waits"]["asked"] == 0 and not facts["rate_waits"]["wanted"]
    roamed = facts["rate_roams"]
    assert roamed["moved"] and roamed["at"] and (roamed["asked"], roamed["failed"], roamed["worse"]) == (1, 0, 0), roamed
    assert "roamed to" in roamed["last"] and "roaming  1 asked for, 1 done" in roamed["table"]
    assert sum("is asked to roam to" in line for line in facts["rate_log"]) == 1, facts["rate_log"]


def test_there_is_no_way_back_within_a_minute(facts: dict[str, Any]) -> None:
    stayed = facts["rate_stays"]
    assert stayed["said"] and stayed["at"] and stayed["wanted"] and (stayed["asked"], stayed["moved"]) == (1, 1), stayed


def test_without_wpa_supplicant_rate_asks_nothing_and_it_is_said_once(facts: dict[str, Any]) -> None:
    alone = facts["rate_alone"]
    assert alone["said"] and alone["at"] and alone["asked"] == 1 and alone["download"] == "True", alone
    assert sum("no roam: wpa_supplicant" in line for line in facts["rate_log"]) == 1, facts["rate_log"]


def test_the_downloads_that_ran_all_the_while_are_whole(facts: dict[str, Any]) -> None:
    assert facts["rate_download"] == ["True", "True"]


def test_another_channel_is_not_joined_and_said_so(facts: dict[str, Any]) -> None:
    assert "another channel" in facts["other_channel"] and "one channel at a time" in facts["other_channel"]


def test_the_dispatcher_script_announces_that_wifi_goes_and_nothing_else(facts: dict[str, Any]) -> None:
    assert [facts[f"dispatched_{name}"] for name in ("lo_pre_down", "wlan2_up", "wlan2_pre_down")] == [0, 0, 1]


def test_a_profile_and_an_exclusion_follow_the_network(facts: dict[str, Any]) -> None:
    own = {"profile": "own", "why": 'the Wi-Fi network is "tandem \\"vm\\""', "hands_off": "", "freeze": True}
    assert facts["at_home"] == own == facts["home_again"]
    assert facts["elsewhere"] == {"profile": "", "why": 'the Wi-Fi network is "somewhere else", which is in no profile',
                                  "hands_off": "the Wi-Fi network is excluded (ssid somewhere else)", "freeze": False}


def test_without_wpa_supplicant_it_is_said(facts: dict[str, Any]) -> None:
    assert facts["no_supplicant"][0] == 0 and "wpa_supplicant" in facts["no_supplicant"][1].splitlines()[0]


def test_a_stop_leaves_nothing(facts: dict[str, Any]) -> None:
    assert facts["stopped"]["exit"] == 0
    undone(facts["stopped"])
