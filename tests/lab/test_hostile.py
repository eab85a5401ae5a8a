"""A malicious server, and somebody on the path with the right numbers: with Tandem they get what they would get without it, and nothing more. Each
attack runs twice, and what becomes of the connection must be the same; another connection beside it must not suffer."""

from __future__ import annotations

import contextlib
import hashlib
import random
from pathlib import Path
from typing import Any, Iterator

import pytest

from hostile_tcp import CONTENT, HALF, TRICKS, UPLOAD, hostile
from on_path import ATTACKS, on_path
from tandem_lab import Lab

MODULES = ("offload", "freeze", "mirror", "ecn", "rate")
EAGER = {"modules": {"offload": {"added_delay_free": "250ms"}}}
EVERYTHING = {**EAGER, "recorder": {"everything": True}}
FILE = random.Random(29).randbytes(1_500_000)
SUM = hashlib.sha256(FILE).hexdigest()
PATIENCE = 6.0  # seconds without a byte: the connection stands still
MIB = 1 << 20


@pytest.fixture(scope="module")
def lab(with_air: None, prefix: str) -> Iterator[Lab]:
    with Lab("plain", prefix=prefix[:-1] + "h-", overrides={"wifi.loss": 0.0}) as made:
        made.add_file("attacked", FILE)
        yield made


def resident(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@contextlib.contextmanager
def watched(lab: Lab, config: dict[str, Any]) -> Iterator[Any]:
    """The daemon, which must stay what it was: alive, in force, of the same size, without a module that failed."""
    with lab.daemon(MODULES, config) as daemon:
        pid, before = daemon.pid, resident(daemon.pid)
        yield daemon
        status = daemon.api("/v1/status")
        assert daemon.pid == pid and status["keeper"]["suspensions"] == 0
        for module in status["modules"]:
            assert module["faults"] == 0 and module["violations"] == {} and module["excluded"] == 0, module
        # The flight recorder's 8 MiB among it.
        assert resident(pid) < before + 16 * MIB


# -- a malicious server

def all_tricks(lab: Lab) -> dict[str, dict[str, Any]]:
    """Every trick at once, beside a download from an honest server, which must arrive whole."""
    with hostile(lab) as server:
        going = lab.start_download("attacked", sha256=True)
        started = {trick: server.start(trick, PATIENCE) for trick in TRICKS}
        told = {trick: server.outcome(process) for trick, process in started.items()}
        beside = going.wait()
    assert beside.error is None and beside.sha256 == SUM
    return told


@pytest.fixture(scope="module")
def without(lab: Lab) -> dict[str, dict[str, Any]]:
    return all_tricks(lab)


@pytest.fixture(scope="module", params=[EAGER, EVERYTHING], ids=["all-modules", "everything-queued"])
def with_tandem(request, lab: Lab) -> dict[str, dict[str, Any]]:
    with watched(lab, request.param) as daemon:
        told = all_tricks(lab)
        counters = daemon.api("/v1/status")["datapath"]
        assert counters["queued"] > 1000
        assert counters["unacceptable"] > 10, "they were seen, and nothing was made of them"
    return told


def expected(trick: str) -> tuple[bytes, str]:
    """What kernel TCP makes of it."""
    if TRICKS[trick].upload:
        return (b"", "TimeoutError") if trick == "window-of-zero" else (hashlib.sha256(UPLOAD).hexdigest().encode(), "")
    ends = {"reset": "ConnectionResetError", "stops": "TimeoutError", "data-after-fin": ""}
    return (CONTENT[:HALF], ends[trick]) if trick in ends else (CONTENT, "")


@pytest.mark.parametrize("trick", TRICKS)
def test_a_server_gets_no_more_than_without(without, with_tandem, trick) -> None:
    content, error = expected(trick)
    allowed = [{"bytes": len(content), "digest": hashlib.sha256(content).hexdigest(), "error": error}]
    if trick == "data-after-fin":  # all of them together fill the access point's queue; where it drops the FIN, what follows is in order
        allowed.append({"bytes": len(CONTENT), "digest": hashlib.sha256(CONTENT).hexdigest(), "error": ""})
    assert without[trick] in allowed
    assert with_tandem[trick] in allowed and (len(allowed) > 1 or with_tandem[trick] == without[trick])


# -- on the path

HARMFUL = {"reset": "ConnectionResetError", "fin": "cut short", "future-timestamps": "stands still", "next-numbers-other-bytes": "other bytes"}


def attacked(lab: Lab, attack: str) -> str:
    """What becomes of a download that is attacked; one beside it must arrive whole."""
    with on_path(lab, attack):
        going = lab.start_download("attacked", sha256=True, timeout=PATIENCE)
        going.wait_bytes(1)
        beside = lab.start_download("attacked", sha256=True)
        result, other = going.wait(), beside.wait()
    assert other.error is None and other.sha256 == SUM
    if result.error is None:
        return "whole" if result.sha256 == SUM else "other bytes"
    if "closed after" in result.error:
        return "cut short"
    return "stands still" if "not finished" in result.error else result.error.split(":")[0]


@pytest.mark.parametrize("attack", ATTACKS)
def test_on_the_path_he_gets_no_more_than_without(lab, attack) -> None:
    harm = HARMFUL.get(attack, "whole")
    # Forged bytes race those of the server: where they come second they do nothing.
    assert any(attacked(lab, attack) == harm for _ in range(3))
    with watched(lab, EAGER):
        assert attacked(lab, attack) in (harm, "whole")
