"""The bench `paths`: its cells, goals and rows, with made-up runs."""

from __future__ import annotations

import itertools
import tomllib

import pytest

from tandem_bench.benches import paths
from tandem_bench.model import Run


@pytest.mark.parametrize("path", paths.PATHS)
def test_each_path_is_met_with_and_without_losses_of_the_air_in_a_scenario_that_can_be_read(path: str) -> None:
    cells = [cell for cell in paths.covering_cells() if cell.path == path]
    assert [cell.air for cell in cells] == list(paths.AIRS)
    for cell in cells:
        told = tomllib.loads(cell.scenario)
        assert told["server"][0]["congestion"] == cell.sender
        assert told["wan"]["delay"] == f"{cell.rtt_ms / 2:g}ms"
        assert ("loss_down" in told["wifi"]) == bool(cell.air)


def test_cells_have_names_of_their_own_and_every_sender_meets_every_phy() -> None:
    cells = paths.covering_cells()
    assert len({cell.name for cell in cells}) == len(cells) == 2 * len(paths.PATHS)
    assert {(cell.sender, cell.phy) for cell in cells} == set(itertools.product(paths.SENDERS, paths.PHYS))
    assert {cell.rtt_ms for cell in cells} == {*paths.RTTS, *paths.FAR.values()}
    assert {cell.name for cell in cells} <= {cell.name for cell in paths.every_cell()}


def test_rows_of_a_path_pair_a_cell_and_a_seed() -> None:
    cases = [case for case in paths.BENCH.cases(False) if case.parameters["cell"].path == "satellite"]
    runs = [Run(case.name, arm, seed, 0, 1.0, {"goodput": goodput, "worst run": goodput}, {})
            for case in cases for seed in (1, 2) for arm, goodput in (("plain", 2.0), ("all", 3.0))]
    ((row, pooled),) = paths.BENCH.summarise(cases, runs)
    assert row.name == "satellite, all cells" and len({run.seed for run in pooled}) == 2 * len(cases)
    assert {run.values["goodput"] for run in pooled if run.arm == "all"} == {3.0}
