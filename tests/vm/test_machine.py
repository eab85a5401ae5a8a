"""The machine itself: Debian's kernel with what Tandem builds on, exit codes and output as the script left them, and an end in every case."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
import vmrun
from conftest import GUEST, Guest

_RELIED_ON = ["nft_queue", "nft_ce", "nfnetlink_queue", "netns", "tun", "netem", "fq", "wifi", "mptcp"]


@pytest.fixture(scope="module")
def survey(guest: Guest) -> dict[str, str]:
    result = guest("survey.sh")
    assert result.exit_code == 0
    return dict(line.split(" ", 1) for line in result.output.splitlines() if " " in line)


def test_runs_the_kernel_of_the_package(survey: dict[str, str]) -> None:
    assert survey["release"] == vmrun.requirements()[0].release


@pytest.mark.parametrize("part", _RELIED_ON)
def test_kernel_has(survey: dict[str, str], part: str) -> None:
    assert survey[part] == "yes"


def test_writes_stay_in_the_guest(survey: dict[str, str]) -> None:
    assert survey["write"] == "yes"
    assert not Path("/etc/tandem-vm-was-here").exists()


def test_exit_code_and_output_come_back_as_they_are(machine: None) -> None:
    shown = subprocess.run([vmrun.__file__, str(GUEST / "exact.sh"), "a b", "*"], capture_output=True, timeout=150)
    assert shown.stdout == b"a b|*|\n\ttab \xc3\xa9 100%\nlast line without an end"
    assert shown.returncode == 42


def test_a_guest_that_hangs_is_ended(machine: None) -> None:
    with pytest.raises(vmrun.TimeOver, match="not done after"):
        vmrun.run(["sleep", "600"], timeout=0.5)


def test_a_guest_that_dies_is_noticed(machine: None) -> None:
    with pytest.raises(vmrun.Broken, match="the script was running") as died:
        vmrun.run([str(GUEST / "panic.sh")], timeout=120.0)
    assert "Kernel panic" in str(died.value)
