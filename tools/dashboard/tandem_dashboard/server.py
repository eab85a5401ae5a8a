"""The HTTP server on loopback: the page, the exchange of the token, events, switches, the recording."""

from __future__ import annotations

import json
import re
import socketserver
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from tandem_common.control import Daemon
from tandem_common.errors import BadInput, Failure

from .access import Access, Refused
from .watch import Watch

_HERE = Path(__file__).resolve().parent.parent
_PAGE, _UPLOT = _HERE / "page", _HERE / "vendor" / "uplot"
_FILES = {"/": (_PAGE / "index.html", "text/html; charset=utf-8"),
          "/dashboard.css": (_PAGE / "dashboard.css", "text/css; charset=utf-8"),
          "/icon.svg": (_PAGE / "icon.svg", "image/svg+xml"),
          "/uplot.js": (_UPLOT / "uPlot.iife.min.js", "text/javascript; charset=utf-8"),
          "/uplot.css": (_UPLOT / "uPlot.min.css", "text/css; charset=utf-8"),
          **{f"/{name}.js": (_PAGE / f"{name}.js", "text/javascript; charset=utf-8") for name in ("dashboard", "charts", "tables", "words")}}
_HEADERS = {"Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; "
                                       "base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
            "X-Content-Type-Options": "nosniff", "Referrer-Policy": "no-referrer", "Cache-Control": "no-store",
            "Cross-Origin-Resource-Policy": "same-origin", "Cross-Origin-Opener-Policy": "same-origin"}
_BODY = 4096  # bytes of a request's body at most
_MODULE = re.compile(r"/modules/([a-z0-9_]{1,64})")


class Server(ThreadingHTTPServer):
    """Serves on 127.0.0.1 only; port 0: one that is free. `opened` is called when the token was exchanged."""

    daemon_threads = True

    def __init__(self, port: int, daemon: Daemon, random: Callable[[], str], opened: Callable[[], None] = lambda: None):
        super().__init__(("127.0.0.1", port), _Handler)
        self.access, self.daemon, self.watch, self.opened = Access(self.server_port, random), daemon, Watch(daemon), opened

    def server_bind(self) -> None:
        # As HTTPServer's, but without asking the resolver for a name: nobody elsewhere is to hear of this.
        socketserver.TCPServer.server_bind(self)
        self.server_name, self.server_port = self.server_address[:2]

    @property
    def address(self) -> str:
        """What is opened, with the token behind the #, which browsers keep to themselves."""
        return f"http://127.0.0.1:{self.server_port}/#token={self.access.token}"

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A page that went away is no event."""


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    timeout = 20  # seconds for a request to arrive, and for what is sent to be taken
    server: Server

    def version_string(self) -> str:
        return "tandem"

    def log_message(self, *_: Any) -> None:
        pass

    def do_GET(self) -> None:
        self._answer(self._get)

    def do_POST(self) -> None:
        self._answer(self._post)

    def do_PUT(self) -> None:
        self._answer(self._put)

    def _answer(self, work: Callable[[str], None]) -> None:
        """Does the work when the request may come from there; whatever refuses becomes an answer in words."""
        try:
            self.server.access.check_source(self.command, self.headers.get("Host"), self.headers.get("Origin"))
            work(urlsplit(self.path).path)
        except Refused as refused:
            self._error(403, str(refused))
        except BadInput as fault:
            self._error(400, str(fault))
        except Failure as fault:
            self._error(503, str(fault))

    def _get(self, path: str) -> None:
        if path in _FILES:
            file, kind = _FILES[path]
            return self._send(200, file.read_bytes(), kind)
        what = self.server.access.check_session(path, self.headers.get("Cookie"))
        if what == "/events":
            return self._events()
        if what == "/recording":
            # Fetched whole before the first byte leaves: an error can still be told.
            return self._send(200, self.server.daemon.fetch("/v1/recording"), "application/octet-stream", {"Content-Disposition": 'attachment; filename="tandem.pcapng"'})
        return self._error(404, "there is nothing here")

    def _post(self, path: str) -> None:
        if path != "/session":
            self.server.access.check_session(path, self.headers.get("Cookie"))
            return self._error(404, "there is nothing here")
        token = self._body().get("token")
        if not isinstance(token, str):
            raise BadInput('a JSON object such as {"token": "..."} is needed')
        base, cookie = self.server.access.exchange(token)
        self.server.opened()
        return self._json(200, {"base": base}, {"Set-Cookie": cookie})

    def _put(self, path: str) -> None:
        named = _MODULE.fullmatch(self.server.access.check_session(path, self.headers.get("Cookie")))
        if not named:
            return self._error(404, "there is nothing here")
        enabled = self._body().get("enabled")
        if not isinstance(enabled, bool):
            raise BadInput('a JSON object such as {"enabled": true} is needed')
        return self._json(200, self.server.daemon.put(f"/v1/modules/{named[1]}", {"enabled": enabled}))

    def _events(self) -> None:
        stream = self.server.watch.stream()
        try:
            found: bytes | None = next(stream)  # before the headers: too many pages are still an error
            self._head(200, "text/event-stream", None)
            while found is not None:
                self.wfile.write(found)
                found = next(stream, None)
        except OSError:
            pass  # the page was closed
        finally:
            stream.close()

    def _body(self) -> dict[str, Any]:
        length = self.headers.get("Content-Length", "")
        if not length.isascii() or not length.isdigit() or int(length) > _BODY:
            self.close_connection = True
            raise BadInput(f"a body of at most {_BODY} bytes is needed, with its Content-Length")
        try:
            content = json.loads(self.rfile.read(int(length)))
        except ValueError:
            content = None
        return content if isinstance(content, dict) else {}

    def _error(self, code: int, words: str) -> None:
        self.close_connection = True  # its body, if any, was not read
        self._json(code, {"error": words})

    def _json(self, code: int, content: Any, more: dict[str, str] | None = None) -> None:
        self._send(code, json.dumps(content).encode(), "application/json", more)

    def _send(self, code: int, content: bytes, kind: str, more: dict[str, str] | None = None) -> None:
        self._head(code, kind, len(content), more)
        self.wfile.write(content)

    def _head(self, code: int, kind: str, length: int | None, more: dict[str, str] | None = None) -> None:
        """The answer's head; without a length the connection's end is the content's."""
        self.send_response(code)
        self.close_connection = self.close_connection or length is None
        known = {"Content-Length": str(length)} if length is not None else {}
        close = {"Connection": "close"} if self.close_connection else {}
        for name, value in {"Content-Type": kind, **known, **close, **_HEADERS, **(more or {})}.items():
            self.send_header(name, value)
        self.end_headers()
