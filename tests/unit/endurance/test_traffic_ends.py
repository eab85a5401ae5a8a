"""A run in which nothing is transferred any more must not end as a good one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

sys.path[:0] = [str(Path(__file__).resolve().parents[3] / "tools" / name) for name in ("endurance", "endurance/tandem_soak", "common", "lab")]

from tandem_soak import captures, cli, traffic  # noqa: E402
from tandem_soak.disturbances import Chaos, Disturbance  # noqa: E402
from tandem_soak.run import Plan, Soak  # noqa: E402


def soak(said: list[str]) -> Soak:
    return Soak(Plan(30.0, 1, "soak-", 1, True, 0.0, False, None, Path("kept")), said.append)


WHOLE = '{"kind": "http", "outcome": "whole", "bytes": 5, "seconds": 0.1}'


@pytest.mark.parametrize("says", [f"echo '{WHOLE}'", f"echo '{WHOLE}'; echo 'Traceback'; sleep 20"])
def test_traffic_that_ends_or_is_not_understood_any_more_is_an_error_and_not_waited_for(says: str) -> None:
    one = soak([])
    with subprocess.Popen(["sh", "-c", says], stdout=subprocess.PIPE, text=True) as program:
        one._listen(program)
        program.kill()
    assert one.outcome.transfers["whole"] == 1
    began = time.monotonic()
    one._watch(threading.Event(), None, None, began)
    assert time.monotonic() - began < 5
    assert not one.outcome.good and any("ended by itself" in words for words in one.outcome.lab_errors)


def test_an_answer_that_is_no_text_was_changed() -> None:
    assert traffic.outcome_of(UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte")) == "changed"
    assert traffic.outcome_of(ConnectionResetError()) == "broken"


def test_a_disturbance_that_breaks_in_any_way_is_told() -> None:
    chaos = Chaos(None, None, None, 1, 0.04)

    def act(chaos: Chaos, _) -> None:
        chaos.stopping.set()
        raise KeyError("gone")

    chaos._repeat(Disturbance("flap", 0.01, act))
    assert chaos.errors == ["flap: 'gone'"]


@pytest.mark.parametrize("option", ["--json", "--log"])
def test_a_place_that_cannot_be_written_to_is_told_before_the_hours(option: str, tmp_path: Path, capsys) -> None:
    assert cli.main([option, str(tmp_path)]) == 2
    assert f"{option} {tmp_path}: is a directory" in capsys.readouterr().err
    (tmp_path / "file").write_text("")
    assert cli.main([option, str(tmp_path / "file" / "below")]) == 2
    assert "cannot be written to" in capsys.readouterr().err


def test_rings_of_a_killed_run_go_with_the_next_one(tmp_path: Path) -> None:
    with subprocess.Popen(["true"]) as ended:
        pass
    mine, ruin, other = (tmp_path / name for name in (f"tandem-soak-{os.getpid()}-abc", f"tandem-soak-{ended.pid}-abc", "something-else"))
    for place in (mine, ruin, other):
        (place / "client").mkdir(parents=True)
    captures.remove_ruins(tmp_path)
    assert mine.exists() and other.exists() and not ruin.exists()


def instances() -> list[str]:
    """The trace instances that the kernel has."""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tracefs nodev /sys/kernel/tracing && ls /sys/kernel/tracing/instances"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the kernel's traces cannot be read here: {done.stderr.strip()}")
    return done.stdout.split()


_HEARS = """
import sys, time
sys.path[:0] = {path!r}
from tandem_soak.captures import KernelWord
word = KernelWord({name!r})
time.sleep(0.5)
print(word.told() is not None, flush=True)
if sys.argv[1] == "stay":
    time.sleep(60)
word.close()
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to read the kernel's traces")
@pytest.mark.parametrize("killed", [False, True])
def test_what_the_kernel_tells_of_resets_leaves_no_trace_instance(killed: bool) -> None:
    instances()
    name = f"unit{os.getpid()}"
    with subprocess.Popen([sys.executable, "-c", _HEARS.format(path=sys.path, name=name), "stay" if killed else "end"], stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout
        if program.stdout.readline() != "True\n":
            pytest.skip("this kernel tells of no resets")
        if killed:
            assert name in instances()
            program.kill()
        program.wait(20)
    deadline = time.monotonic() + 10
    while name in instances() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert name not in instances()


def test_what_is_under_way_is_told_also_while_something_else_is(tmp_path: Path) -> None:
    """The signal came while a line was written, and its handler waited for the lock that its own thread held: nothing more was said."""
    (tmp_path / "random").write_bytes(bytes(2 << 20))
    plan = {"seed": 1, "threads": 0, "mptcp": 0.0, "www": str(tmp_path), "random": "random", "files": []}
    program = f"""
import os, signal, sys
sys.path.insert(0, {str(Path(traffic.__file__).parent)!r})
import json, threading, time, traffic
class One:
    now = {{"began": time.monotonic(), "port": 1, "bytes": 0}}
    looked = 0
    def __init__(self, *_): pass
    def start(self): pass
    def is_alive(self): One.looked += 1; return One.looked < 4
    def join(self, _):
        with traffic._printing:
            os.kill(os.getpid(), signal.SIGUSR1)
            time.sleep(0.05)
traffic.Application = One
sys.argv[1:] = [{json.dumps({**plan, "threads": 1})!r}]
traffic.main()
"""
    done = subprocess.run([sys.executable, "-B", "-c", program], capture_output=True, text=True, timeout=20)
    assert '"under_way": [{"began"' in done.stdout, done.stderr


def test_the_end_of_a_transfer_takes_nothing_away_from_who_looks(capsys) -> None:
    """Half way out of the list of what is under way it had no beginning any more, and the whole traffic ended by that."""
    one = traffic.Application(1, {"seed": 1}, b"", {}, threading.Event())
    seen = one.now = {"kind": "http", "began": time.monotonic(), "port": 1, "bytes": 5}
    one._done("whole")
    assert "began" in seen and '"outcome": "whole"' in capsys.readouterr().out
