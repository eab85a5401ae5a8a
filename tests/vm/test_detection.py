"""The daemon's blackout verdicts against real disconnects and real silence on the kernel's own Wi-Fi stack; prints how long they took."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Guest

RADIOS = ("none", "nl80211,monitor")
LONGEST_MS = 5000  # an emulated machine that others slow down; the measured figures are printed
MODULES = ["nfnetlink_queue", "nft_queue", "nf_tables", "veth", "sch_netem", "ccm", "cmac", "aes_generic"]


@dataclass(frozen=True)
class Measured:
    """What the guest printed."""

    facts: dict[str, str]
    done: list[dict[str, Any]]

    def of(self, radio: str, what: str) -> list[dict[str, Any]]:
        found = [one for one in self.done if (one["radio"], one["what"]) == (radio, what)]
        assert found, f"{what} was not measured with {radio}"
        return found


@pytest.fixture(scope="module")
def measured(guest: Guest, programs: Path, probe: Path) -> Measured:
    if not (programs.parent / "lib" / "tandem" / "freeze.so").exists():
        pytest.skip("modules/freeze is not built")
    result = guest("detection.sh", str(programs), str(probe), "1", *RADIOS, timeout=300.0, modules=MODULES)
    assert result.exit_code == 0, result.output
    done = [json.loads(line) for line in re.findall(r"^(\{.*\})$", result.output, re.MULTILINE)]
    for one in done:
        if figures := {name: value for name, value in one.items() if name.endswith("_ms")}:
            print(f"{one['radio']}: {one['what']} {one.get('causes', '')}: {figures}")
    return Measured(dict(re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE)), done)


@pytest.mark.parametrize("radio", RADIOS)
def test_a_deauthentication_is_a_blackout_at_once(measured: Measured, radio: str) -> None:
    """By the kernel's word (carrier, nl80211), also where a monitor interface hears the frame itself, which anybody could have sent."""
    for one in measured.of(radio, "deauthenticated"):
        assert set(one["causes"]) & {"carrier", "disconnected"}
        assert 0 <= one["down_ms"] < LONGEST_MS
    # How many a monitor of simulated radios hears is not known; nobody else hears any.
    heard = measured.of(radio, "ended")[0]["status"]["links"]["wifi"]["blackout"]["deauthentications"]
    print(f"{radio}: {heard} deauthentications heard")
    assert "monitor" in radio or heard == 0


def test_a_forged_deauthentication_counts_where_the_kernel_believes_it(measured: Measured) -> None:
    """Without protected management frames it is as good as the access point's own: the attack is one."""
    (one,) = measured.of("nl80211,monitor", "forged")
    assert one["told"] and set(one["causes"]) & {"carrier", "disconnected"}


def test_with_protected_management_frames_a_forged_one_is_nothing(measured: Measured) -> None:
    """The monitor interface hears it, and the driver does not believe it: no verdict. The access point's own is one."""
    (one,) = measured.of("protected", "forged")
    assert one["heard"] >= 1
    assert not one["told"] and not set(one["causes"]) & {"carrier", "disconnected"}
    assert set(measured.of("protected", "its own")[0]["causes"]) & {"carrier", "disconnected"}


@pytest.mark.parametrize("radio", RADIOS)
def test_silence_is_a_blackout_before_the_driver_gives_up(measured: Measured, radio: str) -> None:
    for one in measured.of(radio, "long silence"):
        assert 0 <= one["down_ms"] < LONGEST_MS
        assert one["down_ms"] < one["driver_ms"]
        assert set(one["causes"]) & {"silence", "radio"}


@pytest.mark.parametrize("radio", RADIOS)
def test_the_link_is_up_again_after_each(measured: Measured, radio: str) -> None:
    ended = measured.of(radio, "ended")[0]["status"]["links"]["wifi"]
    assert not ended["blackout"]["down"]
    for what in ("deauthenticated", "long silence"):
        assert all(one["up_ms"] < LONGEST_MS for one in measured.of(radio, what))


@pytest.mark.parametrize("radio", RADIOS)
def test_downloads_went_through_the_nft_queue(measured: Measured, radio: str) -> None:
    status = measured.of(radio, "ended")[0]["status"]
    assert status["backend"]["name"] == "nftables"
    assert status["datapath"]["queued"] > 10


def test_freeze_acts_on_real_blackouts(measured: Measured) -> None:
    modules = [module for radio in RADIOS for module in measured.of(radio, "ended")[0]["status"]["modules"] if module["name"] == "freeze"]
    assert not any(module["violations"] for module in modules)
    # Of all runs together: decisions that an emulated machine makes slow cost a flow its module now and then.
    assert sum(module["decisions"].get("freeze: resume ACK", 0) for module in modules) > 0


def test_the_daemon_ends_as_it_should_and_leaves_no_monitor_interface(measured: Measured) -> None:
    assert measured.facts["exit_none"] == measured.facts["exit_nl80211_monitor"] == "0"
    assert measured.facts["monitors_none"] == "0"
    assert measured.facts["monitors_nl80211_monitor"] == "1"
    assert measured.facts["monitors_after"] == "0"


def test_at_rest_nothing_wakes_it_beside_a_wireless_card(measured: Measured) -> None:
    """Beacons go on, nl80211 is there to be asked, and nothing is: a timer of 2 s would be ten. The goal is one in 10 s; one more is the margin."""
    count = int(measured.facts["wake_ups_in_20_s"])
    print(f"{count} wake-ups in 20 s")
    assert count <= 3
