"""What a user is told when the daemon cannot be asked: a full queue, no answer, a refusal before the question was read."""

from __future__ import annotations

import socket
import threading
import time
from pathlib import Path

import pytest

from tandem_common import control
from tandem_common.control import Daemon
from tandem_common.errors import BadInput, Failure


@pytest.fixture
def listening(tmp_path: Path):
    """A socket with a place for one more."""
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "control.sock"))
        made.listen(0)
        yield made


def test_a_full_queue_is_waited_for_and_told_with_what_to_do(listening, monkeypatch) -> None:
    monkeypatch.setattr(control, "ANSWER_S", 0.3)
    daemon = Daemon(listening.getsockname())
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(daemon.path)
        for ask in (lambda: daemon.get("/v1/status"), daemon.process):
            began = time.monotonic()
            with pytest.raises(Failure, match="queue of them is full.*tandem down") as told:
                ask()
            assert "Resource temporarily" not in str(told.value) and time.monotonic() - began >= 0.25


def test_a_place_that_becomes_free_is_taken(listening, monkeypatch) -> None:
    monkeypatch.setattr(control, "ANSWER_S", 5.0)
    with socket.socket(socket.AF_UNIX) as first:
        first.connect(listening.getsockname())

        def serve() -> None:
            time.sleep(0.2)
            listening.accept()[0].close()
            with listening.accept()[0] as asked:
                asked.recv(4096)
                asked.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")

        threading.Thread(target=serve, daemon=True).start()
        assert Daemon(listening.getsockname()).get("/v1/status") == {}


def test_a_daemon_that_does_not_answer_is_not_taken_for_one_that_is_not_there(listening, monkeypatch) -> None:
    monkeypatch.setattr(control, "ANSWER_S", 0.2)
    with pytest.raises(Failure, match="did not answer within 0.2 s; see its log"):
        Daemon(listening.getsockname()).get("/v1/status")


def test_a_refusal_before_the_question_was_read_is_told(listening) -> None:
    """As the daemon refuses more clients than it has places for."""
    body = b'{"error": "too many clients at a time; try again in a second"}'
    refused = threading.Event()

    def serve() -> None:
        with listening.accept()[0] as asked:
            asked.sendall(b"HTTP/1.1 503 Service Unavailable\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
        refused.set()

    threading.Thread(target=serve, daemon=True).start()
    connection = control._Connection(listening.getsockname())
    connection.connect()
    assert refused.wait(5)
    connection.connect = lambda: None  # type: ignore[method-assign]
    with pytest.MonkeyPatch.context() as patched, pytest.raises(Failure, match="^tandemd: too many clients at a time"):
        patched.setattr(control, "_Connection", lambda _: connection)
        Daemon(listening.getsockname()).get("/v1/status")


def test_a_path_that_no_socket_can_have_is_wrong_usage() -> None:
    with pytest.raises(BadInput, match="too long for a socket's path"):
        Daemon("/tmp/" + "x" * 110).get("/v1/status")
