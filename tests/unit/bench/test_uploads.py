"""What the bench `uploads` makes of the bytes that left by either link."""

from __future__ import annotations

import pytest

from tandem_bench.benches import uploads
from tandem_bench.benches.uploads import AGAIN_FAST, BENCH, BY_WIFI, HEADERS, HELD, NEEDLESS, R0, SETTLE, SLOW, SPENT, STOPS, WORST, r0_figures
from tandem_lab.uploads import around


def carried(by_cell: float, needless: float = 0.0) -> dict[str, float]:
    """Figures when cellular carries so many Mb/s of TCP while Wi-Fi is slow, and so many else."""
    came, cellular, wire, at = [], [], 0.0, 0.0
    while at < STOPS:
        slow = SLOW <= at < AGAIN_FAST
        cell = by_cell if slow else needless
        cellular.append((at, int(wire)))
        came.append((at, int(0.1 * ((BY_WIFI * HEADERS if slow else 20.0) + cell) / 8e-6)))
        wire += 0.1 * cell / 8e-6 / HEADERS
        at += 0.1
    return r0_figures(came, cellular)


def test_just_the_difference_is_100_percent_of_both() -> None:
    found = carried(R0 - HEADERS * BY_WIFI)
    assert found[WORST.name] == pytest.approx(100, abs=6)
    assert found[HELD.name] == pytest.approx(100, abs=1) and found[SPENT.name] == pytest.approx(100, abs=2) and found[NEEDLESS.name] == 0


def test_less_is_not_held_and_more_is_spent() -> None:
    assert carried(0)[HELD.name] == pytest.approx(100 * HEADERS * BY_WIFI / R0, abs=1) and carried(0)[SPENT.name] == 0
    assert carried(2 * (R0 - HEADERS * BY_WIFI))[SPENT.name] == pytest.approx(200, abs=4)


def test_what_comes_late_is_seen_in_the_worst_two_seconds() -> None:
    begin = SLOW + SETTLE
    found = r0_figures([(begin + 4.1, int(R0 / 8e-6 * (AGAIN_FAST - begin)))], [(SLOW, 0), (STOPS, 0)])
    assert found[HELD.name] == pytest.approx(100, abs=1) and found[WORST.name] == 0


def test_what_comes_by_cellular_beside_is_needless() -> None:
    seconds = SLOW + STOPS - AGAIN_FAST - SETTLE
    assert carried(3, 1.0)[NEEDLESS.name] == pytest.approx(seconds / 8, rel=0.1)


def test_what_waits_in_the_queue_after_a_change_counts_for_nothing() -> None:
    assert r0_figures([(SLOW + SETTLE / 2, 10**9)], [(SLOW, 0), (SLOW + SETTLE / 2, 10**9)])[HELD.name] == 0


def test_the_quick_run_has_every_arm() -> None:
    assert {arm for case in BENCH.cases(True) for arm in case.arms} == {arm for case in BENCH.cases(False) for arm in case.arms}
    assert {case.name for case in BENCH.cases(True)} < {case.name for case in BENCH.cases(False)}
    assert uploads.LEAVING.count("[[ap]]") == 2


def told(came: list[float]) -> dict[str, float]:
    """Of an upload of 12 s with a handoff after 8, of which bytes came at these seconds."""
    sent = {"seen": [{"t": at, "rtt": 0.03, "retransmitted": 0} for at in (6.5, 7.5, 11.5)]}
    return around(sent, {"came": [(at, 1000) for at in came]}, 0.0, 8.0, 12.0)


def test_an_upload_that_stands_still_to_the_end_has_a_gap() -> None:
    """It once had that of the time before: nothing came again that could have ended one."""
    before = [0.1 * number for number in range(1, 81)]
    assert told([*before, 12.5])["gap_s"] == pytest.approx(4.0) and told(before)["gap_s"] == pytest.approx(4.0)
    assert told([*before, *(8.3 + 0.1 * number for number in range(40))])["gap_s"] == pytest.approx(0.3)
