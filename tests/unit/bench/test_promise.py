"""What the bench `promise` makes of the bytes that came by either link."""

from __future__ import annotations

import pytest

from tandem_bench import promise_walk
from tandem_bench.benches import promise
from tandem_bench.benches.promise import HELD, NEEDLESS, SPENT, WORST, Cell, figures, stretches
from tandem_bench.promise_walk import Walk
from tandem_lab.errors import LabError


def seen(wifi, cell, header: float = 1.0) -> list[tuple[float, int, int, int]]:
    """Every half second; `wifi` and `cell` give Mb/s of the body at a time. Headers make the wire's bytes `header` times the body's."""
    at, body, wire_wifi, wire_cell = 0.0, 0.0, 0.0, 0.0
    rows = [(0.0, 0, 0, 0)]
    while at < promise.SECONDS:
        by_wifi, by_cell = wifi(at) / 16e-6, cell(at) / 16e-6
        at += 0.5
        body, wire_wifi, wire_cell = body + by_wifi + by_cell, wire_wifi + header * by_wifi, wire_cell + header * by_cell
        rows.append((at, round(body), round(wire_wifi), round(wire_cell)))
    return rows


def rate(second: float) -> float:
    return next(rate for begin, end, rate in stretches() if begin <= second < end)


@pytest.mark.parametrize("header", [1.0, 1.07])
def test_the_difference_and_no_more(header):
    values, details = figures(Cell(18), seen(rate, lambda second: max(0.0, 18 - rate(second)), header))
    assert values[HELD.name] == pytest.approx(100, abs=0.01) and values[WORST.name] == pytest.approx(100, abs=0.01)
    assert values[SPENT.name] == pytest.approx(100, abs=0.1) and values[NEEDLESS.name] == 0
    assert details["cell_mb"] == pytest.approx(header * (12 * 6 + 12 * 13) / 8, rel=0.01)


def test_all_of_it_all_the_time():
    values, _ = figures(Cell(10), seen(rate, lambda second: 18))
    assert values[HELD.name] == pytest.approx(230, abs=0.1)
    assert values[SPENT.name] == pytest.approx(360, abs=0.1)
    # From 3 s to 8, from 11 to 20 and from 35 to 42 Wi-Fi carries more than 11.5 Mb/s; the last half second of each is left out.
    assert values[NEEDLESS.name] == pytest.approx(18 * 19.5 / 8, rel=0.001)


def test_a_hole_is_seen():
    values, _ = figures(Cell(18), seen(rate, lambda second: 0 if 24 <= second < 26 else max(0.0, 18 - rate(second))))
    assert values[WORST.name] == pytest.approx(100 * 5 / 18, abs=0.1)


def test_a_wifi_that_always_suffices_shows_nothing():
    with pytest.raises(LabError, match="below R0"):
        figures(Cell(4), seen(rate, lambda second: 0))


def test_the_scenario_is_one_that_the_lab_takes(tmp_path):
    from tandem_lab import scenario

    file = tmp_path / "promise.toml"
    file.write_text(Cell(18).scenario())
    assert scenario.load(file).mptcp


def walked(walk: Walk, gap: float = 0.0) -> list[tuple[float, int]]:
    """R0 all the time but for a gap that begins with the handoff, every 10 ms."""
    rows, body = [(0.0, 0)], 0.0
    for number in range(1, int(100 * walk.seconds) + 50):
        second = number / 100
        if not walk.handoff < second <= walk.handoff + gap:
            body += walk.r0 / 8e-6 / 100
        rows.append((second, round(body)))
    return rows


def test_a_walk_on_which_nothing_stops():
    walk = Walk(0.5)
    values, _ = promise_walk.figures(walk, walked(walk), 5e6)
    assert values[promise_walk.HELD.name] == pytest.approx(100, abs=0.1) and values[promise_walk.AT_HANDOFF.name] == pytest.approx(100, abs=2)
    assert values[promise_walk.GAP.name] == pytest.approx(10, abs=1) and values[promise_walk.CELLULAR.name] == 5


@pytest.mark.parametrize("gap", [0.3, 0.9])
def test_a_gap_counts_whole_also_behind_the_end_of_what_caused_it(gap):
    walk = Walk(0.5)
    values, _ = promise_walk.figures(walk, walked(walk, gap), 0)
    assert values[promise_walk.GAP.name] == pytest.approx(1000 * gap, abs=15)
    assert values[promise_walk.LATER_GAP.name] == pytest.approx(1000 * max(0.01, gap - walk.gone), abs=15)
    seconds = int(walk.seconds - promise_walk.BEGINS)
    assert values[promise_walk.HELD.name] == pytest.approx(100 * (seconds - gap) / seconds, abs=0.2)


def test_a_download_that_ends_early_is_no_walk():
    walk = Walk(0.5)
    with pytest.raises(LabError, match="before the walk"):
        promise_walk.figures(walk, walked(walk)[:500], 0)


def test_the_walk_is_that_of_cla_and_one_that_the_lab_takes(tmp_path):
    from tandem_lab import scenario

    walk = Walk(0.5)
    # Table II: below 20 dB, and the other one 12 dB better; with Wi-Fi of C1 at the beginning and the end, some 5 Mb/s at the handoff.
    assert walk.signal(walk.handoff - 0.1) < 20 and promise_walk.heard(1, walk.handoff) > promise_walk.heard(0, walk.handoff) + 12
    assert promise_walk.carries(walk.signal(0)) == promise_walk.C1 == promise_walk.carries(walk.signal(walk.seconds))
    assert promise_walk.carries(walk.signal(walk.handoff - 0.1)) == pytest.approx(5, abs=1)
    file = tmp_path / "walk.toml"
    file.write_text(walk.scenario())
    assert scenario.load(file).mptcp
