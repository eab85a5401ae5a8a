"""modules/mirror with strategy range, between real TCPs: what is filled is what the server sent, and doubt fills nothing."""

from __future__ import annotations

import hashlib
import json
import random
import subprocess
from contextlib import contextmanager
from typing import Iterator

import pytest
from conftest import need_built

from tandem_lab import Lab, system

# A Wi-Fi path longer than the cellular one: a fetch is back before the server's own retransmission.
AIR = {"wifi.loss_down": 0.01, "wifi.delay": "40ms", "cell.delay": "5ms", "cell.jitter": "0ms"}
RANGE = {"modules": {"mirror": {"strategy": "range"}}, "fetch": {"ports": [80, 8080]}}
SIZE = 600_000
# A server that may lie about ranges, in one of several ways. Its body is the same for everyone: a run of counters.
SERVER = r"""
import http.server, re, sys
how, size = sys.argv[1], int(sys.argv[2])
body = b"".join(n.to_bytes(8, "big") for n in range(size // 8))
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        wanted = re.fullmatch(r"bytes=(\d+)-(\d+)", self.headers.get("Range", ""))
        part, tag, status = body, '"one"', 200
        if how == "weak": tag = 'W/"one"'
        if wanted and how != "ignores":
            first, last = int(wanted[1]), int(wanted[2]) + 1
            part, status = body[first:last], 206
            if how == "renewed": tag = '"two"'
            if how == "differs": part = bytes(b ^ 1 for b in part)
            if how == "shifted": first, last = first + 1, last + 1
        self.send_response(status)
        if how != "none": self.send_header("ETag", tag)
        if status == 206: self.send_header("Content-Range", f"bytes {first}-{last - 1}/{size}")
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        try: self.wfile.write(part)
        except OSError: self.close_connection = True
    def log_message(self, *_): pass
class Server(http.server.ThreadingHTTPServer):
    address_family = __import__("socket").AF_INET
    daemon_threads = True
server = Server(("0.0.0.0", 8080), Handler)
print("ready", flush=True)
server.serve_forever()
"""
CLIENT = r"""
import hashlib, http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1], 8080, timeout=60)
sums = []
for _ in range(int(sys.argv[2])):
    connection.request("GET", "/")
    sums.append(hashlib.sha256(connection.getresponse().read()).hexdigest())
print(json.dumps(sums))
"""


@pytest.fixture(scope="module")
def lab(with_air: None, prefix: str) -> Iterator[Lab]:
    """One lossy network for all tests."""
    need_built("mirror")
    with Lab("plain", prefix=prefix[:-1] + "m-", overrides=AIR) as made:
        yield made


@contextmanager
def server_that(lab: Lab, how: str) -> Iterator[None]:
    process = lab.server().popen(["/usr/bin/python3", "-c", SERVER, how, str(SIZE)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def body_sum() -> str:
    return hashlib.sha256(b"".join(n.to_bytes(8, "big") for n in range(SIZE // 8))).hexdigest()


def fetch_state(daemon) -> dict:
    return daemon.api("/v1/status")["fetch"]


def decisions(daemon) -> dict[str, int]:
    """What was decided, with nothing objected to but the budget."""
    entry = next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "mirror")
    assert set(entry["violations"]) <= {"cellular budget spent"} and entry["excluded"] == 0 and entry["faults"] == 0
    return entry["decisions"]


@pytest.mark.parametrize("v6", [False, True], ids=["ipv4", "ipv6"])
def test_holes_are_filled_and_the_file_is_right(lab, v6):
    with lab.daemon(["mirror"], RANGE) as daemon:
        result = lab.download("random", sha256=True, v6=v6)
        assert result.error is None and result.sha256 == lab.random_file["sha256"]
        state = fetch_state(daemon)
        assert state["fills"] >= 10 and state["differed"] == 0
        assert daemon.api("/v1/status")["datapath"]["cell_bytes"] > 1448 * state["fills"]
        decisions(daemon)


def test_one_connection_with_one_exchange_after_another(lab):
    with lab.daemon(["mirror"], RANGE) as daemon, server_that(lab, "honest"):
        for connections in range(1, 9):  # a busy machine brings fewer fetches back before the server's own retransmission
            done = lab.client.run(["/usr/bin/python3", "-c", CLIENT, lab.server().ipv4, "6"])
            assert json.loads(done.stdout) == [body_sum()] * 6
            state = fetch_state(daemon)
            assert state["downloads"] == 6 * connections and state["differed"] == 0
            if state["fills"] >= 3:
                break
        assert state["fills"] >= 3
        decisions(daemon)


@pytest.mark.parametrize("how, why", [
    ("renewed", "the ETag of the range differs"),
    ("none", "the answer has no strong ETag"),
    ("weak", "the answer has no strong ETag"),
    ("ignores", "the server ignores ranges, or has something else by now"),
    ("shifted", "another range than asked for"),
    ("differs", "fetched bytes differ from those that arrived"),
])
def test_a_server_with_something_else_is_refused_with_the_reason(lab, how, why):
    with lab.daemon(["mirror"], RANGE) as daemon, server_that(lab, how):
        for _ in range(8):  # until something is lost
            done = lab.client.run(["/usr/bin/python3", "-c", CLIENT, lab.server().ipv4, "1"])
            assert json.loads(done.stdout) == [body_sum()]
            if why in decisions(daemon):
                break
        assert decisions(daemon)[why] >= 1
        assert fetch_state(daemon)["fills"] == 0


def test_tls_is_left_alone(lab):
    with lab.daemon(["mirror"], {**RANGE, "fetch": {"ports": [80, 443]}}) as daemon:
        result = lab.download("1M", tls=True)
        assert result.error is None and result.bytes == 1 << 20
        state = fetch_state(daemon)
        assert state["connections"] >= 1 and state["downloads"] == 0 and state["asked"] == 0
        flow = max(daemon.api("/v1/flows"), key=lambda flow: flow["delivered_bytes"])
        assert flow["content"] == "refused" and flow["content_why"] == "not a GET of plaintext HTTP"
        decisions(daemon)


def test_killed_while_fetching_the_download_goes_on(lab):
    digest = lab.add_file("middling", random.Random(7).randbytes(2_000_000))
    with lab.daemon(["mirror"], RANGE) as daemon:
        going = lab.start_download("middling", sha256=True)
        assert system.wait_until(lambda: fetch_state(daemon)["fills"] >= 2 or not going.running(), 20) and going.running()
        daemon.kill()
        result = going.wait()
        assert result.error is None and result.sha256 == digest


def test_without_cellular_there_is_no_fetch_thread(lab):
    with lab.daemon(["mirror"], {**RANGE, "links": {"cell": "none"}}) as daemon:
        assert fetch_state(daemon)["running"] is False
        assert fetch_state(daemon)["why"] == "there is no cellular link"


def test_a_budget_is_kept(lab):
    with lab.daemon(["mirror"], {**RANGE, "budget": {"cell_bytes": "20kB"}}) as daemon:
        result = lab.download("1M", seconds=6)
        assert result.error is None
        assert daemon.api("/v1/status")["datapath"]["cell_bytes"] <= 20_000
        decisions(daemon)
