"""What the daemon's cost is made of."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tandem_bench import helpers
from tandem_bench.benches import overhead
from tandem_bench.model import Options

DAEMON, KEEPER = 100, 101


def test_the_keeper_costs_too(monkeypatch: pytest.MonkeyPatch) -> None:
    spent = {DAEMON: iter((1.0, 3.0)), KEEPER: iter((0.5, 1.0))}
    monkeypatch.setattr(helpers, "exact_cpu_seconds", lambda pid: next(spent[pid]))
    counts = {"queued": 0, "observed": 0, "queue_drops": 0, "user_drops": 0}
    status = {"datapath": counts, "backend": {"name": "nftables"}, "keeper": {"pid": KEEPER}}
    daemon = SimpleNamespace(pid=DAEMON, api=lambda _: status)
    lab = SimpleNamespace(iperf3=lambda *_, **__: {"end": {"sum_received": {"bytes": 2e9, "bits_per_second": 1e9}}})
    bench = overhead.Overhead()
    case = bench.cases(quick=True)[0]
    assert bench._download(lab, case, Options(quick=True), daemon).values[overhead.DAEMON_CPU.name] == pytest.approx(1.25)
    assert bench._download(lab, case, Options(quick=True), None).values[overhead.DAEMON_CPU.name] == 0
