"""Goals that allow none of something: the median over the rounds would hide what one round in three has."""

from __future__ import annotations

import pytest

from tandem_bench import catalogue
from tandem_bench.benches import scale
from tandem_bench.model import Run
from tandem_bench.statistics import judge


@pytest.mark.parametrize("name", catalogue.CATALOGUE)
def test_what_must_never_be_is_counted_over_all_rounds(name: str) -> None:
    for case in catalogue.load(name).cases(False):
        metrics = {metric.name: metric for metric in case.metrics}
        for goal in case.goals:
            if goal.sense == "<=" and goal.bound == 0:
                metric = metrics[goal.metric or case.metrics[0].name]
                assert metric.samples and metric.statistic == "sum", f"{case.name}: {goal.sentence}"


def test_one_failed_connection_in_three_rounds_is_one_too_many() -> None:
    case = scale.BENCH.cases(False)[0]
    runs = [Run(case.name, scale.TANDEM.name, seed, 0, 1.0, {scale.FAILED.name: failed}, {scale.FAILED.samples: [failed]})
            for seed, failed in ((1, 0.0), (2, 1.0), (3, 0.0))]
    assert judge(case, case.goals[0], runs).word == "MISSED"
