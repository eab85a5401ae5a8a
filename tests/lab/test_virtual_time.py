"""The lab in virtual time: equal seeds give equal results to the byte, whatever the machine does, and nothing is left behind."""

from __future__ import annotations

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import tempfile
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


def guest_of(run: subprocess.Popen, kernel: kernels.Kernel) -> list[system.ProcessId]:
    """The processes of the guest of a run: its kernel, and what runs in it."""
    found: list[system.ProcessId] = []
    waiting = [run.pid]
    while waiting:
        pid = waiting.pop()
        try:
            waiting += map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())
            if os.readlink(f"/proc/{pid}/exe") == str(kernel.image) and (process := system.ProcessId.of(pid)):
                found.append(process)
        except OSError:
            continue  # ended meanwhile
    return found


def started(run: subprocess.Popen, kernel: kernels.Kernel) -> list[system.ProcessId]:
    """The same, when the lab in it is up."""
    assert system.wait_until(lambda: len(guest_of(run, kernel)) > 5, 60.0), "the lab in virtual time did not start"
    return guest_of(run, kernel)


def gone(guest: list[system.ProcessId]) -> bool:
    return system.wait_until(lambda: not any(process.alive() for process in guest), 10.0)


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


# A write, a wait, a read that follows it, one that does not, and a number that is no call; then under a filter for system calls.
SEVERAL = """
import ctypes, errno, os, select
libc = ctypes.CDLL(None, use_errno=True)
class Call(ctypes.Structure):
    _fields_ = [("number", ctypes.c_long), ("arguments", ctypes.c_long * 6), ("after", ctypes.c_long), ("result", ctypes.c_long)]
READ, WRITE, POLL = 0, 1, 7
def make(*calls):
    listed = (Call * len(calls))(*(Call(number, (ctypes.c_long * 6)(*arguments), after) for number, after, *arguments in calls))
    code = libc.syscall(1000, listed, len(calls))
    return (ctypes.get_errno() if code else 0), [call.result for call in listed]
reader, writer = os.pipe2(os.O_NONBLOCK)
text, room = ctypes.create_string_buffer(b"frame"), ctypes.create_string_buffer(16)
class Watched(ctypes.Structure):
    _fields_ = [("fd", ctypes.c_int), ("events", ctypes.c_short), ("revents", ctypes.c_short)]
watched = Watched(reader, select.POLLIN, 0)
poll = (POLL, -1, ctypes.addressof(watched), 1, 0)
read = (READ, 0, reader, ctypes.addressof(room), 16)
empty = make(poll, read)
full = make((WRITE, -1, writer, ctypes.addressof(text), 5), (READ, 0, reader, ctypes.addressof(room), 16), (READ, 1, reader, ctypes.addressof(room), 16))
wrong = [make((-1, -1))[0], make((READ, 0, reader, 0, 0))[0], make(*[poll] * 257)[0]]
libc.prctl(38, 1, 0, 0, 0)
class Filter(ctypes.Structure):
    _fields_ = [("count", ctypes.c_ushort), ("code", ctypes.c_void_p)]
allow = (ctypes.c_ulonglong * 1)(0x7FFF000000000006)
libc.prctl(22, 2, ctypes.byref(Filter(1, ctypes.addressof(allow))))
print(empty, full, room.value, wrong, make(poll)[0])
"""


def test_several_system_calls_in_one() -> None:
    words: list[bytes] = []
    done = machine.run([sys.executable, "-c", SEVERAL], seed=1, say=lambda _, data: words.append(data))
    again, skipped, invalid, fault, none = errno.EAGAIN, -errno.ECANCELED, errno.EINVAL, errno.EFAULT, errno.ENOSYS
    assert done.exit_code == 0, b"".join(words)
    assert b"".join(words).decode().strip() == f"{(0, [0, skipped])} {(again, [5, 5, -again])} b'frame' {[invalid, fault, none]} {none}"


def test_results_come_out_by_a_directory_and_nothing_else_does(tmp_path: Path) -> None:
    inside, outside = tmp_path / "results", tmp_path / "elsewhere"
    done = lab("run", "plain", "--no-air", "--time", "virtual", "--results", str(inside), "--cmd", "sh", "-c",
               f"echo seen >{inside}/file; echo lost >{outside}; exit 7")
    assert done.returncode == 7, done.stderr
    assert (inside / "file").read_text() == "seen\n"
    assert not outside.exists()


def test_results_begin_with_what_was_there(tmp_path: Path) -> None:
    """The command reads, appends, replaces and removes in the directory as it would in real time."""
    (tmp_path / "log").write_text("before\n")
    (tmp_path / "gone").write_text("")
    (tmp_path / "old").mkdir()
    done = lab("run", "plain", "--no-air", "--time", "virtual", "--results", str(tmp_path), "--cmd", "sh", "-c",
               f"cd {tmp_path}; echo after >>log; rm gone; rmdir old; mkdir -p new/below; echo x >new/below/file; chmod 700 new/below/file; ln -s log link")
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "log").read_text() == "before\nafter\n" and (tmp_path / "link").readlink() == Path("log")
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["link", "log", "new", "new/below", "new/below/file"]
    assert (tmp_path / "new/below/file").stat().st_mode & 0o777 == 0o700


def test_a_scenario_below_the_results_is_run_wherever_they_are() -> None:
    """The guest has a /run of its own, and so had its kernel's process."""
    with tempfile.TemporaryDirectory(dir="/run") as place:
        file = Path(place, "own.toml")
        file.write_text((ROOT / "tools/lab/scenarios/plain.toml").read_text())
        done = lab("run", str(file), "--no-air", "--time", "virtual", "--results", place, "--cmd", "sh", "-c", f"ls {place} >{place}/seen")
        assert done.returncode == 0, done.stderr
        assert Path(place, "seen").read_text().split() == ["own.toml", "seen"]


def test_a_directory_removed_and_made_anew_has_nothing_of_the_old_one(tmp_path: Path) -> None:
    """The overlay's own mark says so."""
    (tmp_path / "d" / "below").mkdir(parents=True)
    for name in ("d/old", "d/below/old", "file"):
        (tmp_path / name).write_text("before")
    done = lab("run", "plain", "--no-air", "--time", "virtual", "--results", str(tmp_path), "--cmd", "sh", "-c",
               f"cd {tmp_path}; rm -r d file; mkdir -p d/below file; echo x >d/below/fresh; echo x >file/fresh")
    assert done.returncode == 0, done.stderr
    assert sorted(str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")) == ["d", "d/below", "d/below/fresh", "file", "file/fresh"]


def test_results_for_a_full_disk_come_out_whole_or_not_at_all(small_disk: Path) -> None:
    done = lab("run", "plain", "--no-air", "--time", "virtual", "--results", str(small_disk), "--cmd", "sh", "-c",
               f"echo whole >{small_disk}/first; head -c 3000000 /dev/urandom >{small_disk}/second")
    assert done.returncode == 1
    assert f"{small_disk}/second: No space left on device" in done.stderr and "Traceback" not in done.stderr
    assert [path.name for path in small_disk.iterdir()] == ["first"] and (small_disk / "first").read_text() == "whole\n"


def test_output_on_a_full_disk() -> None:
    with open("/dev/full", "w") as full:
        done = subprocess.run([sys.executable, str(LAB_PY), "run", "plain", "--no-air", "--time", "virtual", "--cmd", "echo", "words"], stdout=full,
                              stderr=subprocess.PIPE, text=True, timeout=60)
    assert done.returncode == 1 and "standard output: No space left on device" in done.stderr and "Traceback" not in done.stderr


def test_a_guest_that_spins_is_ended(kernel: kernels.Kernel) -> None:
    files = traces()
    run = subprocess.Popen([sys.executable, str(LAB_PY), "run", "plain", "--no-air", "--time", "virtual", "--cmd", "sh", "-c", "echo begun; while :; do :; done"],
                           stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ, "TANDEM_SPIN_LIMIT": "2"})
    with run:
        try:
            guest = started(run, kernel)
            printed, words = run.communicate(timeout=100)
        finally:
            run.kill()
    assert run.returncode == 1 and printed == "begun\n"
    last = words.splitlines()[-1]
    assert all(part in last for part in ("computed for 2 s", "loops without waiting", "--time real", "TANDEM_SPIN_LIMIT")), words
    assert gone(guest), "processes of the guest live on"
    assert traces() == files


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT])
def test_a_killed_run_leaves_nothing(kernel: kernels.Kernel, number: signal.Signals) -> None:
    files = traces()
    run = subprocess.Popen([sys.executable, str(LAB_PY), "run", "plain", "--time", "virtual"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    guest = started(run, kernel)
    run.send_signal(number)
    assert run.wait(10) != 0
    assert gone(guest), "processes of the guest live on"
    assert traces() == files


def test_a_guest_that_dies_is_a_clear_failure(kernel: kernels.Kernel) -> None:
    run = subprocess.Popen([sys.executable, str(LAB_PY), "run", "plain", "--time", "virtual"], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    for process in started(run, kernel):
        try:
            os.kill(process.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
    _, words = run.communicate(timeout=20)
    assert run.returncode == 1
    assert "ended before its command" in words and "Traceback" not in words


def test_a_stopped_guest_goes_on_as_if_nothing_had_been(kernel: kernels.Kernel) -> None:
    """Somebody stops all of it for a second (kill -STOP): it takes longer, and the figures are the same."""
    words = [sys.executable, str(LAB_PY), "run", "plain", "--seconds", "3", "--json", "--time", "virtual"]
    undisturbed = subprocess.run(words, capture_output=True, text=True, timeout=100).stdout
    run = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
    guest = started(run, kernel)
    for number, pause in ((signal.SIGSTOP, 1.0), (signal.SIGCONT, 0.0)):
        for process in guest:
            try:
                os.kill(process.pid, number)
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
