"""The daemon's control socket, as docs/control-api.md has it."""

from __future__ import annotations

import argparse
import http.client
import json
import os
import socket
import struct
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Iterator

from .errors import BadInput, Failure

ANSWER_S = 15.0  # until a daemon that says nothing is taken to hang
_LONGEST_PATH = 107  # of a socket (unix(7))


def default_socket() -> str:
    """Where the daemon is asked: TANDEM_SOCKET, which `tandem --socket` hands over, or the packaged place."""
    return os.environ.get("TANDEM_SOCKET") or "/run/tandem/control.sock"


def add_socket_option(parser: argparse.ArgumentParser) -> None:
    """--socket, of which help says nothing: `tandem --socket` is the users' own."""
    parser.add_argument("--socket", default=default_socket(), metavar="PATH", help=argparse.SUPPRESS)


def _connected(path: str) -> socket.socket:
    """Raises Failure. A full queue of requests is waited for, as long as sends may last (unix(7)); with a timeout of Python's own it would be refused at once."""
    if len(os.fsencode(path)) > _LONGEST_PATH:
        raise BadInput(f"{path}: too long for a socket's path, which has at most {_LONGEST_PATH} bytes")
    made = socket.socket(socket.AF_UNIX)
    try:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, struct.pack("ll", int(ANSWER_S), int(ANSWER_S % 1 * 1e6)))
        made.connect(path)
        made.settimeout(ANSWER_S)
        return made
    except BaseException as error:
        made.close()
        if isinstance(error, BlockingIOError):
            raise Failure(f"{path}: the daemon takes no request: its queue of them is full, and in {ANSWER_S:g} s no place became free. It hangs, or too many ask it at a time: "
                          "end some of them, see its log, or restart it: tandem down, tandem up") from error
        if isinstance(error, OSError):
            raise _unreachable(path, error) from error
        raise


def _unreachable(path: str, error: OSError | http.client.HTTPException) -> Failure:
    """In words for a user."""
    if isinstance(error, PermissionError):
        return Failure(f"{path}: permission denied; run it as root, or as a member of the group in daemon.socket_group")
    if isinstance(error, TimeoutError):
        return Failure(f"{path}: the daemon did not answer within {ANSWER_S:g} s; see its log, or restart it: tandem down, tandem up")
    return Failure(f"{path}: {getattr(error, 'strerror', None) or error}; is the daemon running? `tandem up` starts it")


class _Connection(http.client.HTTPConnection):
    def __init__(self, path: str):
        super().__init__("tandem")
        self._path = path

    def connect(self) -> None:
        self.sock = _connected(self._path)


@contextmanager
def understood(whose: str = "the daemon's") -> Iterator[None]:
    """While an answer is taken apart. Raises Failure where it is not as this program knows it."""
    try:
        yield
    except (LookupError, TypeError, AttributeError, ValueError) as error:
        raise Failure(f"{whose} answer is not understood ({type(error).__name__}: {error}); tandem and tandemd may be of different versions") from error


class Daemon:
    """A running daemon. Every call raises Failure in words for a user."""

    def __init__(self, path: str):
        self.path = path

    def get(self, what: str) -> Any:
        return self._ask("GET", what)

    def put(self, what: str, content: dict[str, Any]) -> Any:
        return self._ask("PUT", what, content)

    def fetch(self, what: str) -> bytes:
        """An answer as it is, for what is no JSON: a recording."""
        return self._answer("GET", what)

    def modules(self) -> dict[str, dict[str, Any]]:
        return {module["name"]: module for module in self.get("/v1/modules")}

    def process(self) -> str:
        """Number and start of the process that made the socket: another one after a restart."""
        with _connected(self.path) as asked:
            try:
                pid = struct.unpack("3i", asked.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, 12))[0]
                return f"{pid} {Path(f'/proc/{pid}/stat').read_text().rpartition(')')[2].split()[19]}"
            except OSError as error:
                raise _unreachable(self.path, error) from error

    def _ask(self, method: str, what: str, content: dict[str, Any] | None = None) -> Any:
        body = self._answer(method, what, content)
        try:
            return json.loads(body) if body.strip() else None
        except ValueError as error:
            raise Failure(f"{self.path}: the answer to {method} {what} is no JSON ({error}); something else than tandemd has this socket, or it is of another version") from error

    def _answer(self, method: str, what: str, content: dict[str, Any] | None = None) -> bytes:
        connection = _Connection(self.path)
        try:
            with suppress(BrokenPipeError, ConnectionResetError):  # a daemon that refuses early has said why
                connection.request(method, what, None if content is None else json.dumps(content), {"Content-Type": "application/json"})
            answer = connection.getresponse()
            body = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise _unreachable(self.path, error) from error
        finally:
            connection.close()
        if answer.status != 200:
            try:
                words = json.loads(body)["error"]
            except (ValueError, KeyError, TypeError):
                words = f"answer {answer.status}"
            raise (BadInput if answer.status == 400 else Failure)(f"tandemd: {words}")
        return body
