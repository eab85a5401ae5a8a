"""The lab in virtual time: equal seeds give equal results to the byte, whatever the machine does, and nothing is left behind."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest
from conftest import LAB_PY, ROOT

from tandem_lab import system, virtual
from tandem_lab.errors import LabError
from tandem_lab import kernels, virtual_machine as machine

BENCH_PY = ROOT / "tools" / "bench" / "bench.py"
# 802.11b carries little: few packets, so a short test, and every part takes part: emulator, servers, daemon with its keeper and a module.
CELL = ("offload", "--quick", "--case", "wifi-b", "--arm", "plain", "--arm", "tandem", "--time", "virtual", "--json", "-")


@pytest.fixture(scope="module", autouse=True)
def kernel() -> kernels.Kernel:
    if virtual.inside():
        pytest.skip("this is virtual time already")
    try:
        system.tandem_binary("tandemd")
        return machine.requirements()
    except LabError as error:
        pytest.skip(str(error))


def bench(*more: str) -> bytes:
    done = subprocess.run([sys.executable, str(BENCH_PY), *CELL, *more], capture_output=True, timeout=400)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout


def lab(*words: str, **options) -> subprocess.CompletedProcess:
    return subprocess.run([sys.executable, str(LAB_PY), *words], capture_output=True, text=True, timeout=200, **options)


def _spin() -> None:
    while True:
        pass


@contextmanager
def busy_machine() -> Iterator[None]:
    """A loop without end on every core."""
    loops = [multiprocessing.Process(target=_spin, daemon=True) for _ in os.sched_getaffinity(0)]
    for loop in loops:
        loop.start()
    try:
        yield
    finally:
        for loop in loops:
            loop.kill()
            loop.join()


def guests(kernel: kernels.Kernel) -> list[int]:
    """Processes on this machine that are a kernel in virtual time or run in one."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and os.readlink(entry / "exe") == str(kernel.image):
                found.append(int(entry.name))
        except OSError:
            continue  # ended meanwhile
    return found


def traces() -> set[str]:
    """What could be a guest's in the places for temporary files, and every mount."""
    found = {f"{place}/{name}" for place in ("/tmp", "/dev/shm", "/run", "/var/tmp") for name in os.listdir(place) if "virtual" in name or "vm_file" in name}
    return found | {line for line in Path("/proc/mounts").read_text().splitlines() if "virtual" in line}


def test_a_bench_cell_is_equal_to_the_byte_also_on_a_busy_machine() -> None:
    first = bench()
    assert bench() == first
    with busy_machine():
        assert bench() == first
    document = json.loads(first)
    assert document["header"]["time"] == "virtual" and document["header"]["kernel_checksum"] == kernels.find().checksum
    assert document["failed"] == 0 and all(run["value"] > 1 for run in document["runs"] if run["value"] is not None)


def test_another_seed_is_another_run() -> None:
    """What would be equal whatever happens shows nothing."""
    def figures(text: bytes) -> list:
        return [run.get("details") for run in json.loads(text)["runs"]]

    assert figures(bench("--seed", "2")) != figures(bench("--seed", "3"))


def test_several_at_a_time_give_the_same() -> None:
    alone, together = (json.loads(bench("--rounds", "2", "--jobs", jobs)) for jobs in ("1", "2"))
    for document in (alone, together):
        del document["header"]["command"]
    assert alone == together


def test_a_lab_run_is_equal_and_says_what_it_ran_on() -> None:
    words = ("run", "plain", "--seconds", "3", "--json", "--time", "virtual")
    first, second = lab(*words), lab(*words)
    assert first.returncode == 0, first.stderr
    assert first.stdout == second.stdout
    report = json.loads(first.stdout)
    assert report["time"] == "virtual" and report["kernel"] == kernels.find().words
    assert report["goodput_mbps"] > 15


def test_results_come_out_by_a_directory_and_nothing_else_does(tmp_path: Path) -> None:
    inside, outside = tmp_path / "results", tmp_path / "elsewhere"
    done = lab("run", "plain", "--no-air", "--time", "virtual", "--results", str(inside), "--cmd", "sh", "-c",
               f"echo seen >{inside}/file; echo lost >{outside}; exit 7")
    assert done.returncode == 7, done.stderr
    assert (inside / "file").read_text() == "seen\n"
    assert not outside.exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_run_leaves_nothing(kernel: kernels.Kernel, number: signal.Signals) -> None:
    before = set(guests(kernel))
    files = traces()
    run = subprocess.Popen([sys.executable, str(LAB_PY), "run", "plain", "--time", "virtual"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    assert system.wait_until(lambda: len(set(guests(kernel)) - before) > 5, 60.0), "the lab in virtual time did not start"
    run.send_signal(number)
    assert run.wait(10) != 0
    assert system.wait_until(lambda: not set(guests(kernel)) - before, 10.0), "processes of the guest live on"
    assert traces() == files


def test_a_guest_that_dies_is_a_clear_failure(kernel: kernels.Kernel) -> None:
    before = set(guests(kernel))
    run = subprocess.Popen([sys.executable, str(LAB_PY), "run", "plain", "--time", "virtual"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    assert system.wait_until(lambda: len(set(guests(kernel)) - before) > 5, 60.0)
    for pid in sorted(set(guests(kernel)) - before):
        try:
            os.kill(pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, words = run.communicate(timeout=20)
    assert run.returncode == 1
    assert "ended before its command" in words and "Traceback" not in words


def test_a_stopped_guest_goes_on_as_if_nothing_had_been(kernel: kernels.Kernel) -> None:
    """Somebody stops all of it for a second (kill -STOP): it takes longer, and the figures are the same."""
    words = [sys.executable, str(LAB_PY), "run", "plain", "--seconds", "3", "--json", "--time", "virtual"]
    undisturbed = subprocess.run(words, capture_output=True, text=True, timeout=100).stdout
    before = set(guests(kernel))
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    assert system.wait_until(lambda: len(set(guests(kernel)) - before) > 5, 60.0)
    mine = set(guests(kernel)) - before
    for number, pause in ((signal.SIGSTOP, 1.0), (signal.SIGCONT, 0.0)):
        for pid in mine:
            try:
                os.kill(pid, number)
            except ProcessLookupError:
                pass
        time.sleep(pause)
    assert run.communicate(timeout=100)[0] == undisturbed


def test_what_measures_the_machine_refuses(tmp_path: Path) -> None:
    for name, words in (("overhead", "measures CPU"), ("latency", "wait for the CPU"), ("scale", "measures CPU"), ("ecn-grid", "simulator")):
        done = subprocess.run([sys.executable, str(BENCH_PY), name, "--time", "virtual"], capture_output=True, text=True)
        assert done.returncode == 2 and words in done.stderr and len(done.stderr.splitlines()) == 1
    done = lab("up", "plain", "--time", "virtual")
    assert done.returncode == 2 and "allowed: run" in done.stderr
