"""The user's own traffic: what counts as wanted, the kernel's counters, experiments in the background, stopped, killed, resumed."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path

import pytest
from test_run import lines, wait_for

from tandem_ab import background, by_flow, cli, own, report
from tandem_ab.demand import judge
from tandem_ab.sockets import Counted, Look, Sockets
from tandem_ab.store import Store
from tandem_common.control import Daemon
from tandem_common.errors import Failure

MB = 1_000_000


@pytest.fixture
def daemon(daemon):
    """Nothing that a failed test has left goes on."""
    yield daemon
    if (note := background.read_note(str(daemon.path))).alive:
        os.kill(note.pid, signal.SIGKILL)


def looks(*rows: dict[int, tuple[int, int]], unread: int = 0, apart: float = 0.25) -> list[Look]:
    """One look each: connection to bytes (received, sent) so far."""
    return [Look(place * apart, {cookie: Counted(received, sent, unread, 20.0) for cookie, (received, sent) in row.items()}) for place, row in enumerate(rows)]


# -- what was wanted


def test_a_download_is_wanted_while_it_lasts() -> None:
    told = judge(looks({}, {1: (MB, 300)}, {1: (2 * MB, 300)}, {1: (2 * MB, 300)}, {}), ())
    assert (told.bytes, told.wanted_s, told.stalled_s, told.flows, told.rtt_ms) == (2 * MB, 0.5, 0, 1, 20.0) and told.mbps == 32


def test_a_pause_without_a_request_is_a_stall_and_with_one_it_was_the_applications() -> None:
    stalled = judge(looks({}, {1: (MB, 300)}, {1: (MB, 300)}, {1: (MB, 335)}, {1: (2 * MB, 335)}), ())
    assert (stalled.wanted_s, stalled.stalled_s, stalled.longest_stall_s) == (1.0, 0.5, 0.5)
    asked = judge(looks({}, {1: (MB, 300)}, {1: (MB, 300)}, {1: (MB, 600)}, {1: (2 * MB, 600)}), ())
    assert (asked.wanted_s, asked.stalled_s) == (0.75, 0.25), "from the request on"


def test_a_pause_that_is_longer_than_any_stall_is_none() -> None:
    told = judge(looks({}, {1: (MB, 300)}, {1: (MB, 300)}, {1: (2 * MB, 300)}, apart=31), ())
    assert told.wanted_s == 62 and told.stalled_s == 0


def test_two_downloads_at_once_share_the_time() -> None:
    told = judge(looks({}, {1: (MB, 1)}, {1: (MB, 1), 2: (MB, 1)}, {1: (2 * MB, 1), 2: (MB, 1)}), ())
    assert (told.bytes, told.wanted_s, told.stalled_s, told.flows) == (3 * MB, 0.75, 0, 2), "while one has it the other's pause is no stall"


@pytest.mark.parametrize("rows", [({}, {1: (5000, 300)}, {1: (9000, 900)}), ({1: (0, 0)}, {1: (MB, 300)}, {1: (2 * MB, 300)}), ({}, {}), ({},)])
def test_small_things_and_connections_from_before_do_not_count(rows) -> None:
    assert judge(looks(*rows), {1} if rows[0] else ()).bytes == 0


def test_what_the_application_leaves_in_the_socket_is_not_wanted() -> None:
    told = judge(looks({}, {1: (MB, 300)}, {1: (MB, 300)}, {1: (2 * MB, 300)}, unread=100_000), ())
    assert told.wanted_s == 0.5


# -- the kernel's counters


def test_the_kernel_counts_what_a_connection_received_and_sent() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()) as client, listening.accept()[0] as server:
        asked = Sockets()
        before = asked.look({"127.0.0.1"})
        server.sendall(b"x" * 30_000)
        client.sendall(b"y" * 100)
        wait_for(lambda: any(one.received == 30_000 and one.sent == 100 and one.unread == 30_000 for one in asked.look({"127.0.0.1"}).sockets.values()))
        assert set(before.sockets) <= set(asked.look({"127.0.0.1"}).sockets)
        assert asked.look({"192.0.2.1"}).sockets == {}


def test_a_look_that_was_broken_off_does_not_spoil_the_next(monkeypatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening, socket.create_connection(listening.getsockname()), listening.accept()[0]:
        asked = Sockets()
        whole = asked.look({"127.0.0.1"}).sockets

        def interrupted(message: bytes) -> None:
            raise OSError(4, "Interrupted")

        for _ in range(3):
            with monkeypatch.context() as patched, pytest.raises(Failure):
                patched.setattr("tandem_ab.sockets.parse", interrupted)
                asked.look({"127.0.0.1"})
        assert set(whole) <= set(asked.look({"127.0.0.1"}).sockets)


# -- the share of the time


def test_no_more_than_the_share() -> None:
    for share in (0.01, 0.2, 0.5, 1.0):
        assert 250 / (250 + own.rest_s(250, share)) == pytest.approx(share)


# -- in the background


@pytest.fixture
def busy_user(daemon):
    """Somebody who downloads all the time, on fresh connections, at about 4 MB/s."""
    daemon.addresses = ["127.0.0.1"]
    over = threading.Event()
    listening = socket.create_server(("127.0.0.1", 0))

    def serve(connection: socket.socket) -> None:
        with connection:
            try:
                for _ in range(10):
                    connection.sendall(b"x" * 200_000)
                    time.sleep(0.05)
            except OSError:
                pass

    def accept() -> None:
        while not over.is_set():
            try:
                threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
            except OSError:
                return

    def use() -> None:
        while not over.is_set():
            with socket.create_connection(listening.getsockname()) as client:
                while client.recv(1 << 16):
                    pass

    threading.Thread(target=accept, daemon=True).start()
    threading.Thread(target=use, daemon=True).start()
    yield daemon
    over.set()
    listening.close()


QUICK = ["--block", "2500ms", "--washout", "0s", "--share", "100%", "--for", "10min", "--busy", "100%"]


def started(directory: Path, *words: str) -> background.Note:
    assert cli.main(["start", "--report", str(directory), *QUICK, *words]) == 0
    return background.read_note(os.environ["TANDEM_SOCKET"])


def gone(pid: int) -> bool:
    """Its parent, this process, has to wait for it."""
    try:
        return os.waitpid(pid, os.WNOHANG)[0] == pid
    except ChildProcessError:
        return True


def test_own_traffic_is_measured_in_pairs_and_the_modules_are_as_before(busy_user, tmp_path, capsys) -> None:
    out = tmp_path / "own"
    note = started(out, "mirror")
    try:
        assert cli.main(["start"]) == 1 and "runs already" in capsys.readouterr().err
        wait_for(lambda: (out / "pairs.jsonl").exists() and lines(out), 40)
        assert cli.main(["status"]) == 0 and "below 8 nothing is claimed" in capsys.readouterr().out
        assert os.stat(f"/proc/{note.pid}").st_uid == os.getuid() and "NoNewPrivs:\t1" in Path(f"/proc/{note.pid}/status").read_text()
        assert os.getsid(note.pid) == note.pid, "a session of its own"
        wait_for(lambda: busy_user.on == {"mirror"})
    finally:
        assert cli.main(["stop"]) == 0
    assert busy_user.on == {"offload"} and gone(note.pid)
    pair = lines(out)[0]
    assert not pair["discarded"] and pair["trials"].keys() == {"off", "mirror"}
    assert all(5 < trial["figure"] < 400 and trial["beside"]["flows"] >= 2 for trial in pair["trials"].values())
    assert cli.main(["show", str(out)]) == 0 and "stalled" in capsys.readouterr().out
    assert (out / "report.html").exists()
    assert cli.main(["stop"]) == 0 and "no experiment is running" in capsys.readouterr().out
    assert cli.main(["status", "--json"]) == 0 and json.loads(capsys.readouterr().out)["phase"] == "stopped"


def test_a_killed_one_is_put_back_and_goes_on(busy_user, tmp_path, capsys) -> None:
    out = tmp_path / "own"
    note = started(out, "mirror")
    wait_for(lambda: busy_user.on == {"mirror"}, 40)
    os.kill(note.pid, signal.SIGKILL)
    wait_for(lambda: gone(note.pid))
    assert busy_user.on == {"mirror"}
    assert cli.main(["status"]) == 0
    told = capsys.readouterr()
    assert "interrupted" in told.out and "`tandem ab start` goes on" in told.out and "as before it: offload" in told.err and busy_user.on == {"offload"}
    assert cli.main(["start"]) == 0 and f"goes on with {out}" in capsys.readouterr().out
    assert background.read_note(os.environ["TANDEM_SOCKET"]).alive
    assert cli.main(["stop"]) == 0 and busy_user.on == {"offload"}


def test_the_end_of_the_session_leaves_it_to_be_continued(daemon, tmp_path, capsys) -> None:
    out = tmp_path / "own"
    note = started(out, "mirror")
    os.kill(note.pid, signal.SIGTERM)
    wait_for(lambda: gone(note.pid))
    assert cli.main(["status"]) == 0 and "`tandem ab start` goes on" in capsys.readouterr().out
    assert cli.main(["start"]) == 0 and f"goes on with {out}" in capsys.readouterr().out
    assert cli.main(["stop"]) == 0 and cli.main(["status"]) == 0 and "stopped: by `tandem ab stop`" in capsys.readouterr().out
    assert not (out / "stop").exists()


def test_nothing_is_switched_while_nothing_is_downloaded(daemon, tmp_path) -> None:
    daemon.addresses = ["127.86.4.1"]  # not 127.0.0.1: other programs download there
    started(tmp_path / "own")
    time.sleep(3)
    assert background.read_note(os.environ["TANDEM_SOCKET"]).doing == "waits for a download"
    assert cli.main(["stop"]) == 0 and daemon.asked == []


def test_a_switch_by_the_user_stays_and_the_pair_does_not_count(busy_user, tmp_path) -> None:
    out = tmp_path / "own"
    started(out, "offload", "--seed", "1")
    wait_for(lambda: "measures" in background.read_note(os.environ["TANDEM_SOCKET"]).doing, 40)
    busy_user.state["mirror"]["enabled"] = True
    wait_for(lambda: (out / "pairs.jsonl").exists() and lines(out), 40)
    assert cli.main(["stop"]) == 0
    assert "somebody else switched mirror on" in lines(out)[0]["discarded"] and busy_user.on == {"offload", "mirror"}


@pytest.mark.parametrize("words, said", [
    (["--share", "0%"], "--share 0%"), (["--for", "soon"], "--for soon"), (["--for", "10min"], "below 8 pairs"), (["nonsense"], 'setting "nonsense"'),
    (["offload+mirror", "--per", "flow"], "one module alone"), (["--null", "offload"], "without SETTINGS"), (["--null", "--per", "flow"], "without --per flow"), (["--block", "1ms"], "--block 1ms")])
def test_wrong_usage_is_2_and_begins_nothing(daemon, tmp_path, capsys, words: list[str], said: str) -> None:
    assert cli.main(["start", "--report", str(tmp_path / "own"), *words]) == 2
    assert said in capsys.readouterr().err and not (tmp_path / "own").exists() and background.read_note(os.environ["TANDEM_SOCKET"]).directory == ""


def test_without_a_module_on_there_is_nothing_to_compare(daemon, tmp_path, capsys) -> None:
    daemon.state["offload"]["enabled"] = False
    assert cli.main(["start", *QUICK]) == 2 and "no module is on" in capsys.readouterr().err
    assert cli.main(["status"]) == 0 and "tandem ab start" in capsys.readouterr().out


def test_without_a_daemon_start_says_what_to_do(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TANDEM_SOCKET", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    assert cli.main(["start"]) == 1 and "tandem up" in capsys.readouterr().err


# -- by connection


def flow(number: int, delivered: int, *rests: str, begun: bool = True) -> dict:
    return {"id": number, "link": "wifi", "bypass": "none", "delivered_bytes": delivered, "modules": {"offload": {}} if begun else {}, **({"rests": list(rests)} if rests else {})}


def test_connections_count_for_the_side_that_they_are_on() -> None:
    sides = by_flow.Sides("offload")
    sides.take(0.0, [flow(1, 0), flow(2, 0, "offload", begun=False), flow(3, 0, begun=False)])
    sides.take(1.0, [flow(1, 5 * MB), flow(2, 2 * MB, "offload", begun=False), flow(3, MB, begun=False)])
    sides.take(2.0, [flow(1, 10 * MB, "offload"), flow(2, 4 * MB, "offload", begun=False)])
    assert sides.bytes == {True: 5 * MB, False: 4 * MB} and sides.seconds == {True: 1.0, False: 2.0}, "who changes sides counts for neither"
    assert sides.trial(False, 2.0)["figure"] == 16 and "offload: too little" in sides.reason(("off", "offload"))


def test_by_connection_it_is_said_to_be_biased(daemon, tmp_path, capsys) -> None:
    assert cli.main(["start", "offload", "--per", "flow", "--report", str(tmp_path / "own"), "--for", "1h"]) == 0
    assert "shared the air" in capsys.readouterr().out
    try:
        assert daemon.asked == []
    finally:
        assert cli.main(["stop"]) == 0
    store = Store(tmp_path / "own")
    assert store.load() and report.Result(store.head, []).notes() == [report.SHARED_AIR]


# -- in this process, with a workload that is made up


class MadeUp:
    """Blocks of no length; `before` is called before each with its number."""

    seconds, unit = 0.0, "Mb/s"

    def __init__(self, before=lambda number: None):
        self.before, self.blocks = before, 0

    def wait(self, until: float) -> bool:
        return time.time() < until

    def run(self):
        self.before(self.blocks)
        self.blocks += 1
        return own.Outcome(10.0 + self.blocks % 3 * 0.01, 2 * MB, 1.0, beside={"stalled_s": 0.1})


def experiment(daemon, directory: Path, workload: MadeUp, told: list[str], lasts: float = 30.0, share: float = 1.0) -> tuple[own.Experiment, Store]:
    store = Store(directory)
    store.head = {"arms": [{"name": "off", "modules": [], "knobs": {}}, {"name": "mirror", "modules": ["mirror"], "knobs": {}}], "null": False, "workload": {"kind": "own"}, "unit": "Mb/s",
                  "smaller_is_better": False, "for_s": 0.0, "warm_up_s": 0.0, "washout_s": 0.0, "until": 0.05, "seed": 1, "unvalidated": False, "command": "tandem ab start", "begun": "",
                  "machine": "", "version": "", "own": {"per": "time", "share": share, "ends": time.time() + lasts, "busy": 1.0}}
    store.begin()
    return own.Experiment(Daemon(str(daemon.path)), store, 1.0, told.append, workload), store


def test_it_ends_when_the_interval_is_narrow(daemon, tmp_path) -> None:
    told: list[str] = []
    made, store = experiment(daemon, tmp_path / "own", MadeUp(), told)
    assert "as narrow" in made.run() and len(store.pairs) >= 8 and daemon.on == {"offload"}
    assert "pair 2: measures mirror" in told and (tmp_path / "own/report.md").read_text().count("10.0 % of the time") == 2


def test_off_against_off_finds_nothing_and_says_how_even_it_is(daemon, tmp_path, capsys) -> None:
    daemon.addresses = ["127.0.0.1"]
    started(tmp_path / "own", "--null")
    assert cli.main(["stop"]) == 0
    head = Store(tmp_path / "own")
    assert head.load() and head.head["null"] and head.head["own"]["per"] == "time"
    _, store = experiment(daemon, tmp_path / "made-up", MadeUp(), [])
    during: set[frozenset[str]] = set()
    store.keep(null=True, arms=head.head["arms"])
    made = own.Experiment(Daemon(str(daemon.path)), store, 1.0, [].append, MadeUp(lambda number: during.add(frozenset(daemon.on))))
    assert "as narrow" in made.run() and during == {frozenset()} and daemon.on == {"offload"}
    assert all(pair["trials"].keys() == {"off", "off again"} for pair in store.pairs)
    report = (tmp_path / "made-up/report.md").read_text()
    assert "off against off" in report and "quiet" in report
    capsys.readouterr()
    assert cli.main(["show", str(tmp_path / "made-up")]) == 0 and "quiet" in capsys.readouterr().out


def test_a_suspend_loses_the_pair_with_its_reason(daemon, tmp_path, monkeypatch) -> None:
    real, asleep = time.clock_gettime, [0.0]
    monkeypatch.setattr(time, "clock_gettime", lambda clock: real(clock) + (asleep[0] if clock == time.CLOCK_BOOTTIME else 0.0))
    made, store = experiment(daemon, tmp_path / "own", MadeUp(lambda number: asleep.__setitem__(0, 90.0 * (number >= 4))), [])
    made.run()
    reasons = [pair["discarded"] for pair in store.pairs]
    assert [reason for reason in reasons if reason] == [reasons[2]] and "the machine was suspended for 90 s" in reasons[2]


def test_a_module_that_rests_ends_it_with_the_reason(daemon, tmp_path) -> None:
    daemon.standing = "resting"
    made, _ = experiment(daemon, tmp_path / "own", MadeUp(), [])
    with pytest.raises(own.Failure, match="rests here by evidence"):
        made.run()
    assert daemon.on == {"offload"}


def test_the_share_leaves_the_users_own_setting_alone(daemon, tmp_path) -> None:
    told: list[str] = []
    made, store = experiment(daemon, tmp_path / "own", MadeUp(lambda number: time.sleep(0.2)), told, lasts=4.0, share=0.1)
    began = time.monotonic()
    assert made.run() == "the time is over"
    used = sum(pair["seconds"] for pair in store.pairs)
    assert 3.5 < time.monotonic() - began < 8 and 1 <= len(store.pairs) <= 2 and used < 0.35 * 4 and any(words.startswith("rests until") for words in told)


def test_a_daemon_that_is_gone_for_a_while_is_waited_for(daemon, tmp_path, monkeypatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(own, "AGAIN_S", 0.05)

    def gone(number: int) -> None:
        if number == 3:
            raise own.Failure("the daemon is gone")

    made, store = experiment(daemon, tmp_path / "own", MadeUp(gone), told)
    made._workload.blocks = 0
    real = made._workload.run

    def once():
        try:
            return real()
        except own.Failure:
            made._workload.blocks += 1
            raise

    made._workload.run = once
    assert "as narrow" in made.run() and "waits: the daemon is gone" in told and daemon.on == {"offload"}
    lost, = (pair for pair in store.pairs if pair["discarded"])
    assert lost["discarded"].endswith(": the daemon is gone") and list(lost["trials"].values())[-1]["lost"], "a setting may be to blame: it is not left out"


def test_a_fault_of_the_program_is_told_as_one(daemon, tmp_path, monkeypatch, capsys) -> None:
    _, store = experiment(daemon, tmp_path / "own", MadeUp(), [])
    monkeypatch.setattr(background, "Experiment", lambda *_: 1 / 0)
    assert background._measure(store, str(daemon.path)) == 1
    note = background.read_note(str(daemon.path))
    assert note.phase == "failed" and note.doing.startswith("ZeroDivisionError") and "Traceback" in capsys.readouterr().err


def test_another_experiment_has_precedence(daemon, tmp_path, monkeypatch) -> None:
    told: list[str] = []
    monkeypatch.setattr(own, "AGAIN_S", 0.05)
    made, store = experiment(daemon, tmp_path / "own", MadeUp(), told, lasts=0.5)
    with own.Switch(Daemon(str(daemon.path))):
        assert made.run() == "the time is over"
    assert "waits: `tandem ab` measures" in told and store.pairs == []
