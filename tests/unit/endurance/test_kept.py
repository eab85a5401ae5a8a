"""Connections that stay: what their two ends say of an answer that is wrong, and of a connection that ends."""

from __future__ import annotations

import socket
import sys
import threading
import time
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tools" / "endurance" / "tandem_soak"))

import kept  # noqa: E402


class End(kept.Kept):
    """With one end of a pair of sockets in place of a connection."""

    def __init__(self) -> None:
        super().__init__("test", {"seed": 1, "ipv4": "", "ipv6": ""}, False, False, time.monotonic() + 60.0)


def served(first: bytes) -> socket.socket:
    """The laptop's end of a connection whose other end kept.py serves, after its first byte."""
    ours, theirs = socket.socketpair()
    ours.settimeout(10.0)
    threading.Thread(target=kept._serve, args=(theirs,), daemon=True).start()  # noqa: SLF001
    ours.sendall(first)
    return ours


def test_an_answer_needs_the_question_and_is_its_bytes_backwards():
    with served(b"c") as ours:
        for question in (b"abc", b"", bytes(range(256)) * 100):
            ours.sendall(len(question).to_bytes(4, "big") + question)
            answer = kept.received(ours, len(question) + 32)
            assert answer == kept.answer_to(question)
            assert answer[:len(question)] == question[::-1]
    assert kept.answer_to(b"abc")[3:] != kept.answer_to(b"abd")[3:]


def test_no_two_pieces_of_the_radio_are_the_same(monkeypatch):
    monkeypatch.setattr(kept, "RADIO_EVERY", 0.0)
    with served(b"r") as ours:
        pieces = [kept.received(ours, kept.RADIO_BYTES) for _ in range(50)]
    assert pieces == [kept.piece(number, kept.RADIO_BYTES) for number in range(50)]
    assert len(set(pieces)) == 50


def test_other_bytes_are_a_change_and_an_early_end_is_told():
    with pytest.raises(kept.Changed, match="in turn 1"):
        End().got(False, 10)
    ours, theirs = socket.socketpair()
    theirs.sendall(b"12345")
    theirs.close()
    with ours, pytest.raises(ConnectionError, match="5 of 10 bytes"):
        kept.received(ours, 10)


def test_a_connection_that_ends_is_told_and_made_anew(monkeypatch):
    told: list[dict] = []
    monkeypatch.setattr(kept, "say", told.append)
    monkeypatch.setattr(kept, "AGAIN", 0.01)
    outcomes = iter([ConnectionError("reset"), kept.Changed("other bytes"), TimeoutError("timed out")])
    one = End()
    listening = socket.create_server(("127.0.0.1", 0))
    monkeypatch.setattr(kept, "PORT", listening.getsockname()[1])
    one._address = "127.0.0.1"  # noqa: SLF001

    def use(_: socket.socket) -> None:
        try:
            raise next(outcomes)
        except StopIteration:
            one._until = 0.0  # noqa: SLF001

    one.use = use  # type: ignore[method-assign]
    one.run()
    listening.close()
    assert [each["outcome"] for each in told] == ["broken", "changed", "hung"]
    assert all(each["kept"] == "test" and each["port"] for each in told)
