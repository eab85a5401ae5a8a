"""Sweeps of tandem sim: each run once, also over interruptions; one table that others read; bad input told with its place."""

from __future__ import annotations

import csv
import os
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

TOOLS = Path(__file__).resolve().parents[3] / "tools"
sys.path[:0] = [str(TOOLS / tool) for tool in ("common", "lab", "sim")]

from tandem_lab.system import wait_until  # noqa: E402
from tandem_simulator.program import SimError  # noqa: E402
from tandem_simulator.table import Table  # noqa: E402

SIM = TOOLS / "sim/sim.py"
SHORT = ["--set", "seconds=2", "--set", "warmup=0"]


def sim(*words: str | Path, where: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, str(SIM), *map(str, words)], capture_output=True, text=True, cwd=where, timeout=60)


def rows(file: Path, columns: str = "*") -> list[tuple]:
    base = sqlite3.connect(file)
    try:
        return base.execute(f"SELECT {columns} FROM runs").fetchall()
    finally:
        base.close()


def test_every_combination_once(tmp_path: Path) -> None:
    words = ["sweep", "single", *SHORT, "--vary", "cc=reno,cubic", "--vary", "mbps=5,10", "--out", "a.db", "--csv", "a.csv"]
    done = sim(*words, where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "4 runs" in done.stderr
    assert sorted(rows(tmp_path / "a.db", "cc, mbps > 0, seconds")) == [("cubic", 1, 2)] * 2 + [("reno", 1, 2)] * 2
    before = rows(tmp_path / "a.db")
    # Again: nothing is left to do. More values: only what is new.
    done = sim(*words, where=tmp_path)
    assert "0 runs, 4 more are in the table already" in done.stderr
    assert rows(tmp_path / "a.db") == before
    done = sim(*("mbps=5,10,20" if word == "mbps=5,10" else word for word in words[:-2]), where=tmp_path)
    assert "2 runs, 4 more" in done.stderr
    with (tmp_path / "a.csv").open() as stream:
        table = list(csv.DictReader(stream))
    assert len(table) == 4
    assert all(float(row["flow0_sub0_mbps"]) > 1 for row in table)


def test_settings_and_results_do_not_share_columns(tmp_path: Path) -> None:
    assert sim("sweep", "single", *SHORT, "--vary", "mbps=5,10", "--out", "a.db", where=tmp_path).returncode == 0
    for given, got in rows(tmp_path / "a.db", "set_mbps, mbps"):
        assert 0.5 * given < got < given


def test_goes_on_after_kill_9(tmp_path: Path) -> None:
    words = ["sweep", "grid", "--set", "seconds=1000", "--vary", "seed=1..40", "--jobs", "1", "--out", "a.db"]
    process = subprocess.Popen([sys.executable, str(SIM), *words], cwd=tmp_path, stderr=subprocess.DEVNULL, start_new_session=True)
    assert wait_until(lambda: _has_rows(tmp_path / "a.db", 2), 30)
    process.kill()
    process.wait()

    def ended() -> bool:
        """What it had started; it may wait for somebody to take note."""
        left = [_stat(entry) for entry in Path("/proc").glob("[0-9]*/stat") if f" {process.pid} " in _stat(entry).split(")")[-1]]
        return not [stat for stat in left if ") Z " not in stat]

    assert wait_until(ended, 5)
    kept = len(rows(tmp_path / "a.db", "key"))
    assert 2 <= kept < 40
    words[words.index("seed=1..40")] = f"seed=1..{kept + 2}"
    done = sim(*words, where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert f"{kept} more are in the table already" in done.stderr
    assert len(rows(tmp_path / "a.db", "key")) == kept + 2


def _has_rows(table: Path, least: int) -> bool:
    try:
        return table.exists() and len(rows(table, "key")) >= least
    except sqlite3.OperationalError:
        return False  # not made yet


def _stat(path: Path) -> str:
    try:
        return path.read_text()
    except OSError:
        return ""


def test_a_failed_run_is_told_and_tried_again(tmp_path: Path) -> None:
    words = ["sweep", "single", *SHORT, "--vary", "queue=0,10", "--out", "a.db"]
    for _ in range(2):
        done = sim(*words, where=tmp_path)
        assert done.returncode == 1
        assert "FAILED" in done.stderr and "1 of 2 runs failed" in done.stderr
    error, = [row[0] for row in rows(tmp_path / "a.db", "error") if row[0]]
    assert "queue" in error and error in done.stderr, "what was refused, not where to read on"


def test_descriptions_with_places(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text("""
[[sweep]]
scenario = "run"
vary."flows.0.cc" = ["lia", "olia"]
vary."links.1.loss" = [0.001, 0.01]
[sweep.description]
seconds = 5
links = [{ name = "a", loss = 0.001 }, { name = "b", loss = 0.001 }]
flows = [{ mptcp = true, subflows = [{ rtt_ms = 50, down = ["a"] }, { rtt_ms = 50, down = ["b"] }] }]
""")
    done = sim("sweep", "a.toml", "--out", "a.db", "--summary", "mbps", "--by", "flows.0.cc", where=tmp_path)
    assert done.returncode == 0, done.stderr
    assert "| olia | 2 |" in done.stdout
    assert len(rows(tmp_path / "a.db", '"flows.0.cc", "links.1.loss"')) == 4


@pytest.mark.parametrize("words, complaint", [
    (["sweep", "nothing"], "it is no file"),
    (["sweep", "single", "--vary", "mbps"], "KEY=VALUE"),
    (["sweep", "single", "--vary", "mbps=1..x"], "1..x"),
    (["sweep", "single", "--set", "mbps=5", "--vary", "mbps=10,20"], "--vary mbps=10,20: --set mbps=5 says otherwise"),
    (["sweep", "single", "--set", "mbps=5", "--set", "mbps=10"], "--set mbps=10: --set mbps=5 says otherwise"),
    (["sweep", "single", "--vary", "seed=7..9", "--seeds", "2"], "--seeds seed=1..2: --vary seed=7..9 says otherwise"),
    (["sweep", "single", "--vary", "nosuch=1,2"], "nosuch: single has no such setting; allowed: "),
    (["sweep", "grid", "--set", "loss=1"], "loss: grid has no such setting"),
    (["sweep", "unknown.toml"], "mpbs: single has no such setting"),
    (["sweep", "bad.toml"], "sweep 1: scenario must be one of"),
    (["sweep", "single", "--seeds", "0"], "--seeds 0: at least 1"),
    (["sweep", "single", "--csv", "/nonexistent/a.csv"], "there is no directory /nonexistent"),
    (["fly"], "fly: not one of"),
    (["single", "--queue", "0"], "--queue"),
    (["run", "missing.json"], "missing.json: cannot be read"),
])
def test_bad_input(tmp_path: Path, words: list[str], complaint: str) -> None:
    (tmp_path / "bad.toml").write_text('[[sweep]]\nscenario = "fly"\n')
    (tmp_path / "unknown.toml").write_text('[[sweep]]\nscenario = "single"\nfix.mpbs = 5\n')
    done = sim(*words, where=tmp_path)
    assert done.returncode == 2
    assert complaint in done.stderr
    assert not (tmp_path / "sim.db").exists(), "a table of nothing"


def test_interrupted(tmp_path: Path) -> None:
    process = subprocess.Popen([sys.executable, str(SIM), "sweep", "grid", "--set", "seconds=100000", "--vary", "seed=1..9", "--out", "a.db"],
                               cwd=tmp_path, stderr=subprocess.PIPE, text=True)
    assert wait_until(lambda: _has_rows(tmp_path / "a.db", 0), 30)  # its table is made: it has begun
    os.kill(process.pid, signal.SIGINT)
    _, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert "goes on from here" in errors


def test_two_sweeps_into_one_file_do_not_trip_over_each_others_columns(tmp_path: Path) -> None:
    one, other = Table(tmp_path / "sim.db"), Table(tmp_path / "sim.db")
    one.add("a", "p", "grid", {}, {"link_wifi_sent": 1}, None)
    other.add("b", "p", "grid", {}, {"link_wifi_sent": 2}, None)
    assert [row["link_wifi_sent"] for row in one.rows({"a", "b"})] == [1, 2]


def test_rows_go_into_a_pipe_and_do_not_take_its_place(tmp_path: Path) -> None:
    table = Table(tmp_path / "sim.db")
    table.add("a", "p", "grid", {}, {"share": 0.5}, None)
    os.mkfifo(tmp_path / "pipe")
    end = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    assert table.write_csv(tmp_path / "pipe", {"a"}) == 1
    assert b"0.5" in os.read(end, 1000) and (tmp_path / "pipe").is_fifo()
    os.close(end)


def test_rows_that_cannot_be_written_are_told_with_the_place(tmp_path: Path) -> None:
    table = Table(tmp_path / "sim.db")
    table.add("a", "p", "grid", {}, {"share": 0.5}, None)
    with pytest.raises(SimError, match="--csv /dev/full: No space left on device"):
        table.write_csv(Path("/dev/full"), {"a"})
