"""Whole experiments against a made-up daemon: pairs on the disk, resumed, interrupted, killed; reports; what the user's modules are afterwards."""

from __future__ import annotations

import csv
import http.server
import json
import os
import re
import resource
import select
import signal
import subprocess
import sys
import threading
import time
from html.parser import HTMLParser
from pathlib import Path

import pytest
from conftest import ROOT

from tandem_ab import cli, workloads
from tandem_ab.arms import Arm
from tandem_ab.runner import Runner
from tandem_ab.stopping import Stopped, interruptible
from tandem_ab.store import Store
from tandem_ab.switch import Busy, Switch, state_file
from tandem_common.control import Daemon
from tandem_common.errors import Failure

AB = ROOT / "tools/ab/ab.py"
# Between 10 and 11, by chance: two that run at the same moment must not give the same figure, or the interval is narrow at once.
STEADY = ["--", "sh", "-c", "echo figure 10.$(od -An -N2 -tu2 /dev/urandom | tr -d ' ')"]
QUICK = ["--figure", r"figure (\S+)", "--washout", "0s", "--yes", "--busy", "100%"]


def ab(directory: Path, *words: str, settings: str = "offload", command: list[str] = STEADY) -> int:
    return cli.main([settings, "--report", str(directory), *QUICK, *words, *command])


def lines(directory: Path) -> list[dict]:
    return [json.loads(line) for line in (directory / "pairs.jsonl").read_text().splitlines()]


def test_an_experiment_ends_when_the_interval_is_narrow_and_leaves_reports(daemon, tmp_path, capsys) -> None:
    out = tmp_path / "ab"
    assert ab(out, "--until", "20%", "--json") == 0
    told = json.loads(capsys.readouterr().out)
    one, = told["comparisons"]
    assert one["verdict"] == "nothing" and one["pairs"] == told["pairs"] == len(lines(out)) >= 8 and one["low"] < 0 < one["high"]
    assert {path.name for path in out.iterdir()} == {"experiment.json", "pairs.jsonl", "report.html", "report.md", "report.json", "trials.csv"}
    assert json.loads((out / "report.json").read_text())["comparisons"] == told["comparisons"]
    rows = list(csv.DictReader((out / "trials.csv").open()))
    assert len(rows) == 2 * told["pairs"] and rows[0]["signal_dbm"] == "-55" and float(rows[0]["figure"]) >= 10
    assert {pair["order"][0] for pair in lines(out)} == {"off", "offload"}, "the coin shows both sides"
    assert cli.main(["show", str(out)]) == 0 and "nothing found" in capsys.readouterr().out
    assert cli.main(["show", str(out), "--json"]) == 0 and json.loads(capsys.readouterr().out)["comparisons"] == told["comparisons"]


def test_what_tandem_leaves_alone_is_not_measured(daemon, tmp_path, capsys) -> None:
    """Behind a tunnel or a captive portal modules do nothing: none would be found to gain anything, at full cost."""
    daemon.hands_off = "wg0 has the default route"
    assert ab(tmp_path / "ab") == 1 and "hands off all flows here: wg0 has the default route" in capsys.readouterr().err
    assert not (tmp_path / "ab").exists() and daemon.asked == []
    assert cli.main(["--null", "--report", str(tmp_path / "null"), *QUICK, "--most", "1s", *STEADY]) == 0, "off against off needs no module"
    assert all(not pair["discarded"] for pair in lines(tmp_path / "null"))


def test_a_tunnel_that_comes_meanwhile_spoils_the_pair(daemon, tmp_path) -> None:
    process = running(daemon, tmp_path)
    wait_for(lambda: (tmp_path / "ab/pairs.jsonl").exists() and lines(tmp_path / "ab"))
    daemon.hands_off = "wg0 has the default route"
    out, err = process.communicate(timeout=30)
    assert process.returncode == 1 and "5 pairs in a row do not count; the latest: mirror: Tandem had its hands off all flows: wg0 has the default route" in err
    assert not lines(tmp_path / "ab")[0]["discarded"] and daemon.on == {"offload"}


def test_every_arm_had_its_modules_and_the_users_are_back(daemon, tmp_path) -> None:
    daemon.state["mirror"]["enabled"] = True
    assert ab(tmp_path / "ab", "--most", "1s", settings="off:queued:offload.window_mss=30") == 0
    assert daemon.on == {"offload", "mirror"}
    assert daemon.state["offload"]["knobs"] == {"strategy": "validated", "fraction": "0.5", "window_mss": "20"}
    knobs = {(parts[2], content["value"]) for parts, content in daemon.asked if len(parts) == 3}
    assert {("window_mss", "30"), ("strategy", "fraction"), ("fraction", "0"), ("strategy", "validated")} <= knobs
    assert (["mirror"], {"enabled": False}) in daemon.asked


def test_the_same_command_goes_on_and_another_is_refused(daemon, tmp_path, capsys) -> None:
    out = tmp_path / "ab"
    assert ab(out, "--most", "1s", "--until", "0.1%") == 0
    before = lines(out)
    with open(out / "pairs.jsonl", "a") as file:
        file.write('{"number": 99, "torn')  # by a crash, or just being written
    assert cli.main(["show", str(out)]) == 0 and (out / "pairs.jsonl").read_text().endswith("torn"), "who only looks changes nothing"
    assert ab(out, "--most", "2s", "--until", "0.1%") == 0
    after = lines(out)
    assert after[:len(before)] == before and len(after) > len(before) and [pair["number"] for pair in after] == list(range(len(after)))
    assert ab(out, settings="mirror") == 2 and "another arms (off:offload, now off:mirror)" in capsys.readouterr().err
    assert ab(out, command=["--", "sh", "-c", "echo figure 3"]) == 2
    assert ab(out, "--seed", "3", "--most", "9s") == 2 and "has seed" in capsys.readouterr().err
    with open(out / "pairs.jsonl", "a") as file:
        file.write(json.dumps(after[-1] | {"number": len(after), "seconds": 3600, "discarded": "long"}) + "\n")
    assert ab(out) == 2 and "allow more time" in capsys.readouterr().err


def running(daemon, tmp_path: Path, *words: str) -> subprocess.Popen:
    return subprocess.Popen([sys.executable, str(AB), "mirror", "--report", str(tmp_path / "ab"), *QUICK, "--until", "0.1%", *words, "--", "sh", "-c", "sleep 0.3; echo figure 10"],
                            stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def wait_for(what, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_keeps_the_pairs_and_puts_the_modules_back(daemon, tmp_path, number: int) -> None:
    process = running(daemon, tmp_path)
    wait_for(lambda: (tmp_path / "ab/pairs.jsonl").exists() and len(lines(tmp_path / "ab")) >= 2 and daemon.on != {"offload"})
    process.send_signal(number)
    out, err = process.communicate(timeout=20)
    assert process.returncode == 130 and "the same command goes on" in err and "nothing is claimed" in out
    assert daemon.on == {"offload"} and (tmp_path / "ab/report.html").exists() and not list((tmp_path / "state/tandem").glob("*.json"))


def test_an_interrupt_leaves_nothing_of_the_command(daemon, tmp_path) -> None:
    """The shell was killed, and what it had started went on."""
    mark = tmp_path / "started"
    process = subprocess.Popen([sys.executable, str(AB), "mirror", "--report", str(tmp_path / "ab"), *QUICK, "--", "sh", "-c", f"sleep 100 & echo $! > {mark}; wait; echo figure 1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(lambda: mark.exists() and mark.read_text().strip())
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=20)
    pid = int(mark.read_text())
    try:
        wait_for(lambda: not Path(f"/proc/{pid}").exists() or Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z", 5)
    except AssertionError:
        os.kill(pid, signal.SIGKILL)
        raise


def test_what_nohup_ignores_ends_no_measurement() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0.01)
        assert signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
        signal.signal(signal.SIGHUP, signal.SIG_DFL)
        with pytest.raises(Stopped), interruptible():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(1)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_pair_in_which_the_daemon_went_away_is_kept_with_its_setting(daemon, tmp_path, capsys) -> None:
    """A setting that ends the daemon left no trace in the report: the pair was dropped, and the same command went on with those that went well."""
    stop = tmp_path / "stop"
    process = subprocess.Popen([sys.executable, str(AB), "mirror", "--report", str(tmp_path / "ab"), *QUICK, "--", "sh", "-c", f"touch {stop}; sleep 1; echo figure 1"],
                               stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    wait_for(stop.exists)
    daemon.close()
    daemon.path.unlink()
    out, err = process.communicate(timeout=20)
    assert process.returncode == 1 and "tandem up" in err and "1 pair of 1 does not count" in out
    pair, = lines(tmp_path / "ab")
    name = pair["order"][0]
    assert pair["discarded"].startswith(f"{name}: ") and "tandem up" in pair["discarded"] and pair["trials"][name]["lost"]
    assert cli.main(["show", str(tmp_path / "ab")]) == 0 and (tmp_path / "ab/report.html").exists()


def test_a_killed_run_is_put_back_at_the_next_start(daemon, tmp_path, capsys) -> None:
    process = running(daemon, tmp_path)
    wait_for(lambda: daemon.on == {"mirror"})
    process.kill()
    process.communicate()
    assert daemon.on == {"mirror"}, "nobody was there to put it back"
    assert ab(tmp_path / "other", "--most", "1s") == 0
    assert "the modules are as before it: offload" in capsys.readouterr().err and daemon.on == {"offload"}


def test_one_at_a_time(daemon, tmp_path, capsys) -> None:
    process = running(daemon, tmp_path)
    wait_for(lambda: (tmp_path / "ab/pairs.jsonl").exists())
    assert ab(tmp_path / "other") == 1 and "another `tandem ab`" in capsys.readouterr().err
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert daemon.on == {"offload"}


def test_one_at_a_time_whoever_runs_them(daemon, tmp_path, monkeypatch) -> None:
    with Switch(Daemon(str(daemon.path))):
        monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "of another user"))
        with pytest.raises(Busy, match="another `tandem ab`"), Switch(Daemon(str(daemon.path))):
            pass
    with Switch(Daemon(str(daemon.path))):
        pass


def test_a_knob_that_the_user_turns_stays_and_the_pair_does_not_count(daemon) -> None:
    arm = Arm("offload.fraction=0", frozenset({"offload"}), {"offload.fraction": "0"})
    with Switch(Daemon(str(daemon.path))) as switch:
        assert switch.apply(arm) == "" and switch.touched(arm) == ""
        daemon.state["offload"]["knobs"]["window_mss"] = "33"
        assert switch.touched(arm) == "somebody else set offload.window_mss to 33 meanwhile"
        assert switch.apply(arm) == "" and switch.touched(arm) == "" and daemon.state["offload"]["knobs"] == {"strategy": "validated", "fraction": "0", "window_mss": "33"}
    assert daemon.state["offload"]["knobs"] == {"strategy": "validated", "fraction": "0.5", "window_mss": "33"} and daemon.on == {"offload"}


def test_a_module_that_comes_to_rest_within_a_block_costs_the_pair(daemon) -> None:
    arm = Arm("mirror", frozenset({"mirror"}))
    with Switch(Daemon(str(daemon.path))) as switch:
        assert switch.apply(arm) == "" and switch.touched(arm) == ""
        daemon.standing = "resting"
        assert switch.touched(arm).startswith("mirror rests here by evidence") and switch.touched(Arm("off", frozenset())).startswith("somebody else")


def test_a_signal_while_the_modules_are_put_back_leaves_nothing_half_done(daemon, tmp_path, monkeypatch) -> None:
    asked = Daemon(str(daemon.path))
    with pytest.raises(Stopped), Switch(asked) as switch:
        switch.apply(Arm("mirror", frozenset({"mirror"})))
        real, signals = asked.put, [Stopped()]

        def put(*words):
            if signals:
                raise signals.pop()
            return real(*words)

        monkeypatch.setattr(asked, "put", put)
    assert daemon.on == {"offload"} and not list((tmp_path / "state/tandem").glob("*.json"))


def test_a_full_disk_is_told_before_anything_is_switched(daemon, tmp_path, capsys) -> None:
    place = state_file("ab", str(daemon.path))
    place.parent.mkdir(parents=True)
    place.with_name(place.name + ".new").symlink_to("/dev/full")
    assert ab(tmp_path / "ab") == 1
    assert "No space left on device; the user's settings are kept there" in capsys.readouterr().err and daemon.asked == []


def test_a_pair_that_the_disk_has_no_room_for_leaves_the_others_whole(tmp_path) -> None:
    store = Store(tmp_path / "ab")
    store.begin()
    store.append({"number": 0})
    size, limits = (tmp_path / "ab/pairs.jsonl").stat().st_size, resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size + 5, limits[1]))
    try:
        with pytest.raises(Failure, match="this pair is not kept"):
            store.append({"number": 1, "began": 12.0})
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    store.append({"number": 1})
    assert lines(tmp_path / "ab") == store.pairs == [{"number": 0}, {"number": 1}]


def test_pairs_that_another_run_adds_meanwhile_stay(tmp_path) -> None:
    """While one asked whether it may begin, another went on with the same experiment."""
    head = {"arms": [], "null": True, "workload": {}, "for_s": 1, "warm_up_s": 0, "washout_s": 0, "unvalidated": False, "unit": "", "smaller_is_better": False, "until": 0.05, "seed": 1}
    pair = {"number": 0, "began": 0.0, "seconds": 1.0, "order": [], "discarded": "", "trials": {}}
    one = Store(tmp_path / "ab")
    one.head = head
    one.begin()
    one.append(pair)
    waiting = Store(tmp_path / "ab")
    assert waiting.load()
    one.append({**pair, "number": 1})
    with pytest.raises(Failure, match="has added pairs meanwhile"):
        waiting.begin()
    assert [line["number"] for line in lines(tmp_path / "ab")] == [0, 1]


@pytest.mark.parametrize("line, said", [("5", "not a pair"), ('{"number": 0}', "a pair without began")])
def test_a_line_that_is_no_pair_is_told_with_its_place(daemon, tmp_path, capsys, line: str, said: str) -> None:
    assert ab(tmp_path / "ab", "--most", "1s") == 0
    with open(tmp_path / "ab/pairs.jsonl", "a") as file:
        file.write(line + "\n")
    capsys.readouterr()
    number = len((tmp_path / "ab/pairs.jsonl").read_text().splitlines())
    assert cli.main(["show", str(tmp_path / "ab")]) == 2 and f"pairs.jsonl:{number}: {said}" in capsys.readouterr().err


def test_a_directory_of_something_else_is_told(daemon, tmp_path, capsys) -> None:
    (tmp_path / "experiment.json").write_text("{}")
    assert cli.main(["show", str(tmp_path)]) == 2 and "has no arms; not an experiment of this version" in capsys.readouterr().err


def test_a_daemon_of_another_version_is_told(daemon, tmp_path, monkeypatch, capsys) -> None:
    real = daemon.told
    monkeypatch.setattr(daemon, "told", lambda path: {**real(path), "datapath": {}} if path == "/v1/status" else real(path))
    assert ab(tmp_path / "ab") == 1
    assert "tandem and tandemd may be of different versions" in capsys.readouterr().err and daemon.on == {"offload"}


def test_an_answer_that_is_no_json_is_told(daemon, tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setattr(Daemon, "_answer", lambda self, method, what, content=None: b"<html>")
    assert ab(tmp_path / "ab") == 1
    assert "is no JSON" in capsys.readouterr().err


def test_an_interrupt_at_the_question_is_an_answer(daemon, tmp_path, monkeypatch, capsys) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def readline(self) -> str:
            raise KeyboardInterrupt

    monkeypatch.setattr(cli.sys, "stdin", Terminal())
    assert cli.main(["offload", "--report", str(tmp_path / "ab"), "--figure", r"figure (\S+)", *STEADY]) == 130 and daemon.asked == []


def test_a_roam_and_a_resting_module_do_not_count(daemon, tmp_path, capsys) -> None:
    daemon.standing = "resting"
    assert ab(tmp_path / "ab") == 1
    assert "5 pairs in a row do not count; the latest: offload: offload rests here by evidence" in capsys.readouterr().err
    pairs = lines(tmp_path / "ab")
    assert len(pairs) == 5 and all(pair["discarded"] for pair in pairs)
    page = (tmp_path / "ab/report.md").read_text()
    assert page.count("rests here by evidence") == 5 and "5 pairs of 5 do not count" in page


def test_a_knob_that_the_daemon_refuses_is_wrong_usage_and_the_modules_are_back(daemon, tmp_path, capsys) -> None:
    assert ab(tmp_path / "ab", settings="mirror+offload.strategy=nonsense") == 2
    assert "allowed: validated, fraction" in capsys.readouterr().err and daemon.on == {"offload"}
    assert ab(tmp_path / "ab", "--most", "1s", settings="mirror+offload.strategy=fraction") == 0, "without a pair nothing is held to"


def test_a_knob_that_nobody_has_leaves_nothing_behind(daemon, tmp_path, capsys) -> None:
    assert ab(tmp_path / "ab", settings="offload.colour=red") == 2
    assert "offload has no knob colour; it has: strategy" in capsys.readouterr().err
    assert not (tmp_path / "ab").exists() and daemon.asked == []
    assert cli.main(["start", "offload.colour=red"]) == 2 and "has no knob colour" in capsys.readouterr().err


@pytest.mark.parametrize("words, said", [
    (["offload"], "what is measured?"), (["offload", "--url", "http://a.test/x", "--upload", "http://a.test/x"], "not --upload and --url"), (["--null", "offload", *STEADY], "not both"),
    (["offload", "--url", "file:///etc/passwd"], "http://"), (["offload", "--for", "5", "--url", "http://a.test/"], "--for 5"), (["offload", "--requests", "3"], "what is measured?"),
    (["offload", "--requests", "0", "--url", "http://a.test/"], "1 to 1000"), (["offload", "--figure", "x", "--url", "http://a.test/"], "are for a command"),
    (["nonsense", *QUICK, *STEADY], 'setting "nonsense"'), (["show", "/nonexistent"], "no experiment"), ([], "what is compared?")])
def test_wrong_usage_is_2_and_says_what_to_do(daemon, tmp_path, monkeypatch, capsys, words: list[str], said: str) -> None:
    monkeypatch.chdir(tmp_path)
    assert cli.main(words) == 2
    assert said in capsys.readouterr().err and daemon.asked == []


def test_it_asks_before_it_begins(daemon, tmp_path, monkeypatch, capsys) -> None:
    words = ["offload", "--report", str(tmp_path / "ab"), "--figure", r"figure (\S+)", *STEADY]
    monkeypatch.setattr(cli.sys, "stdin", open(os.devnull))
    assert cli.main(words) == 2 and "--yes" in capsys.readouterr().err
    assert not (tmp_path / "ab").exists() and daemon.asked == []


def test_without_a_daemon_it_says_what_to_do(tmp_path, monkeypatch, capsys) -> None:
    monkeypatch.setenv("TANDEM_SOCKET", str(tmp_path / "nothing"))
    assert ab(tmp_path / "ab") == 1 and "tandem up" in capsys.readouterr().err


# -- the page


class Page(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.outside: list[str] = []

    def handle_starttag(self, tag: str, attributes: list) -> None:
        self.tags.append(tag)
        self.outside += [value for name, value in attributes if name in ("src", "href", "xlink:href")]


def test_the_page_holds_all_it_needs_and_escapes_what_servers_say(daemon, tmp_path) -> None:
    out = tmp_path / "ab"
    assert ab(out, "--until", "20%") == 0
    store = Store(out)
    assert store.load()
    store.append(lines(out)[0] | {"number": 99, "discarded": "<script>alert(1)</script>"})
    assert cli.report.write(cli.report.Result(store.head, store.pairs), out)
    text = (out / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert not page.outside and "script" not in page.tags and "svg" in page.tags and "&lt;script&gt;" in text
    assert "prefers-color-scheme: dark" in text and "width=device-width" in text
    assert page.tags.count("circle") == sum(not pair["discarded"] for pair in lines(out)) and page.tags.count("polygon") == 1
    assert not re.search(r"url\(|@import|https?://", text)
    # On a phone a letter takes 10 units at most; a gain whose sign is cut reads as a loss.
    ticks = re.findall(r'<text x="(\d+)" y="[\d.]+" text-anchor="end">([^<]+)</text>', text)
    assert ticks and all(10 * max(len(words), len("+0.25 %")) < int(place) for place, words in ticks)


# -- downloads from a server with moods


class Server(http.server.BaseHTTPRequestHandler):
    length = 50_000_000_000  # of /file: longer than any test

    def log_message(self, *_) -> None:
        pass

    def do_GET(self) -> None:
        if self.path == "/busy":
            return self.send_error(429)
        if self.path == "/gone":
            return self.send_error(404)
        if self.path == "/moved":
            self.send_response(302)
            self.send_header("Location", "/file")
            self.end_headers()
            return None
        if self.path == "/twice":
            self.server.asked = getattr(self.server, "asked", 0) + 1
        if self.path == "/never" or self.path == "/twice" and self.server.asked > 2:
            select.select([self.connection], [], [], 30.0)  # until the client has enough
            return None
        size = {"/twice": 100_000, "/small": 100, "/cut": 3_000_000}.get(self.path.partition("?")[0], Server.length)
        self.send_response(200)
        self.send_header("Content-Length", str(size))
        self.end_headers()
        try:
            for _ in range(max(1, (size // 2 if self.path == "/cut" else size) // 1_000_000)):
                self.wfile.write(b"x" * min(size, 1_000_000))
        except OSError:
            pass
        return None


@pytest.fixture
def server():
    served = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Server)
    threading.Thread(target=served.serve_forever, args=(0.02,), daemon=True).start()
    yield f"http://127.0.0.1:{served.server_port}"
    served.shutdown()
    served.server_close()


@pytest.mark.parametrize("path, reason", [("/file", ""), ("/moved", ""), ("/busy", "throttles: HTTP 429"), ("/gone", "HTTP 404"), ("/cut", "bytes "), ("/small", "too small")])
def test_a_download_that_was_not_whole_does_not_count(server: str, path: str, reason: str) -> None:
    outcome = workloads.Download(server + path, 0.1, 0.5).run()
    assert (reason in outcome.reason) if reason else not outcome.reason
    assert outcome.figure > 0 if not reason else outcome.figure == 0
    assert outcome.beside.get("warm_up_mbps", 0) > 0 or reason


def test_a_download_begun_again_just_before_the_end_costs_no_pair(server: str) -> None:
    outcome = workloads.Download(server + "/twice", 0.0, 1.5).run()
    assert not outcome.reason and outcome.downloads == 3 and outcome.bytes == 200_000
    assert "curl" in workloads.Download(server + "/never", 0.0, 0.2).run().reason, "the first one must be answered"


@pytest.mark.parametrize("workload", [lambda url: workloads.Download(url + "/file", 0.0, 0.2), lambda url: workloads.Requests([url + "/small"], 2)])
def test_a_workload_says_which_connections_were_its_own(server: str, monkeypatch: pytest.MonkeyPatch, workload) -> None:
    came: list[str] = []
    monkeypatch.setattr(Server, "parse_request", lambda self: came.append("%s:%d" % self.client_address) or http.server.BaseHTTPRequestHandler.parse_request(self))
    assert list(workload(server).run().connections) == came and came


class Left:
    """A download whose connection the daemon tells of."""

    seconds, unit, smaller_is_better = 0.0, "Mb/s", False

    def run(self) -> workloads.Outcome:
        return workloads.Outcome(10.0, 5_000_000, 1.0, connections=["10.0.0.2:50000", "10.0.0.2:50001"])


@pytest.mark.parametrize("told, reason", [
    ([("10.0.0.2:50000", "to example.org is excluded"), ("10.0.0.2:50001", "to example.org is excluded")], "mirror: Tandem leaves what is measured alone: to example.org is excluded"),
    ([("10.0.0.2:50001", "to example.org is excluded"), ("10.0.0.2:7", "")], "mirror: Tandem leaves what is measured alone: to example.org is excluded"),
    ([("10.0.0.2:50000", "to example.org is excluded"), ("10.0.0.2:50001", "")], ""),
    ([("10.0.0.2:7", "to example.org is excluded")], "")])
def test_what_is_excluded_is_not_measured(daemon, tmp_path: Path, told: list[tuple[str, str]], reason: str) -> None:
    """Both arms would be plain, and nothing would be found after forty minutes."""
    daemon.flows = [{"local": local, **({"excluded": why} if why else {})} for local, why in told]
    real = Daemon(str(daemon.path))
    with Switch(real, tmp_path) as switch:
        pair = Runner(real, switch, Left(), [Arm("off", frozenset()), Arm("mirror", frozenset({"mirror"}))], Nowhere(), lambda *_: None, 1.0, False).pair()  # type: ignore[arg-type]
    assert pair["discarded"] == reason


class Nowhere:
    """A store that keeps nothing on the disk."""

    def __init__(self) -> None:
        self.head, self.pairs = {"seed": 1, "washout_s": 0.0}, []

    def append(self, pair: dict) -> None:
        self.pairs.append(pair)


def test_an_address_is_one_address(server: str) -> None:
    assert workloads.Requests([f"{server}/small?page=[1-3]"], 2).run().downloads == 2
    with pytest.raises(Failure, match="allowed: http://"):
        workloads.checked_url("--url", "http:" + "//[half")  # in one piece the repository's own check of addresses would trip over it


def test_nobody_there() -> None:
    assert "curl" in workloads.Download("http://127.0.0.1:9/x", 0.0, 0.3).run().reason


def test_a_file_that_shrinks_between_pairs_does_not_count(daemon, server: str, tmp_path) -> None:
    words = ["offload", "--url", f"{server}/file", "--for", "200ms", "--warm-up", "0s", "--washout", "0s", "--busy", "100%", "--yes", "--report", str(tmp_path / "ab")]
    assert cli.main([*words, "--most", "1s"]) == 0
    assert not any(pair["discarded"] for pair in lines(tmp_path / "ab"))
    before, Server.length = Server.length, 40_000_000_000
    try:
        assert cli.main([*words, "--most", "60s"]) == 1
    finally:
        Server.length = before
    assert "the length of the file was 50000000000 and is 40000000000 now" in lines(tmp_path / "ab")[-1]["discarded"]


def test_requests_are_timed_each_on_a_connection_of_its_own(server: str) -> None:
    outcome = workloads.Requests([f"{server}/small", f"{server}/small?again"], 6).run()
    assert not outcome.reason and outcome.figure > 0 and outcome.downloads == 6
    assert "404" in workloads.Requests([f"{server}/small", f"{server}/gone"], 4).run().reason
