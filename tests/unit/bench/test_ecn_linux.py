"""The bench `ecn-linux`: the worlds of its cells, what counts as used, and the rows over cells."""

from __future__ import annotations

import tomllib

import pytest

from tandem_bench.benches import ecn_linux
from tandem_bench.benches.ecn_linux import ALONE, BY_AP1, BY_AP2, BY_BEST, GOODPUT, OPTIMUM, SETTLED, SETTLED_SHARE, SHARE, TANDEM, USED
from tandem_bench.ecn_linux_cells import AIR_MS, FAST_MS, QUICK, SCENARIO_1, SCENARIO_2, SCENARIO_3, Cell
from tandem_bench.model import Case, Run
from tandem_bench.statistics import judge
from tandem_lab import scenario
from tandem_lab.api import DownloadResult

MANY = "8 access points, others mixed"


def runs_of(case: Case, goodput: dict[str, float], used: float = 1) -> list[Run]:
    """One round, with what follows from it."""
    values = {arm: {GOODPUT.name: mbps, SETTLED.name: mbps, USED.name: used} for arm, mbps in goodput.items()}
    derived = ecn_linux.BENCH.derive(case, values)
    return [Run(case.name, arm, 1, 0, 0.0, entry) for arm, entry in (values | derived).items()]


def cases() -> dict[str, Case]:
    return {case.name: case for case in ecn_linux.BENCH.cases(False)}


def packet_times(cell: Cell) -> list[float]:
    """Of each access point, back from the radio that the lab is told."""
    described = tomllib.loads(cell.scenario(mptcp=True))["ap"]
    return [AIR_MS[int(ap["rate"])] / (1 - ap["frame_error"]) if "rate" in ap else FAST_MS for ap in described]


@pytest.mark.parametrize("cell", [*SCENARIO_1, *SCENARIO_2, *SCENARIO_3, *QUICK], ids=lambda cell: cell.name)
def test_the_lab_takes_every_world_and_has_its_packet_times(cell, tmp_path):
    file = tmp_path / "cell.toml"
    file.write_text(cell.scenario(mptcp=True))
    world = scenario.load(file)
    assert world.mptcp and world.interfaces == tuple(f"ap{place + 1}" for place in range(cell.aps))
    assert packet_times(cell) == pytest.approx(cell.times, rel=1e-3)
    assert [name for name, uplink in world.uplinks.items() if uplink.rate] == ([] if cell.flows is None else ["ap2"])


def test_figure_6c_has_the_best_one_last_and_the_others_poor_or_in_between():
    times = {cell.name: cell.times for cell in SCENARIO_3}
    assert times["8 access points, others poor"] == [6] * 7 + [FAST_MS]
    mixed = times[MANY]
    assert mixed[0] == 6 and mixed[-1] == FAST_MS
    assert [before - after for before, after in zip(mixed, mixed[1:])] == pytest.approx([(6 - FAST_MS) / 7] * 7)
    assert {cell.rtt for cell in SCENARIO_3} == {50} and max(cell.aps for cell in SCENARIO_3) == 8


def test_with_two_access_points_figure_6c_is_a_cell_of_scenario_1():
    (pair,) = [cell for cell in SCENARIO_3 if cell.aps == 2]
    (same,) = [cell for cell in SCENARIO_1 if (cell.t1, cell.rtt) == (6, 50)]
    assert pair.scenario(True).replace(pair.name, same.name) == same.scenario(True)


def test_those_that_carry_a_hundredth_once_settled_are_used():
    # wlan0 carries at first only, wlan1 less than a hundredth later on.
    samples = [(second, second * 1000) for second in range(0, 31, 5)]
    received = {"wlan0": [0, 500, 500, 500, 500, 500, 500], "wlan1": [0, 0, 0, 10, 20, 30, 40], "wlan2": [0, 500, 1500, 2500, 3500, 4500, 5500]}
    result = DownloadResult(30000, 30.0, 0.008, samples, None, [], None, 0.0, received=received)
    assert ecn_linux.used(result) == 1
    result.received["wlan1"] = [0, 0, 0, 100, 200, 300, 400]
    assert ecn_linux.used(result) == 2


def test_the_optimum_is_the_best_single_way_and_none_without_all_of_them():
    case = cases()["T1 3 ms, RTT 25 ms"]
    assert {run.arm: run.values[GOODPUT.name] for run in runs_of(case, {BY_AP1.name: 3, BY_AP2.name: 24})}[OPTIMUM.name] == 24
    assert OPTIMUM.name not in {run.arm for run in runs_of(case, {BY_AP2.name: 24})}
    assert {run.arm: run.values[GOODPUT.name] for run in runs_of(cases()[MANY], {BY_BEST.name: 23, TANDEM.name: 25})}[OPTIMUM.name] == 23


def test_each_cell_of_figure_6c_has_its_shares_in_a_row():
    case = cases()[MANY]
    row, made = ecn_linux.shares_row(case, runs_of(case, {BY_BEST.name: 20, ALONE.name: 4, TANDEM.name: 19}))
    assert {run.arm: (run.values[SHARE.name], run.values[SETTLED_SHARE.name]) for run in made} == {
        BY_BEST.name: (100, 100), ALONE.name: (20, 20), TANDEM.name: (95, 95), OPTIMUM.name: (100, 100)}
    assert not row.goals


def test_more_than_four_access_points_used_misses_the_goal():
    case = cases()[MANY]
    (goal,) = case.goals
    assert judge(case, goal, runs_of(case, {BY_BEST.name: 20, TANDEM.name: 19}, used=4)).met
    assert not judge(case, goal, runs_of(case, {BY_BEST.name: 20, TANDEM.name: 19}, used=5)).met


def test_rows_over_cells_have_the_arms_of_all_of_them_and_judge_the_mean():
    plan = list(cases().values())
    runs = [run for case in plan for run in runs_of(case, {arm.name: 10 if arm == TANDEM and case.parameters["cell"].number == 3 else 20 for arm in case.arms if arm != OPTIMUM})]
    rows = {case.name: (case, made) for case, made in ecn_linux.BENCH.summarise(plan, runs)}
    overall, made = rows[ecn_linux.ALL_CELLS]
    assert {arm.name for arm in overall.arms} == {"MPTCP alone", "as published", "Tandem", "optimum"}, "by AP1, CE marks and the like are no arms of figure 6c"
    assert [judge(overall, goal, made).value for goal in overall.goals] == [pytest.approx((10 * 100 + 5 * 50) / 15)]
    assert {name: [judge(case, goal, made).met for goal in case.goals] for name, (case, made) in rows.items() if name.startswith("scenario")} == {
        "scenario 1, of the optimum": [], "scenario 2, of the optimum": [], "scenario 3, of the optimum": [False]}
