"""Rows over several cases: their pairs are those of the cases."""

from __future__ import annotations

import pytest

from tandem_bench.benches import mirror, mirror_fairness, together
from tandem_bench.model import Bench, Run


@pytest.mark.parametrize("bench", [mirror.BENCH, mirror_fairness.BENCH, together.BENCH], ids=lambda bench: bench.name)
def test_a_row_over_all_cases_holds_every_good_pair_once(bench: Bench) -> None:
    cases = bench.cases(bench is together.BENCH)
    runs = [Run(case.name, arm.name, seed, 0, 1.0, {metric.name: float(place) for metric in case.metrics if not metric.samples}, {},
                "failed" if seed == 3 else None)
            for place, case in enumerate(cases) for arm in case.arms for seed in (1, 2, 3)]
    rows = [(case, pooled) for case, pooled in bench.summarise(cases, runs) if case.name.startswith("all ")]
    assert rows
    for case, pooled in rows:
        assert pooled and all(run.case == case.name and run.error is None and run.details["derived"] for run in pooled)
        for arm in case.arms:
            seeds = [run.seed for run in pooled if run.arm == arm.name]
            assert len(seeds) == len(set(seeds)) and {seed % 1_000_000 for seed in seeds} == {1, 2}
