"""What a run must not pass over in silence: module faults, traffic that does not say what hung, settings that the daemon refuses, a disturbance that stands still."""

from __future__ import annotations

import sys
import threading
from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("endurance", "common", "lab")]

from tandem_lab.errors import LabError  # noqa: E402
from tandem_soak import run  # noqa: E402
from tandem_soak.disturbances import Chaos, Disturbance, _knob  # noqa: E402
from tandem_soak.run import Plan, Soak  # noqa: E402
from tandem_soak.watched import Watched  # noqa: E402


def test_faults_and_violations_of_modules_are_findings() -> None:
    """They were looked for where the daemon's status has none."""
    watched = Watched.__new__(Watched)
    watched.counts, watched.findings, watched.lives = Counter(), [], 3
    module = {"name": "mirror", "faults": 2, "violations": {"ack_above_received": 1}}
    watched.take_counters({"datapath": {"queued": 7}, "modules": [module, {"name": "freeze", "faults": 0, "violations": {}}]})
    assert watched.findings == ["mirror: 2 faults in life 3", "mirror: 1 violations (ack_above_received) in life 3"]
    assert watched.counts["packets queued"] == 7


def test_traffic_that_neither_ends_nor_says_what_is_under_way_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run, "PATIENCE", -10.0)
    monkeypatch.setattr(run.system, "wait_until", lambda *_, **__: False)
    soak = Soak(Plan(1.0, 1, "x-", 1, True, 0.0, False, None, Path("kept")), lambda _: None)
    soak.outcome.transfers["whole"] = 5
    soak._under_way = [{"kind": "http", "bytes": 0}]  # said in an earlier session
    soak._drain(SimpleNamespace(send_signal=lambda _: None, poll=lambda: None, returncode=None), threading.Event())
    assert not soak.outcome.good and "does not say" in soak.outcome.lab_errors[0] and not soak.outcome.transfers["hung"]


@pytest.mark.parametrize("answer, counts, error", [(b"HTTP/1.1 200 OK\r\n\r\n", 1, ""), (b"", 1, ""), (b"HTTP/1.1 400 Bad Request\r\n\r\nallowed: validated, fraction", 0, "refused: allowed")])
def test_a_setting_that_the_daemon_refuses_disturbs_nothing(answer: bytes, counts: int, error: str) -> None:
    chaos = Chaos(None, None, SimpleNamespace(ask=lambda _: answer), 1, 0.04, which=())

    def once(chaos: Chaos, draw) -> None:
        chaos.stopping.set()
        _knob(chaos, draw)

    chaos._repeat(Disturbance("changes of knobs", 0.01, once))
    assert chaos.counts["changes of knobs"] == counts and (error in "".join(chaos.errors) if error else not chaos.errors)


def test_a_disturbance_that_stands_still_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    chaos = Chaos(None, None, None, 1, 0.04, which=())
    chaos._threads = [SimpleNamespace(join=lambda _: None, is_alive=lambda: True)]
    chaos.stop()
    assert chaos.errors and not isinstance(chaos.errors[0], LabError)
