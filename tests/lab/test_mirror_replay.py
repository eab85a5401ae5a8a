"""Replay on real TCP: pieces of a download come over the cellular link by a mirror connection with an unmodified server, and
are the right bytes; the kernel stays out of it; a server that answers differently is refused by name."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tandem_lab import system, topology

SIZE = 20_000_000
SEGMENT = 1448
FILE = "r20"
TRUTH = random.Random(7).randbytes(SIZE)
FAR = [(at, at + SEGMENT) for at in (500_000, 3_000_000, 6_000_000, 10_000_000, 19_000_000)]


@pytest.fixture(scope="module")
def probe(without_air: None) -> Path:
    """The test program, next to the other ones of the build."""
    directory = Path(os.environ.get("TANDEM_BIN_DIR", "build/bin"))
    found = directory.parent / "tests" / "replay_probe"
    if not found.exists():
        pytest.skip(f"{found} is not built")
    return found


def words(lab, probe: Path, pieces: list[tuple[int, int]], *extra: str, path: str = f"/{FILE}", server: str = "") -> list[str]:
    argv = [str(probe), "--cell", "cell0", "--server", server or lab.server().ipv4, "--path", path]
    for begin, end in pieces:
        argv += ["--piece", f"{begin}-{end}"]
    return [*argv, *extra]


def fetch(lab, probe: Path, tmp_path: Path, pieces: list[tuple[int, int]], *extra: str, **options: str) -> tuple[list[dict[str, Any]], dict[str, Any]]:
    """(one row per piece, the sums); every piece that came is compared with the truth."""
    out = tmp_path / "pieces"
    done = lab.client.run([*words(lab, probe, pieces, *extra, **options), "--out", str(out)], timeout=120)
    *rows, sums = [json.loads(line) for line in done.stdout.splitlines()]
    blob, at = out.read_bytes(), 0
    for row in rows:
        begin, end = pieces[row["piece"]]
        if row["ok"]:
            assert blob[at:at + end - begin] == TRUTH[begin:end], f"bytes {begin} to {end} differ"
            at += end - begin
    assert at == len(blob)
    return rows, sums


@pytest.fixture
def lab(make_lab, with_air, probe):
    """A lab with the file; the parameters are those of Lab."""

    def up(**options: Any):
        made = make_lab("plain", **options)
        made.add_file(FILE, TRUTH)
        return made

    return up


@pytest.fixture(scope="module")
def shared(air_lab, probe):
    air_lab.add_file(FILE, TRUTH)
    return air_lab


def resets_by_cell(capture: Path) -> str:
    return subprocess.run([system.tool("tcpdump"), "-nr", str(capture), "tcp[tcpflags] & tcp-rst != 0 and not src port 80"],
                          capture_output=True, text=True).stdout


@pytest.mark.parametrize("congestion", ["cubic", "reno", "bbr"])
def test_pieces_are_the_right_bytes(lab, probe, tmp_path, congestion):
    made = lab(congestion=congestion)
    rows, sums = fetch(made, probe, tmp_path, FAR)
    assert [row["ok"] for row in rows] == [True] * len(FAR), rows
    assert sums["connections"] == 1


def test_skipping_spares_the_cellular_link(shared, probe, tmp_path):
    rows, skipped = fetch(shared, probe, tmp_path, FAR)
    assert all(row["ok"] for row in rows), rows
    rows, received = fetch(shared, probe, tmp_path, FAR, "--honest")
    assert all(row["ok"] for row in rows), rows
    assert received["cell_bytes"] > SIZE * 0.9
    assert skipped["cell_bytes"] < received["cell_bytes"] * 0.75, (skipped, received)


def test_loss_on_both_cellular_directions(lab, probe, tmp_path):
    made = lab(overrides={"cell.loss": 0.02})
    rows, _ = fetch(made, probe, tmp_path, [(at, at + 20_000) for at in range(1_000_000, 9_000_000, 1_500_000)])
    assert all(row["ok"] for row in rows), rows


def test_behind_a_translating_gateway(lab, probe, tmp_path):
    made = lab(overrides={"cell.nat": True})
    rows, _ = fetch(made, probe, tmp_path, FAR)
    assert all(row["ok"] for row in rows), rows


def test_ipv6(shared, probe, tmp_path):
    rows, _ = fetch(shared, probe, tmp_path, FAR[:3], server=shared.server().ipv6)
    assert all(row["ok"] for row in rows), rows


def test_several_at_once_in_one_sweep(shared, probe, tmp_path):
    pieces = [(at, at + SEGMENT) for at in range(1_000_000, 12_000_000, 700_000)]
    rows, sums = fetch(shared, probe, tmp_path, pieces, "--at-once")
    assert all(row["ok"] for row in rows), rows
    assert sums["connections"] == 1


def test_a_piece_behind_gets_a_fresh_connection(shared, probe, tmp_path):
    rows, sums = fetch(shared, probe, tmp_path, [FAR[3], FAR[0], FAR[4]])
    assert all(row["ok"] for row in rows), rows
    assert sums["connections"] == 2


def test_published_guard_time(shared, probe, tmp_path):
    rows, _ = fetch(shared, probe, tmp_path, FAR[:3], "--full-guard")
    assert all(row["ok"] and row["took_ms"] > 256 for row in rows), rows


def test_the_kernel_stays_silent_and_parked_means_quiet(shared, probe, tmp_path):
    capture = tmp_path / "cell.pcap"
    dump = shared.client.popen([system.tool("tcpdump"), "-i", "cell0", "-U", "-s", "96", "-w", str(capture), "tcp"],
                               stderr=subprocess.DEVNULL)
    assert system.wait_until(lambda: capture.exists() and capture.stat().st_size > 0, 5.0)
    running = shared.client.popen(words(shared, probe, FAR[:2], "--pause", "4", "--no-forget", "--linger", "1"),
                                  stdout=subprocess.PIPE, text=True)
    assert json.loads(running.stdout.readline())["ok"]
    time.sleep(1)
    before = shared.counters()["cell0"]
    time.sleep(2)
    after = shared.counters()["cell0"]
    assert after["bytes_in"] - before["bytes_in"] < 4000
    assert json.loads(running.stdout.readline())["ok"]
    running.wait(timeout=30)
    # Everything up to here is without a reset: neither the kernel's, nor, by --no-forget, our own.
    dump.send_signal(signal.SIGINT)
    dump.wait(timeout=10)
    seen = subprocess.run([system.tool("tcpdump"), "-nr", str(capture)], capture_output=True, text=True).stdout
    assert seen.count("\n") > 500
    # What the end of the program leaves to the kernel is the only reset there may be: the port was given back.
    assert len(resets_by_cell(capture).splitlines()) <= 1, resets_by_cell(capture)


def test_nothing_is_left_behind_by_kill_9(shared, probe):
    def state() -> str:
        return shared.client.run(["ss", "-tlnH"]).stdout + shared.client.run(["nft", "-s", "list", "ruleset"], check=False).stdout

    before = state()
    running = shared.client.popen(words(shared, probe, FAR[:2], "--pause", "30"), stdout=subprocess.PIPE, text=True)
    assert json.loads(running.stdout.readline())["ok"]
    held = state()
    assert len(held.splitlines()) == len(before.splitlines()) + 1, held  # the held port, and no rule
    # It is at the cellular address and answers nobody, not even by a refusal.
    address, port = next(line.split()[3].rsplit(":", 1) for line in held.splitlines() if line not in before)
    assert address == topology.CELL_CLIENT[0]
    knock = f"import socket; socket.create_connection(('{address}', {port}), 1)"
    assert "timed out" in shared.client.run(["/usr/bin/python3", "-c", knock], check=False).stderr
    for child in shared.client.run(["pgrep", "-P", str(running.pid)], check=False).stdout.split() or [running.pid]:
        os.kill(int(child), signal.SIGKILL)
    running.wait(timeout=10)
    assert system.wait_until(lambda: state() == before, 5.0), state()


def test_a_request_with_cookies_is_refused(shared, probe, tmp_path):
    rows, sums = fetch(shared, probe, tmp_path, FAR[:1], "--header", "Cookie: session=1")
    assert rows[0]["why"] == "the request carries cookies"
    assert sums["connections"] == 0
    rows, _ = fetch(shared, probe, tmp_path, FAR[:1], "--header", "Cookie: session=1", "--credentials")
    assert rows[0]["ok"]


# Answers the first connection well, and every later one as the path says.
_FICKLE = """
import socket, struct, sys, threading, time
body = bytes(2_000_000)
head = 'HTTP/1.1 200 OK\\r\\nContent-Type: a/b\\r\\nETag: "one"\\r\\nContent-Length: 2000000\\r\\n\\r\\n'
seen = set()
def serve(peer):
    request = b''
    while b'\\r\\n\\r\\n' not in request:
        more = peer.recv(4096)
        if not more: return
        request += more
    path = request.split()[1].decode()
    again = path in seen
    seen.add(path)
    answer, data = head, body
    if again:
        if path == '/500': answer, data = 'HTTP/1.1 500 Sorry\\r\\nContent-Length: 0\\r\\n\\r\\n', b''
        if path == '/304': answer, data = 'HTTP/1.1 304 Not Modified\\r\\nETag: "one"\\r\\n\\r\\n', b''
        if path == '/length': answer = head.replace('2000000', '1999999')
        if path == '/etag': answer = head.replace('one', 'two')
        if path == '/chunked': answer = head.replace('Content-Length: 2000000', 'Transfer-Encoding: chunked')
        if path == '/garbage': answer, data = 'SSH-2.0-server\\r\\n' * 50, b''
        if path in ('/close', '/reset'): data = body[:300_000]
        if path == '/silent': time.sleep(60)
        if path == '/longhead': answer = head.replace('ETag', 'X-Request: ' + 'x' * 3000 + '\\r\\nETag')
    try:
        peer.sendall(answer.encode() + data)
    except OSError:
        return
    if again and path == '/reset':
        time.sleep(0.5)
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack('ii', 1, 0))
    elif not (again and path == '/close'):
        time.sleep(20)
    peer.close()
listener = socket.create_server(('', 8080), backlog=20)
print('ready', flush=True)
while True:
    threading.Thread(target=serve, args=(listener.accept()[0],), daemon=True).start()
"""

DIFFERENT = {
    "/500": "the mirror's answer has another status",
    "/304": "the mirror's answer has another status",
    "/length": "the mirror's answer has another length",
    "/etag": "the mirror's answer has another validator",
    "/chunked": "the mirror's answer is chunked",
    "/garbage": "the mirror's answer is not HTTP",
    "/close": "the mirror's answer ended early",
    "/reset": "the server reset the mirror connection",
    "/silent": "not fetched in time",
}


@pytest.fixture(scope="module")
def fickle(shared):
    server = shared.server().popen(["/usr/bin/python3", "-c", _FICKLE], stdout=subprocess.PIPE, text=True)
    assert server.stdout.readline() == "ready\n"
    yield shared
    server.kill()
    server.wait()


@pytest.mark.parametrize("path", DIFFERENT)
def test_another_answer_is_refused_by_name(fickle, probe, path):
    done = fickle.client.run(words(fickle, probe, [(1_000_000, 1_001_000)], "--port", "8080", "--deadline", "4", path=path))
    row, sums = (json.loads(line) for line in done.stdout.splitlines())
    assert (row["ok"], row["why"]) == (False, DIFFERENT[path])
    assert sums["connections"] == 1


def test_a_longer_head_shifts_the_pieces(fickle, probe):
    done = fickle.client.run(words(fickle, probe, [(1_000_000, 1_001_000)], "--port", "8080", path="/longhead"))
    assert json.loads(done.stdout.splitlines()[0])["ok"]


def test_nobody_listens(fickle, probe):
    """The server is gone between the download and its mirror: refused on the cellular link."""
    fickle.server().run(["nft", "add table inet gone; add chain inet gone in { type filter hook input priority 0; }; "
                         "add rule inet gone in ip saddr 10.77.2.2 tcp dport 8080 reject with tcp reset"])
    try:
        done = fickle.client.run(words(fickle, probe, [(1_000_000, 1_001_000)], "--port", "8080", path="/gone"))
    finally:
        fickle.server().run(["nft", "delete table inet gone"])
    row = json.loads(done.stdout.splitlines()[0])
    assert (row["ok"], row["why"]) == (False, "the server refused the mirror connection")
