"""What a life of the daemon may have more than a fresh one, and which transfers are remembered as slow."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools" / name) for name in ("endurance", "lab", "common")]

from tandem_soak.run import SLOW, SLOWEST_KEPT, Plan, Soak  # noqa: E402


class Taken:
    """Instead of the keeper."""

    def __init__(self) -> None:
        self.faults: list[dict[str, Any]] = []

    def take(self, fault: dict[str, Any]) -> None:
        self.faults.append(fault)


def test_the_slowest_transfers_are_kept_with_the_packets_of_those_that_nearly_hung(tmp_path: Path) -> None:
    soak = Soak(Plan(1.0, 1, "x-", 1, True, 0.0, False, None, tmp_path), lambda _: None)
    keeper = soak._keeper = Taken()  # type: ignore[assignment]
    took = [1.0, 9.0, SLOW + 1, 2.0, 3.0, SLOW + 2, 4.0, 0.5]
    for seconds in took:
        soak._slow({"seconds": seconds, "outcome": "whole"})
    assert [one["seconds"] for one in soak.outcome.slowest_ones] == sorted(took, reverse=True)[:SLOWEST_KEPT]
    assert [one["seconds"] for one in keeper.faults] == [SLOW + 1, SLOW + 2]
