"""The machine sleeps while a download runs: afterwards nobody speaks for a flow that may be dead. The machine of the tests stays awake;
CLOCK_BOOTTIME says otherwise (tests/lab/asleep), and the wall clock is set, as the kernel does then. In virtual time it leaps; elsewhere it is everybody's, and is
set to what it says, which wakes whoever waits for that as well."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Iterator

import pytest

from tandem_lab import system, virtual

HELD = {"modules": {"freeze": {"strategy": "resume_acks"}}}


@pytest.fixture
def asleep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """How many seconds the machine has slept, as the daemon is told; the wall clock is as it was after the test."""
    library = system.tandem_binary("tandemd").resolve().parents[1] / "tests" / "tandem_asleep.so"
    if not library.exists():
        pytest.skip(f"{library} is not built")
    (tmp_path / "slept").write_text("0")
    monkeypatch.setenv("LD_PRELOAD", str(library))
    monkeypatch.setenv("TANDEM_ASLEEP", str(tmp_path / "slept"))
    ahead = time.time() - time.monotonic()
    yield tmp_path / "slept"
    if virtual.inside():
        time.clock_settime(time.CLOCK_REALTIME, time.monotonic() + ahead)


def set_wall_clock() -> None:
    try:
        time.clock_settime_ns(time.CLOCK_REALTIME, time.time_ns() + (300 * 10**9 if virtual.inside() else 0))
    except PermissionError as error:
        pytest.skip(f"the wall clock cannot be set here: {error}")


def status(daemon) -> dict:
    return daemon.api("/v1/status")


def decisions(daemon) -> dict[str, int]:
    entry = next(entry for entry in daemon.api("/v1/modules") if entry["name"] == "freeze")
    assert entry["violations"] == {} and entry["excluded"] == 0 and entry["faults"] == 0
    return entry["decisions"]


@pytest.mark.parametrize("slept", [0, 300])
def test_after_a_sleep_nobody_speaks_for_a_flow(air_lab, asleep, slept) -> None:
    with air_lab.daemon(["freeze"], HELD) as daemon:
        going = air_lab.start_download("random", sha256=True)
        going.wait_bytes(air_lab.random_file["size"] // 3)
        assert system.wait_until(lambda: any(flow["modules"].get("freeze", {}).get("withheld (bytes)", 0) > 0 for flow in daemon.api("/v1/flows")), 5)
        air_lab.set("wifi.blackout", "drop")
        time.sleep(0.5)
        resumed = decisions(daemon).get("freeze: resume ACK", 0)
        asleep.write_text(str(slept))
        set_wall_clock()
        if slept:
            assert system.wait_until(lambda: status(daemon)["datapath"]["sleeps"] == 1, 2)
        time.sleep(0.2)
        air_lab.set("wifi.blackout", "none")
        result = going.wait()
        assert result.error is None and result.sha256 == air_lab.random_file["sha256"]
        # A clock that was set is no sleep.
        assert status(daemon)["datapath"]["sleeps"] == (1 if slept else 0)
        assert (decisions(daemon).get("freeze: resume ACK", 0) > resumed) is (slept == 0)
        # Two clocks are read one after the other, so that a little less than 300 s may be seen.
        assert bool(re.search("the machine has slept for (299|300) s", daemon.log.read_text())) is (slept != 0)
