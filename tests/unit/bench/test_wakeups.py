"""Wake-ups as the kernel's trace tells them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

from tandem_bench import helpers, wakeups
from tandem_bench.wakeups import Counting, WakeUp, Woken, lost_events, woken
from tandem_lab.errors import LabError

TRACE = """\
          <idle>-0       [001] d.h2. 100.500000: sched_waking: comm=tandemd pid=77 prio=120 target_cpu=000
         tandemd-77      [000] d..2. 100.500100: sched_waking: comm=tandem d pid=78 prio=120 target_cpu=001
         tandemd-77      [000] d..2. 100.500200: sched_waking: comm=dbus-daemon pid=900 prio=120 target_cpu=001
         tandemd-77      [000] .... 100.600000: sched_process_fork: comm=tandemd pid=77 child_comm=tandemd child_pid=79
            make-500     [000] .... 100.650000: sched_process_fork: comm=make pid=500 child_comm=make child_pid=501
   kworker/0:1-12        [000] d..2. 111.700000: sched_waking: comm=nft pid=79 prio=120 target_cpu=001
          <idle>-0       [001] d.h2. 111.800000: sched_waking: comm=make pid=501 prio=120 target_cpu=000
""".splitlines()


def test_what_a_program_starts_counts_and_whom_it_wakes_does_not() -> None:
    assert woken(TRACE, [77, 78]) == [WakeUp(100.5, 77, "tandemd", "<idle>"), WakeUp(100.5001, 78, "tandem d", "tandemd"),
                                      WakeUp(111.7, 79, "nft", "kworker/0:1")]


def test_rates_of_a_window() -> None:
    found = Woken(20.0, 3, tuple(woken(TRACE, [77, 78])))
    assert found.in_ten_seconds == pytest.approx(1.5) and found.most_in_ten_seconds == 2
    assert found.said() == "tandemd by <idle>: 1, tandem d by tandemd: 1, nft by kworker/0:1: 1"
    assert Woken(20.0, 0, ()).most_in_ten_seconds == 0 and Woken(20.0, 0, ()).said() == "nobody"
    assert Woken(20.0, 9, None).most_in_ten_seconds is None


def instances() -> list[str]:
    """The trace instances of benches that the kernel has."""
    done = subprocess.run(["unshare", "--mount", "sh", "-c", "mount -t tracefs nodev /sys/kernel/tracing && ls /sys/kernel/tracing/instances"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"the kernel's traces cannot be read here: {done.stderr.strip()}")
    return [name for name in done.stdout.split() if name.startswith("tandem-wakes-")]


_COUNTS = """
import os, sys, time
sys.path[:0] = {path!r}
from tandem_bench.wakeups import Counting
with Counting([os.getppid()]) as counting:
    print(counting.traced, flush=True)
    if sys.argv[1] == "stay":
        time.sleep(60)
"""


@pytest.mark.skipif(os.geteuid() != 0, reason="root is needed to read the kernel's traces")
@pytest.mark.parametrize("end", ["", "kill -9", "Ctrl-C"])
def test_a_count_leaves_no_trace_instance_however_it_ends(end: str) -> None:
    instances()
    with subprocess.Popen([sys.executable, "-c", _COUNTS.format(path=sys.path), "stay" if end else "end"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                          start_new_session=True) as program:
        mine = f"tandem-wakes-{program.pid}-"
        assert program.stdout
        if program.stdout.readline() != "True\n":
            pytest.skip("the kernel's traces cannot be read here")
        if end:
            assert any(name.startswith(mine) for name in instances())
            os.killpg(program.pid, signal.SIGINT) if end == "Ctrl-C" else program.kill()
        program.wait(20)
    deadline = time.monotonic() + 10
    while any(name.startswith(mine) for name in instances()) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not any(name.startswith(mine) for name in instances())


def test_wake_ups_are_still_counted() -> None:
    if os.geteuid() != 0:
        pytest.skip("root is needed to read the kernel's traces")
    with subprocess.Popen(["sh", "-c", "while :; do sleep 0.1; done"]) as busy, Counting([busy.pid]) as counting:
        try:
            if not counting.traced:
                pytest.skip("the kernel's traces cannot be read here")
            assert 5 <= counting.look(1.0).count <= 60
        finally:
            busy.kill()


def test_a_process_that_ends_while_it_is_looked_at_is_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    """It once failed runs of overhead and recorder: No such file or directory: '/proc/24826/task'."""
    with subprocess.Popen(["sleep", "60"]) as other:
        gone, real = f"/proc/{other.pid}/task", {name: getattr(os, name) for name in ("listdir", "scandir")}

        def vanished(name: str):
            def look(path=".", *rest):
                if str(path) == gone:
                    raise FileNotFoundError(2, "No such file or directory", gone)
                return real[name](path, *rest)
            return look

        for name in real:
            monkeypatch.setattr(os, name, vanished(name))
        found = helpers.cpu_by_process()
        other.kill()
    assert len(found) > 1 and not any(path.startswith(gone) for path in found)


def test_what_the_trace_lost_or_did_not_tell_is_no_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    """A trace that has ended tells of no wake-up: the best figure there is."""
    assert [lost_events(line) for line in (TRACE[0], "CPU:1 [LOST 1234 EVENTS]\n", "CPU:0 [LOST EVENTS]\n")] == [0, 1234, 1]
    counting = Counting.__new__(Counting)
    counting._pids, counting._known, counting.traced, counting._lines = [os.getpid()], {os.getpid()}, True, []
    monkeypatch.setattr(wakeups, "_PIPE", 0.0)
    counting._trace = SimpleNamespace(ended=lambda: False)
    assert counting.look(0.01).count == 0
    counting._lines = ["CPU:1 [LOST 12 EVENTS]\n"]
    with pytest.raises(LabError, match="lost 12 events"):
        counting.look(0.01)
    counting._lines, counting._trace = [], SimpleNamespace(ended=lambda: True)
    with pytest.raises(LabError, match="ended"):
        counting.look(0.01)
