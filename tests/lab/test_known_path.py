"""What one download found of the cellular path stands for the next one, between real TCPs, whether it works or not, and does no harm when it is wrong."""

from __future__ import annotations

import threading
import time

import pytest

from tandem_lab import system
from test_offload import ANY_DELAY, clean, decisions, module_needed  # noqa: F401
from test_recorded import WHOLE, check

# Paths are remembered, and nothing is compared.
REMEMBERS = {"evidence": {"paths": True}}
ON_WORD = "offload: path known from another flow"
# Each lets the flow go by the word once more, as nothing was learnt of the path (docs/decisions/0033).
NOTHING_LEARNT = ("offload: a loss before the first echo", "offload: TSval not free for ACKs by cellular")
NO_ECHO = "offload: no echo on a path known from another flow"
PROBE = "offload: probe begins"
NOT_VALIDATED = "offload: path not validated (filtered, NAT or too slow)"
OF_OTHERS = "offload: path not validated for other flows"


@pytest.fixture
def lab(make_lab, module_needed):  # noqa: F811
    return make_lab("plain")


def known(daemon) -> list[dict]:
    return [path for network in daemon.api("/v1/networks") if network["kind"] == "wifi" for path in network["known_paths"]]


class Watch:
    """How long after its first data the newest flow's ACKs went by cellular; None when they never did."""

    def __init__(self, daemon):
        self.moved: float | None = None
        self.why = ""
        self._daemon, self._ended = daemon, threading.Event()
        self._old = {flow["id"] for flow in daemon.api("/v1/flows")}
        self._thread = threading.Thread(target=self._look)

    def _look(self) -> None:
        begun = None
        while self.moved is None and not self._ended.wait(0.01):
            for flow in self._daemon.api("/v1/flows"):
                if flow["id"] in self._old or flow["delivered_bytes"] == 0:
                    continue
                begun = begun or time.monotonic()
                facts = flow["modules"].get("offload", {})
                if facts.get("phase") == "cellular":
                    self.moved, self.why = time.monotonic() - begun, facts["why"]

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join()


def download(lab, daemon) -> Watch:
    with Watch(daemon) as watch:
        result = lab.download("random", sha256=True)
    assert result.error is None and result.sha256 == lab.random_file["sha256"]
    return watch


def learn(lab, daemon) -> Watch:
    """A download that finds that the path works. In a young flow no copy may be echoed in time, in four of ten in real time; then it is tried from the
    beginning, so often that chance never ends it."""
    for _ in range(24):
        daemon.api("/v1/networks/forget", "POST", {"all": True})
        failures = decisions(daemon).get(NOT_VALIDATED, 0)
        with Watch(daemon) as watch:
            going = lab.start_download("100G", seconds=20)
            system.wait_until(lambda: known(daemon) or decisions(daemon).get(NOT_VALIDATED, 0) > failures, 10)
            time.sleep(0.5)  # a round by cellular measures the delay
            going.stop()
        if known(daemon):
            return watch
    raise AssertionError(decisions(daemon))


def test_the_second_download_sends_no_probe_and_moves_as_early(lab, tmp_path):
    with lab.daemon(["offload"], {**REMEMBERS, **ANY_DELAY, **WHOLE}) as daemon:
        first = learn(lab, daemon)
        before = decisions(daemon)
        assert before[PROBE] >= 1 and ON_WORD not in before
        [path] = known(daemon)
        assert path["cell"] == "cell0" and path["servers"].endswith("/24") and path["validated_s"] < 60
        second = download(lab, daemon)
        print(f"by cellular {first.moved:.2f} s after the first data, and {second.moved:.2f} s; {path}")
        after = decisions(daemon)
        assert after[PROBE] == before[PROBE] and after[ON_WORD] >= 1 and NO_ECHO not in after
        assert second.why == ON_WORD and second.moved < first.moved + 0.5, "by the machine's clock, which others use"
        shown = lab.client.run([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "networks"]).stdout
        assert "SERVERS REACHED" in shown and path["servers"] in shown
        clean(daemon)
        check(daemon, tmp_path / "whole.pcapng")

        # A restart forgets nothing.
        assert daemon.stop() == 0
        daemon.start()
        assert [one["servers"] for one in known(daemon)] == [path["servers"]]
        download(lab, daemon)
        assert decisions(daemon).get(PROBE, 0) == 0 and decisions(daemon)[ON_WORD] >= 1


@pytest.mark.parametrize("obstacle", ["cell.source_filter", "cell.nat"])
def test_a_path_that_no_longer_works_costs_one_flow_one_stall(lab, obstacle, tmp_path):
    with lab.daemon(["offload"], {**REMEMBERS, **ANY_DELAY, **WHOLE}) as daemon:
        learn(lab, daemon)
        failures = decisions(daemon).get(NOT_VALIDATED, 0)
        lab.set(obstacle, True)
        timeouts = lab.tcp_counters()["TCPTimeouts"]
        download(lab, daemon)
        seen = decisions(daemon)
        went, without_an_answer = seen[ON_WORD], sum(seen.get(why, 0) for why in NOTHING_LEARNT)
        assert seen[NO_ECHO] == 1 and went == 1 + without_an_answer, seen
        assert seen[NOT_VALIDATED] > failures, "the flow found out by itself"
        assert known(daemon) == []
        assert lab.tcp_counters()["TCPTimeouts"] == timeouts, "the newest ACK was there before the server's RTO"
        download(lab, daemon)
        assert decisions(daemon)[ON_WORD] == went and decisions(daemon)[NO_ECHO] == 1, "nobody goes by it any more"
        clean(daemon)
        check(daemon, tmp_path / "whole.pcapng")


@pytest.mark.parametrize("remembered", [True, False])
@pytest.mark.parametrize("obstacle", ["cell.source_filter", "cell.nat"])
def test_what_failed_for_one_flow_is_not_tried_by_the_next(lab, obstacle, remembered, tmp_path):
    """Whether modules are compared or not; where nothing is remembered each flow finds out by itself."""
    lab.set(obstacle, True)
    with lab.daemon(["offload"], {"evidence": {"paths": remembered}, **ANY_DELAY, **WHOLE}) as daemon:
        def noted() -> bool:
            return any(network["paths"] for network in daemon.api("/v1/networks") if network["kind"] == "cellular")

        first = lab.start_download("100G", seconds=25)
        # In the first seconds after the rules were made no failure counts.
        assert system.wait_until(lambda: noted() if remembered else decisions(daemon).get(NOT_VALIDATED, 0) >= 1, 25)
        first.stop()
        before = decisions(daemon)
        assert before.get(PROBE, 0) >= 1 and before.get(NOT_VALIDATED, 0) >= 1, before
        if not remembered:
            second = lab.start_download("100G", seconds=25)
            assert system.wait_until(lambda: decisions(daemon)[PROBE] > before[PROBE] or not second.running(), 25)
            second.stop()
            assert decisions(daemon)[PROBE] > before[PROBE]
            return
        second = lab.start_download("100G", seconds=8)
        assert second.wait().error is None
        after = decisions(daemon)
        assert after[PROBE] == before[PROBE] and after[NOT_VALIDATED] == before[NOT_VALIDATED]
        assert after.get(OF_OTHERS, 0) >= 1
        download(lab, daemon)
        assert decisions(daemon)[PROBE] == before[PROBE]
        clean(daemon)
        check(daemon, tmp_path / "whole.pcapng")
