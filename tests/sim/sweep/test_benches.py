"""What the benches ask of the simulator and read from its answer: the real program, short runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path[:0] = [str(TOOLS / tool) for tool in ("bench", "common", "lab", "sim")]

from tandem_bench import simulations  # noqa: E402
from tandem_bench.benches import fairness, static_tail  # noqa: E402

DESCRIPTIONS = {
    "fairness": fairness.description(fairness.TABLES[0], fairness.KINDS[0], simulations.TANDEM, 1),
    "static-tail": static_tail.description(static_tail.CHANNEL, simulations.OLIA, simulations.TANDEM, 1),
}


def told_by_the_module(result: dict[str, Any]) -> None:
    told = simulations.told(result)
    assert len(told["subflows"]) == 2 and len(told["mean"]) == 2, "the module saw no flow"
    assert 1 <= simulations.used(result) <= 2


@pytest.mark.parametrize("name", DESCRIPTIONS)
def test_descriptions_run_with_the_module(name: str) -> None:
    told_by_the_module(simulations.simulate("run", {}, {**DESCRIPTIONS[name], "seconds": 12, "warmup": 6}))


@pytest.mark.parametrize("scenario", ["grid", "uplink"])
def test_scenarios_run_with_the_module(scenario: str) -> None:
    settings = simulations.settings_of(simulations.TANDEM, simulations.OLIA)
    told_by_the_module(simulations.simulate(scenario, {**settings, "seconds": 12, "warmup": 6, "seed": 1}))
