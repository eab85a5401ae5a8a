"""Cells, arms, goals and rows of `together` and `integrated`, with made-up runs."""

from __future__ import annotations

import itertools
import tomllib

import pytest

from tandem_bench import walks
from tandem_bench.benches import integrated, offload, together
from tandem_bench.model import Arm, Case, Goal, Metric, Run
from tandem_bench.statistics import judge
from tandem_lab.errors import BadInput

CELL = together.Cell("0.3 % loss", 50, "cubic", "g")


def runs_of(case: str, **arms: tuple[float, ...]) -> list[Run]:
    return [Run(case, name.replace("_", "+"), seed, 0, 1.0, {"goodput": value}, {"goodputs": [value]})
            for name, values in arms.items() for seed, value in enumerate(values, 1)]


# -- what is measured


def test_every_choice_of_modules_is_an_arm() -> None:
    names = [arm.name for arm in together.COMBINATIONS]
    for size in (1, 2, 3):
        for chosen in itertools.combinations(together.MODULES, size):
            assert "+".join(chosen) in names
    assert len(names) == len(set(names)) == 4 + 6 + 4 + 3


@pytest.mark.parametrize("arm", together.COMBINATIONS)
def test_an_arm_switches_on_what_its_name_says(arm: Arm) -> None:
    expected = {"plain": (), "plain again": (), "all": together.MODULES}.get(arm.name, tuple(arm.name.split("+")))
    assert together.modules_of(arm) == expected


def test_rate_is_beside_all_where_handoffs_are() -> None:
    for case in together.BENCH.cases(False):
        assert (together.WITH_RATE in case.arms) == (case.parameters["cell"].trouble == "walk")
    walk = next(case for case in together.BENCH.cases(False) if together.WITH_RATE in case.arms)
    assert {(goal.over, goal.bound) for goal in walk.goals if goal.arm == together.WITH_RATE.name} == {("plain", 1.0), ("all", 0.97)}
    assert together.modules_of(together.WITH_RATE) == (*together.MODULES, "rate")


@pytest.mark.parametrize("one, other", [("trouble", "rtt_ms"), ("trouble", "sender"), ("trouble", "phy"), ("rtt_ms", "sender"), ("rtt_ms", "phy"), ("sender", "phy")])
def test_cells_cover_every_two_values_of_two_axes(one: str, other: str) -> None:
    values = {"trouble": together.TROUBLES, "rtt_ms": together.RTTS, "sender": together.SENDERS, "phy": together.PHYS}
    met = {(getattr(cell, one), getattr(cell, other)) for cell in together.covering_cells()}
    assert met == set(itertools.product(values[one], values[other]))


def test_losses_have_a_share_to_keep_up_to_100_ms_and_50_mbps() -> None:
    bounds = {(goal.over, goal.bound) for goal in together.case_of(CELL, together.COMBINATIONS, 3).goals}
    assert bounds == {("plain", 1.0), ("plain", 0.9), ("loss-free", 0.9)}
    many = together.case_of(CELL, (together.PLAIN, together.ALL, together.LOSS_FREE), 10, many=True)
    assert ("loss-free", 0.75) in {(goal.over, goal.bound) for goal in many.goals}
    for cell in (together.Cell("0.3 % loss", 200, "cubic", "g"), together.Cell("0.3 % loss", 50, "cubic", "n"), together.Cell("walk", 50, "cubic", "g")):
        assert {goal.over for goal in together.case_of(cell, together.COMBINATIONS, 3).goals} == {"plain"}


@pytest.mark.parametrize("cell", together.every_cell()[::7], ids=lambda cell: cell.name)
def test_scenarios_are_toml_and_lose_what_they_say(cell: together.Cell) -> None:
    tree = tomllib.loads(cell.scenario())
    assert (tree["wifi"].get("loss_down", 0) > 0) == (cell.trouble in together.LOSSES)
    assert any(event["what"] == "blackout" for event in tree.get("timeline", [])) == (cell.trouble in ("blackouts", "filtered cellular", "cellular NAT"))
    assert len(tree.get("ap", [])) == (3 if cell.trouble == "walk" else 0)
    assert tomllib.loads(cell.scenario(lossy=False))["wifi"].get("loss_down", 0) == 0


def test_blackouts_of_the_published_walk_end_at_the_next_access_point() -> None:
    tree = tomllib.loads(integrated.World().scenario())
    at = {what: [float(event["at"].removesuffix("s")) for event in tree["timeline"] if event["what"] == what] for what in ("blackout", "handoff", "loss", "cell_down")}
    assert at["blackout"] == [50.0, 62.5]
    assert at["handoff"] == pytest.approx([51.94, 64.44])
    assert at["loss"] == [64.5] and at["cell_down"] == [0.0]
    assert [event["for"] for event in tree["timeline"] if event["what"] in ("blackout", "cell_down")] == ["2s", "2s", "5s"]


def test_walk_scales_with_its_length_but_for_the_blackouts() -> None:
    begins = {event["what"]: event for event in tomllib.loads(walks.short_walk(9).tables)["timeline"]}
    assert float(begins["handoff"]["at"].removesuffix("s")) == pytest.approx(5.94)


def test_a_known_path_is_a_cell_of_its_own_in_which_something_is_remembered() -> None:
    cases = together.BENCH.configured([together.case_of(CELL, (together.PLAIN, together.ALL), 1)], {"known": "yes"})
    cell = cases[0].parameters["cell"]
    assert cell.known and cases[0].name == CELL.name + ", known path" and cell.scenario() == CELL.scenario()
    assert together.config_of(None, cell)["evidence"] == {"paths": True} and together.config_of(None, CELL) == {}
    for value in ("perhaps", ""):
        with pytest.raises(BadInput):
            together.BENCH.configured(cases, {"known": value})


def test_a_second_download_is_a_cell_of_its_own_that_takes_longer() -> None:
    cases = together.BENCH.configured([together.case_of(CELL, (together.PLAIN, together.ALL), 1)], {"before": "12"})
    cell = cases[0].parameters["cell"]
    assert cell.before == 12 and cases[0].name == CELL.name + ", the second download" and cell.scenario() == CELL.scenario()
    assert together.BENCH.estimate(cases[0], together.ALL, False) == pytest.approx(CELL.seconds + 12 + 1.8)
    for value in ("-1", "601", "long"):
        with pytest.raises(BadInput):
            together.BENCH.configured(cases, {"before": value})


def test_offload_may_know_its_path_beforehand() -> None:
    cases = offload.BENCH.cases(True)
    assert not any(case.parameters["air"].known for case in cases)
    assert all(case.parameters["air"].known for case in offload.BENCH.configured(cases, {"known": "yes"}))
    assert offload.BENCH.configured(cases, {"known": "no"}) == cases
    with pytest.raises(BadInput):
        offload.BENCH.configured(cases, {"known": "perhaps"})


# -- what comes of it


def test_all_stands_beside_the_pair_with_the_highest_median() -> None:
    case = together.case_of(CELL, together.COMBINATIONS, 3)
    runs = runs_of(case.name, plain=(10, 10, 10), offload_freeze=(11, 30, 10), freeze_mirror=(12, 12.2, 12.1), all=(12, 11.9, 12))
    made, chosen = together.against_best_pair(case, runs) or pytest.fail("no row")
    assert made.goals[0].over == "freeze+mirror" and {run.arm for run in chosen} == {"freeze+mirror", "all"}
    verdict = judge(made, made.goals[0], chosen)
    assert verdict.value == pytest.approx(12 / 12.1) and verdict.word == "met"


def test_a_failed_run_has_no_part_in_the_best_pair() -> None:
    case = together.case_of(CELL, together.COMBINATIONS, 3)
    runs = runs_of(case.name, freeze_mirror=(12, 12, 12), all=(12, 12, 12)) + [Run(case.name, "offload+mirror", 1, 0, 1.0, error="no lab")]
    made, _ = together.against_best_pair(case, runs) or pytest.fail("no row")
    assert made.goals[0].over == "freeze+mirror"


def test_worst_runs_are_compared_with_worst_runs() -> None:
    case = together.case_of(CELL, together.COMBINATIONS, 3)
    goal = next(goal for goal in case.goals if goal.metric == together.WORST.name and goal.over == "plain")
    runs = runs_of(case.name, plain=(10, 20, 20), all=(25, 25, 8.9))
    assert judge(case, goal, runs).value == pytest.approx(0.89) and judge(case, goal, runs).word == "MISSED"


@pytest.mark.parametrize("tandem, word", [((0.9, 1.1, 1.2, 1.1, 1.2, 1.1, 1.2, 1.1), "undecided"), ((1.01,) + (1.1,) * 7, "met"), ((0.9,) * 7 + (0.99,), "MISSED"), ((1.0,) * 8, "met")])
def test_a_goal_inside_the_interval_is_undecided(tandem: tuple[float, ...], word: str) -> None:
    case = Case("c", (Arm("plain"), Arm("all")), (Metric("goodput", "Mb/s"),), 8)
    runs = runs_of("c", plain=(1,) * 8, all=tandem)
    verdict = judge(case, Goal("all", ">=", 1.0, over="plain"), runs)
    assert verdict.word == word and verdict.met == (word == "met")


def test_gain_is_over_simple_aggregation_in_the_walk_and_over_plain_in_a_step() -> None:
    walk = integrated.walk_case(integrated.World(), integrated.WALK_ARMS, 3)
    gained = integrated.BENCH.derive(walk, {"simple aggregation": {"goodput": 10.0}, "tandem": {"goodput": 26.9}, "plain Wi-Fi": {"goodput": 8.0}})
    assert gained["tandem"]["gain"] == pytest.approx(169) and gained["plain Wi-Fi"]["gain"] == pytest.approx(-20)
    step = integrated.step_cases(44, 3)[0]
    assert integrated.BENCH.derive(step, {"plain Wi-Fi": {"goodput": 20.0}, "tandem": {"goodput": 25.0}})["tandem"]["gain"] == pytest.approx(25)
    assert integrated.BENCH.derive(step, {"tandem": {"goodput": 25.0}}) == {}


@pytest.mark.parametrize("arm, modules", [("plain Wi-Fi", ()), ("simple aggregation", ()), ("MPTCP", ()), ("oracle", ()), ("tandem", integrated.MODULES),
                                          ("as published", ("offload", "freeze", "mirror")), ("the step", ("freeze",)), ("mirror", ("mirror",))])
def test_arms_of_the_walk_run_the_modules_they_stand_for(arm: str, modules: tuple[str, ...]) -> None:
    known = {entry.name: entry for entry in (*integrated.WALK_ARMS, *integrated.STEP_ARMS)}
    assert integrated.modules_of(known[arm], integrated.World(step="freeze")) == modules
