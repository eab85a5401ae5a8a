"""The lab's world of the bench `fairness-linux`: who is where."""

from __future__ import annotations

import tomllib

import pytest

from tandem_bench.benches import fairness_linux
from tandem_bench.benches.fairness_linux import C1, JAIN, LEAST, OF_C, OF_C1, OF_C2
from tandem_lab import scenario


def test_two_clients_share_each_access_point(tmp_path):
    file = tmp_path / "fairness.toml"
    file.write_text(fairness_linux.scenario("reno", fairness_linux.RADIOS["table 2, C close to AP2"]))
    world = scenario.load(file)
    number = {name: int(name.removeprefix("wlan")) for name in (*OF_C, OF_C1, OF_C2)}
    assert world.visitors["ap1"] == (number[OF_C[0]], number[OF_C1]) and world.visitors["ap2"] == (number[OF_C[1]], number[OF_C2])
    radios = {(event["interface"], event["ap"]): (event["rate"], event["frame_error"]) for event in tomllib.loads(file.read_text())["timeline"]}
    assert radios == {(OF_C[0], "ap1"): ("24", 0.33), (OF_C[1], "ap2"): ("54", 0.0), (OF_C1, "ap1"): ("54", 0.0), (OF_C2, "ap2"): ("54", 0.0)}
    assert not world.mptcp, "C alone has endpoints, as its arm wants them"
    assert {server.congestion for server in world.servers} == {"reno"}


@pytest.mark.parametrize("quick", [True, False])
def test_its_goals_are_those_of_fairness(quick):
    for case in fairness_linux.BENCH.cases(quick):
        assert {goal.metric for goal in case.goals} == {JAIN.name, LEAST.name}
        assert case.metrics[0] == C1 and case.parameters["table"] in fairness_linux.RADIOS
