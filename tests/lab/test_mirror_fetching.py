"""modules/mirror with the strategies that fetch, over a Wi-Fi path much longer than the cellular one: holes are closed with what the server
sent, with and without undo; what must not be asked for again is bypassed, with the reason."""

from __future__ import annotations

import hashlib
import random
import shutil
import subprocess
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Iterator

import pytest

from tandem_lab import Lab, system

SCENARIO = """
[scenario]
name = "fetching"
duration = "600s"
[wifi]
profile = "wifi-pipe"
rate_down = "20Mbit"
rate_up = "20Mbit"
queue_bytes = "500000B"
loss_down = 0.01
delay = "100ms"
[cell]
profile = "lte"
[wan]
delay = "1ms"
[[server]]
name = "srv1"
congestion = "cubic"
"""
CONTENT = random.Random(11).randbytes(4_000_000)
SUM = hashlib.sha256(CONTENT).hexdigest()
PART = CONTENT[:1_500_000]  # some ten losses
SIZE = 1_500_000
# Answers each connection's GET; only the first of an address and path is the original.
SERVER = r"""
import http.server, sys, time
how, size = sys.argv[1], int(sys.argv[2])
body = b"".join(n.to_bytes(8, "big") for n in range(size // 8))
seen = set()
class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    def do_GET(self):
        again = self.path in seen
        seen.add(self.path)
        part, tag, status = body, '"one"', 200
        if again and how in ("endless-head", "slow-head"): return self.never_said()
        if again and how == "renewed": tag = '"two"'
        if again and how == "shorter": part = body[:-8]
        if again and how == "denied": part, status = b"no", 403
        if again and how == "differs": part = bytes(b ^ 1 for b in body)
        self.send_response(status)
        if how == "weak": tag = "W/" + tag
        if how == "dated": self.send_header("Last-Modified", "Sun, 06 Nov 1994 08:49:37 GMT")
        if how not in ("none", "dated"): self.send_header("ETag", tag)
        self.send_header("Content-Length", str(len(part)))
        self.end_headers()
        try: self.wfile.write(part)
        except OSError: self.close_connection = True
    def never_said(self):
        self.close_connection = True
        try:
            self.wfile.write(b"HTTP/1.1 206 Partial Content\r\n")
            while True:
                self.wfile.write(b"X-More: %s\r\n" % (b"x" * 1000) if how == "endless-head" else b"X")
                if how == "slow-head": time.sleep(0.2)
        except OSError: pass
    do_POST = do_GET
    def log_message(self, *_): pass
server = http.server.ThreadingHTTPServer(("0.0.0.0", 8080), Handler)
server.daemon_threads = True
print("ready", flush=True)
server.serve_forever()
"""
CLIENT = r"""
import hashlib, http.client, json, sys
connection = http.client.HTTPConnection(sys.argv[1], 8080, timeout=60)
connection.request(sys.argv[3], sys.argv[2], headers=json.loads(sys.argv[4]))
print(hashlib.sha256(connection.getresponse().read()).hexdigest())
"""


@pytest.fixture(scope="module")
def lab(with_air: None, prefix: str) -> Iterator[Lab]:
    with Lab(SCENARIO, prefix=prefix[:-1] + "f-") as made:
        made.add_file("content", CONTENT)
        made.add_file("part", PART)
        made.add_file("little", PART[:300_000])
        yield made


def config(strategy: str, undo: bool = True, **fetch: Any) -> dict[str, Any]:
    return {"modules": {"mirror": {"strategy": strategy, "undo": undo}}, "fetch": {"ports": [80, 8080], **fetch}}


def fetched(daemon) -> dict[str, Any]:
    return daemon.api("/v1/status")["fetch"]


def decisions(daemon) -> dict[str, int]:
    """What was decided, with nothing objected to."""
    entry = next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "mirror")
    assert entry["violations"] == {} and entry["excluded"] == 0 and entry["faults"] == 0
    return entry["decisions"]


def largest_flow(daemon) -> dict[str, Any]:
    return max(daemon.api("/v1/flows"), key=lambda flow: flow["delivered_bytes"])


@contextmanager
def server_that(lab: Lab, how: str) -> Iterator[None]:
    process = lab.server().popen(["/usr/bin/python3", "-c", SERVER, how, str(SIZE)], stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield
    finally:
        process.kill()
        process.communicate()


def ask(lab: Lab, path: str, *others: str, method: str = "GET", headers: str = "{}") -> None:
    """Requests, at the same time, whose answers must be the original one."""
    asked = [lab.client.popen(["/usr/bin/python3", "-c", CLIENT, lab.server().ipv4, one, method, headers], stdout=subprocess.PIPE, text=True) for one in (path, *others)]
    original = hashlib.sha256(b"".join(n.to_bytes(8, "big") for n in range(SIZE // 8))).hexdigest()
    assert [one.communicate(timeout=60)[0].strip() for one in asked] == [original] * len(asked)


@pytest.mark.parametrize("undo", [True, False], ids=["undo", "fetch-only"])
@pytest.mark.parametrize("strategy", ["range", "replay"])
def test_holes_are_filled_and_the_file_is_right(lab, strategy, undo):
    with lab.daemon(["mirror"], config(strategy, undo)) as daemon:
        result = lab.download("content", sha256=True)
        assert result.error is None and result.sha256 == SUM
        state = fetched(daemon)
        assert state["fills"] >= 5 and state["differed"] == 0, state
        assert largest_flow(daemon)["modules"]["mirror"]["holes filled"] >= 5
        hidden = sum(count for why, count in decisions(daemon).items() if why.startswith("mirror: hidden"))
        assert (hidden > 0) is undo


def test_a_fill_is_not_made_when_the_server_is_as_fast(lab):
    """The cellular path is longer than Wi-Fi's with a full queue (202 + 200 ms)."""
    lab.set("cell.delay", "250ms")
    try:
        with lab.daemon(["mirror"], config("range")) as daemon:
            result = lab.download("content", sha256=True)
            assert result.sha256 == SUM
            state = fetched(daemon)
            assert state["asked"] >= 5 and state["fills"] <= 0.2 * state["asked"], state
    finally:
        lab.set("cell.delay", "20ms")


@pytest.mark.parametrize("how, why", [
    ("renewed", "the mirror's answer has another validator"),
    ("shorter", "the mirror's answer has another length"),
    ("denied", "the mirror's answer has another status"),
    ("differs", "fetched bytes differ from those that arrived"),
])
def test_replay_is_refused_with_the_reason(lab, how, why):
    with lab.daemon(["mirror"], config("replay")) as daemon, server_that(lab, how):
        for attempt in range(4):  # until something is lost
            ask(lab, f"/{attempt}")
            if why in decisions(daemon):
                break
        assert decisions(daemon)[why] >= 1
        assert fetched(daemon)["fills"] == 0
        assert any(flow["content"] == "refused" and flow["content_why"] == why for flow in daemon.api("/v1/flows"))


@pytest.mark.parametrize("how", ["endless-head", "slow-head"])
@pytest.mark.parametrize("strategy", ["range", "replay"])
def test_a_head_that_never_ends_costs_little(lab, strategy, how):
    """Of the answer that is asked for a second time; the download is what it is without."""
    with lab.daemon(["mirror"], config(strategy)) as daemon, server_that(lab, how):
        ask(lab, "/first")
        before, cell = system.resident_bytes(daemon.pid), daemon.api("/v1/status")["datapath"]["cell_bytes"]
        ask(lab, *(f"/{number}" for number in range(4)))
        state = fetched(daemon)
        assert state["asked"] >= 5 and state["fills"] == 0 and state["differed"] == 0, state
        decisions(daemon)
        assert system.resident_bytes(daemon.pid) - before < 8 << 20
        # Of each connection no more than the longest head that is read.
        assert daemon.api("/v1/status")["datapath"]["cell_bytes"] - cell < 2 * SIZE
        assert system.wait_until(lambda: fetched(daemon)["under_way"] == 0, 15)


@pytest.mark.parametrize("how", ["none", "weak"])
def test_replay_needs_a_strong_validator(lab, how):
    why = "the answer has no strong validator"
    with lab.daemon(["mirror"], config("replay")) as daemon, server_that(lab, how):
        for attempt in range(4):  # until something is lost
            ask(lab, f"/{attempt}")
            if why in decisions(daemon):
                break
        assert decisions(daemon)[why] >= 1
        assert fetched(daemon)["fills"] == 0


def test_replay_takes_a_date_of_modification_that_is_long_past(lab):
    with lab.daemon(["mirror"], config("replay")) as daemon, server_that(lab, "dated"):
        for attempt in range(3):  # until it was of use
            ask(lab, f"/{attempt}")
            if fetched(daemon)["fills"] >= 2:
                break
        assert fetched(daemon)["fills"] >= 1 and fetched(daemon)["differed"] == 0
        decisions(daemon)


@pytest.mark.parametrize("strategy", ["range", "replay"])
def test_cookies_are_shown_to_no_other_network_unless_allowed(lab, strategy):
    why = "the request carries cookies"
    for allowed in (False, True):
        with lab.daemon(["mirror"], config(strategy, credentials=allowed)) as daemon, server_that(lab, "honest"):
            for attempt in range(3):
                ask(lab, f"/{attempt}", headers='{"Cookie": "session=1"}')
                refused, used = why in decisions(daemon), daemon.api("/v1/status")["datapath"]["cell_bytes"] > 0
                if used if allowed else refused:
                    break
            assert refused is not allowed and used is allowed


@pytest.mark.parametrize("strategy", ["range", "replay"])
def test_what_cannot_be_made_again_is_left_alone(lab, strategy):
    with lab.daemon(["mirror"], config(strategy, ports=[80, 443, 8080])) as daemon, server_that(lab, "honest"):
        ask(lab, "/", method="POST")
        assert lab.download("1M", tls=True).error is None
        reasons = {flow["content_why"] for flow in daemon.api("/v1/flows") if flow["delivered_bytes"] > 100_000}
        assert reasons == {"not a GET of plaintext HTTP"}
        state = fetched(daemon)
        assert state["connections"] >= 2 and state["downloads"] == 0 and state["asked"] == 0
        decisions(daemon)


def test_replay_killed_while_fetching_the_download_goes_on(lab):
    def held() -> str:
        return lab.client.run(["ss", "-tlnH"]).stdout

    before = held()
    with lab.daemon(["mirror"], config("replay")) as daemon:
        going = lab.start_download("content", sha256=True)
        assert system.wait_until(lambda: fetched(daemon)["fills"] >= 2 or not going.running(), 30) and going.running()
        assert held() != before  # the mirror connection's port
        daemon.kill()
        # Alone it needs up to half a minute for the rest, with losses.
        lab.set("wifi.loss_down", 0)
        try:
            result = going.wait()
        finally:
            lab.set("wifi.loss_down", 0.01)
        assert result.error is None and result.sha256 == SUM
    assert system.wait_until(lambda: held() == before, 5.0), held()


def test_the_budget_counts_what_replay_costs(lab):
    with lab.daemon(["mirror"], {**config("replay"), "budget": {"cell_bytes": "500kB"}}) as daemon:
        result = lab.download("content", sha256=True)
        assert result.sha256 == SUM
        # What has left the server when it is spent still comes: the mirror connection ends a moment later.
        counted = lab.stats()
        spent = daemon.api("/v1/status")["datapath"]["cell_bytes"]
        assert 0 < spent < 0.9 * len(CONTENT), (spent, counted["cell"])


@pytest.mark.parametrize("exempt", [{"exempt_networks": ["10.0.0.0/8"]}, {"exempt_ports": [80]}], ids=["network", "port"])
def test_exempt_flows_are_neither_watched_nor_followed(lab, exempt):
    with lab.daemon(["mirror"], {**config("range"), "daemon": exempt}) as daemon:
        assert lab.server().ipv4.startswith("10.")
        result = lab.download("little", sha256=True)
        assert result.error is None
        status = daemon.api("/v1/status")
        assert status["datapath"]["observed"] > 0 and status["datapath"]["queued"] == 0
        assert status["flows"]["count"] == 0 and daemon.api("/v1/flows") == []
        assert status["fetch"]["running"] is True and status["fetch"]["connections"] == 0


def in_memory(daemon) -> bool:
    """Whether the fetch service is loaded into the daemon."""
    return "/services/fetch.so" in Path(f"/proc/{daemon.pid}/maps").read_text()


def tasks(daemon) -> set[str]:
    return {(task / "comm").read_text().strip() for task in Path(f"/proc/{daemon.pid}/task").iterdir()}


def test_the_service_is_loaded_when_a_strategy_asks_for_it(lab):
    strategy = "/v1/modules/mirror/knobs/strategy"
    with lab.daemon(["mirror"], {"fetch": {"ports": [80, 8080]}}) as daemon:
        assert lab.download("1M").error is None
        assert not in_memory(daemon) and fetched(daemon)["loaded"] is False and fetched(daemon)["running"] is False
        assert fetched(daemon)["why"] == "no module wants it" and "tandem-fetch" not in tasks(daemon)
        daemon.api(strategy, "PUT", {"value": "range"})
        assert system.wait_until(lambda: fetched(daemon)["running"], 5.0)
        assert in_memory(daemon) and fetched(daemon)["loaded"] is True and "tandem-fetch" in tasks(daemon)
        # Its thread ends with the request. The code stays: reasons that it gave are kept.
        daemon.api(strategy, "PUT", {"value": "undo"})
        assert system.wait_until(lambda: "tandem-fetch" not in tasks(daemon), 5.0)
        assert fetched(daemon)["running"] is False and fetched(daemon)["loaded"] is True


def test_without_the_service_the_module_does_without(lab, tmp_path):
    built = system.tandem_binary("tandemd").resolve().parents[1] / "lib" / "tandem"
    tmp_path.chmod(0o755)
    shutil.copy(built / "mirror.so", tmp_path)
    with lab.daemon(["mirror"], {**config("range"), "daemon": {"module_dir": str(tmp_path)}}) as daemon:
        result = lab.download("part", sha256=True)
        assert result.error is None and result.sha256 == hashlib.sha256(PART).hexdigest()
        state = fetched(daemon)
        assert state["why"] == f"{tmp_path}/services/fetch.so: is not installed"
        assert state["running"] is False and state["fills"] == 0
        assert any(why.startswith("mirror: hidden") for why in decisions(daemon))
        assert daemon.log.read_text().count("is not installed") == 1
