"""What the bench `roaming` makes of a walk: when the client changes, and what counts as before and after."""

from __future__ import annotations

import tomllib

import pytest

from tandem_bench.benches import roaming
from tandem_bench.benches.roaming import ACCESS_POINTS, ALL, BEFORE, DELTA0, DELTA2, GAP, GOODPUT, LATER, PLAIN, RTT_BEFORE, RTT_LATER, Walk, figures_of, signal, told
from tandem_bench.model import Run
from tandem_lab.errors import LabError


def test_the_client_clings_to_its_access_point_and_skips_others():
    walk = Walk()
    present = 0
    for at, ap in walk.handoffs():
        assert signal(present, at) < DELTA0 and signal(present, at - 0.1) >= DELTA0
        assert signal(ap, at) > signal(present, at) + DELTA2
        assert all(signal(ap, at) >= signal(other, at) for other in range(ACCESS_POINTS))
        present = ap
    details = told(walk)
    assert details["handoffs"] == len(walk.handoffs()) == 5 and details["skipped"] == 5
    assert walk.present(walk.seconds) == present and walk.present(0) == 0


def test_before_and_after_are_the_seconds_at_the_handoffs():
    walk = Walk()
    at = [second for second, _ in walk.handoffs()]
    times = [0.25 + 0.5 * number for number in range(110)]

    def value(second: float) -> float:
        """1 in the last two seconds before a handoff, 5 from 2 to 4 s after one, else what must not count."""
        return next((figure for begin, end, figure in ((-2, 0, 1.0), (2, 4, 5.0)) for handoff in at if handoff + begin <= second < handoff + end), 1000.0)

    values = figures_of(walk, [(second, value(second)) for second in times], [(second, 10 * value(second)) for second in times])
    assert values == {BEFORE.name: 1, LATER.name: 5, RTT_BEFORE.name: 10, RTT_LATER.name: 50}


def test_a_round_trip_that_nobody_measured_is_not_the_best_one():
    walk = Walk()
    rates = [(0.25 + 0.5 * number, 1.0) for number in range(110)]
    with pytest.raises(LabError, match="nothing was measured"):
        figures_of(walk, rates, [])


def test_the_scenario_is_one_that_the_lab_takes(tmp_path):
    from tandem_lab import scenario

    file = tmp_path / "roaming.toml"
    file.write_text(Walk(6).scenario())
    assert len(scenario.load(file).aps) == 6
    handoffs = [event for event in tomllib.loads(file.read_text())["timeline"] if event["what"] == "handoff"]
    assert [event["ap"] for event in handoffs] == [f"ap{ap + 1}" for _, ap in Walk(6).handoffs()]


def test_figure_1_is_drawn_of_the_first_seed(tmp_path):
    case = roaming.case_of(Walk(6), 2)
    details = told(Walk(6)) | {"rates": [[0.25, 20.0], [0.75, 10.0]], "rtts": [[0.2, 30.0], [0.4, 60.0]]}
    values = {metric.name: 1.0 for metric in (GOODPUT, GAP)}
    runs = [Run(case.name, arm.name, seed, 0, 0.0, values, details) for arm in (PLAIN, ALL) for seed in (1, 2)]
    assert [path.name for path in roaming.BENCH.draw([case], runs, tmp_path)] == ["roaming.png"]
    failed = [Run(case.name, PLAIN.name, 1, 0, 0.0, error="late")]
    assert roaming.BENCH.draw([case], failed, tmp_path) == []


@pytest.mark.parametrize("quick", [True, False])
def test_every_case_has_its_goals(quick):
    for case in roaming.BENCH.cases(quick):
        assert {goal.metric for goal in case.goals} == {"", RTT_BEFORE.name}
