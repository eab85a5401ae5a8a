"""rate.uploads between real kernels: the pace of an upload before a handoff, and whose it is afterwards (docs/decisions/0032)."""

from __future__ import annotations

import json
import os
import signal
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median_high
from typing import Any, Callable

import pytest

from tandem_lab import Lab, system, virtual
from tandem_lab.uploads import HANDOFF, LEAVING, Upload, around, between

pytestmark = pytest.mark.usefixtures("with_air")

UNLIMITED = 2**64 - 1
HANDLE = "7a4d:"  # of Tandem's HTB at an interface
BOTH_WAYS = pytest.mark.parametrize("by", ["auto", "interface"])  # of bounding an upload: by BPF, by HTB


def config(lab, uploads: bool = True, by: str = "auto") -> dict[str, Any]:
    return {"links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "daemon": {"pacing": by},
            "modules": {"rate": {"uploads": uploads}}}


def pacing(daemon) -> dict[str, Any]:
    return daemon.api("/v1/status")["pacing"]


def needs(daemon, by: str = "auto") -> None:
    state = pacing(daemon)
    if state["why"] or (state["how"] != "BPF" and by == "auto"):
        pytest.skip(f"no upload can be paced here: {state['why'] or 'the kernel does not let BPF look at sockets'}")
    assert state["how"] == ("HTB" if by == "interface" else "BPF")


def root(lab) -> dict[str, Any]:
    """What tc says of the discipline at the root of Wi-Fi."""
    return next(one for one in json.loads(lab.client.run(["tc", "-j", "qdisc", "show", "dev", "wlan0"]).stdout) if one.get("root"))


def classes(lab) -> list[str]:
    """The classes of HTB there, a line each."""
    return lab.client.run(["tc", "class", "show", "dev", "wlan0"]).stdout.splitlines()


def rate_of(seen: list[dict]) -> float:
    """bit/s that the peer acknowledged."""
    return (seen[-1]["acknowledged"] - seen[0]["acknowledged"]) * 8 / (seen[-1]["t"] - seen[0]["t"])


@dataclass
class Run:
    """An upload through the handoff: what both ends tell, when the timeline began, the daemon's state and its module at the end."""

    sent: dict
    got: dict
    began: float
    state: dict[str, Any]
    told: dict[str, Any]
    roots: list[tuple[float, str, int]]  # by HTB: when, handle of the discipline at the root, number of classes, every 0.1 s until after the handoff
    untouched: bool  # the discipline at the root is in the end what it was


@pytest.fixture(scope="module")
def through(with_air: None, prefix: str) -> Callable[[str], Run]:
    """The upload of one seed, once each: left alone ("no"), bounded by BPF ("auto"), by HTB ("interface")."""
    runs: dict[str, Run] = {}

    def upload(by: str) -> Run:
        uploads, roots = by != "no", []
        with Lab(LEAVING, prefix=prefix[:-1] + "u-", seed=1) as lab:
            found = root(lab)
            with lab.daemon(["rate"], config(lab, uploads, by if uploads else "auto")) as daemon:
                if uploads:
                    needs(daemon, by)
                time.sleep(1)
                lab.start_timeline()
                began = time.time()
                going = Upload(lab, 12.5)
                while by == "interface" and time.time() < began + HANDOFF + 2:
                    roots.append((time.time(), root(lab)["handle"], len(classes(lab))))
                    time.sleep(0.1)
                sent, got = going.wait()
                told = next(one for one in daemon.api("/v1/modules") if one["name"] == "rate")
                state = pacing(daemon)
            return Run(sent, got, began, state, told, roots, root(lab) == found)

    def once(by: str) -> Run:
        if by not in runs:
            runs[by] = upload(by)
        return runs[by]

    return once


def test_an_upload_is_paced_before_the_handoff_and_has_its_own_pace_again_after_it(through):
    run = through("auto")
    sent, began, state, told = run.sent, run.began, run.state, run.told
    assert told["faults"] == 0 and told["violations"] == {}, told
    assert {one["most"] for one in between(sent, began, began + 1)} == {UNLIMITED}, "stationary"
    before = between(sent, began + 6.5, began + 7.9)
    assert all(one["most"] < 45e6 / 8 for one in before), [one["most"] for one in before]
    assert median_high(one["most"] for one in before) < 30e6 / 8, [one["most"] for one in before]
    # What the air carries then is 6 to 12 Mb/s; a bound far below that would be a harm.
    carried = rate_of(before)
    assert carried > 2e6, carried
    assert {one["most"] for one in between(sent, began + 10.5, began + 12)} == {UNLIMITED}, "after it"
    assert state["begun"] >= 1 and state["paced"] == 0 and state["last_error"] == "", state
    print("round trip before the handoff, s:", median_high(one["rtt"] for one in before), "Mb/s:", carried / 1e6, state)


def test_what_loading_takes_is_given_up(leaving):
    """CAP_PERFMON and CAP_BPF, of the daemon and of its keeper."""
    with leaving.daemon(["rate"], config(leaving)) as daemon:
        needs(daemon)
        for process in (daemon.pid, daemon.api("/v1/status")["keeper"]["pid"]):
            held = {line.split(":")[0]: int(line.split()[1], 16) for line in Path(f"/proc/{process}/status").read_text().splitlines() if line.startswith("Cap")}
            assert not (held["CapEff"] | held["CapPrm"] | held["CapAmb"]) & (1 << 38 | 1 << 39), held


def test_the_application_s_own_pace_is_put_back(leaving):
    lab = leaving
    own = 4_000_000
    with lab.daemon(["rate"], config(lab)) as daemon:
        needs(daemon)
        lab.start_timeline()
        began = time.time()
        sent, _ = Upload(lab, 11, own).wait()
    assert min(one["most"] for one in between(sent, began + 6.5, began + 7.9)) < own
    assert max(one["most"] for one in between(sent, began + 1, began + 11)) == own
    assert sent["seen"][-1]["most"] == own


def test_it_leaves_uploads_alone_unless_it_is_asked_to(through):
    run = through("no")
    assert run.state["begun"] == 0
    assert {one["most"] for one in run.sent["seen"]} == {UNLIMITED}


def test_an_upload_is_shaped_at_the_interface_where_bpf_is_missing(through):
    run = through("interface")
    shaped = [when for when, handle, _ in run.roots if handle == HANDLE]
    assert shaped and shaped[-1] > run.began + 7.5, "until the handoff"
    assert 1 in {number for _, handle, number in run.roots if handle == HANDLE}
    assert run.roots[-1][1] != HANDLE and run.untouched
    assert {one["most"] for one in run.sent["seen"]} == {UNLIMITED}
    assert run.state["begun"] >= 1 and run.state["paced"] == 0 and run.state["last_error"] == "", run.state
    before = between(run.sent, run.began + 6.5, run.began + 7.9)
    carried = rate_of(before)
    assert carried > 2e6, carried


def test_a_discipline_that_somebody_has_chosen_stays(leaving):
    lab = leaving
    lab.client.run(["tc", "qdisc", "add", "dev", "wlan0", "root", "handle", "5:", "pfifo", "limit", "500"])
    found = root(lab)
    with lab.daemon(["rate"], config(lab, by="interface")) as daemon:
        needs(daemon, "interface")
        lab.start_timeline()
        upload = Upload(lab, 9)
        assert system.wait_until(lambda: "somebody has chosen (pfifo)" in pacing(daemon)["last_error"], 9)
        assert root(lab) == found
        upload.wait()
        assert pacing(daemon)["begun"] == 0
    assert root(lab) == found


@BOTH_WAYS
def test_it_is_not_worse_than_without(through, by):
    """The same seed with and without: shorter queues before the handoff, and about as much data. Prints both."""
    left_alone, bounded = (around(run.sent, run.got, run.began, HANDOFF, 12) for run in (through("no"), through(by)))
    print(f"without {left_alone}, with {bounded}")
    assert bounded["rtt_ms"] < 1.1 * left_alone["rtt_ms"]
    assert bounded["mbit_s"] > 0.8 * left_alone["mbit_s"]
    assert bounded["gap_s"] < left_alone["gap_s"] + 1


@BOTH_WAYS
@pytest.mark.parametrize("how", ["hang", "daemon", "both"])
def test_an_accident_lifts_the_bound(leaving, how, by):
    """The packet loop hangs; the daemon is killed; daemon and keeper are, and the next start finds their note."""
    if virtual.inside() and how == "hang":
        pytest.skip("a stopped process stops the clock of virtual time")
    lab = leaving
    with lab.daemon(["rate"], config(lab, by=by)) as daemon:
        needs(daemon, by)
        lab.start_timeline()
        upload = Upload(lab, 11 if how == "both" else 10)  # the signal is bad from 4 s on
        assert system.wait_until(lambda: pacing(daemon)["paced"] == 1, 10)
        time.sleep(0.3)  # the sender looks every 50 ms
        assert (root(lab)["handle"] == HANDLE) == (by == "interface")
        keeper = daemon.api("/v1/status")["keeper"]["pid"]
        if how == "hang":
            os.kill(daemon.pid, signal.SIGSTOP)
        else:
            lab.client.run(["kill", "-9", *([str(keeper)] if how == "both" else []), str(daemon.pid)])
        accident = time.time()
        time.sleep(2.5 if how == "hang" else 1)
        if how != "both":
            assert root(lab)["handle"] != HANDLE
        if how == "hang":
            os.kill(daemon.pid, signal.SIGCONT)
    after = accident + 1.6
    if how == "both":
        with lab.daemon([], config(lab, by=by)) as again:
            after = time.time()
            assert pacing(again)["recovered"] != ""
            assert root(lab)["handle"] != HANDLE
    sent, _ = upload.wait()
    assert any(one["most"] != UNLIMITED for one in between(sent, 0, accident)) == (by == "auto")
    seen = between(sent, after, after + 0.2)
    assert seen and all(one["most"] == UNLIMITED for one in seen), seen


def test_r0_of_uploads_is_held_by_the_difference(both):
    """MP_PRIO of this host: its own scheduler obeys it."""
    lab = both
    given = {"links": {"radio": f"lab:{lab.directory / 'frames.sock'}", "modem": "none"}, "mptcp": {"setup": True},
             "modules": {"rate": {"promise": True, "r0_up": "6Mbit"}}}

    def by_cell() -> int:
        return lab.counters()["cell0"]["bytes_out"]

    with lab.daemon(["rate"], given) as daemon:
        assert system.wait_until(lambda: "cell0" in lab.client.run(["ip", "mptcp", "endpoint", "show"]).stdout, 10)
        upload = Upload(lab, 24, mptcp=True)
        time.sleep(5)
        assert by_cell() < 100_000, "Wi-Fi suffices"
        changed = lab.tcp_counters("client")["MPPrioTx"]
        lab.set("wifi.rate_up", "3Mbit")
        time.sleep(7)  # what is queued on Wi-Fi now is delivered first
        began, before = time.time(), by_cell()
        time.sleep(8)
        ended, after = time.time(), by_cell()
        told = next(one for one in daemon.api("/v1/modules") if one["name"] == "rate")
        state, changes = pacing(daemon), lab.tcp_counters("client")["MPPrioTx"] - changed
        lab.set("wifi.rate_up", "25Mbit")
        time.sleep(2)
        again = by_cell()
        time.sleep(1)
        assert by_cell() - again < 100_000, "saved again"
        _, got = upload.wait()
    came, cell = 8e-6 * sum(count for when, count in got["came"] if began <= when < ended) / (ended - began), (after - before) * 8e-6 / (ended - began)
    print(f"with 3 Mb/s by Wi-Fi {came:.1f} Mb/s came, {cell:.1f} on cellular", told["report"])
    assert told["report"]["R0 of uploads held"] == "yes" and told["faults"] == 0, told
    # 3 without the promise, 13 with both links all the time.
    assert 4.5 < came < 9, came
    assert 2 < cell < 6, cell
    # At the difference's pace all the time: each break fills the queue of Wi-Fi.
    assert state["why"] or state["begun"] >= 1, state
    assert state["why"] or changes <= 4, changes
    assert 0.85 * after < told["cell_bytes"] < 1.15 * after, (told["cell_bytes"], after)
