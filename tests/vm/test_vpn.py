"""Beside the kernel's WireGuard with a peer, made by wg-quick: a tunnel with the default route before the daemon and in the middle of downloads, with a kill
switch and without, and a split tunnel."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pytest
from conftest import Guest

HANDS_OFF = "the default route leads into wg0 (wireguard)"
LEFT_ALONE = "its route leads into wg0 (wireguard)"
MODULES = ["nfnetlink_queue", "nft_queue", "nf_tables", "veth", "sch_netem", "wireguard"]


@pytest.fixture(scope="module")
def facts(guest: Guest, programs: Path) -> dict[str, Any]:
    if not shutil.which("wg-quick"):
        pytest.skip("wg-quick is not installed (Debian: wireguard-tools); run: tools/install-deps test")
    result = guest("vpn.py", str(programs), timeout=300.0, modules=MODULES)
    assert result.exit_code == 0, result.output
    return {name: json.loads(value) for name, value in re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE)}


def whole(download: dict[str, Any]) -> None:
    assert download["came"] == download["sent"] and download["came"]["length"] > 250_000, download


def nothing(clear: dict[str, dict[str, Any]]) -> None:
    """Of what is not to leave past the tunnel."""
    assert {way: found for way, found in clear.items() if found["after"]} == {}


def says_hands_off(told: dict[str, Any]) -> None:
    assert told["hands_off"] == HANDS_OFF and told["denied"] == HANDS_OFF and not told["route"]
    assert told["doctor"]["health"] == "warn" and told["doctor"]["found"] == HANDS_OFF


def test_the_tunnel_is_as_wg_quick_makes_it(facts: dict[str, Any]) -> None:
    assert facts["rules"].count("lookup main suppress_prefixlength 0") == 2 and facts["rules"].count("not from all fwmark 0xca6c lookup 51820") == 2


def test_hands_are_off_where_the_tunnel_was_there_first(facts: dict[str, Any]) -> None:
    says_hands_off(facts["first"])
    says_hands_off(facts["first_told"])
    assert facts["first_told"]["queued"] == 0 and facts["first_told"]["flows"] == 0


def test_downloads_through_the_tunnel_arrive_whole(facts: dict[str, Any]) -> None:
    for download in facts["first_downloads"]:
        whole(download)
    nothing(facts["first_clear"])


def test_the_tunnels_own_packets_are_untouched(facts: dict[str, Any]) -> None:
    """All that WireGuard sends arrives, of the same length and by Wi-Fi, and all that arrives is given to it. What is inside them it authenticates itself."""
    outer = facts["first_outer"]
    assert outer["sent"][0] > 100 and outer["received"] == outer["sent"] and outer["astray"] == [0, 0]
    assert outer["arrived"][0] > 500 and outer["got"] == outer["arrived"]
    assert facts["first_authentic"]["far"] == facts["first_authentic"]["near"]


def test_nothing_leaves_past_the_kill_switch(facts: dict[str, Any]) -> None:
    """It is there before the tunnel, which takes downloads away that have their ACKs by cellular. When it is lifted, the tunnel alone is left."""
    assert facts["older_by_cellular"] > 0, "a download had its ACKs by cellular before"
    assert min(found["before"] for found in facts["switched_clear"].values()) > 5, "the captures saw what left before"
    assert facts["switched_dropped"] > 0, "the kill switch had something to drop"
    nothing(facts["switched_clear"])
    nothing(facts["switched_off"])


def test_hands_are_off_beside_the_kill_switch(facts: dict[str, Any]) -> None:
    says_hands_off(facts["switched"])
    says_hands_off(facts["switched_told"])
    assert facts["switched_told"]["queued"] == facts["switched"]["queued"]
    whole(facts["switched_download"])


def test_a_rule_alone_is_noticed(facts: dict[str, Any]) -> None:
    assert facts["v4_only"] == HANDS_OFF


def test_older_downloads_go_on_in_the_tunnel_and_after_it(facts: dict[str, Any]) -> None:
    assert facts["older_go_on"] == [True, True]
    for download in facts["older"]:
        whole(download)


def test_a_flow_into_a_split_tunnel_is_left_alone(facts: dict[str, Any]) -> None:
    assert facts["split_before"] > 0, "it had its ACKs by cellular before"
    assert facts["split_left_alone"] == [LEFT_ALONE]
    assert facts["split_clear"]["cell0"]["before"] > 5, "the capture saw what left before"
    nothing(facts["split_clear"])
    assert facts["split_older_goes_on"]
    whole(facts["split_download"])


def test_others_are_helped_beside_a_split_tunnel(facts: dict[str, Any]) -> None:
    assert facts["split_beside"] > 0
    told = facts["split_told"]
    assert told["hands_off"] == "" and told["route"] and told["tunnels"]["flows"] == 1
    assert {"into": "wg0 (wireguard)", "to": "10.71.8.0/24"} in told["tunnels"]["routes"]
    assert told["doctor"]["health"] == "ok" and "10.71.8.0/24" in told["doctor"]["found"]


def test_without_the_tunnel_it_works_again_by_itself(facts: dict[str, Any]) -> None:
    assert facts["first_gone"] == "" and facts["switched_gone"] == "" and facts["split_gone"] == [""]
    assert facts["again_by_cellular"] > 0 and facts["split_after"] > 0


def test_all_that_began_in_clear_arrives_whole(facts: dict[str, Any]) -> None:
    for download in [facts["again"], *facts["others"]]:
        whole(download)


def test_nobody_did_what_they_may_not(facts: dict[str, Any]) -> None:
    assert [entry for entry in facts["modules"] if entry["violations"]] == []
    assert facts["kernel_warnings"] == []


def test_nothing_stays_behind(facts: dict[str, Any]) -> None:
    assert facts["stopped"]["exit"] == 0
    assert not any("tandem" in table for table in facts["stopped"]["tables"])
    assert "8484" not in facts["stopped"]["rules"]
