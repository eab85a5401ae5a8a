"""Thousands of further connections beside the transfers of an endurance run: opened, used, counted, and ended with it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path[:0] = [str(ROOT / "tools" / name) for name in ("endurance", "lab", "common")]

from tandem_lab import system  # noqa: E402
from tandem_lab.errors import LabError  # noqa: E402
from tandem_soak import crowd as crowds  # noqa: E402


@pytest.fixture
def crowd(monkeypatch: pytest.MonkeyPatch) -> crowds.Crowd:
    """Of this host with itself, in turns of half a second."""
    try:
        system.tandem_binary("tandem-bench-many-flows")
    except LabError as reason:
        pytest.skip(str(reason))
    monkeypatch.setattr(crowds, "_TURN", 0.5)
    here: Any = SimpleNamespace(popen=subprocess.Popen, ipv4="127.0.0.1")
    return crowds.Crowd(SimpleNamespace(client=here, server=lambda: here), held=50, opened=20)  # type: ignore[arg-type]


def test_they_are_opened_used_and_ended(crowd: crowds.Crowd) -> None:
    crowd.start()
    assert system.wait_until(lambda: crowd.turns >= 1 or crowd.problem, 20.0)
    crowd.stop()
    told = crowd.report()
    assert not crowd.problem
    assert told["most_open"] == 50
    assert told["attempted"] > 50 and told["uses"] >= 50
    assert all(process.poll() is not None for process in (crowd._client, crowd._server) if process)


def test_those_that_fail_are_counted_and_no_fault(crowd: crowds.Crowd) -> None:
    crowd._thread.start()  # and no server
    assert system.wait_until(lambda: crowd.turns >= 1 or crowd.problem, 20.0)
    crowd.stop()
    assert not crowd.problem
    assert crowd.report()["most_open"] == 0
    assert sum(crowd.failures.values()) == crowd.counts["failed"] >= 50


def test_a_program_that_ends_is_told(crowd: crowds.Crowd) -> None:
    crowd.held = 50_000  # more than it takes
    crowd.start()
    assert system.wait_until(lambda: bool(crowd.problem), 20.0)
    crowd.stop()
    assert crowd.problem.startswith("the held connections: ")
