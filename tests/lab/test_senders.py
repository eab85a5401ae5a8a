"""What the daemon says of senders of each class, by what arrives from real ones."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

import pytest

from tandem_lab import Lab, foreign, system

SCENARIO = """
[scenario]
name = "senders"
duration = "600s"
[wifi]
profile = "wifi-pipe"
rate = "20Mbit"
queue = 100000
queue_bytes = "125kB"
station_queue = 10000
loss_down = 0.005
[cell]
profile = "lte"
[wan]
delay = "25ms"
[[server]]
name = "srv1"
congestion = "CONGESTION"
"""
LONGEST = 15  # seconds; how many are known within 3 s: docs/results/senders.md
MODULES = ["freeze", "mirror", "offload", "ecn"]


@pytest.mark.parametrize("stack, congestion, kind", [("", "cubic", "loss-based"), ("", "reno", "loss-based"), ("", "bbr", "rate-based"),
                                                     ("gvisor", "reno", "unresponsive"), ("lwip", "", "unresponsive")])
def test_a_sender_of_each_class_is_known(stack: str, congestion: str, kind: str, with_air: None, make_lab) -> None:
    if stack and (why := foreign.missing(stack)):
        pytest.skip(why)
    lab: Lab = make_lab(SCENARIO.replace("CONGESTION", "cubic" if stack else congestion), seed=7)
    with ExitStack() as uses:
        server = uses.enter_context(lab.foreign_server(stack, congestion=congestion)) if stack else lab.server()
        daemon = uses.enter_context(lab.daemon(MODULES))
        download = lab.start_download(seconds=LONGEST + 5, server=server)
        while True:
            passed, _ = download.progress(0.1)
            assert download.running()
            flow = max(daemon.api("/v1/flows"), key=lambda one: one["delivered_bytes"], default=None)
            if flow is not None and (flow["sender"]["kind"] == kind or passed > LONGEST):
                break
        shown = subprocess.run([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "flows"], capture_output=True, text=True, check=True).stdout
        download.stop()
    assert flow["remote"] == f"{server.ipv4}:80"
    sender = flow["sender"]
    assert sender["kind"] == kind, sender
    assert sender["confidence"] >= 80 and sender["why"]
    assert "SENDER" in shown and f"{kind} " in shown and " %: " in shown
