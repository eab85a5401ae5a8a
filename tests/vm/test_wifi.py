"""The feeder's sources on the kernel's own Wi-Fi stack: two access points and a station on simulated radios."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from conftest import Guest

STATION = "02:00:00:00:02:00"


@dataclass(frozen=True)
class Air:
    """What the guest printed."""

    facts: dict[str, str]
    said: dict[str, list[dict[str, Any]]]  # by the name of the run

    def of(self, run: str, kind: str) -> list[dict[str, Any]]:
        return [line for line in self.said[run] if line.get("kind") == kind]

    def changes(self) -> list[dict[str, Any]]:
        return self.of("nl", "wifi")

    def after(self, mark: str) -> float:
        """Nanoseconds of the monotonic clock. The guest's clock of marks has steps of 10 ms."""
        return float(self.facts[f"at_{mark}"]) * 1e9 - 1e7

    def problems(self, run: str) -> list[str]:
        return [line["problem"] for line in self.said[run] if "problem" in line]


@pytest.fixture(scope="module")
def air(guest: Guest, probe: Path) -> Air:
    result = guest("wifi.sh", str(probe), timeout=180.0)
    assert result.exit_code == 0, result.output
    said: dict[str, list[dict[str, Any]]] = {}
    for run, line in re.findall(r"^(\w+) (\{.*\})$", result.output, re.MULTILINE):
        said.setdefault(run, []).append(json.loads(line))
    return Air(dict(re.findall(r"^fact (\w+) (.*)$", result.output, re.MULTILINE)), said)


def kind_of(change: dict[str, Any]) -> str:
    return change.get("change", "disconnected")


# ---- nl80211


def test_an_association_is_told_with_its_access_point(air: Air) -> None:
    first = air.changes()[0]
    assert (kind_of(first), first["ap"]) == ("connected", air.facts["first"])


def test_counters_run_while_associated(air: Air) -> None:
    stations = [s for s in air.of("nl", "station") if s["ap"] == air.facts["first"] and s["at_ns"] < air.after("roam")]
    assert len(stations) > 10
    first, last = stations[0], stations[-1]
    assert last["rx_packets"] - first.get("rx_packets", 0) > 30  # the pings
    assert last["tx_packets"] - first.get("tx_packets", 0) > 30
    assert last["beacons"] > first.get("beacons", 0)
    assert {"signal", "signal_average", "inactive_ns", "tx_mbps", "tx_retries", "tx_failed", "beacon_loss"} <= last.keys()
    assert last["beacon_interval_ns"] == 102_400_000


def test_surveys_come_at_most_once_a_second(air: Air) -> None:
    times = sorted({s["at_ns"] for s in air.of("nl", "survey")})
    assert len(times) > 3
    assert min(b - a for a, b in zip(times, times[1:])) > 0.9e9


def test_candidates_are_both_access_points_with_their_name(air: Air) -> None:
    candidates = air.of("nl", "candidate")
    assert {c["ap"] for c in candidates} == {air.facts["first"], air.facts["second"]}
    assert {c["ssid"] for c in candidates} == {"tandem-vm"}
    assert {c["frequency"] for c in candidates} == {2412, 2437}
    assert any(c.get("associated") for c in candidates)


def test_a_signal_that_falls_and_rises_is_told_at_the_threshold(air: Air) -> None:
    kinds = [kind_of(c) for c in air.changes()]
    low = kinds.index("signal_low")
    assert "signal_high" in kinds[low:]
    assert air.changes()[low]["signal"] < -70
    # None where the driver has measured nothing yet, and says 0.
    signals = [s["signal"] for s in air.of("nl", "station") if "signal" in s]
    assert min(signals) <= -79 and max(signals) < 0 and len(signals) > 0.9 * len(air.of("nl", "station"))


def test_a_roam_is_the_end_of_one_and_the_start_of_the_other(air: Air) -> None:
    """wpa_supplicant's way: the kernel tells that we left, then that we are connected."""
    changes = [c for c in air.changes() if c["at_ns"] > air.after("roam") and kind_of(c) in ("connected", "roamed", "disconnected")]
    assert [kind_of(c) for c in changes[:2]] == ["disconnected", "connected"] or kind_of(changes[0]) == "roamed"
    assert changes[1 if kind_of(changes[0]) == "disconnected" else 0]["ap"] == air.facts["second"]
    assert not changes[0].get("by_ap", False)


def test_a_deauthentication_is_told_once_with_who_and_why(air: Air) -> None:
    changes = [c for c in air.changes() if c.get("by_ap")]
    assert len(changes) == 1
    assert (kind_of(changes[0]), changes[0]["ap"], changes[0]["reason"]) == ("disconnected", air.facts["second"], 2)
    assert changes[0]["at_ns"] > air.after("deauthenticated")
    again = [c for c in air.changes() if c["at_ns"] > changes[0]["at_ns"]]
    assert kind_of(again[0]) == "connected"


def test_silence_is_beacon_loss_then_the_end(air: Air) -> None:
    changes = [c for c in air.changes() if c["at_ns"] > air.after("silent")]
    kinds = [kind_of(c) for c in changes]
    assert kinds[:2] == ["beacon_loss", "disconnected"]
    assert changes[1]["reason"] == 4  # inactivity
    assert not changes[1].get("by_ap", False)
    assert "connected" in kinds[2:]
    heard = air.after("heard")
    for name, change in (("beacon loss", changes[0]), ("given up", changes[1])):
        print(f"{name} told {(change['at_ns'] - air.after('silent')) / 1e6:.0f} ms after the silence began")
        assert change["at_ns"] < heard + 2e7


def test_beacons_stand_still_in_silence(air: Air) -> None:
    """What a reader of the counters sees long before the driver gives up."""
    end = next(c["at_ns"] for c in air.changes() if kind_of(c) == "beacon_loss")
    silent = [s for s in air.of("nl", "station") if air.after("silent") + 3e8 < s["at_ns"] < end]
    assert len(silent) > 3
    assert len({s["beacons"] for s in silent}) == 1


def test_an_interface_may_go_and_come(air: Air) -> None:
    *gone, back = air.problems("nl")
    assert gone and all("wlan2" in said and "no such interface" in said for said in gone)
    assert back == ""


def test_nothing_was_unreadable(air: Air) -> None:
    assert air.said["nl"][-1]["skipped"] == 0


def test_without_rights_the_counters_are_there_and_the_threshold_is_not(air: Air) -> None:
    assert any("NET_ADMIN" in line.get("threshold_problem", "") for line in air.said["unprivileged"])
    assert not air.problems("unprivileged")


@pytest.mark.parametrize("run", ["missing", "loopback"])
def test_what_is_no_wifi_interface_is_said(air: Air, run: str) -> None:
    assert "no Wi-Fi interface" in air.problems(run)[0]


def test_capabilities_are_unknown_until_associated(air: Air) -> None:
    before = {line["name"]: line["ability"] for line in air.said["before"]}
    after = {line["name"]: line["ability"] for line in air.said["after"]}
    assert before["station signal"] == before["station beacons received"] == "unknown"
    assert after["station signal"] == after["station beacons received"] == after["survey busy time"] == "yes"
    assert before["monitor"] == after["monitor"] == "yes"
    assert after["monitor damaged frames"] == "unknown"
    assert all(line["why"] for line in air.said["before"] + air.said["after"])


# ---- monitor


def test_captured_beacons_say_what_the_air_was_like(air: Air) -> None:
    beacons = [f for f in air.of("mon1", "frame") if f["type"] == "beacon"]
    assert beacons
    assert {b["transmitter"] for b in beacons} == {air.facts["first"]}  # not the stranger's
    assert all(b["signal"] == -30 and b["mbps"] == 1 and b["frequency"] in (2412, 2437) for b in beacons)
    assert all(b.get("beacon_interval") == 100 for b in beacons)


def test_captured_data_goes_both_ways_with_numbers_and_rates(air: Air) -> None:
    data = [f for f in air.of("mon1", "frame") if f["type"] == "data"]
    down = [f for f in data if f["receiver"] == STATION and f.get("mbps", 6) != 6]
    up = [f for f in data if f.get("transmitter") == STATION]
    assert len(down) >= 20 and len(up) >= 20
    for frames in (down, up):
        assert all("sequence" in f and "tid" in f and f["bytes"] > 60 for f in frames)
    assert all(f["mbps"] > 0 and f["signal"] == -30 for f in down)
    # hwsim does not say how our own frames went out: absent, not zero.
    assert not any("signal" in f or f.get("mbps") == 0 for f in up)


def test_the_retry_bit_and_the_number_of_the_attempt(air: Air) -> None:
    sent = [f for f in air.of("mon1", "frame") if f.get("sequence") == 0x123 and f.get("transmitter") == air.facts["first"]]
    assert [f.get("retry", False) for f in sent] == [False, True]


def test_the_filter_lets_nobody_elses_frames_through(air: Air) -> None:
    ours = {STATION, air.facts["first"]}
    assert all(ours & {f["receiver"], f.get("transmitter")} for f in air.of("mon1", "frame"))
    assert air.said["mon2"][-1]["skipped"] == 0


def test_times_of_frames_are_in_order_and_of_this_clock(air: Air) -> None:
    times = [f["at_ns"] for f in air.of("mon1", "frame")]
    assert times == sorted(times)
    assert air.after("associated") < times[0] and times[-1] < air.after("roam")


def test_the_monitor_interface_comes_and_goes_and_others_stay(air: Air) -> None:
    assert air.facts["monitors_during"].split() == ["mon7", "tandem-mon0", "wlan2"]
    assert air.facts["monitors_killed"].split() == ["mon7", "tandem-mon0", "wlan2"]  # nobody was left to remove it
    assert any(f["type"] == "beacon" for f in air.of("mon2", "frame"))  # replaced by the next start
    assert air.facts["monitors_ended"].split() == ["mon7", "wlan2"]


def test_a_monitor_interface_that_is_taken_away_is_made_again(air: Air) -> None:
    *gone, back = air.problems("mon2")
    assert gone and all("monitor" in said for said in gone)
    assert back == ""


def test_an_interface_of_our_name_that_is_no_monitor_stays(air: Air) -> None:
    assert "no monitor interface" in air.problems("taken")[0]
    assert air.facts["taken_still"] == "1"


def test_a_given_monitor_interface_is_used_as_it_is(air: Air) -> None:
    assert not air.problems("given")
    assert any(f["type"] == "beacon" for f in air.of("given", "frame"))


def test_an_interface_that_delivers_no_radiotap_is_refused(air: Air) -> None:
    assert "not radiotap" in air.problems("ethernet")[0]
    assert "nosuch0" in air.problems("nomonitor")[0]
