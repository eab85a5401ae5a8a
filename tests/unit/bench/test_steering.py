"""The pure parts of the benches that steer between access points: cells, figures over them, who counts as used, fairness, descriptions."""

from __future__ import annotations

import statistics

import pytest

from tandem_bench import ecn_pictures, simulations
from tandem_bench.benches import ecn_grid, ecn_many, ecn_uplink, fairness, static_tail
from tandem_bench.model import Arm, Case, Metric, Run
from tandem_bench.statistics import judge

SHARE = Metric("share", "%")


def runs_of(values: dict[tuple[str, str, int], float]) -> list[Run]:
    return [Run(case, arm, seed, 0, 0.0, {SHARE.name: value}) for (case, arm, seed), value in values.items()]


def cell(name: str) -> Case:
    return Case(name, (Arm("Tandem"), Arm("other")), (SHARE,), 2)


def test_the_grid_is_the_papers() -> None:
    assert len(list(ecn_grid.cells(False))) == len(set(ecn_grid.cells(False))) == 120


def test_the_quick_grid_has_every_round_trip_with_every_packet_time_and_all_weights() -> None:
    quick = list(ecn_grid.cells(True))
    assert len(quick) == 24
    assert {(rtt, t1) for rtt, t1, _ in quick} == {(rtt, t1) for rtt in ecn_grid.RTTS for t1 in ecn_grid.TIMES}
    assert {weight for _, _, weight in quick} == set(ecn_grid.WEIGHTS)


def test_figures_over_cells_are_of_one_seed_each_and_the_worst_is_of_all() -> None:
    cells = [cell("a"), cell("b")]
    runs = runs_of({("a", "Tandem", 1): 100, ("b", "Tandem", 1): 80, ("a", "Tandem", 2): 60, ("b", "Tandem", 2): 96})
    worst = Metric("worst", "%")
    row = Case("all", (Arm("Tandem"),), (Metric("mean", "%"), worst), 2, parameters={"pooled": True})
    made = simulations.together(row, runs, cells, SHARE.name, {"mean": simulations.mean}, worst)
    assert [run.values["mean"] for run in made] == [90, 78]
    assert [run.values.get("worst") for run in made] == [60, None]


def test_a_seed_without_all_cells_has_no_figure() -> None:
    runs = runs_of({("a", "Tandem", 1): 100, ("a", "Tandem", 2): 60, ("b", "Tandem", 2): 96})
    assert simulations.over_cells(runs, [cell("a"), cell("b")], Arm("Tandem"), SHARE.name) == {2: [60, 96]}


def test_a_capped_mean_gives_nothing_for_more_than_the_optimum() -> None:
    assert simulations.capped_mean([150, 80]) == 90
    assert simulations.mean([150, 80]) == 115


def test_rows_of_the_grid_judge_mean_and_worst_run_of_olia_alone() -> None:
    bench = ecn_grid.BENCH
    cases = bench.cases(True)
    runs = [Run(case.name, arm.name, 1, 0, 0.0, {ecn_grid.SHARE.name: 70.0 if number == 3 and arm.name == "Tandem" else 99.0, ecn_grid.LEARNING.name: 90.0 if number == 3 else 80.0})
            for number, case in enumerate(cases) for arm in case.arms]
    rows = bench.summarise(cases, runs)
    assert [case.name for case, _ in rows] == ["OLIA, 24 cells", "LIA, 24 cells", "uncoupled CUBIC, 24 cells"]
    assert [len(case.goals) for case, _ in rows] == [4, 0, 0]
    first, made = rows[0]
    assert [judge(first, goal, made).met for goal in first.goals] == [True, False, True, True]
    assert {run.values[ecn_grid.LEARNED.name] for run in made} == {(23 * 80 + 90) / 24}


def test_used_are_those_that_carry_something_and_are_not_left_out() -> None:
    def result(*paths: tuple[float, float]) -> dict:
        return {"flows": [{"subflows": [{"mbps": mbps} for mbps, _ in paths]}], "client": {"mean": [{"backup": backup} for _, backup in paths]}}

    assert simulations.used(result((10, 0), (0.05, 0), (3, 0.9), (3, 0.2))) == 2
    assert simulations.used(result((0, 0), (0, 0))) == 0


def test_settings_of_arms() -> None:
    olia = simulations.OLIA
    assert simulations.settings_of(simulations.BY_AP2, olia) == {"arm": "ap2"}
    assert simulations.settings_of(simulations.ALONE, olia) == {"cc": "olia", "scheduler": "lowest-rtt"}
    assert simulations.settings_of(simulations.MEASURED, olia) == {"cc": "olia", "scheduler": "lowest-rtt", "modules": "ecn", "estimator": True}
    assert simulations.settings_of(simulations.TANDEM, olia) == {"cc": "olia", "scheduler": "lowest-rtt", "modules": "ecn"}
    assert simulations.settings_of(simulations.BLIND, olia)["survey"] is False
    assert simulations.settings_of(simulations.PUBLISHED, olia)["knobs"] == "ecn.strategy=1,ecn.sender=1"
    # Without its column, as in cells, it is the same arm.
    assert simulations.settings_of(Arm("as published"), olia) == simulations.settings_of(simulations.PUBLISHED, olia)


@pytest.mark.parametrize(("values", "index"), [((7, 7, 7), 1.0), ((10, 5, 5), 400 / 450), ((9, 0, 0), 1 / 3), ((0, 0, 0), 0.0)])
def test_jain(values: tuple[float, ...], index: float) -> None:
    assert fairness.jain(values) == pytest.approx(index)


def test_the_far_ways_give_the_published_rows_of_tcp() -> None:
    """Turns and air of the weighted queue on paper: what the simulator is to reproduce before MPTCP comes in."""
    for table, (c1, c2, c) in ((fairness.TABLES[1], (3.5, 13, 3.5)), (fairness.TABLES[2], (3.5, 13.5, 3))):
        way = table.ways[0]
        # A packet for C1 and one for C in turn, 1 + cost turns for both.
        ours, theirs = 1.0, (1 + way.cost) / 1.0
        air = ours * (fairness.CLOSE_MS + way.packet_ms) + theirs * fairness.CLOSE_MS
        rate = 1428 * 8e-3 / air
        assert rate * theirs == pytest.approx(c2, rel=0.05)
        assert 2 * rate == pytest.approx(c1 + c, rel=0.06)


def test_goals_of_fairness_are_the_published_rows_less_two_hundredths() -> None:
    goals = {case.name: case.goals for case in fairness.BENCH.cases(False)}
    assert goals["table 1, all close, OLIA"][0].bound == pytest.approx(0.98)
    assert goals["table 2, C close to AP2, OLIA"][0].bound == pytest.approx(400 / 450 - 0.02)
    assert not goals["table 1, all close, uncoupled CUBIC"]


def test_all_arms_of_a_download_see_the_same_outside() -> None:
    made = [static_tail.description(static_tail.USERS, static_tail.OLIA, arm, 5) for arm in static_tail.ARMS if arm.name != "optimum"]
    assert all(description["flows"][1:] == made[0]["flows"][1:] for description in made)
    other = static_tail.description(static_tail.USERS, static_tail.OLIA, static_tail.TANDEM, 6)
    assert other["flows"][1:] != made[0]["flows"][1:]
    # Variations go by their place in the list: it is the same in all arms.
    varied = [static_tail.description(static_tail.CHANNEL, static_tail.OLIA, arm, 5) for arm in static_tail.ARMS]
    assert all(description["variations"] == varied[0]["variations"] and description["seed"] == 5 for description in varied)


def test_other_users_take_what_they_are_said_to() -> None:
    flows = [flow for seed in range(300) for flow in static_tail.USERS.downloads_of_others(seed, 300.0)]
    assert len(flows) / 300 == pytest.approx(2 * 300 * static_tail.USERS.users_per_s, rel=0.1)
    assert 0.6 * static_tail.USERS.users_bytes < statistics.fmean(flow["size"] for flow in flows) < 1.1 * static_tail.USERS.users_bytes


def test_seeds_of_batches_do_not_overlap() -> None:
    seeds = [static_tail.BATCH * seed + number for seed in range(1, 21) for number in range(static_tail.BATCH)]
    assert len(set(seeds)) == len(seeds) >= 300


def test_a_curve_rises() -> None:
    runs = runs_of({("a", "Tandem", 1): 90, ("a", "Tandem", 2): 70, ("b", "Tandem", 1): 60})
    assert ecn_pictures.curve(runs, [cell("a"), cell("b")], "Tandem", SHARE.name) == [60, 80]


def test_more_than_eight_access_points_must_not_be_worse_than_alone() -> None:
    cases = {case.name: case for case in ecn_many.BENCH.cases(False)}
    assert {goal.text for goal in cases["OLIA, 12 poor"].goals} == {"nothing breaks: at least MPTCP alone"}
    assert {goal.text for goal in cases["OLIA, 8 poor"].goals} == {"at most 4 used"}


def test_the_uplinks_optimum_follows_from_any_arm() -> None:
    values = {"Tandem": {"goodput": 5.0, "share of the optimum": 125.0}}
    found = ecn_uplink.BENCH.derive(ecn_uplink.BENCH.cases(True)[0], values)
    assert found["optimum"]["goodput"] == pytest.approx(4.0)
