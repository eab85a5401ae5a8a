"""The command line: `tandem dashboard`."""

from __future__ import annotations

import argparse
import html
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

from tandem_common import signals
from tandem_common.control import Daemon, add_socket_option
from tandem_common.errors import BadInput, Failure

from .server import Server

EPILOG = """\
Serves on 127.0.0.1 until Ctrl-C, and asks the daemon as the user who runs it: root, or a member of the group in daemon.socket_group.
The address works once. Exit codes: 0 ended, 1 failure (no daemon, no permission, port taken), 2 wrong usage.
"""


def port(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) > 65535:
        raise argparse.ArgumentTypeError(f"{text!r}: allowed: 0 (any that is free) to 65535")
    return int(text)


def parser() -> argparse.ArgumentParser:
    made = argparse.ArgumentParser(prog="tandem dashboard", description="A page with live charts of links and decisions, flows, module switches and the recorder, in the browser.",
                                   epilog=EPILOG, formatter_class=argparse.RawDescriptionHelpFormatter)
    made.add_argument("--port", type=port, default=0, metavar="PORT", help="port on 127.0.0.1 (default 0: one that is free)")
    made.add_argument("--no-browser", action="store_true", help="print the address and open no browser; root never opens one")
    add_socket_option(made)
    return made


class Redirection:
    """A file for the user's eyes only that leads a browser to the address: a command line would show the token to everybody here."""

    def __init__(self, address: str):
        self._directory = Path(tempfile.mkdtemp(prefix="tandem-dashboard-", dir=os.environ.get("XDG_RUNTIME_DIR") or None))
        self.file = self._directory / "open.html"
        self.file.write_text(f'<!doctype html><meta charset="utf-8"><title>Tandem</title><meta http-equiv="refresh" content="0; url={html.escape(address)}">\n')

    def remove(self) -> None:
        shutil.rmtree(self._directory, ignore_errors=True)


def opener() -> str | None:
    """The program that opens the user's browser; None where there is no screen, or where it would be root's."""
    return shutil.which("xdg-open") if os.geteuid() != 0 and (os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY")) else None


def serve(given: argparse.Namespace) -> int:
    daemon = Daemon(given.socket)
    daemon.get("/v1/status")  # why nobody answers is told here, not by an empty page
    try:
        server = Server(given.port, daemon, lambda: secrets.token_urlsafe(32))
    except OSError as error:
        raise Failure(f"port {given.port}: {error.strerror}; --port 0 takes one that is free") from error
    program = None if given.no_browser else opener()
    redirection = None
    try:
        if program:
            try:
                redirection = Redirection(server.address)
                server.opened = redirection.remove
                subprocess.Popen([program, str(redirection.file)], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True)
            except OSError as error:
                print(f"tandem dashboard: no browser is opened: {error.filename or program}: {error.strerror}", file=sys.stderr)
        print(f"{server.address}\nThis address works once. Ctrl-C ends the dashboard.", flush=True)
        server.watch.start()
        server.serve_forever()
    except KeyboardInterrupt:
        return 0
    finally:
        server.watch.end()
        server.server_close()
        if redirection:
            redirection.remove()
    return 0


def interrupt(*_: object) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str]) -> int:
    for number in signals.that_end():
        signal.signal(number, interrupt)
    try:
        return serve(parser().parse_args(arguments))
    except KeyboardInterrupt:
        return 0
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (BadInput, Failure) as failure:
        print(f"tandem dashboard: {failure}", file=sys.stderr)
        return failure.code
