"""What the run counts as the disturbances' doing, and as the daemon's: a connection without a way, an answer that was cut off, a daemon that lives and stands still."""

from __future__ import annotations

import errno
import json
import socket
import ssl
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("endurance", "endurance/tandem_soak", "common", "lab")]

from tandem_soak import disturbances, traffic, watched  # noqa: E402
from tandem_soak.disturbances import Chaos  # noqa: E402
from tandem_soak.run import Plan, Soak  # noqa: E402

LOST = {"kind": "http", "outcome": "no route", "why": "while connecting: ENETUNREACH", "bytes": 0, "wanted": 0, "seconds": 0.0}


class Interfaces:
    """Instead of the laptop's."""

    def down(self, name: str) -> None:
        pass

    up = down


class Kept:
    """Instead of the keeper."""

    def __init__(self, chaos: Chaos):
        self.chaos, self.faults = chaos, []

    def take(self, fault: dict[str, Any]) -> None:
        self.faults.append(fault)


def soak() -> tuple[Soak, Chaos]:
    one, chaos = Soak(Plan(30.0, 1, "x-", 1, True, 0.0, False, None, Path("kept")), lambda _: None), Chaos(None, Interfaces(), None, 1, 30.0)  # type: ignore[arg-type]
    one._keeper = Kept(chaos)  # type: ignore[assignment]
    return one, chaos


def test_no_route_while_every_interface_is_there_is_no_disturbances_doing() -> None:
    one, _ = soak()
    one._hear(dict(LOST))
    assert one.outcome.transfers == {"broken": 1} and not one.outcome.good
    assert "no interface was away" in one._keeper.faults[0]["why"]  # type: ignore[union-attr]


def test_no_route_while_an_interface_is_away_or_just_came_back_is(monkeypatch: pytest.MonkeyPatch) -> None:
    one, chaos = soak()
    now = [100.0]
    monkeypatch.setattr(disturbances.time, "monotonic", lambda: now[0])
    chaos.take_away("wlan0")
    one._hear(dict(LOST))
    chaos.give_back("wlan0")
    now[0] += disturbances.SETTLES - 0.1
    one._hear(dict(LOST))
    assert one.outcome.transfers == {"no route": 2}
    now[0] += 10.0
    one._hear({**LOST, "seconds": 10.0})
    assert one.outcome.transfers == {"no route": 3}, "its attempt began when the interface had just come back"
    one._hear(dict(LOST))
    assert one.outcome.transfers == {"no route": 3, "broken": 1}


class Fake:
    """A socket that connects or does not."""

    fault: OSError | None = None

    def __init__(self, *_: object):
        pass

    def settimeout(self, _: float) -> None:
        pass

    def connect(self, _: object) -> None:
        if self.fault:
            raise self.fault

    def getsockname(self) -> tuple[str, int]:
        return "10.0.0.2", 4711

    def close(self) -> None:
        pass


def application(monkeypatch: pytest.MonkeyPatch, said: list[dict[str, Any]]) -> traffic.Application:
    monkeypatch.setattr(traffic, "say", said.append)
    return traffic.Application(0, {"seed": 1, "mptcp": 0, "patience": 1.0, "ipv4": "127.0.0.1", "ipv6": "::1", "random": "random"}, b"", {"f": b"x" * 1000}, threading.Event())


def test_a_handshake_that_finds_no_way_has_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[dict[str, Any]] = []
    one = application(monkeypatch, said)
    monkeypatch.setattr(traffic.socket, "socket", Fake)

    def unreachable(*_: object, **__: object) -> None:
        raise OSError(errno.EHOSTUNREACH, "No route to host")

    monkeypatch.setattr(ssl.SSLContext, "wrap_socket", unreachable)
    assert one._connected(traffic.Way(True, False, False, False), False) is None
    assert [told["outcome"] for told in said] == ["broken"] and said[0]["port"] == 4711
    monkeypatch.setattr(Fake, "fault", OSError(errno.ENETUNREACH, "Network is unreachable"))
    with pytest.raises(traffic.Unreachable, match="unreachable"):
        one._connected(traffic.Way(True, False, False, False), False)


@pytest.mark.parametrize(("content", "outcome"), [(b"x" * 1000, "whole"), (b"x" * 600, "broken"), (b"x" * 599 + b"y", "changed"), (b"x" * 999 + b"y", "changed")])
def test_what_was_cut_off_is_told_from_what_was_changed(monkeypatch: pytest.MonkeyPatch, content: bytes, outcome: str) -> None:
    said: list[dict[str, Any]] = []
    one = application(monkeypatch, said)
    monkeypatch.setattr(one.random, "random", lambda: 0.0)  # a whole file
    here, there = socket.socketpair()
    there.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n" + content)
    there.shutdown(socket.SHUT_WR)
    connection = traffic.http.client.HTTPConnection("lab")
    connection.sock = here
    monkeypatch.setattr(socket.socket, "getsockname", lambda _: ("10.0.0.2", 4711))
    one._transfer(connection, traffic.Way(False, False, False, False), True, 0)
    assert [told["outcome"] for told in said] == [outcome]
    there.close()


class Living:
    """A process that has not ended."""

    def poll(self) -> None:
        return None


def looked_after(tmp_path: Path, answer: bytes) -> watched.Watched:
    """With a control socket that takes connections and says this to each."""
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "control"))
    listening.listen(8)

    def serve() -> None:
        while True:
            taken, _ = listening.accept()
            taken.recv(65536)
            if answer:
                taken.sendall(answer)
                taken.close()
            else:
                held.append(taken)

    held: list[socket.socket] = []
    threading.Thread(target=serve, daemon=True).start()
    one = object.__new__(watched.Watched)
    one.lock, one.findings, one.memory, one.lives, one.silent_life, one.born = threading.RLock(), [], [], 1, 0, 0.0
    (tmp_path / "log").write_text("")

    class Daemon:
        process, socket, log, pid = Living(), tmp_path / "control", tmp_path / "log", 1

    one.daemon = Daemon()  # type: ignore[assignment]
    one.resident = lambda: 1000  # type: ignore[method-assign]
    return one


def test_a_daemon_that_lives_and_does_not_answer_is_a_finding_once_a_life(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(watched, "ASKED_FOR", 0.1)
    one = looked_after(tmp_path, b"")
    one.check()
    one.check()
    assert len(one.findings) == 1 and "did not answer" in one.findings[0]
    one.lives = 2
    one.check()
    assert len(one.findings) == 2


def test_one_that_answers_is_none(tmp_path: Path) -> None:
    one = looked_after(tmp_path, b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
    one.check()
    assert not one.findings and one.memory


def test_a_status_that_tells_of_no_faults_does_not_pass_for_one_without(tmp_path: Path) -> None:
    one = object.__new__(watched.Watched)
    one.counts, one.findings, one.lives = watched.Counter(), [], 1

    class Daemon:
        def api(self, _: str) -> Any:
            return json.loads('{"modules": [{"name": "freeze"}]}')

    one.daemon = Daemon()  # type: ignore[assignment]
    with pytest.raises(KeyError):
        one._note_faults()
