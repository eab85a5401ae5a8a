"""The server on a port of loopback, before a control socket with made-up answers: who is refused, and what the others get."""

from __future__ import annotations

import http.client
import json
import signal
import socketserver
import subprocess
import sys
import threading
from http.server import BaseHTTPRequestHandler
from itertools import count
from pathlib import Path

import pytest
from tandem_common.control import Daemon
from tandem_dashboard.server import Server

STATUS = {"pid": 1, "version": "0.1.0", "uptime_s": 1, "links": {}, "datapath": {}, "modules": [{"name": "offload", "enabled": True, "decisions": {}}]}


@pytest.fixture
def asked():
    """What the made-up daemon was asked to change."""
    return []


@pytest.fixture
def daemon(tmp_path, asked):
    class Handler(BaseHTTPRequestHandler):
        def answer(self, code, content):
            self.send_response(code)
            self.send_header("Content-Length", str(len(content)))
            self.end_headers()
            self.wfile.write(content)

        def do_GET(self):
            told = {"/v1/status": json.dumps(STATUS).encode(), "/v1/flows": b"[]", "/v1/recording": b"\x0a\x0d\x0d\x0apackets"}
            self.answer(200, told[self.path])

        def do_PUT(self):
            asked.append((self.path, json.loads(self.rfile.read(int(self.headers["Content-Length"])))))
            self.answer(200, b"{}") if self.path.endswith("/offload") else self.answer(400, b'{"error": "no such module"}')

        def address_string(self):
            return ""

        def log_message(self, *_):
            pass

    made = socketserver.ThreadingUnixStreamServer(str(tmp_path / "control.sock"), Handler)
    made.daemon_threads = True
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield Daemon(str(tmp_path / "control.sock"))
    made.shutdown()
    made.server_close()


@pytest.fixture
def server(daemon):
    secrets = count()
    made = Server(0, daemon, lambda: f"secret-{next(secrets)}")
    made.watch.start()
    threading.Thread(target=made.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True).start()
    yield made
    made.watch.end()
    made.shutdown()
    made.server_close()


@pytest.fixture
def ask(server):
    """ask(method, path, content, headers) -> (code, headers, body), as the page's own request unless the headers say otherwise."""
    def ask(method, path, content=None, headers=None):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
        own = {"Host": f"127.0.0.1:{server.server_port}", **({"Origin": f"http://127.0.0.1:{server.server_port}"} if method != "GET" else {})}
        connection.request(method, path, None if content is None else json.dumps(content), {**own, **(headers or {})})
        answer = connection.getresponse()
        found = answer.status, answer.headers, answer.read() if answer.length is not None else b""  # events have no end
        connection.close()
        return found
    return ask


@pytest.fixture
def session(ask):
    """Path and cookie after the token was exchanged."""
    code, headers, body = ask("POST", "/session", {"token": "secret-0"})
    assert code == 200
    return json.loads(body)["base"], {"Cookie": headers["Set-Cookie"].split(";")[0]}


def test_it_listens_on_loopback_only_and_prints_the_token_behind_the_hash(server):
    assert server.server_address[0] == "127.0.0.1" and server.address == f"http://127.0.0.1:{server.server_port}/#token=secret-0"


@pytest.mark.parametrize("path", ["/", "/dashboard.js", "/charts.js", "/tables.js", "/words.js", "/dashboard.css", "/uplot.js", "/uplot.css", "/icon.svg"])
def test_the_page_comes_without_a_session_and_may_load_from_nowhere_else(ask, path):
    code, headers, body = ask("GET", path)
    assert code == 200 and len(body) > 100 and "secret" not in body.decode()
    policy = headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "http" not in policy and "unsafe" not in policy
    assert headers["X-Content-Type-Options"] == "nosniff" and headers["Cache-Control"] == "no-store"


@pytest.mark.parametrize("path", ["/../server.py", "/%2e%2e/dashboard.py", "/page/index.html", "/etc/passwd", "//etc/passwd", "/v1/status"])
def test_nothing_else_is_served(ask, path):
    assert ask("GET", path)[0] == 403


def test_a_used_token_is_refused_in_words(ask, session):
    code, _, body = ask("POST", "/session", {"token": "secret-0"})
    assert code == 403 and "works once" in json.loads(body)["error"]


@pytest.mark.parametrize("method, path, content", [("GET", "/events", None), ("GET", "/recording", None), ("PUT", "/modules/offload", {"enabled": False})])
@pytest.mark.parametrize("headers", [{"Cookie": ""}, {"Cookie": "tandem_dashboard=secret-0"}, {"Host": "evil.test"}, {"Host": "localhost"}, {"Origin": "http://evil.test"}, {"Origin": "null"}],
                         ids=["no cookie", "the token as cookie", "foreign host", "no port", "foreign origin", "no origin"])
def test_every_request_needs_session_name_and_origin(ask, session, asked, method, path, content, headers):
    base, cookie = session
    code, _, body = ask(method, base + path, content, {**cookie, **headers})
    assert code == 403 and json.loads(body)["error"] and not asked


def test_a_module_is_switched_and_a_refusal_comes_in_the_daemons_words(ask, session, asked):
    base, cookie = session
    assert ask("PUT", base + "/modules/offload", {"enabled": False}, cookie)[0] == 200
    assert asked == [("/v1/modules/offload", {"enabled": False})]
    code, _, body = ask("PUT", base + "/modules/other", {"enabled": True}, cookie)
    assert code == 400 and "no such module" in json.loads(body)["error"]


@pytest.mark.parametrize("path, content, code", [("/modules/offload", {}, 400), ("/modules/offload", {"enabled": "yes"}, 400), ("/modules/offload", [1], 400), ("/modules/offload/knobs/x", {"enabled": True}, 404),
                                                 ("/modules/..", {"enabled": True}, 404), ("/status", {}, 404), ("/modules/offload", {"enabled": True, "x": "y" * 9000}, 400)])
def test_what_makes_no_sense_reaches_no_daemon(ask, session, asked, path, content, code):
    base, cookie = session
    assert ask("PUT", base + path, content, cookie)[0] == code and not asked


def test_the_recording_is_the_daemons(ask, session):
    base, cookie = session
    code, headers, body = ask("GET", base + "/recording", None, cookie)
    assert code == 200 and body == b"\x0a\x0d\x0d\x0apackets" and "attachment" in headers["Content-Disposition"]


def test_events_begin_with_the_past_and_go_on_with_looks(server, session):
    base, cookie = session

    def events(number):
        connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=5)
        connection.request("GET", base + "/events", headers=cookie)
        answer, found = connection.getresponse(), []
        while len(found) < number:
            kind, data = answer.readline().decode().strip(), answer.readline().decode().strip()
            answer.readline()
            found.append((kind.removeprefix("event: "), json.loads(data.removeprefix("data: "))))
        connection.close()
        return found

    past, now = events(2)
    assert past == ("past", {"points": []})
    assert now[0] == "now" and now[1]["modules"][0]["name"] == "offload"
    assert events(1)[0][1]["points"][0] == now[1]["point"]  # a page that is loaded again sees it


@pytest.mark.parametrize("words, code, told", [(["--port", "70000"], 2, "65535"), (["--port", "-1"], 2, "65535"), (["extra"], 2, "unrecognized"), (["--socket", "none/there"], 1, "tandem up"),
                                                ([], 1, "one that is free")])
def test_the_command_says_what_is_wrong(daemon, server, words, code, told):
    """Without words of its own it asks for a port that is taken."""
    program = Path(__file__).resolve().parents[3] / "tools" / "dashboard" / "dashboard.py"
    done = subprocess.run([str(program), "--no-browser", "--socket", daemon.path, *(words or ["--port", str(server.server_port)])], capture_output=True, text=True, timeout=20)
    assert done.returncode == code and told in done.stderr and not done.stdout and "Traceback" not in done.stderr


@pytest.mark.parametrize("flows", [[{"remote": "192.0.2.1:443"}], [{"id": 1, "age_s": None}], {"error": "later"}, [7]], ids=["no number", "null", "no list", "no flow"])
def test_an_answer_of_another_version_is_an_event_too(server, monkeypatch, flows):
    monkeypatch.setattr(server.watch._daemon, "get", lambda what: STATUS if what == "/v1/status" else flows)
    server.watch.look()
    event = server.watch.look().decode()
    assert event.startswith("event: trouble\n") and "of different versions" in event


def test_where_no_file_can_be_kept_for_the_browser_the_address_is_printed(daemon, tmp_path):
    browser = tmp_path / "xdg-open"
    browser.write_text("#!/bin/sh\n")
    browser.chmod(0o755)
    program = str(Path(__file__).resolve().parents[3] / "tools" / "dashboard" / "dashboard.py")
    # As a user with a screen would, whose XDG_RUNTIME_DIR is that of a session which has ended.
    asked = f"import os, runpy, sys; os.geteuid = lambda: 1000; sys.argv[1:] = ['--socket', {daemon.path!r}]; runpy.run_path({program!r}, run_name='__main__')"
    with subprocess.Popen([sys.executable, "-c", asked], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={"PATH": f"{tmp_path}:/usr/bin:/bin", "DISPLAY": ":0", "XDG_RUNTIME_DIR": str(tmp_path / "ended")}) as process:
        first = process.stdout.readline()
        process.send_signal(signal.SIGINT)
        fault = process.communicate(timeout=20)[1]
    assert first.startswith("http://127.0.0.1:") and "no browser is opened" in fault and process.returncode == 0


def test_that_the_daemon_is_gone_is_an_event_of_its_own(server, daemon, session):
    daemon.path += ".gone"
    event = server.watch.look().decode()
    assert event.startswith("event: trouble\n") and "tandem up" in event
