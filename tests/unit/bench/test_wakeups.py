"""Wake-ups as the kernel's trace tells them."""

from __future__ import annotations

import pytest

from tandem_bench.wakeups import WakeUp, Woken, woken

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
