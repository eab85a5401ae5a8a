"""Steering on Debian's own kernel: MPTCP endpoints and limits, CE marks by rule, backup flags; under the service's rights."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from conftest import Guest

OTHERS = "10.71.3.2"  # an endpoint that is not Tandem's
OWN = {"wlan0": "10.71.0.2", "wlan1": "10.71.1.2"}
BUSY, QUIET = 250_000, 100_000  # bytes a second; each way carries 1.25 million


@pytest.fixture(scope="module")
def facts(guest: Guest, programs: Path) -> dict[str, Any]:
    probe = programs.resolve().parent / "tests" / "request_probe" / "request_probe.so"
    if not probe.exists():
        pytest.skip(f"{probe}: not built (cmake --build build --target request_probe)")
    result = guest("steering.py", str(programs), str(probe), timeout=400.0, modules=["nfnetlink_queue", "nf_tables", "veth", "sch_netem"])
    assert result.exit_code == 0, result.output
    return {name: json.loads(value) for name, value in re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE)}


def as_found(facts: dict[str, Any], when: str) -> None:
    assert {name: facts[when][name] for name in ("endpoints", "limits")} == facts["found"]


def test_endpoints_and_limits_are_set_up(facts: dict[str, Any]) -> None:
    endpoints = facts["set_up"]["endpoints"]
    assert set(endpoints) == {OTHERS, *OWN.values()}
    for interface, address in OWN.items():
        assert endpoints[address]["dev"] == interface and endpoints[address]["subflow"] and not endpoints[address].get("backup")
    assert endpoints[OTHERS] == facts["found"]["endpoints"][OTHERS]
    assert facts["found"]["limits"]["subflows"] == 0 and facts["set_up"]["limits"]["subflows"] >= 1
    assert facts["set_up"]["limits"]["add_addr_accepted"] >= facts["found"]["limits"]["add_addr_accepted"]


def test_a_stop_takes_them_back(facts: dict[str, Any]) -> None:
    assert facts["stopped"]["exit"] == 0
    as_found(facts, "stopped")
    assert not any("tandem" in table for table in facts["stopped"]["tables"])


def test_the_download_takes_both_links(facts: dict[str, Any]) -> None:
    assert min(facts["both"].values()) > BUSY, facts["both"]


def test_about_the_share_that_was_asked_for_is_marked(facts: dict[str, Any]) -> None:
    assert facts["unmarked"]["ce1"] == 0 and facts["unmarked"]["ect01"] > 0, "the senders are ECN-capable, nobody else marks"
    assert "numgen random" in facts["rules"] and "wlan1" in facts["rules"]
    marked = facts["marked"]
    total = marked["ce"] + marked["ect0"]
    assert total >= 1000, marked
    # One standard deviation of a thousand packets is a seventh of the share.
    assert 0.45 < marked["ce"] / total / marked["asked"] < 1.6, marked


def test_the_sender_hears_of_the_marks(facts: dict[str, Any]) -> None:
    assert facts["heard"][OWN["wlan1"]] > 0, facts["heard"]


def test_the_other_link_is_not_marked(facts: dict[str, Any]) -> None:
    assert facts["at_last"]["ect00"] > 100 and facts["at_last"]["ce0"] == 0
    assert facts["heard"][OWN["wlan0"]] == 0
    assert "wlan0" not in facts["rules"]


def test_no_mark_without_a_wish(facts: dict[str, Any]) -> None:
    assert "wlan1" not in facts["rules_after_marks"] and "ecn set" not in facts["rules_after_marks"]
    assert facts["marked_after"]["ect01"] > 100 and facts["marked_after"]["ce1"] == 0


@pytest.mark.parametrize("link", ["wlan1", "wlan0"])
def test_backup_moves_the_traffic_and_gives_it_back(facts: dict[str, Any], link: str) -> None:
    """The link that joined, and the one by which the connection was opened."""
    moved, back = facts[f"backup_{link}"], facts[f"backup_{link}_back"]
    other = "wlan0" if link == "wlan1" else "wlan1"
    assert moved[link] < QUIET and moved[other] > BUSY, moved
    assert min(back.values()) > BUSY, back


def test_killed_with_the_keeper_no_mark_stays_and_the_download_goes_on(facts: dict[str, Any]) -> None:
    assert any("tandem_steer" in table for table in facts["before_kill"]["tables"])
    assert facts["before_kill"]["endpoints"][OWN["wlan1"]].get("backup")
    assert not any("tandem" in table for table in facts["killed"]["tables"])
    assert facts["killed"]["wlan0"] > BUSY


def test_the_download_arrives_whole(facts: dict[str, Any]) -> None:
    assert facts["download"]["came"] == facts["download"]["sent"] and facts["download"]["came"]["length"] > 1_000_000


def test_the_next_start_takes_back_what_the_killed_one_left(facts: dict[str, Any]) -> None:
    assert set(facts["killed"]["endpoints"]) > set(facts["found"]["endpoints"]), "nobody was left who could"
    as_found(facts, "next_start")
    assert facts["stopped_again"]["exit"] == 0
    as_found(facts, "stopped_again")


def test_the_kernel_has_nothing_to_complain_of(facts: dict[str, Any]) -> None:
    assert facts["kernel_warnings"] == 0
