"""The bench `senders`: when an answer counts as right."""

from __future__ import annotations

import pytest

from tandem_bench.benches import senders
from tandem_lab.errors import BadInput

LATE = [(0.1, "unknown"), (1.0, "unknown"), (3.4, "loss-based"), (6.0, "loss-based")]


def test_the_later_deadline_counts_and_the_earlier_one_is_told() -> None:
    found = senders.judged(LATE, "loss-based", 3.5)
    assert (found["right"], found["right_strict"], found["answered_s"]) == ([1.0], [0.0], [3.4])
    assert senders.judged(LATE, "loss-based", 0.5)["right"] == [0.0], "3 s were over"
    assert senders.judged(LATE, "loss-based", None)["right"] == [0.0]


def test_what_is_taken_for_what_adds_up_to_one() -> None:
    found = senders.judged([(0.2, "loss-based"), (2.0, "rate-based"), (6.0, "rate-based")], "loss-based", None)
    assert found["right"] == [0.0] and found["answered_s"] == [], "it was right once, and did not stay so"
    assert {answer: found[f"said {answer}"] for answer in senders.ANSWERS} == {
        "loss-based": [0.0], "rate-based": [1.0], "unresponsive": [0.0], "unknown": [0.0]}
    assert senders.judged([], "loss-based", None)["said"] == "unknown"


def test_every_kind_is_in_the_cells() -> None:
    bench = senders.BENCH
    kinds = {case.parameters["cell"].kind for case in bench.cases(False)}
    assert kinds == set(senders.KINDS)
    assert [case.name for case in bench.configured(bench.cases(True), {"kind": "vegas", "rate": "20"})] == ["vegas, 50 ms, 20 Mb/s, 1 %"]
    with pytest.raises(BadInput, match="kind=windows"):
        bench.configured(bench.cases(True), {"kind": "windows"})
