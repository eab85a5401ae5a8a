"""What the bench `detection` makes of the daemon's verdicts, and that silence without traffic is no result."""

from __future__ import annotations

import socket
import subprocess
import sys
import threading
from types import SimpleNamespace
from typing import Any

import pytest

from tandem_bench.benches import detection
from tandem_bench.benches.detection import ALARMS, BENCH, delays
from tandem_lab.errors import LabError

MS = 1_000_000


def test_delays_of_verdicts_and_of_link_ups() -> None:
    took_place = [(1000 * MS, 1500 * MS), (4000 * MS, 4500 * MS)]
    assert delays(took_place, {1050 * MS, 3000 * MS, 4070 * MS}, {1510 * MS, 4530 * MS}, 6000 * MS) == ([50, 70], [10, 30], 0, {1050 * MS, 4070 * MS})
    assert delays(took_place, {4070 * MS}, {4530 * MS}, 6000 * MS) == ([70], [30], 1, {4070 * MS})


def test_a_link_up_that_nobody_noticed_is_not_left_out() -> None:
    """The worst one once had no figure at all."""
    assert delays([(1000 * MS, 1500 * MS)], {1050 * MS}, set(), 2500 * MS)[1] == [1000]


def silence(run: Any, what: str = "app-limited") -> Any:
    quiet = {"probes_sent": 0, "verdicts": {"drop": 0}}
    daemon = SimpleNamespace(api=lambda _: {"links": {"wifi": {"blackout": quiet}}})
    lab = SimpleNamespace(client=SimpleNamespace(run=run), server=lambda: SimpleNamespace(ipv4="127.0.0.1"))
    return BENCH._harmless(lab, daemon, what, 5.0, 1)


@pytest.mark.parametrize("code, good", [(28, True), (0, False), (7, False), (22, False)])
def test_no_alarm_without_traffic_is_no_result(code: int, good: bool) -> None:
    """curl ends with 28 when its time is over; a server that is not there ended it at once, and was as quiet as could be."""
    def run(argv: list[str], **_: Any) -> Any:
        return SimpleNamespace(returncode=code, stderr="curl: words", stdout="")

    if good:
        assert silence(run)[0][ALARMS.name] == 0
        return
    with pytest.raises(LabError, match=f"curl ended with {code}: curl: words"):
        silence(run)


def test_who_takes_bursts_fails_when_they_end_early() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        program = detection._TAKES.replace("8099", str(listening.getsockname()[1]))

        def serve() -> None:
            made = listening.accept()[0]
            made.sendall(b"x")
            made.close()

        thread = threading.Thread(target=serve)
        thread.start()
        done = subprocess.run([sys.executable, "-c", program, "127.0.0.1", "20"], capture_output=True, text=True, timeout=15)
        thread.join()
    assert done.returncode == 1 and "closed the connection early" in done.stderr
