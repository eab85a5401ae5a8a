"""The estimator bench's arithmetic: what is compared with what."""

from __future__ import annotations

from typing import Any

import pytest
from tandem_lab.errors import LabError

from tandem_bench.benches import estimator
from tandem_bench.benches.estimator import CONFIDENCE, ERROR, FIRST, HIDDEN, PACKET, compared

ALL = {metric.name for metric in (CONFIDENCE, ERROR, FIRST, HIDDEN, PACKET)}


def window(at: float, estimate: float | None, truth: float | None, first: float | None = 0.5, **more: Any) -> dict[str, Any]:
    found = {} if estimate is None else {"delivery": estimate, "hidden": False, "confidence": 1.0, "memory": 8, **more}
    return {"t": at, "naive": 0.9, "published": found, "tandem": {}, "truth": {"delivery": truth, "first": first, "packet_us": more.get("truth_us")}}


def test_errors_do_not_cancel() -> None:
    result = compared([window(1.5, 0.7, 0.6), window(2, 0.5, 0.6)], "published", ALL)
    assert result.values[ERROR.name] == pytest.approx(10)
    assert result.details["bias"] == pytest.approx(0)
    assert result.values[FIRST.name] == pytest.approx(10)  # 20 and 0 points


def test_windows_without_truth_or_estimate_are_left_out_and_counted() -> None:
    result = compared([window(1.5, 0.7, 0.6), window(2, None, 0.6), window(2.5, 0.1, None)], "published", ALL)
    assert result.values[ERROR.name] == pytest.approx(10)
    assert (result.details["windows"], result.details["windows_known"]) == (3, 1)


def test_reports_of_a_hidden_terminal_count_over_all_windows() -> None:
    result = compared([window(1.5, 0.7, 0.6, hidden=True), window(2, None, 0.6)], "published", ALL)
    assert result.values[HIDDEN.name] == pytest.approx(50)
    assert HIDDEN.name not in compared([window(1.5, 0.7, 0.6)], "naive", ALL).values


def test_packet_times_are_compared_as_time_by_packets() -> None:
    # 500 us and 1000 us a packet for equally long: 3 packets in 2000 us.
    lines = [window(1.5, 0.7, 0.6, packet_us=600, truth_us=500), window(2, 0.7, 0.6, packet_us=600, truth_us=1000)]
    result = compared(lines, "published", ALL)
    assert result.details["truth_packet_us"] == pytest.approx(2000 / 3)
    assert result.values[PACKET.name] == pytest.approx(10)


def test_nothing_known_is_a_failed_run() -> None:
    with pytest.raises(LabError, match="no window"):
        compared([window(1.5, None, 0.6)], "published", ALL)


def test_every_published_scenario_has_the_published_goal() -> None:
    cases = {case.parameters["air"].scenario: case for case in estimator.BENCH.cases(True) if "air" in case.parameters and not case.name.startswith("packet time")}
    for scenario in ("fixed", "step", "rates-a", "rates-g", "rates-n", "contention"):
        judged = {(goal.arm, goal.bound) for goal in cases[scenario].goals if goal.metric == ERROR.name}
        assert judged == {(estimator.WHOLE.name, 2.0), (estimator.DAMAGED.name, 2.0)}, scenario
    for scenario in ("hidden-sparse", "hidden-heavy"):
        assert all(goal.metric == HIDDEN.name and goal.sense == ">=" for goal in cases[scenario].goals)
        assert cases[scenario].goals


def test_only_frames_of_frame_sources_count() -> None:
    sources = [{"name": "lab:/x", "reports": 5}, {"name": "monitor:frames0", "reports": 7}, {"name": "nl80211", "reports": 100}]
    assert estimator.taken_in({"wifi": {"sources": sources}}) == 12
