"""`tandem ab` from end to end: real downloads over the lab's air, interrupted, resumed, and the user's modules as before."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tandem_lab import system


def words(lab, directory: Path, settings: str, *more: str) -> list[str]:
    return [str(system.tandem_binary("tandem")), "ab", settings, "--url", f"http://{lab.server('srv1').ipv4}/100G", "--for", "1.5s", "--warm-up", "1s", "--washout", "200ms", "--busy", "100%",
            "--until", "10%", "--report", str(directory), "--yes", *more]


def environment(daemon, tmp_path: Path) -> dict[str, str]:
    return dict(os.environ, TANDEM_SOCKET=str(daemon.socket), XDG_STATE_HOME=str(tmp_path / "state"))


def modules_on(daemon) -> set[str]:
    return {module["name"] for module in daemon.api("/v1/modules") if module["enabled"]}


def pairs(directory: Path) -> list[dict]:
    file = directory / "pairs.jsonl"
    return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []


def test_an_interrupted_comparison_goes_on_and_comes_to_a_verdict(make_lab, with_air, tmp_path):
    lab, out = make_lab("plain"), tmp_path / "ab"
    with lab.daemon(modules=["freeze"]) as daemon:
        process = subprocess.Popen(lab.client.argv(words(lab, out, "offload")), env=environment(daemon, tmp_path), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert system.wait_until(lambda: len(pairs(out)) >= 2 and "freeze" not in modules_on(daemon), 60)
        process.send_signal(signal.SIGINT)
        told, said = process.communicate(timeout=30)
        assert process.returncode == 130 and "the same command goes on" in said and "nothing is claimed" in told, said
        assert modules_on(daemon) == {"freeze"}
        kept = pairs(out)

        done = subprocess.run(lab.client.argv(words(lab, out, "offload", "--json")), env=environment(daemon, tmp_path), capture_output=True, text=True, timeout=400)
        assert done.returncode == 0, done.stderr
        assert pairs(out)[:len(kept)] == kept and modules_on(daemon) == {"freeze"}
        found, = json.loads(done.stdout)["comparisons"]
        print(found["words"])  # how much it gains is measured by benches: docs/results/ab-offload.md
        assert found["verdict"] in ("gain", "nothing", "undecided") and found["low"] < found["gain"] < found["high"] < 1 and found["pairs"] >= 8
        by_arm = {cost["arm"]: cost for cost in json.loads(done.stdout)["costs"]}
        assert by_arm["offload"]["cell_bytes"] > 0 == by_arm["off"]["cell_bytes"]
        # The two counters are read while packets leave: one may be an ACK or two ahead.
        by_module = by_arm["offload"]["cell_by_module"]
        assert by_module.keys() == {"offload"} and by_module["offload"] == pytest.approx(by_arm["offload"]["cell_bytes"], rel=0.05)
        assert (out / "report.html").stat().st_size > 5000


def test_a_killed_one_leaves_nothing_that_the_next_start_does_not_put_back(make_lab, with_air, tmp_path):
    lab = make_lab("plain")
    with lab.daemon(modules=["freeze"]) as daemon:
        process = subprocess.Popen(lab.client.argv(words(lab, tmp_path / "ab", "queued:offload")), env=environment(daemon, tmp_path), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        assert system.wait_until(lambda: modules_on(daemon) == {"offload"}, 30)
        time.sleep(0.5)
        process.kill()
        process.wait()
        assert modules_on(daemon) == {"offload"}
        done = subprocess.run(lab.client.argv(words(lab, tmp_path / "next", "offload", "--most", "1s")), env=environment(daemon, tmp_path), capture_output=True, text=True, timeout=60)
        assert done.returncode == 0 and "the modules are as before it: freeze" in done.stderr, done.stderr
        assert modules_on(daemon) == {"freeze"}
        knobs = {knob["name"]: knob["value"] for module in daemon.api("/v1/modules") if module["name"] == "offload" for knob in module["knobs"]}
        assert knobs["strategy"] == "validated" and knobs["fraction"] == "0.5"
