"""Order of runs, paired ratios, goals, the runner's book-keeping and the tables, with made-up runs."""

from __future__ import annotations

import fcntl
import io
import itertools
import json
import math
import os
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path

import pytest

from tandem_bench import catalogue, cli, header as header_of, lateness, plot, report, table
from tandem_bench.model import Arm, Bench, Case, Goal, Measurement, Metric, Options, Run
from tandem_bench.order import tossed
from tandem_bench.progress import Progress
from tandem_bench.runner import execute, rounds, turn
from tandem_bench.statistics import Spread, judge, paired_ratios
from tandem_common.duration import clock
from tandem_lab.errors import LabError

PLAIN, AGAIN, TANDEM, LIMIT = Arm("plain", "plain"), Arm("again"), Arm("tandem", "tandem"), Arm("limit", "limit")
RATE = Metric("goodput", "Mb/s")


def case(*goals: Goal, seeds: int = 3, name: str = "c") -> Case:
    return Case(name, (PLAIN, AGAIN, TANDEM, LIMIT), (RATE,), seeds, goals)


def made(arm: str, *values: float, name: str = "c") -> list[Run]:
    return [Run(name, arm, seed, 0, 1.0, {"goodput": value}) for seed, value in enumerate(values, 1)]


# -- order


@pytest.mark.parametrize("count", [2, 3, 4, 5])
def test_every_arm_stands_about_equally_often_at_each_place_and_before_each_other(count: int) -> None:
    arms = list(range(count))
    orders = [tossed(arms, "c", seed) for seed in range(1000)]
    assert all(sorted(order) == arms for order in orders)
    for place in range(count):
        for arm in arms:
            assert sum(order[place] == arm for order in orders) / 1000 == pytest.approx(1 / count, abs=0.06)
    for one, other in itertools.combinations(arms, 2):
        assert sum(order.index(one) < order.index(other) for order in orders) / 1000 == pytest.approx(0.5, abs=0.06)


def test_the_order_has_no_period_and_follows_from_case_and_seed() -> None:
    orders = [tossed(["plain", "tandem"], "c", seed)[0] for seed in range(200)]
    assert orders == [tossed(["plain", "tandem"], "c", seed)[0] for seed in range(200)]
    assert orders != [tossed(["plain", "tandem"], "d", seed)[0] for seed in range(200)]
    for period in (1, 2, 3, 4):
        again = sum(one == other for one, other in zip(orders, orders[period:])) / (200 - period)
        assert again == pytest.approx(0.5, abs=0.12), period


def test_first_rounds_of_all_cases_come_before_second_ones() -> None:
    plan = rounds([case(seeds=2, name="a"), case(seeds=1, name="b")], first_seed=7)
    assert [(entry.name, number, seed) for entry, number, seed in plan] == [("a", 0, 7), ("b", 0, 7), ("a", 1, 8)]


# -- statistics


def test_ratios_are_paired_by_seed_not_by_position() -> None:
    runs = made("plain", 10, 20, 40)
    runs += [Run("c", "tandem", 3, 0, 1.0, {"goodput": 44}), Run("c", "tandem", 1, 0, 1.0, {"goodput": 12}),
             Run("c", "tandem", 2, 0, 1.0, error="no lab")]
    assert paired_ratios(runs, "c", "tandem", "plain", "goodput") == {1: 1.2, 3: 1.1}


def test_median_of_the_ratios_is_not_the_ratio_of_the_medians() -> None:
    runs = made("plain", 1, 10, 100) + made("tandem", 2, 5, 300)
    assert judge(case(), Goal("tandem", ">=", 1, over="plain"), runs).value == 2.0


def test_the_interval_holds_the_median_and_needs_eight_values() -> None:
    values = [1.0, 1.1, 0.9, 1.05, 0.97, 1.02, 1.01, 0.99]
    spread = Spread.of(values)
    assert spread and spread.ci == (0.9, 1.1), "the ends of eight, of which each may be on one side by chance"
    assert Spread.of(values[:7]).ci is None
    low, high = Spread.of([*values, *(1 + (value - 1) / 10 for value in values)]).ci
    assert 0.9 < low <= 1.0 <= high < 1.1


GAINED = (1.01, 1.02, 1.05, 1.1, 1.2, 1.3, 1.02, 1.4)


@pytest.mark.parametrize("tandem, word, note", [
    (GAINED, "met", ""),
    (tuple(1 / value for value in GAINED), "MISSED", ""),
    ((0.99, *GAINED[1:]), "undecided", "about 11 more rounds"),
    ((0.9, 0.9, 0.9, 0.9, 1.1, 1.1, 1.1, 1.1), "undecided", "no number of rounds in sight that would decide"),
    (GAINED[:7], "met", "7 pairs: no interval"), ((0.9,), "MISSED", "1 pair: no interval"), ((1.0,) * 8, "met", "")])
def test_a_verdict_is_what_the_interval_says_and_below_eight_pairs_it_says_so(tandem: tuple[float, ...], word: str, note: str) -> None:
    verdict = judge(case(), Goal("tandem", ">=", 1.0, over="plain"), made("plain", *[1.0] * len(tandem)) + made("tandem", *tandem))
    assert (verdict.word, verdict.note, verdict.met, verdict.claimed) == (word, note, word == "met", len(tandem) >= 8)
    upside_down = judge(case(), Goal("tandem", "<=", 1.0, over="plain"), made("plain", *tandem) + made("tandem", *[1.0] * len(tandem)))
    assert (upside_down.word, upside_down.note) == (word, note)


def test_an_interval_from_0_2_to_8_decides_nothing() -> None:
    """Of the 99th percentile of a latency, which was once told as met or missed."""
    ratios = (0.2, 0.7, 0.8, 0.9, 0.5, 0.6, 0.7, 8.0)
    verdict = judge(case(), Goal("tandem", "<=", 1.15, over="plain"), made("plain", *[1.0] * 8) + made("tandem", *ratios))
    assert verdict.word == "undecided" and not verdict.met and verdict.ci == (0.2, 8.0)


def test_equal_arms_are_met_within_the_resolution_when_the_interval_ends_within_the_cap() -> None:
    goal = Goal("tandem", ">=", 1.0, over="plain", noise="again")
    near, wide = (0.99, 1.01, 0.995, 1.005, 0.998, 1.002, 1.001, 0.999), (0.95, 1.05, 0.97, 1.03, 0.99, 1.01, 1.02, 0.98)
    for values, word in ((near, "met within resolution"), (wide, "undecided")):
        assert judge(case(), goal, made("plain", *[1.0] * 8) + made("again", *near) + made("tandem", *values)).word == word


@pytest.mark.parametrize("tandem, met, within", [((10, 10, 10), True, False), ((9.95, 9.95, 9.95), True, True),
                                                 ((9.7, 9.7, 9.7), False, False)])
def test_resolution_forgives_what_equal_arms_also_show_and_no_more(tandem, met: bool, within: bool) -> None:
    goal = Goal("tandem", ">=", 1.0, over="plain", noise="again")
    runs = made("plain", 10, 10, 10) + made("again", 9.9, 10, 10.1) + made("tandem", *tandem)
    verdict = judge(case(), goal, runs)
    assert verdict.resolution == pytest.approx(0.01)
    assert (verdict.met, verdict.within_resolution) == (met, within)


def test_an_interval_below_the_bound_as_a_whole_is_no_better_than_one_that_reaches_it() -> None:
    goal = Goal("tandem", ">=", 1.0, over="plain", noise="again")
    below = (0.90, 0.98, 0.985, 0.985, 0.985, 0.985, 0.99, 0.995)
    runs = made("plain", *[1.0] * 8) + made("again", *[0.9, 1.1] * 4)
    assert judge(case(), goal, runs + made("tandem", *below)).word == "MISSED"
    assert judge(case(), goal, runs + made("tandem", *[0.985] * 8)).word == "met within resolution"


def failing(arm: str, *seeds: int) -> list[Run]:
    return [Run("c", arm, seed, 0, 1.0, error="timed out") for seed in seeds]


@pytest.mark.parametrize("sense, good", [(">=", 1.2), ("<=", 0.8)])
def test_failed_runs_of_an_arm_are_not_left_out_in_its_favour(sense: str, good: float) -> None:
    goal = Goal("tandem", sense, 1.0, over="plain")
    runs = made("plain", *[1.0] * 10) + made("tandem", *[good] * 8)
    assert judge(case(), goal, runs).word == "met"
    verdict = judge(case(), goal, runs + failing("tandem", 9, 10))
    assert (verdict.word, verdict.note, verdict.met, verdict.value) == ("undecided", "met but for 2 failed runs of tandem", False, good)
    many = made("plain", *[1.0] * 30) + made("tandem", *[good] * 28)
    assert judge(case(), goal, many + failing("tandem", 29, 30)).word == "met", "whatever these two had been"


def test_a_round_that_failed_as_a_whole_says_nothing_against_an_arm() -> None:
    runs = made("plain", *[1.0] * 8) + made("tandem", *[1.2] * 8) + failing("plain", 9) + failing("tandem", 9)
    assert judge(case(), Goal("tandem", ">=", 1.0, over="plain"), runs).word == "met"


@pytest.mark.parametrize("sense, good", [(">=", 1.2), ("<=", 0.8)])
def test_runs_that_succeeded_without_the_metric_are_not_left_out_in_the_arms_favour(sense: str, good: float) -> None:
    goal = Goal("tandem", sense, 1.0, over="plain")
    runs = made("plain", *[1.0] * 10) + made("tandem", *[good] * 8)
    metric = case().metrics[0].name
    without = [Run("c", "tandem", seed, 0, 1.0, {"other": 1.0}) for seed in (9, 10)]
    verdict = judge(case(), goal, runs + without)
    assert (verdict.word, verdict.note, verdict.lacking, verdict.failed) == ("undecided", f"met but for 2 runs without {metric} of tandem", 2, 0)
    assert judge(case(), goal, runs + without[:1] + failing("tandem", 10)).note == f"met but for 1 failed run and 1 run without {metric} of tandem"
    assert judge(case(), goal, runs[:8] + runs[10:] + without).word == "met", "the other arm has none either: the pair says nothing"
    worked_out = [Run("c", "tandem", seed, 0, 1.0, {metric: good}, {"derived": True}) for seed in range(1, 9)]
    measured = [Run("c", "tandem", seed, 0, 1.0, {"other": 1.0}) for seed in range(1, 11)]
    assert judge(case(), goal, made("plain", *[1.0] * 10) + measured + worked_out).word == "met", "what is worked out of several runs"


@pytest.mark.parametrize("statistic, sense, bound", [("minimum", ">=", 0.9), ("sum", "<=", 9.0), ("maximum", "<=", 1.0)])
def test_the_worst_run_and_a_count_know_nothing_of_a_run_that_failed(statistic: str, sense: str, bound: float) -> None:
    metric = Metric("each", "", samples="each", statistic=statistic)
    one = Case("c", (Arm("plain", "plain"), Arm("tandem", "tandem")), (metric,), 3)
    runs = [Run("c", "tandem", seed, 0, 1.0, {}, {"each": [1.0]}) for seed in (1, 2)]
    goal = Goal("tandem", sense, bound, metric="each")
    assert judge(one, goal, runs).word == "met"
    assert judge(one, goal, runs + failing("tandem", 3)).word == "undecided"


def test_something_over_nothing_is_infinite_and_kept() -> None:
    goal = Goal("tandem", "<=", 1.1, over="plain")
    runs = made("plain", 0.0, 0.0, 10.0) + made("tandem", 50.0, 0.0, 10.0)
    assert paired_ratios(runs, "c", "tandem", "plain", "goodput") == {1: math.inf, 2: 1.0, 3: 1.0}
    verdict = judge(case(), goal, made("plain", 0.0, 0.0, 10.0) + made("tandem", 50.0, 9.0, 10.0))
    assert verdict.word == "MISSED" and verdict.value == math.inf
    bench = Fake()
    text = report.as_json(report.document(bench, [case()], made("plain", 0.0) + made("tandem", 50.0), [verdict], header(), False))
    assert "Infinity" not in text, "that is no JSON"


def test_a_figure_of_samples_over_one_that_resampled_is_nothing_keeps_its_result() -> None:
    """The median of these is 1, and that of many a resample 0: a quotient of them ended the bench, with all that it had measured."""
    waits = Metric("waits", "ms", samples="waits")
    one = Case("c", (PLAIN, TANDEM), (waits,), 1)
    runs = [Run("c", "plain", 1, 0, 1.0, {}, {"waits": [0.0] * 9 + [1.0] * 11}), Run("c", "tandem", 1, 1, 1.0, {}, {"waits": [1.0] * 20})]
    for bound, word in ((2.0, "undecided"), (0.5, "MISSED")):
        verdict = judge(one, Goal("tandem", "<=", bound, over="plain"), runs)
        assert (verdict.value, verdict.ci, verdict.word) == (1.0, (1.0, math.inf), word)
    assert json.loads(report.as_json({"ci95": verdict.ci})) == {"ci95": [1.0, "inf"]}


def test_a_coarse_measurement_excuses_at_most_the_cap() -> None:
    goal = Goal("tandem", ">=", 1.0, over="plain", noise="again")
    noisy = made("plain", 10, 10, 10) + made("again", 5, 10, 15)
    assert judge(case(), goal, noisy + made("tandem", 9.9, 9.9, 9.9)).met
    assert not judge(case(), goal, noisy + made("tandem", 9.7, 9.7, 9.7)).met


def test_a_goal_without_a_noise_arm_is_strict_and_without_runs_missed() -> None:
    goal = Goal("tandem", ">=", 0.95, over="limit")
    runs = made("limit", 10, 10, 10) + made("tandem", 9.49, 9.49, 9.49)
    assert judge(case(), goal, runs).word == "MISSED"
    verdict = judge(case(), goal, made("limit", 10))
    assert not verdict.met and verdict.word == "no result"


def test_goals_on_a_value_itself_and_downwards() -> None:
    assert judge(case(), Goal("tandem", "<=", 32), made("tandem", 30, 31, 40)).met
    assert not judge(case(), Goal("tandem", "<=", 30.5), made("tandem", 30, 31, 40)).met
    with pytest.raises(ValueError):
        Goal("tandem", ">", 1)


# -- runner


class Fake(Bench):
    name, summary = "fake", "made-up values"

    def __init__(self, broken: str = "", session_fails: bool = False, interrupt_at: int = 10**9):
        self.broken, self.session_fails, self.interrupt_at, self.made = broken, session_fails, interrupt_at, 0

    def cases(self, quick: bool) -> list[Case]:
        return [case(Goal("tandem", ">=", 1.0, over="plain", noise="again"))]

    @contextmanager
    def session(self, one: Case, seed: int, options: Options):
        if self.session_fails:
            raise RuntimeError("no namespaces")
        yield seed

    def measure(self, session, one: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        self.made += 1
        if self.made > self.interrupt_at:
            raise KeyboardInterrupt
        if arm.name == self.broken:
            raise OSError("the air went away")
        return Measurement({"goodput": {"plain": 10, "again": 10, "tandem": 9, "limit": 14}[arm.name] + session * 0.1})


def run_all(bench: Fake) -> list[Run]:
    runs: list[Run] = []
    execute(bench, bench.cases(False), 1, Options(), runs, lambda *_: None)
    return runs


def test_failed_runs_are_kept_with_their_reason_and_the_others_go_on() -> None:
    runs = run_all(Fake(broken="tandem"))
    assert len(runs) == 12
    assert {run.error for run in runs if run.arm == "tandem"} == {"the air went away"}
    assert all(run.error is None for run in runs if run.arm != "tandem")


def test_a_failed_session_fails_every_arm_of_the_round() -> None:
    runs = run_all(Fake(session_fails=True))
    assert len(runs) == 12 and {run.error for run in runs} == {"no namespaces"}


def test_an_interrupt_leaves_what_was_measured() -> None:
    runs: list[Run] = []
    bench = Fake(interrupt_at=5)
    with pytest.raises(KeyboardInterrupt):
        execute(bench, bench.cases(False), 1, Options(), runs, lambda *_: None)
    assert len(runs) == 5


def test_turn_holds_the_lock(tmp_path) -> None:
    lock = tmp_path / "lock"
    with turn(str(lock)), open(lock) as other, pytest.raises(BlockingIOError):
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)
    with open(lock) as other:
        fcntl.flock(other, fcntl.LOCK_EX | fcntl.LOCK_NB)


# -- report


def judged(runs: list[Run]):
    bench = Fake()
    cases = bench.cases(False)
    return bench, cases, [judge(one, goal, runs) for one in cases for goal in one.goals]


def header() -> dict:
    return {"commit": "abc", "dirty": True, "command": "tandem bench fake", "date": "today", "seed": 1, "kernel": "Linux", "cpu": "one", "busy_before": 0.02,
            "versions": {"python": "3"}, "knobs": {"tandem": "offload: stretch=16"}}


def test_json_has_every_run_the_ratios_and_the_goals() -> None:
    runs = run_all(Fake(broken="again"))
    bench, cases, verdicts = judged(runs)
    content = json.loads(report.as_json(report.document(bench, cases, runs, verdicts, header(), False)))
    assert len(content["runs"]) == 12 and content["failed"] == 3
    entry = next(run for run in content["runs"] if run["arm"] == "tandem" and run["seed"] == 2)
    assert (entry["case"], entry["value"], entry["unit"]) == ("c", 9.2, "Mb/s")
    assert [(goal["status"], goal["claimed"]) for goal in content["goals"]] == [("missed", False)]
    ratio = next(entry for entry in content["ratios"] if entry["arm"] == "tandem")
    assert [pair["seed"] for pair in ratio["pairs"]] == [1, 2, 3] and ratio["pairs"][0]["ratio"] == pytest.approx(9.1 / 10.1)


def test_two_benches_do_not_make_labs_under_one_prefix() -> None:
    prefix = f"unit{os.getpid()}-"
    with cli.prefix_to_itself(prefix):
        with pytest.raises(LabError, match="another bench is at work with the prefix"), cli.prefix_to_itself(prefix):
            pass
        with cli.prefix_to_itself(prefix + "other"):
            pass
    with cli.prefix_to_itself(prefix):
        pass


def test_a_result_goes_into_a_pipe_or_device_and_does_not_take_its_place(tmp_path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    end = os.open(pipe, os.O_RDONLY | os.O_NONBLOCK)
    report.write(pipe, "figures")
    assert os.read(end, 100) == b"figures" and pipe.is_fifo()
    os.close(end)
    report.write(tmp_path / "below" / "file", "figures")
    assert (tmp_path / "below" / "file").read_text() == "figures"


def test_table_and_page_name_medians_failures_and_missed_goals() -> None:
    runs = run_all(Fake(broken="limit"))
    bench, cases, verdicts = judged(runs)
    headings, rows = table.result_rows(bench, cases, runs, verdicts)
    assert headings == ["case", "published", "plain", "Tandem", "limit", "ratio", "goal met?"]
    assert rows[0][2:5] == ["10.20", "9.20", "- (3 failed)"] and rows[0][6].startswith("MISSED, 3 pairs: no interval: tandem / plain >= 1")
    page = report.as_page(bench, cases, runs, verdicts, header(), True)
    assert "Below 8 pairs there is none" in page
    assert "with uncommitted changes" in page and "interrupted" in page and "the air went away" in page and "stretch=16" in page
    assert "Medians of 3 paired rounds" in page
    first = [run for run in runs if run.seed == runs[0].seed]
    assert "Medians of 1 paired rounds" in report.as_page(bench, cases, first, verdicts, header(), True), "as many as were had, not as were asked for"


def test_a_heading_names_only_the_arms_that_were_measured() -> None:
    bench, metric = Bench(), Metric("goodput", "Mb/s")
    bench.columns, bench.headings = ("two", "rest"), {"two": "a / b / c", "rest": "without ecn / mirror"}
    case = Case("c", (Arm("a", "two"), Arm("c", "two"), Arm("d", "rest")), (metric,), 1, ())
    assert table.result_rows(bench, [case], [], [])[0][2:4] == ["a / c", "without ecn / mirror"]


def test_many_different_words_of_a_detail_are_counted() -> None:
    bench, case = Bench(), Case("c", (Arm("a", "plain"),), (Metric("goodput", "Mb/s"),), 4, ())
    bench.detail_columns = (("why", "why"),)

    def cell(*words: str) -> str:
        runs = [Run("c", "a", seed, seed, 1.0, {}, {"why": word}) for seed, word in enumerate(words)]
        shown = table.detail_rows(bench, [case], runs)
        assert shown
        return shown[1][0][2]

    assert cell("x", "y", "x", "y") == "x; y"
    assert cell("x", "z", "z", "y") == "z (or 2 others)"


def test_a_detail_that_is_no_number_takes_no_result_with_it() -> None:
    class Shown(Fake):
        detail_columns = (("late", "late, us"),)

    runs = [Run("c", "plain", 1, 0, 1.0, {"goodput": 1.0}, {"late": math.nan}), Run("c", "tandem", 1, 1, 1.0, {"goodput": 1.0}, {"late": math.inf})]
    details = table.detail_rows(Shown(), [case()], runs)
    assert details and details[1] == [["c", "plain", "nan"], ["c", "tandem", "inf"]]


def test_page_folds_the_knobs_and_says_equal_ones_once() -> None:
    bench, cases, verdicts = judged(run_all(Fake()))
    knobs = {"one": "offload: stretch=16", "two": "offload: stretch=8", "three": "offload: stretch=16"}
    page = report.as_page(bench, cases, [], verdicts, header() | {"knobs": knobs}, False)
    assert ("<details><summary>Knobs</summary>\n\n- knobs of one, three: offload: stretch=16\n- knobs of two: offload: stretch=8\n\n</details>") in page
    assert "details" not in report.as_page(bench, cases, [], verdicts, header() | {"knobs": {}}, False)


def test_a_picture_is_one_file(tmp_path) -> None:
    from matplotlib import pyplot

    assert plot.save(pyplot.figure(), tmp_path, "some") == [tmp_path / "some.png"] == list(tmp_path.iterdir())


def test_a_picture_keeps_its_rare_colours(tmp_path) -> None:
    """A thin line in a colour of its own, beside an area of thousands of colours."""
    from matplotlib import pyplot
    from PIL import Image

    figure, (area, line) = pyplot.subplots(1, 2)
    area.imshow([[row * column for column in range(60)] for row in range(60)])
    line.plot([0, 1], [0, 1], color="#ff00ff", linewidth=1)
    figure.savefig(tmp_path / "whole.png", dpi=130, facecolor="white")
    plot.save(figure, tmp_path, "small")
    whole, small = (Image.open(tmp_path / f"{name}.png").convert("RGB") for name in ("whole", "small"))
    furthest = max(sum((one - other) ** 2 for one, other in zip(*pair)) for pair in set(zip(whole.getdata(), small.getdata())))
    assert furthest < 25**2
    assert (255, 0, 255) in small.getdata()
    assert 2 * (tmp_path / "small.png").stat().st_size < (tmp_path / "whole.png").stat().st_size


def test_the_simulator_imports_nothing_of_the_benches() -> None:
    scripts = list((Path(__file__).resolve().parents[3] / "tools/sim").rglob("*.py"))
    assert scripts and not [script for script in scripts if "tandem_bench" in script.read_text()]


# -- command line


@pytest.fixture
def fake(monkeypatch):
    def put(bench: Fake) -> None:
        monkeypatch.setitem(catalogue.CATALOGUE, "fake", "fake")
        monkeypatch.setattr(catalogue, "load", lambda name: bench)
        monkeypatch.setattr(cli.os, "geteuid", lambda: 0)
        monkeypatch.setattr(cli.header, "make", lambda *_: header() | {"dirty": False, "knobs": {}})

    return put


def test_check_names_the_missed_goal_and_fails(fake, capsys, tmp_path) -> None:
    fake(Fake())
    out = tmp_path / "deep" / "r.json"
    assert cli.main(["fake", "--time", "real", "--check", "--json", str(out), "--markdown", str(tmp_path / "r.md")]) == 1
    assert "fake: c: goodput: tandem / plain >= 1: 0.90" in capsys.readouterr().err
    assert json.loads(out.read_text())["goals"][0]["status"] == "missed"
    assert cli.main(["fake", "--time", "real"]) == 0


def test_an_interrupted_bench_writes_what_it_has(fake, tmp_path) -> None:
    fake(Fake(interrupt_at=6))
    out = tmp_path / "r.json"
    assert cli.main(["fake", "--time", "real", "--json", str(out)]) == 130
    content = json.loads(out.read_text())
    assert content["interrupted"] and len(content["runs"]) == 6


# -- an earlier run that is gone on with


def test_a_resumed_bench_is_what_one_run_gives(fake, tmp_path) -> None:
    one, part, whole = (tmp_path / name for name in ("one.json", "part.json", "whole.json"))
    fake(Fake())
    assert cli.main(["fake", "--time", "real", "--rounds", "3", "--json", str(one)]) == 0
    fake(Fake(interrupt_at=6))  # one round of four runs, and half of the next
    assert cli.main(["fake", "--time", "real", "--rounds", "2", "--json", str(part)]) == 130
    again = Fake()
    fake(again)
    assert cli.main(["fake", "--time", "real", "--rounds", "3", "--resume", str(part), "--json", str(whole)]) == 0
    assert again.made == 8
    first, last = (json.loads(file.read_text()) for file in (one, whole))
    for run in first["runs"] + last["runs"]:
        run.pop("seconds")
    assert last["runs"] == first["runs"] and last["goals"] == first["goals"]


def test_a_failed_run_that_is_taken_over_counts(fake, tmp_path, capsys) -> None:
    """Measured anew until none fails, a bench would tell of the good rounds alone."""
    part, whole = tmp_path / "part.json", tmp_path / "whole.json"
    fake(Fake(broken="limit"))
    assert cli.main(["fake", "--time", "real", "--rounds", "2", "--json", str(part)]) == 0
    capsys.readouterr()
    again = Fake()
    fake(again)
    assert cli.main(["fake", "--time", "real", "--rounds", "3", "--resume", str(part), "--json", str(whole)]) == 0
    assert again.made == 4
    said = capsys.readouterr()
    assert "10 runs done, 2 failed" in said.out
    assert f"tandem bench: 2 failed runs of {part} count as failed; to measure everything anew leave --resume out" in said.err
    assert json.loads(whole.read_text())["failed"] == 2


class Silent(Fake):
    """Its plain runs succeed and find nothing to measure, and what follows from the others cannot be worked out."""

    def measured_arms(self, one: Case) -> list[Arm]:
        return [PLAIN, AGAIN]

    def measure(self, session, one: Case, arm: Arm, seed: int, options: Options) -> Measurement:
        found = super().measure(session, one, arm, seed, options)
        return Measurement({}, {"episodes": [], "left alone": 7}) if arm is PLAIN else found

    def derive(self, one: Case, values) -> dict:
        raise ArithmeticError("nothing to divide by")


def test_a_run_that_found_nothing_and_one_that_could_not_be_derived_are_kept_and_taken_over(fake, tmp_path, capsys) -> None:
    part, whole = tmp_path / "part.json", tmp_path / "whole.json"
    fake(Silent())
    assert cli.main(["fake", "--time", "real", "--rounds", "2", "--json", str(part)]) == 1
    assert "4 runs done, 4 failed" in capsys.readouterr().out
    content = json.loads(part.read_text())
    assert [run["details"] for run in content["runs"] if run["arm"] == "plain"] == [{"episodes": [], "left alone": 7}] * 2
    again = Silent()
    fake(again)
    cli.main(["fake", "--time", "real", "--rounds", "2", "--resume", str(part), "--json", str(whole)])
    assert again.made == 0
    assert json.loads(whole.read_text())["runs"] == content["runs"]


def test_a_case_is_chosen_by_its_name_or_by_a_part_that_is_there(fake, capsys) -> None:
    class Many(Fake):
        def cases(self, quick: bool) -> list[Case]:
            return [case(name=name) for name in ("OLIA, 1 poor", "LIA, 1 poor", "LIA, 10 poor")]

    fake(Many())
    for words, names in ((["LIA, 1 poor"], ["LIA, 1 poor"]), (["LIA, 1"], ["OLIA, 1 poor", "LIA, 1 poor", "LIA, 10 poor"]), (["OLIA", "LIA, 10 poor"], ["OLIA, 1 poor", "LIA, 10 poor"])):
        assert cli.main(["fake", "--list", *(word for name in words for word in ("--case", name))]) == 0
        assert [line.partition(":")[0] for line in capsys.readouterr().out.splitlines()] == names
    assert cli.main(["fake", "--list", "--case", "OLIA", "--case", "LIA, 2 poor"]) == 2
    assert "--case LIA, 2 poor: no case of fake has that in its name" in capsys.readouterr().err


def test_rounds_of_other_arms_are_measured_anew(fake, tmp_path) -> None:
    part = tmp_path / "part.json"
    fake(Fake())
    assert cli.main(["fake", "--time", "real", "--json", str(part)]) == 0
    again = Fake()
    fake(again)
    assert cli.main(["fake", "--time", "real", "--resume", str(part), "--arm", "plain"]) == 0
    assert again.made == 3


def test_what_was_measured_elsewhere_is_not_taken_over(fake, tmp_path, capsys) -> None:
    part = tmp_path / "part.json"
    fake(Fake())
    assert cli.main(["fake", "--time", "real", "--json", str(part)]) == 0
    content = json.loads(part.read_text())
    for change, code, words in (({"bench": "other"}, 2, "of the bench other"), ({"header": {**content["header"], "commit": "fed"}}, 2, "commit was fed and is abc now"),
                                ({"header": {**content["header"], "dirty": True}}, 2, "uncommitted changes"),
                                ({"runs": 7}, 2, "not what a bench wrote")):
        part.write_text(json.dumps({**content, **change}))
        assert cli.main(["fake", "--time", "real", "--resume", str(part)]) == code
        assert words in capsys.readouterr().err
    assert cli.main(["fake", "--time", "real", "--resume", str(tmp_path / "none")]) == 1


def test_the_command_of_a_result_is_without_resume() -> None:
    assert header_of.command(["x", "--resume", "a.json", "--rounds", "2", "--resume=b"]) == "tandem bench x --rounds 2"


@pytest.mark.parametrize("words", [["nonsense"], ["fake", "--case", "zzz"], ["fake", "--seed", "-1"], ["fake", "--rounds", "0"], []])
def test_wrong_usage_is_2_and_says_what_is_allowed(fake, capsys, words: list[str]) -> None:
    fake(Fake())
    assert cli.main(words) == 2
    assert "allowed" in capsys.readouterr().err


def test_all_benches_have_cases_whose_goals_name_their_arms() -> None:
    for name in catalogue.CATALOGUE:
        bench = catalogue.load(name)
        assert bench.name == name
        for quick in (False, True):
            cases = bench.cases(quick)
            assert len({one.name for one in cases}) == len(cases)
            for one in cases:
                arms, metrics = {arm.name for arm in one.arms}, {metric.name for metric in one.metrics}
                for goal in one.goals:
                    assert {goal.arm} | ({goal.over} if goal.over else set()) | ({goal.noise} if goal.noise else set()) <= arms
                    assert not goal.metric or goal.metric in metrics


def test_quick_benches_are_meant_to_end_within_four_minutes() -> None:
    for name in catalogue.CATALOGUE:
        bench = catalogue.load(name)
        seconds = sum(bench.estimate(one, arm, True) * one.seeds for one in bench.cases(True) for arm in bench.measured_arms(one))
        assert seconds <= 230, name


# -- progress


def test_progress_says_every_run_and_the_time_left() -> None:
    stream = io.StringIO()
    bench = Fake(broken="limit")
    cases = bench.cases(False)
    runs: list[Run] = []
    with Progress(bench, cases, False, stream) as progress:
        execute(bench, cases, 1, Options(), runs, progress)
        assert progress.remaining() == pytest.approx(0, abs=1)
    lines = stream.getvalue().splitlines()
    assert lines[0] == "fake: 12 runs, about 2:00" and len(lines) == 13
    assert any("FAILED: the air went away" in line for line in lines) and "10.10 Mb/s" in stream.getvalue()
    assert clock(3725) == "1:02:05"


@pytest.mark.parametrize("words", [["--json", "/dev/null/r.json"], ["--markdown", "/dev/null/r.md"], ["--plot", "/dev/null/p"], ["--keep-logs", "/dev/null/l"], ["--json", "."]])
def test_a_place_that_cannot_be_written_to_is_told_before_anything_is_measured(monkeypatch, capsys, words: list[str]) -> None:
    monkeypatch.setattr(cli, "run", lambda *_: pytest.fail("it was measured"))
    assert cli.main(["minislot-1", "--quick", *words]) == 2
    assert f"{words[0]} {words[1]}: " in capsys.readouterr().err


def test_a_reader_that_goes_away_is_no_failure() -> None:
    """`tandem bench NAME --list | head -1` ends in silence."""
    read_end, write_end = os.pipe()
    os.close(read_end)
    entry = Path(catalogue.__file__).resolve().parents[1] / "bench.py"
    done = subprocess.run([sys.executable, str(entry), "ecn-uplink", "--list"], stdout=write_end, stderr=subprocess.PIPE, text=True, timeout=60)
    os.close(write_end)
    assert (done.returncode, done.stderr) == (0, "")


# -- runs in which the emulator was late


def test_runs_in_which_no_send_buffer_grew_are_no_results(tmp_path) -> None:
    (tmp_path / "net").mkdir()
    (tmp_path / "sys/net/ipv4").mkdir(parents=True)
    (tmp_path / "sys/net/ipv4/tcp_mem").write_text("18035\t24047\t36070\n")
    for pages, short in ((18034, False), (18035, True), (40000, True)):
        (tmp_path / "net/sockstat").write_text(f"sockets: used 12\nTCP: inuse 0 orphan 9 tw 0 alloc 9 mem {pages}\nUDP: inuse 0 mem 0\n")
        words = lateness.memory_is_short(tmp_path)
        assert bool(words) == short and (not short or f"{pages} pages" in words and "tcp_mem" in words)
    (tmp_path / "sys/net/ipv4/tcp_mem").unlink()
    assert lateness.memory_is_short(tmp_path) == "", "a network namespace does not say it"


def test_a_run_of_a_late_emulator_is_made_again() -> None:
    def measured(*p99: float, **allowed: float) -> Measurement:
        late = [{"release_error_us": {"p99": value, "max": 9000.0}} for value in p99]
        done = lateness.measured(lambda: Measurement({"goodput": 1.0}, lateness.checked(late.pop(0), **allowed)))
        assert not late
        return done

    done = measured(1001, 1000)
    assert done.details == {"release_error_p99_us": 1000, "release_error_max_us": 9000.0, "discarded_before": 1}
    with pytest.raises(lateness.Late, match="late in 3 attempts: p99 5000 us of 3000 us allowed"):
        measured(5000, 5000, 5000, allowed_us=3000)
