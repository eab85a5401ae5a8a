"""What the benches ask of the simulator and read from its answer: the real program, short runs."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path[:0] = [str(TOOLS / tool) for tool in ("bench", "common", "lab", "sim")]

from tandem_bench import simulations  # noqa: E402
from tandem_bench.benches import carrier_sense, fairness, mobility, static_tail  # noqa: E402

DESCRIPTIONS = {
    "carrier-sense": carrier_sense.description(carrier_sense.SETUPS[2], (-66, -86), simulations.TANDEM, 1),
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


def goodput(setup: carrier_sense.Setup, place: tuple[int, int], arm: Any) -> float:
    result = simulations.simulate("run", {}, {**carrier_sense.description(setup, place, arm, 1), "seconds": 10, "warmup": 3})
    return sum(link["mbps"] for link in result["links"][:2]) if arm == carrier_sense.UDP else result["flows"][0]["mbps"]


def test_access_points_that_do_not_sense_each_other_collide_between_them_only() -> None:
    apart = carrier_sense.SETUPS[0]
    in_range = carrier_sense.Setup("in range", apart.wifi)
    between, near = (-76, -76), (-60, -90)
    assert goodput(apart, between, carrier_sense.UDP) < 0.4 * goodput(in_range, between, carrier_sense.UDP)
    assert goodput(apart, near, carrier_sense.UDP) > 0.9 * goodput(in_range, near, carrier_sense.UDP)


def test_other_subflows_send_what_a_subflow_out_of_reach_holds() -> None:
    described = {**carrier_sense.description(carrier_sense.SETUPS[2], (-55, -95), simulations.ALONE, 1), "seconds": 10, "warmup": 3}
    mbps = {}
    for reinject in (True, False):
        described["flows"][0]["reinject"] = reinject
        mbps[reinject] = simulations.simulate("run", {}, described)["flows"][0]["mbps"]
    assert mbps[True] > 2 * mbps[False] and mbps[True] > 20


def test_what_signals_say_is_refused_with_its_place() -> None:
    described = carrier_sense.description(carrier_sense.SETUPS[0], (-60, -90), simulations.ALONE, 1)
    for key, value in (("group", 16), ("fading_db", -1), ("mbps", 7), ("signal", [[0, -50], [0, -60]]), ("there", [["soon", 3]])):
        wrong = {**described, "links": [{**described["links"][0], key: value}, *described["links"][1:]]}
        with pytest.raises(simulations.SimError, match=rf"links\[0\]\.{key}"):
            simulations.simulate("run", {}, wrong)


def test_a_client_that_leaves_an_access_point_gets_nothing_by_it() -> None:
    walk = mobility.WALKS[0]
    start, length = mobility.stay(walk, mobility.ACCESS_POINTS[2])
    described = mobility.walked(walk, mobility.BEST, 1, 2)
    rates = simulations.simulate("run", {}, described)["flows"][0]["rates_mbps"]
    assert len(rates) == walk.seconds
    assert max(rates[:int(start)]) == 0 and max(rates[int(start + length) + 1:]) == 0
    assert max(rates) > 20


def test_handovers_follow_the_walk() -> None:
    walk = mobility.WALKS[0]
    stays = mobility.handovers(walk, 1)
    assert [number for number, _, _ in stays] == sorted(number for number, _, _ in stays) and len(stays) > 2
    for (_, start, length), (_, following, _) in zip(stays, stays[1:]):
        assert abs(following - start - length - mobility.GAP) < 0.2, "break before make"
