"""tandemd where the kernel has the nft queue expression, as on every stock Debian: back end, traffic, death, the service's rights."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from conftest import Guest


@pytest.fixture(scope="module")
def facts(guest: Guest, programs: Path) -> dict[str, str]:
    result = guest("daemon.sh", str(programs), timeout=240.0, modules=["nfnetlink_queue", "nft_queue", "nf_tables", "veth", "sch_netem", "sch_htb", "cls_u32", "wireguard"])
    assert result.exit_code == 0, result.output
    return dict(re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE))


def test_nftables_is_chosen(facts: dict[str, str]) -> None:
    backend = json.loads(facts["status"])["backend"]
    assert backend["name"] == "nftables", backend
    assert backend["why"]


def test_a_download_arrives_whole(facts: dict[str, str]) -> None:
    assert facts["download"] == facts["file"]


def test_packets_went_through_the_daemon(facts: dict[str, str]) -> None:
    datapath = json.loads(facts["status"])["datapath"]
    assert datapath["queued"] > 10, datapath


def test_the_rules_can_be_listed_with_the_tool_of_the_system(facts: dict[str, str]) -> None:
    """nft 1.0.6 aborts on sets that join fields of less than a byte; other tools of the user list the ruleset, too."""
    assert facts["list_exit"] == "0"


def test_own_table_with_owner_flag_and_bypass(facts: dict[str, str]) -> None:
    assert facts["owner"] == "flags owner"
    assert "bypass" in facts["rule"]


def test_nobody_else_can_flush_the_table(facts: dict[str, str]) -> None:
    """And the keeper, which looked after that, found nothing to put back."""
    assert "bypass" in facts["rule_after_flush"]
    assert json.loads(facts["status"])["keeper"]["restored"] == 0


def test_the_kernel_has_nothing_to_complain_of(facts: dict[str, str]) -> None:
    """A chain that goes while packets wait for a verdict makes the kernel warn, and drop them (nf_reinject, 6.1)."""
    assert facts["kernel_warnings"] == "0"


def test_hands_are_off_while_the_kernels_wireguard_has_the_default_route(facts: dict[str, str]) -> None:
    assert facts["wireguard"].startswith("the default route leads into wg0 (wireguard)"), facts["wireguard"]
    assert facts["wireguard_gone"] == "."


def test_uploads_are_shaped_at_the_interface_where_bpf_is_not_safe(facts: dict[str, str]) -> None:
    """Debian 12's kernel: HTB and u32, tried out by the doctor in a network namespace of its own."""
    found = {check["name"]: check for check in json.loads(facts["doctor"])["checks"]}["pacing of uploads"]
    assert found["health"] == "ok" and found["found"].startswith("by HTB, at the interface; not by BPF: the BPF iterator"), found


def test_kill_of_daemon_and_keeper_leaves_no_rule_and_the_download_goes_on(facts: dict[str, str]) -> None:
    assert facts["rule_before_kill"]
    assert facts["early"] == "still downloading"
    assert "tandem" not in facts["tables_after_kill"]
    assert facts["download_killed"] == facts["file"]


def test_an_ordinary_user_with_two_capabilities_is_enough(facts: dict[str, str]) -> None:
    status = json.loads(facts["service_status"])
    assert status["backend"]["name"] == "nftables"
    assert status["datapath"]["queued"] > 10
    assert facts["service_download"] == facts["file"]


def test_stop_leaves_nothing_of_this_run_and_of_the_killed_one(facts: dict[str, str]) -> None:
    assert facts["service_exit"] == "0"
    assert "tandem" not in facts["tables_after_stop"]
    assert facts["routing_after_stop"] == "0"
