"""The benches about rates: what they ask of tandem-sim and read from its answer."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path[:0] = [str(TOOLS / tool) for tool in ("bench", "common", "lab", "sim")]

from tandem_bench import catalogue, minislots, simulations, slot_pictures, visit_pictures  # noqa: E402
from tandem_bench.benches import visits  # noqa: E402
from tandem_bench.model import Arm, Measurement, Options, Run  # noqa: E402
from tandem_simulator.sweep import ALONE, SCENARIOS  # noqa: E402


def measured(bench: minislots.Minislot, model: str, arm: Arm) -> Measurement:
    case = next(case for case in bench.cases(True) if case.parameters.get("model") == model)
    return bench.measure(None, case, arm, 1, Options(quick=True))


@pytest.mark.parametrize(("number", "min_max", "blind"), [(1, 11, 1680), (2, 6, 280), (3, 7, 252)])
def test_minislot_counts_the_printed_searches(number: int, min_max: int, blind: int) -> None:
    bench = catalogue.load(f"minislot-{number}")
    for arm, searches in ((minislots.MIN_MAX, min_max), (minislots.BLIND, blind)):
        assert measured(bench, "published", arm).values[minislots.SEARCHES.name] == searches


@pytest.mark.parametrize("model", minislots.MODELS)
@pytest.mark.parametrize("number", [1, 2, 3])
def test_minislot_plans_near_the_bound_where_min_max_does_not(number: int, model: str) -> None:
    bench = catalogue.load(f"minislot-{number}")
    shares = {arm: measured(bench, model, arm).values[minislots.SHARE.name] for arm in (minislots.MIN_MAX, minislots.TANDEM, minislots.BOUND)}
    assert shares[minislots.BOUND] == pytest.approx(100)
    assert shares[minislots.MIN_MAX] < 98 <= shares[minislots.TANDEM] <= 100 + 1e-6


@pytest.mark.parametrize(("number", "slots", "away"), [(1, [15] * 5, [15, 105, 105, 105, 105]), (2, [12.5] * 3, [12.5, 87.5, 37.5]), (3, [10.83, 12.5, 10], [12.5, 43.33, 90])])
def test_minislot_has_the_printed_slots_and_disconnections(number: int, slots: list[float], away: list[float], tmp_path: Path) -> None:
    bench = catalogue.load(f"minislot-{number}")
    title = minislots.MODELS["published"]
    made = [Run(title, arm.name, 1, 0, 0.0, done.values, done.details) for arm in (minislots.MIN_MAX, minislots.TANDEM) for done in [measured(bench, "published", arm)]]
    rows = [next(run.values for run in own if run.arm == minislots.MIN_MAX.name) for _, own in bench.summarise(bench.cases(True), made)]
    assert [row["slot"] for row in rows] == pytest.approx(slots, abs=0.01)
    assert [row["longest disconnection"] for row in rows] == pytest.approx(away, abs=0.01)
    assert [path.name for path in bench.draw(bench.cases(True), made, tmp_path)] == [f"minislot-{number}.png", f"minislot-{number}-slots.png"]


def test_slots_in_one_piece_and_as_planned() -> None:
    assert slot_pictures.in_one_piece([2, 1, 3]) == [0, 0, 1, 2, 2, 2]
    assert slot_pictures.order_at([{"delay_ms": 25, "order": "2 1"}, {"delay_ms": 30, "order": "1 3 2 1"}], 30) == [0, 2, 1, 0]


def test_the_papers_panels_hold_a_curve_for_each_disconnection(tmp_path: Path) -> None:
    bench = catalogue.load("visits")
    titles = {case.name for case in bench.cases(False)}
    assert {case for panel in visits.FIGURES for case in panel.cases.values()} == titles, "every curve is in one of the paper's figures"
    points = {"rates": [[5, 20.0], [25, 5.0]], "rtts": [[5, 10.0], [25, 30.0]]}
    made = [Run(case, "TCP, packet by packet", 1, 0, 0.0, {}, points) for case in titles]
    assert [path.name for path in visit_pictures.figures(visits.FIGURES, made, tmp_path, "panels")] == ["panels.png"]
    assert visit_pictures.figures(visits.FIGURES, [], tmp_path, "none") == []


@pytest.mark.parametrize(("settings", "why"), [
    ({"duty": "0.5,0.4"}, "add up to 0.9"),
    ({"duty": "1.5,-0.5"}, "each must be above 0"),
    ({"duty": "0.9,0.1", "slot": 30, "longest": 200}, "at most 200 ms"),
    ({"duty": "0.5,0.5", "slot": 300, "longest": 200}, "slot time of 300 ms is above the longest period"),
    ({"duty": "0.5,0.5", "more": "1"}, "one for each"),
    ({"duty": "0.5,0.5", "delays": "-5"}, "allowed: 0 to 60"),
])
def test_slots_says_what_it_cannot_plan(settings: dict[str, object], why: str) -> None:
    with pytest.raises(simulations.SimError, match=why):
        simulations.simulate("slots", settings)


def test_round_trips_of_both_models_are_those_of_plain_tcp_without_disconnection() -> None:
    points = simulations.simulate("rtts", {"on": 50, "off": 0, "delays": "20,80", "air": 0})["points"]
    for point in points:
        assert point["published_ms"] == pytest.approx(point["delay_ms"], abs=1e-6)
        assert point["self_clocked_ms"] == pytest.approx(point["delay_ms"], abs=1e-6)


@pytest.mark.parametrize("rule", ["phase-shift", "stay-or-move"])
def test_users_find_their_times_and_by_the_published_rule_they_do_not(rule: str) -> None:
    share = {one: simulations.simulate("users", {"users": 3, "rule": one, "seconds": 60})["share"] for one in (rule, "published")}
    assert share["published"] < 0.8 and share[rule] > 0.95


def test_users_of_one_channel_share_it() -> None:
    for rule in ("published", "phase-shift", "stay-or-move"):
        result = simulations.simulate("users", {"users": 4, "mbps": 22, "rule": rule, "cycle": 60, "seconds": 30, "warmup": 5})
        assert result["share"] == pytest.approx(1) and result["jain"] == pytest.approx(1)


def test_a_switch_that_costs_is_paid() -> None:
    free, dear = (simulations.simulate("users", {"users": 1, "cost": cost, "seconds": 30, "warmup": 5})["share"] for cost in (0, 20))
    assert free == pytest.approx(1) and 0.6 < dear < 0.8


def test_switching_keeps_both_pipes_full_and_ours_stays_on_the_better_channel() -> None:
    settings = {"seconds": 20, "warmup": 8}
    equal = simulations.simulate("switching", {"mbps": "20,14", "alpha": 0, **settings})
    ours = simulations.simulate("switching", {"mbps": "14,20", "rule": "best-channel", **settings})
    # (95 ms * 20 + 95 ms * 14) / 200 ms, less headers.
    assert 14.5 < equal["mbps"] < 16.2
    assert ours["mbps"] > 17.5 and ours["subflows"][1]["share"] > 0.8


def test_a_card_that_is_away_costs_a_download_round_trips() -> None:
    here, away = (simulations.simulate("visits", {"off": off, "delay": 50, "seconds": 40, "warmup": 5}) for off in (0, 50))
    model = simulations.simulate("rtts", {"on": 50, "off": 50, "delays": 50, "window": away["under_way"]})["points"][0]["self_clocked_ms"]
    assert here["rtt_ms"] == pytest.approx(50, rel=0.1)
    assert away["rtt_ms"] == pytest.approx(model, rel=0.1)
    assert away["mbps"] < 0.7 * here["mbps"]


def test_packet_times_can_be_estimated() -> None:
    settings = {"t1": 3, "rtt": 50, "weight": 4, "cc": "olia", "modules": "ecn", "seconds": 60, "warmup": 0}
    true, estimated = (simulations.simulate("grid", {**settings, "estimator": flag})["share"] for flag in (False, True))
    assert true != estimated and estimated > 0.8


@pytest.mark.parametrize(("scenario", "settings", "why"), [
    ("visits", {"on": 1}, "--on must be above --cost"),
    ("switching", {"mbps": "20,0"}, "above 0"),
    ("switching", {"cycle": 300}, "at most 200 ms"),
    ("switching", {"mbps": "20,20,20", "least": 80}, "do not fit"),
    ("users", {"cycle": 300}, "at most 200 ms"),
    ("users", {"rule": "phase-shift", "cycle": 20}, "slots from 10 ms"),
    ("users", {"mbps": "22,-1"}, "above 0"),
    ("users", {"jitter-least": 9, "jitter-most": 3}, "below the least"),
])
def test_channels_that_cannot_be_used_are_said(scenario: str, settings: dict[str, object], why: str) -> None:
    with pytest.raises(simulations.SimError, match=why):
        simulations.simulate(scenario, settings)


def test_a_promise_is_kept_through_two_handoffs() -> None:
    plain, ours = (simulations.simulate("handoff", {"arm": arm, "R0": 18}) for arm in ("coupled", "promise"))
    assert len(plain["handoffs_s"]) == len(ours["handoffs_s"]) == 2
    assert ours["near"]["mbps"] > 0.97 * 18 and ours["near"]["gap_ms"] <= 100
    assert ours["near"]["rtt_ms"] < 0.4 * plain["near"]["rtt_ms"] and ours["lte_bytes"] < 0.5 * plain["lte_bytes"]


def test_the_published_handoff_comes_earlier_than_the_traditional_one() -> None:
    plain, published = (simulations.simulate("handoff", {"arm": arm, "R0": 18})["handoffs_s"] for arm in ("coupled", "cla"))
    assert len(plain) == len(published) == 2 and all(early < late for early, late in zip(published, plain))


def test_what_befalls_packets_on_the_walk_is_told_by_half_seconds() -> None:
    plain, ours = (simulations.simulate("handoff", {"arm": arm, "R0": 18}) for arm in ("coupled", "promise"))
    at = [point[0] for point in plain["series"]]
    assert at == [point[0] for point in plain["curve"]] and at[1] - at[0] == 0.5
    handoff = plain["handoffs_s"][0]
    before, between = (next(point for point in plain["series"] if point[0] > second) for second in (handoff - 1, handoff + 15))
    assert before[1] > 2 * between[1], "the round trip grows before a handoff"
    near = [point for point in plain["series"] if any(abs(point[0] - second) <= 5.5 for second in plain["handoffs_s"])]
    assert plain["near"]["retransmissions"] == pytest.approx(sum(point[3] for point in near), abs=5)
    assert sum(point[4] for point in plain["series"]) > 100, "losses bring duplicate acknowledgements"
    assert sum(point[3] + point[4] for point in ours["series"][2:]) == 0


def test_the_figures_of_the_walk_are_drawn_and_compared_with_the_text(tmp_path: Path) -> None:
    bench = catalogue.load("cla")
    cases = [case for case in bench.cases(True) if case.name == "R0 18 Mb/s" or case.name == "figure 11b: R0 18 Mb/s, delta2 1 dB"]
    measured_runs = [Run(case.name, arm.name, 1, 0, 0.0, done.values, done.details) for case in cases for arm in case.arms
                     for done in [bench.measure(None, case, arm, 1, Options(quick=True))]]
    assert [path.name for path in bench.draw(cases, measured_runs, tmp_path)] == ["cla.png", "cla-figure-9.png", "cla-figure-10.png", "cla-figure-11b.png"]
    rows = {case.name: {run.arm: run.values["ratio"] for run in made} for case, made in bench.summarise(cases, measured_runs)}
    assert not [name for name in rows if name.startswith("figure 9")], "of two R0, one was measured"
    rtt = {run.arm: run.values["RTT near handoffs"] for run in measured_runs if run.case == "R0 18 Mb/s"}
    assert rows["figure 10: RTT near handoffs by uncoupled, R0 18"] == pytest.approx({arm: rtt[arm] / rtt["uncoupled"] for arm in ("CLA", "Tandem")})


@pytest.mark.parametrize(("settings", "why"), [({"R0": 50}, "at most 43 Mb/s together"), ({"R1h": 30}, "between 0 and C1"), ({"delta2": -1}, "delta2 must be above 0")])
def test_a_promise_that_no_link_carries_is_refused(settings: dict[str, object], why: str) -> None:
    with pytest.raises(simulations.SimError, match=why):
        simulations.simulate("handoff", settings)


@pytest.mark.parametrize("scenario", SCENARIOS + ALONE)
def test_every_scenario_is_there_by_the_command(scenario: str) -> None:
    done = subprocess.run([sys.executable, str(TOOLS / "sim/sim.py"), scenario, "--help"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and "Options" in done.stdout, done.stderr
