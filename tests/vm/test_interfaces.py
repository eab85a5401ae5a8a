"""Roles that are looked for ("auto") follow the interfaces of a laptop: none at the start, a card, a modem, other names, none again."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Guest


@pytest.fixture(scope="module")
def facts(guest: Guest, programs: Path) -> dict[str, str]:
    result = guest("interfaces.sh", str(programs), timeout=240.0,
                   modules=["nfnetlink_queue", "nft_queue", "nf_tables", "veth", "bridge"])
    assert result.exit_code == 0, result.output
    return dict(re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE))


def link(facts: dict[str, str], when: str, role: str) -> dict:
    return json.loads(facts[when])["links"][role]


def test_without_any_interface_the_daemon_waits_and_says_so(facts: dict[str, str]) -> None:
    assert link(facts, "nothing", "wifi")["interface"] == ""
    assert "waits" in link(facts, "nothing", "wifi")["why"]
    assert "waits" in link(facts, "nothing", "cell")["why"]


def test_a_card_that_comes_later_is_used(facts: dict[str, str]) -> None:
    # The kernel announces a card before its phy80211 is in sysfs; who is quick sees its wireless extensions only.
    assert link(facts, "card", "wifi")["why"] in ("has a phy80211 in sysfs", "has wireless extensions in sysfs")
    assert facts["download_card"] == facts["file"]


def test_a_modem_that_comes_later_gets_its_route(facts: dict[str, str]) -> None:
    assert "modem" in link(facts, "modem", "cell")["why"]
    assert link(facts, "modem", "cell")["route"]
    assert facts["rule"] != "0"
    assert facts["download_modem"] == facts["file"]
    datapath = json.loads(facts["renamed"])["datapath"]
    assert datapath["queued"] > 0, datapath


def test_other_names_are_followed(facts: dict[str, str]) -> None:
    assert link(facts, "renamed", "wifi")["interface"] == "wlp3s0"
    assert link(facts, "renamed", "wifi")["present"]
    assert link(facts, "renamed", "cell")["interface"] == "wwp0s3"
    assert facts["download_renamed"] == facts["file"]


def test_what_goes_takes_its_rules_along(facts: dict[str, str]) -> None:
    assert link(facts, "gone", "wifi")["interface"] == ""
    assert link(facts, "gone", "cell")["interface"] == ""
    assert not link(facts, "gone", "cell")["route"]


def test_what_comes_back_is_used_again_by_the_same_process(facts: dict[str, str]) -> None:
    assert link(facts, "again", "wifi")["present"]
    assert facts["download_again"] == facts["file"]
    assert facts["same_process"] == "yes"


def test_nothing_stays_behind(facts: dict[str, str]) -> None:
    assert facts["exit"] == "0"
    assert facts["rules_after_stop"] == "0"
    assert facts["routing_after_stop"] == "0"
