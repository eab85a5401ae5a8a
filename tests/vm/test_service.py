"""The packaged service, run: systemd starts it on Debian's stock kernel, from the installation of the package to its purge."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from packaged import facts_of, packed, system_with_systemd

# What systemd 252 finds in a unit that does the daemon's work: docs/confinement.md.
MOST_EXPOSURE = 1.8
TWO_CAPABILITIES = 1 << 12 | 1 << 13  # CAP_NET_ADMIN, CAP_NET_RAW


@pytest.fixture(scope="module")
def facts(machine: None, programs: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    system_with_systemd()
    packages = packed(tmp_path_factory.mktemp("first")), packed(tmp_path_factory.mktemp("second"), "-R", "99.0.0")
    return facts_of("service.sh", packages, timeout=1500.0)


def status(facts: dict[str, str], name: str) -> dict[str, Any]:
    return json.loads(facts[name])


def knob(shown: str, name: str) -> tuple[str, str]:
    """Its value, and who says so."""
    return next((one["value"], one["from"]) for one in json.loads(shown[shown.index("{"):])["knobs"] if one["name"] == name)


def test_systemd_runs_here(facts: dict[str, str]) -> None:
    assert facts["running"] == "running"


def test_a_fresh_installation_changes_nobodys_traffic(facts: dict[str, str]) -> None:
    assert facts["fresh"] == "disabled inactive"
    assert facts["user"].endswith(":/var/lib/tandem:/usr/sbin/nologin")


def test_it_starts_with_the_system(facts: dict[str, str]) -> None:
    assert facts["started"] == "active"
    assert status(facts, "status")["backend"]["name"] == "nftables"


def test_it_has_two_capabilities_and_no_more(facts: dict[str, str]) -> None:
    user, group, effective = facts["identity"].split()
    assert (user, group, int(effective, 16)) == ("tandem", "tandem", TWO_CAPABILITIES)


def test_others_go_first_when_memory_runs_out(facts: dict[str, str]) -> None:
    daemon, keeper = facts["oom"].split()
    assert daemon == "-500" and int(keeper) <= -500


def test_a_download_goes_through_it(facts: dict[str, str]) -> None:
    """With what only the unit forbids."""
    assert facts["download"] == facts["file"]
    datapath = status(facts, "status_after")["datapath"]
    assert datapath["queued"] > 10 and datapath["observed"] > 10 and datapath["edited"] + datapath["injected"] > 0, datapath
    assert datapath["injected_failed"] == datapath["reroute_failed"] == 0, datapath
    assert facts["kernel_warnings"] == "0"


def test_no_table_of_the_legacy_iptables_is_made(facts: dict[str, str]) -> None:
    """Though ip_tables is loaded: systemd has done that."""
    assert facts["legacy_modules"].split() == ["ip_tables"]


def test_the_exposure_is_what_the_documentation_says(facts: dict[str, str]) -> None:
    assert float(facts["exposure"]) <= MOST_EXPOSURE


def test_a_reload_of_a_wrong_file_fails_with_its_reason_and_changes_nothing(facts: dict[str, str]) -> None:
    assert facts["refused_reload"] == "1 active same process"
    assert re.search(r"/etc/tandem/tandem.toml:\d+: \S*nonsense", facts["refused_why"])


def test_reload_takes_the_file_over_and_keeps_the_process(facts: dict[str, str]) -> None:
    assert facts["reloaded"].startswith("same process")
    value, source = knob(facts["reloaded"], "window_mss")
    assert value == "25" and source.startswith("/etc/tandem/tandem.toml:")


def test_saved_settings_survive_a_restart(facts: dict[str, str]) -> None:
    assert facts["restarted"].startswith("another process")
    assert knob(facts["restarted"], "window_mss") == ("30", "saved")


def test_a_unit_can_be_excluded(facts: dict[str, str]) -> None:
    checksum, queued = facts["excluded"].split()
    # Of 4 MB, until it is known whose the first connection is; 11 were seen on a busy machine.
    assert checksum == facts["part"] and int(queued) < 30
    (one,) = json.loads(facts["exclusions"])["exclusions"]
    assert (one["kind"], one["what"], one["problem"]) == ("service", "backup.service", "") and one["flows"] >= 1, one


def test_entries_of_the_journal_carry_fields(facts: dict[str, str]) -> None:
    entry = json.loads(facts["entry"])
    assert (entry["MODULE"], entry["SYSLOG_IDENTIFIER"], entry["_SYSTEMD_UNIT"]) == ("offload", "tandemd", "tandemd.service")


def test_killed_again_and_again_it_is_started_again(facts: dict[str, str]) -> None:
    assert facts["limit"] == "0"
    assert facts["killed"] == "active 2"
    assert facts["killed_download"] == facts["file"]


def test_after_kills_the_rules_are_as_before(facts: dict[str, str]) -> None:
    assert "queue" in facts["rules_before"]
    assert facts["rules_after"] == facts["rules_before"]


def test_a_wrong_configuration_ends_it_with_2_and_it_is_not_started_again(facts: dict[str, str]) -> None:
    assert facts["misconfigured"] == "1 failed 2 0"
    assert re.search(r"/etc/tandem/tandem.toml:\d+: \S*nonsense", facts["complaint"])
    assert facts["corrected"] == "active"


def test_up_says_why_a_file_in_a_home_directory_will_not_do(facts: dict[str, str]) -> None:
    code, said = facts["home"].split(" ", 1)
    assert code == "1" and "may not look into home directories" in said and f"copy {facts['home_file']} to /etc/tandem" in said and "--foreground" not in said, said
    assert f"{facts['home_file']}: cannot be read: " in said, "what the daemon itself said"


def test_an_up_that_failed_leaves_nothing_for_the_next_start(facts: dict[str, str]) -> None:
    assert facts["after_home"].strip() == "0 active"


def test_modem_manager_measures_for_it_with_the_rule_for_polkit_alone(facts: dict[str, str]) -> None:
    """ModemManager itself has no modem here: polkit is asked what ModemManager would ask it for Modem.Signal.Setup."""
    assert facts["polkit"].startswith("no: Not authorized")
    assert facts["polkit_with_rule"] == "yes"


def test_it_works_under_its_apparmor_profile(facts: dict[str, str]) -> None:
    """Downloads, saved settings, an exclusion, a recording, a reload; and the iptables of both kinds, below."""
    assert facts["apparmor"] == "0 tandemd (enforce)"
    assert facts["apparmor_download"] == facts["part"]
    assert status(facts, "apparmor_status")["datapath"]["queued"] > 10
    assert facts["denied"] == ""


def test_iptables_works_under_the_unit(facts: dict[str, str]) -> None:
    shown = status(facts, "iptables")
    assert shown["backend"]["name"] == "iptables-nft", shown["backend"]
    assert facts["iptables_download"] == facts["part"]


def test_the_legacy_lock_that_another_holds_is_waited_for(facts: dict[str, str]) -> None:
    assert facts["lock"] == "root tandem 640"
    assert facts["legacy_waits"] == "activating"
    shown = status(facts, "legacy")
    assert shown["backend"]["name"] == "iptables-legacy", shown["backend"]
    assert facts["legacy_download"] == facts["part"]


def test_tables_of_iptables_that_a_killed_run_left_go_with_the_next_one(facts: dict[str, str]) -> None:
    assert facts["iptables_killed"] == f"ip ip6  {facts['file']}"
    assert facts["iptables_left"] == ""


def test_an_upgrade_while_downloads_run(facts: dict[str, str]) -> None:
    assert facts["upgrade"] == "enabled active another process 99.0.0"
    number, *sums = facts["upgrade_downloads"].split()
    assert int(number) >= 1 and sums == [facts["file"]]
    assert knob(facts["upgrade_kept"], "window_mss") == ("31", "saved")


def test_removal_leaves_the_machine_as_it_was(facts: dict[str, str]) -> None:
    """Rules of packets and of routing, routes, processes; the download under way goes on."""
    assert facts["removed_download"] == facts["file"]
    assert facts["removed_left"] == facts["removed_processes"] == ""


def test_removal_keeps_what_is_the_users(facts: dict[str, str]) -> None:
    """As Debian's policy has it: configuration and state stay until the purge."""
    assert facts["removed_kept"].split() == ["/etc/tandem", "/run/tandem", "/var/lib/tandem"]
    assert facts["removed_state"] == ""


def test_purge_keeps_nothing_but_the_user(facts: dict[str, str]) -> None:
    assert facts["purged_kept"] == ""
    assert facts["purged_failed"] == ""
