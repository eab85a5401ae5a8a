"""What one download found of its access point stands for the next one, between real TCPs: frames that it keeps for an absent station, or no longer."""

from __future__ import annotations

import time
from typing import Callable

import pytest
from conftest import need_built

from tandem_lab import system
from test_freeze import clean, decisions
from test_recorded import WHOLE, check

REMEMBERS = {"evidence": {"paths": True}}
RESUME, WITHHELD = "freeze: resume ACK", "freeze: ACK withheld"
WAITS = "freeze: link back, the access point kept frames before"


@pytest.fixture
def lab(make_lab, with_air: None):
    need_built("freeze")
    return make_lab("plain")


def radio(lab) -> dict:
    return {"links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}}


def known(daemon) -> list[dict]:
    return [one for network in daemon.api("/v1/networks") if network["kind"] == "wifi" for one in network["keep_frames"]]


def left_to_itself(decided: dict[str, int]) -> bool:
    """Whether nothing was asked after the blackout; where the frames come late, as on a busy machine, it is after all."""
    return WAITS in decided and RESUME not in decided


def through_blackouts(lab, daemon, *modes: str, until: Callable[[dict[str, int]], bool] = lambda decided: False) -> list[dict[str, int]]:
    """A download of its own, with a blackout of each kind, none after the one of which `until` holds; what was decided of the beginning, and after each
    blackout."""
    before = decisions(daemon)

    def since() -> dict[str, int]:
        nonlocal before
        now = decisions(daemon)
        fresh = {why: count - before.get(why, 0) for why, count in now.items() if count > before.get(why, 0)}
        before = now
        return fresh

    going = lab.start_download("100G", seconds=60)
    if system.wait_until(lambda: decisions(daemon).get(WITHHELD, 0) > before.get(WITHHELD, 0), 3.0):
        time.sleep(1.5)  # past slow start and what it loses
    found = [since()]
    for mode in modes:
        lab.set("wifi.blackout", mode)
        time.sleep(0.7)
        lab.set("wifi.blackout", "none")
        time.sleep(2.0)
        found.append(since())
        if until(found[-1]):
            break
    going.stop()
    time.sleep(0.5)
    return found


def found_out(lab, daemon) -> list[dict[str, int]]:
    """through_blackouts() until the access point is known: frames that come late, as on a busy machine, may be an answer and say nothing."""
    for _ in range(3):
        found = through_blackouts(lab, daemon, "buffer")
        # Told half a second after the blackout, and written down a little later: the next download must not begin meanwhile.
        if system.wait_until(lambda: bool(known(daemon)), 2):
            break
    assert len(known(daemon)) == 1
    return found


@pytest.mark.parametrize("by", ["radio", "gateway"])
def test_the_next_download_leaves_an_access_point_that_keeps_frames_to_itself(lab, by, tmp_path):
    """Known by its hardware address where the radio tells, else by the gateway's."""
    config = {**REMEMBERS, **WHOLE, **(radio(lab) if by == "radio" else {})}
    with lab.daemon(["freeze"], config) as daemon:
        young, first = found_out(lab, daemon)
        assert young.get(WITHHELD, 0) > 0 and first.get(RESUME, 0) > 0, "nobody has told it"
        [access_point] = known(daemon)
        assert access_point["blackouts"] == 1 and access_point["found_s"] < 60
        young, second = through_blackouts(lab, daemon, "buffer")
        print(f"{access_point}; {second}")
        assert WITHHELD not in young and WITHHELD not in second and RESUME not in second, (young, second)
        assert second.get(WAITS, 0) == 1
        assert known(daemon)[0]["blackouts"] in (1, 2)  # 1 where the frames came late
        shown = lab.client.run([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "networks"]).stdout
        assert "ACCESS POINT THAT KEEPS FRAMES" in shown and access_point["access_point"] in shown
        clean(daemon)
        check(daemon, tmp_path / "whole.pcapng")

        # A restart forgets nothing.
        assert daemon.stop() == 0
        daemon.start()
        assert [one["access_point"] for one in known(daemon)] == [access_point["access_point"]]
        young, third = through_blackouts(lab, daemon, "buffer")
        assert WITHHELD not in young and RESUME not in third, (young, third)
        daemon.api("/v1/networks/forget", "POST", {"all": True})
        assert known(daemon) == []
        young, fourth = through_blackouts(lab, daemon, "buffer")
        assert young.get(WITHHELD, 0) > 0 and fourth.get(RESUME, 0) > 0, (young, fourth)


def test_over_an_access_point_that_drops_nothing_changes_and_one_that_stops_keeping_frames_is_unlearnt(lab, tmp_path):
    with lab.daemon(["freeze"], {**REMEMBERS, **WHOLE, **radio(lab)}) as daemon:
        for _ in range(2):
            young, first, second = through_blackouts(lab, daemon, "drop", "drop")
            assert young.get(WITHHELD, 0) > 0 and WAITS not in first and WAITS not in second
            assert first.get(RESUME, 0) > 0 and second.get(RESUME, 0) > 0, (first, second)
        assert known(daemon) == []

        found_out(lab, daemon)
        young, first, second = through_blackouts(lab, daemon, "drop", "drop")
        assert WITHHELD not in young and first.get(WAITS, 0) == 1 and first.get(RESUME, 0) > 0, "it waits in vain once, and asks then"
        assert known(daemon) == []
        assert first.get(WITHHELD, 0) > 0 and WAITS not in second and second.get(RESUME, 0) > 0, "from then on as before"
        # Believed again after two blackouts, not after one.
        through_blackouts(lab, daemon, "buffer")
        assert known(daemon) == []
        found_out(lab, daemon)
        clean(daemon)
        check(daemon, tmp_path / "whole.pcapng")


def test_where_nothing_is_remembered_each_download_finds_out_by_itself(lab):
    with lab.daemon(["freeze"], radio(lab)) as daemon:
        for _ in range(2):
            young, first, *later = through_blackouts(lab, daemon, *["buffer"] * 4, until=left_to_itself)
            assert young.get(WITHHELD, 0) > 0 and first.get(RESUME, 0) > 0, (young, first)
            # From the first blackout on, unless frames come late, as in found_out().
            found = next(filter(left_to_itself, later), None)
            assert found and found[WAITS] == 1, later
            assert known(daemon) == []
