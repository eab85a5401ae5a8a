"""Which transfers stand still."""

from __future__ import annotations

import sys
from pathlib import Path
from types import SimpleNamespace

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("endurance", "common", "lab")]

from tandem_soak.keep import Keeper  # noqa: E402
from tandem_soak.stalls import STILL, Stalls  # noqa: E402


def transfer(port: int, amount: int, began: float = 0.0) -> dict:
    return {"port": port, "bytes": amount, "began": began}


def test_told_once_when_nothing_has_come_for_so_long() -> None:
    stalls = Stalls()
    assert stalls.look([transfer(1, 0), transfer(2, 7)], 0.0) == []
    assert stalls.look([transfer(1, 0), transfer(2, 8)], STILL - 0.1) == []
    assert stalls.look([transfer(1, 0), transfer(2, 8)], STILL) == [transfer(1, 0)]
    assert stalls.look([transfer(1, 0), transfer(2, 8)], STILL + 0.2) == []
    assert stalls.look([transfer(1, 0), transfer(2, 8)], 2 * STILL) == [transfer(2, 8)]


def test_the_next_one_of_a_connection_is_another() -> None:
    stalls = Stalls()
    stalls.look([transfer(1, 0)], 0.0)
    assert stalls.look([transfer(1, 0, began=10.0)], STILL) == []


def test_one_that_is_not_connected_yet_has_no_port() -> None:
    stalls = Stalls()
    for now in (0.0, STILL, 2 * STILL):
        assert stalls.look([{"bytes": 0, "began": 0.0}], now) == []


def test_what_was_seen_is_kept_when_it_fails(tmp_path: Path) -> None:
    captures = SimpleNamespace(flow=lambda port, _: ({}, {"client": [], "srv1": []}, {port}), kernel=SimpleNamespace(told=lambda: None, lines=lambda _: []))
    places = tuple(SimpleNamespace(role=role, run=lambda words, role=role, **_: SimpleNamespace(stdout=f"{role} says {words[0]}\n")) for role in ("client", "srv1"))
    keeper = Keeper(captures, tmp_path, SimpleNamespace(since=lambda *_: []), None, places)
    for port in (1, 2):
        keeper.look(transfer(port, 0))
    for port in (2, 3):
        keeper.take({"kind": "http IPv4 MPTCP down", "outcome": "hung", "port": port})
    keeper.close()
    kept = {place.name.rsplit("-", 1)[1]: place for place in tmp_path.iterdir()}
    assert set(kept) == {"2", "3"} and not (kept["3"] / "stalled.txt").exists()
    words = (kept["2"] / "stalled.txt").read_text()
    assert '"port": 2' in words and "client: ss -M" in words and "srv1 says nstat" in words and "client: ip mptcp endpoint" in words
