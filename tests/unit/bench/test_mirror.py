"""The benches of mirror: the choice of cells, settings, rows over all cells, what the emulator's account becomes."""

from __future__ import annotations

import itertools
from types import SimpleNamespace

import pytest

from tandem_bench import daemon_status
from tandem_bench.benches import mirror, mirror_fairness, mirror_losses
from tandem_bench.model import Run
from tandem_bench.statistics import judge
from tandem_lab.errors import BadInput
from tandem_lab.losses import Repair


# -- cells


def test_the_choice_of_cells_covers_every_pair_of_values_and_begins_with_the_goals() -> None:
    cells = mirror.covering_cells()
    met = set().union(*(mirror.pairs(cell) for cell in cells))
    for (a, values), (b, others) in itertools.combinations(mirror.AXES.items(), 2):
        for value, other in itertools.product(values, others):
            assert (a, value, b, other) in met, f"no cell with {a} = {value} and {b} = {other}"
    goals = [mirror.has_goal(cell) for cell in cells]
    assert goals == sorted(goals, reverse=True) and sum(goals) >= 6
    assert len(mirror.every_cell()) == 7 * 3 * 4 * 2 * 3 * 2


def test_a_cell_says_its_link_exactly() -> None:
    cell = mirror.Cell("1 %", "reno", 50, 100, 0.5)
    assert cell.bdp == 625_000 and 'queue_bytes = "312500B"' in cell.scenario() and 'delay = "25ms"' in cell.scenario()
    assert "loss_down = 0.01\n" in cell.scenario() and "loss" not in cell.scenario(lossy=False)
    burst = mirror.Cell("bursts of 8, 1 %", "reno", 50)
    assert "gilbert_down" in burst.scenario() and "gilbert" not in burst.scenario(lossy=False)
    for kind in mirror.LOSSES.values():
        if isinstance(kind, tuple):
            assert kind[0] / (kind[0] + kind[1]) in (pytest.approx(0.003), pytest.approx(0.01))


def test_plaintext_strategies_run_where_they_can_by_choice_and_everywhere_in_full() -> None:
    for case in mirror.BENCH.cases(False):
        names = {arm.name for arm in case.arms}
        assert ("range" in names) == ("replay" in names) == (not case.parameters["cell"].tls)
        assert {"plain", "plain again", "undo", "tandem", "loss-free"} <= names
    assert all(len(case.arms) == 7 for case in mirror.BENCH.full_cases()[:20])


@pytest.mark.parametrize("text", ["rtt_ms=0", "rtt_ms=x", "loss=0.2 %", "congestion=vegas", "queue=-1", "tls=maybe", "knobs=threshold"])
def test_a_setting_that_is_not_allowed_is_refused(text: str) -> None:
    key, _, value = text.partition("=")
    with pytest.raises(BadInput, match="allowed"):
        mirror.BENCH.configured(mirror.BENCH.cases(True), {key: value})


def test_settings_hold_in_all_cells_and_equal_cells_become_one() -> None:
    cases = mirror.BENCH.configured(mirror.BENCH.cases(False), {"loss": "0.1 %", "rtt_ms": "50", "rate": "20", "queue": "1", "tls": "no", "knobs": "threshold=0.4,a=b"})
    assert sorted(case.parameters["cell"].congestion for case in cases) == ["bbr", "cubic", "reno"]
    config = mirror.config_of(SimpleNamespace(directory="d"), cases[0].parameters["cell"], "range")
    assert config == {"modules": {"mirror": {"threshold": 0.4, "a": "b", "strategy": "range"}}}


# -- rows over all cells


def test_goals_over_all_cells_pair_each_cell_with_itself() -> None:
    cases = [mirror.case_of(mirror.Cell("0.3 %", control, 50), mirror.ALL, 1) for control in ("cubic", "reno", "bbr")]
    runs = [Run(case.name, arm, seed, 0, 1.0, {"goodput": value * scale})
            for scale, case in zip((1, 100, 10), cases) for seed in (1, 2)
            for arm, value in (("plain", 4.0), ("plain again", 4.0), ("tandem", 9.6), ("loss-free", 10.0))]
    runs.append(Run(cases[0].name, "tandem", 3, 0, 1.0, error="failed"))
    rows = mirror.BENCH.summarise(cases, runs)
    assert [case.name for case, _ in rows] == ["all cells of cubic and reno at 0.1 to 1 %", "all cells"]  # a single cell of bbr needs no row
    verdicts = {goal.sentence: judge(case, goal, pooled) for case, pooled in rows for goal in case.goals}
    reached = verdicts[">= 0.95 of loss-free"]
    assert reached.met and reached.value == pytest.approx(0.96) and reached.pairs == 4
    assert verdicts["never below plain"].pairs == 6 and verdicts["never below plain"].value == pytest.approx(2.4)


# -- what a run tells


def test_repairs_of_queue_drops_are_no_recovered_losses() -> None:
    def repair(after: float, reason: str) -> Repair:
        return Repair(1.0, after, reason, "10.0.0.1", 80, 4000, 1, 1448)

    loss = SimpleNamespace(down=True, link="wifi", reason="loss")
    drop = SimpleNamespace(down=True, link="wifi", reason="queue_full")
    elsewhere = SimpleNamespace(down=True, link="srv1", reason="loss")
    lab = SimpleNamespace(losses=lambda: [loss, loss, drop, elsewhere],
                          repairs=lambda: [repair(0.06, "loss"), repair(0.05, "loss"), repair(0.3, "loss"), repair(9.0, "queue_full")])
    told = mirror.truth(lab, 10.0)
    assert (told["random_losses"], told["queue_drops"], told["recovered_per_s"]) == (2, 1, 0.3)
    assert (told["recovery_ms"], told["recovery_p99_ms"]) == (pytest.approx(60.0), pytest.approx(300.0)) and told["recovery_ms_all"][-1] == 300.0
    nothing = mirror.truth(SimpleNamespace(losses=list, repairs=list), 10.0)
    assert nothing["recovery_ms"] is None and nothing["recovered_per_s"] == 0


def test_the_daemon_is_asked_for_the_module_that_was_measured() -> None:
    status = {"modules": [{"name": "freeze", "faults": 9}, {"name": "mirror", "enabled": True, "knobs": [{"name": "threshold", "value": 0.5}], "faults": 0,
                                                             "violations": {"ack": 2, "window": {"a": 1}}, "decisions": {"b": 1, "a": 7, "never": 0}}]}
    told = daemon_status.of_module(status, "mirror")
    assert (told["violations"], told["faults"], told["reasons"], told["knobs"]) == (3, 0, "a, b", "mirror: threshold=0.5")


# -- fairness


def test_the_honest_server_is_exempt_and_the_pairs_share_one_queue() -> None:
    cases = mirror_fairness.BENCH.cases(False)
    pairs = [case.parameters["pair"] for case in cases]
    assert {(pair.link.congestion == pair.honest, pair.lossy) for pair in pairs} == {(True, True), (True, False), (False, True), (False, False)}
    lossy, calm = next(pair for pair in pairs if pair.lossy), next(pair for pair in pairs if not pair.lossy)
    assert "loss_down" in lossy.scenario(True) and "loss_down" not in lossy.scenario(False) and "loss_down" not in calm.scenario(True)
    assert lossy.scenario(False).count("[[server]]") == 2
    lab = SimpleNamespace(directory="d", server=lambda name: SimpleNamespace(ipv4="10.77.11.1", ipv6="fd77:11::1"))
    assert mirror_fairness.config_of(lab, lossy)["daemon"] == {"exempt_networks": ["10.77.11.1/32", "fd77:11::1/128"]}


def test_queue_drops_are_compared_with_a_link_that_is_used() -> None:
    cases = {case.parameters["pair"].lossy: case for case in mirror_fairness.BENCH.cases(False)}
    values = {"plain": 0, "plain again": 0, "tandem": 21, "loss-free": 20}
    runs = [Run(case.name, arm.name, 1, 0, 1.0, {"honest flow": 9.5 if arm.name == "tandem" else 10.0, "other flow": 9.0, "queue drops": values[arm.name] + 20 * (not lossy)})
            for lossy, case in cases.items() for arm in case.arms]
    told = {lossy: {goal.metric: judge(case, goal, runs) for goal in case.goals} for lossy, case in cases.items()}
    assert told[True]["queue drops"].met and told[True]["queue drops"].value == pytest.approx(1.05)
    assert not told[False]["queue drops"].met and told[False]["honest flow"].met


# -- losses


def test_a_batch_follows_from_its_seed_and_the_rounds_meet_every_strategy_and_loss() -> None:
    assert mirror_losses.Batch.drawn(7, 5) == mirror_losses.Batch.drawn(7, 5) != mirror_losses.Batch.drawn(8, 5)
    case, = mirror_losses.BENCH.cases(False)
    batches = [mirror_losses.Batch.drawn(seed, 5) for seed in range(1, case.seeds + 1)]
    assert {batch.strategy for batch in batches} == set(mirror_losses.STRATEGIES) and {batch.radio for batch in batches} == {False, True}
    assert len({batch.loss for batch in batches}) == 4
    assert all(("gilbert_down" in batch.scenario) == batch.loss.startswith("bursts") for batch in batches)


def test_ten_thousand_repairs_are_counted_over_all_batches_and_one_bad_download_spoils_it() -> None:
    case, = mirror_losses.BENCH.cases(False)
    runs = [Run(case.name, "tandem", seed, 0, 1.0, {}, {"repaired": [600], "completed": [30], "bad": [0], "breaches": [0]}) for seed in range(20)]
    assert all(judge(case, goal, runs).met for goal in case.goals)
    runs[0] = Run(case.name, "tandem", 0, 0, 1.0, {}, {"repaired": [600], "completed": [29], "bad": [1], "breaches": [0]})
    assert [judge(case, goal, runs).met for goal in case.goals] == [True, False, True]
    assert not judge(case, case.goals[0], runs[:16]).met
