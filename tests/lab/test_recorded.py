"""What the flight recorder kept of a run repeats it: every decision, byte for byte of what left, over every scenario of the lab."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tandem_lab import system
from test_together import MODULES, modules_needed, scenario  # noqa: F401

SCENARIOS = sorted(path.stem for path in (Path(__file__).resolve().parents[2] / "tools" / "lab" / "scenarios").glob("*.toml"))
# Everything is kept, from the daemon's start on.
WHOLE = {"recorder": {"seconds": 600, "bytes": "64MiB"}}
LONGEST = 9.0  # s of a download over a scenario: with two access points the whole file takes up to 20


def replay(file: Path) -> tuple[int, dict[str, Any]]:
    """Exit code and report of `tandem trace replay`."""
    ran = subprocess.run([str(system.tandem_binary("tandem")), "trace", "replay", "--json", str(file)], capture_output=True, text=True)
    assert ran.stdout, ran.stderr
    return ran.returncode, json.loads(ran.stdout)


def check(daemon, file: Path) -> dict[str, Any]:
    """The recording is replayed to the same decisions; all of them were compared."""
    # The decisions first: what is made meanwhile is in the recording, but not in these numbers.
    made = sum(entry["decisions"].get(why, 0) for entry in daemon.api("/v1/modules") for why in entry["decisions"])
    file.write_bytes(daemon.recording())
    code, report = replay(file)
    assert report["whole"] and report["skipped"] == 0
    assert report["same"] and code == 0, [flow["first"] for flow in report["flows"] if flow["first"]]
    assert all(flow["not_replayed"] is None for flow in report["flows"]), report["flows"]
    assert report["compared"] > 100 and made > 0
    return report


def of_modules(report: dict[str, Any]) -> set[str]:
    """The modules that decided something on packets or made segments."""
    return {why.partition(":")[0] for flow in report["flows"] for why in flow["decisions"]} & set(MODULES)


# What no scenario file has.
@pytest.mark.parametrize("trouble", ["blackout-buffered", "walk", "busy", "everything"])
def test_replayed_to_identical_decisions(make_lab, modules_needed, trouble, tmp_path):  # noqa: F811
    lab = make_lab(scenario(trouble))
    with lab.daemon(MODULES, WHOLE) as daemon:
        lab.start_timeline()
        assert lab.download("random", sha256=True, timeout=60).sha256 == lab.random_file["sha256"]
        assert of_modules(check(daemon, tmp_path / "whole.pcapng"))
    # Of the data there are copies of some; how much arrived is known all the same.
    explained = subprocess.run([str(system.tandem_binary("tandem")), "trace", "explain", "--stalls", "--json", str(tmp_path / "whole.pcapng")],
                               capture_output=True, text=True, check=True)
    assert max(flow["bytes_in"] for flow in json.loads(explained.stdout)["flows"]) > 10 << 20


@pytest.mark.parametrize("name", SCENARIOS)
def test_replayed_over_every_scenario(make_lab, modules_needed, name, tmp_path):  # noqa: F811
    lab = make_lab(name)
    with lab.daemon(MODULES, WHOLE) as daemon:
        lab.start_timeline()
        lab.download("random", seconds=LONGEST)
        check(daemon, tmp_path / "whole.pcapng")


def test_switches_settings_and_resting_modules(make_lab, modules_needed, tmp_path):  # noqa: F811
    lab = make_lab(scenario("loss"))
    with lab.daemon(MODULES, {**WHOLE, "evidence": {"share": 0.5, "paths": True}}) as daemon:
        for change in (lambda: None,
                       lambda: daemon.api("/v1/modules/mirror", "PUT", {"enabled": False}),
                       lambda: daemon.api("/v1/modules/offload/knobs/window_mss", "PUT", {"value": "20"}),
                       lambda: daemon.api("/v1/modules/mirror", "PUT", {"enabled": True})):
            download = lab.start_download("100G", seconds=60)
            time.sleep(1)
            change()
            lab.download("1M", timeout=50)
            assert download.running()
            assert not download.stop().error
        report = check(daemon, tmp_path / "whole.pcapng")
        assert len(report["flows"]) >= 8


def test_a_ring_that_begins_later_says_of_which_flows_it_knows_nothing(make_lab, modules_needed, tmp_path):  # noqa: F811
    lab = make_lab("lossy")
    lab.add_file("one", bytes(1_000_000))
    with lab.daemon(MODULES, {"recorder": {"seconds": 6}}) as daemon:
        download = lab.start_download("100G")
        time.sleep(8)
        download.stop()
        # With the air for itself it takes a second or two: the ring holds it from its handshake on.
        lab.download("one", timeout=60)
        file = tmp_path / "later.pcapng"
        file.write_bytes(daemon.recording())
        _, report = replay(file)
        assert not report["whole"]
        older = [flow for flow in report["flows"] if flow["not_replayed"]]
        assert older and all("middle" in flow["not_replayed"]["why"] and flow["decided"] == 0 for flow in older)
        assert any(flow["decided"] > 0 for flow in report["flows"])


def test_a_trap_keeps_what_came_before_a_blackout(make_lab, modules_needed, tmp_path):  # noqa: F811
    lab = make_lab(scenario("blackout"))
    with lab.daemon(MODULES) as daemon:
        tandem = [str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "trap"]
        assert lab.client.run([*tandem, "add", "flow.gap > 500ms", "--save"]).stdout == "trap 1 is set\n"
        lab.client.run([*tandem, "add", "link.down > 200ms"])
        wrong = lab.client.run([*tandem, "add", "flow.gap > 500"], check=False)
        assert wrong.returncode == 2 and "character 12" in wrong.stderr
        lab.start_timeline()
        lab.download("random", timeout=60)
        assert system.wait_until(lambda: daemon.api("/v1/traps")[0].get("file"), 5.0), daemon.api("/v1/traps")
        gap, down = daemon.api("/v1/traps")
        assert gap["fired"] == 1 and down["fired"] == 1 and "file" not in down
        file = Path(gap["file"])
        assert file.parent == lab.directory / "traps" and file.parent.stat().st_mode & 0o777 == 0o700 and file.stat().st_mode & 0o777 == 0o600
        code, report = replay(file)
        # The download before the gap, from its first packet on; nothing of what followed.
        assert code == 0 and report["compared"] > 100
        assert 0.5e9 < report["last_ns"] - report["first_ns"] < 3e9
        assert "flow.gap > 500 ms" in lab.client.run([*tandem, "list"]).stdout
        lab.client.run([*tandem, "remove", "1"])
        assert [trap["id"] for trap in daemon.api("/v1/traps")] == [2]


def test_taking_it_leaves_no_memory_behind(make_lab, modules_needed):  # noqa: F811
    lab = make_lab(scenario("loss"))
    with lab.daemon(MODULES) as daemon:
        for _ in range(4):  # the recorder's 8 MiB fill
            lab.download("random", timeout=60)
        before = system.resident_bytes(daemon.pid)
        taken = [len(daemon.recording()) for _ in range(6)]
        lab.download("random", timeout=60)
        taken += [len(daemon.recording()) for _ in range(6)]
        assert min(taken) > 3 << 20
        # What it is made and sent in is given back, once the last one is closed: 32 MiB stayed before.
        assert system.wait_until(lambda: system.resident_bytes(daemon.pid) < before + (4 << 20), 5.0), (before, taken)
