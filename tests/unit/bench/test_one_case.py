"""Rows over several cases: their pairs are those of the cases."""

from __future__ import annotations

import pytest

from tandem_bench.benches import mirror, mirror_fairness, together
from tandem_bench import table
from tandem_bench.model import Bench, Run


@pytest.mark.parametrize("bench", [mirror.BENCH, mirror_fairness.BENCH, together.BENCH], ids=lambda bench: bench.name)
def test_a_row_over_all_cases_holds_every_pair_once_and_what_failed_as_failed(bench: Bench) -> None:
    cases = bench.cases(bench is together.BENCH)
    runs = [Run(case.name, arm.name, seed, 0, 1.0, {metric.name: float(place) for metric in case.metrics if not metric.samples}, {},
                "failed" if seed == 3 else None)
            for place, case in enumerate(cases) for arm in case.arms for seed in (1, 2, 3)]
    rows = [(case, pooled) for case, pooled in bench.summarise(cases, runs) if case.name.startswith("all ")]
    assert rows
    for case, pooled in rows:
        assert pooled and all(run.case == case.name and run.details["derived"] for run in pooled)
        assert not table.failures(pooled), "they are told of once, where they were made"
        for arm in case.arms:
            seeds = [run.seed for run in pooled if run.arm == arm.name]
            assert len(seeds) == len(set(seeds)) and {seed % 1_000_000 for seed in seeds} == {1, 2, 3}
            assert {run.seed % 1_000_000 for run in pooled if run.arm == arm.name and run.error} == {3}
