"""A malicious server, and somebody on the path with the right numbers: with Tandem they get what they would get without it, and nothing more. Each
attack runs twice, and what becomes of the connection must be the same; another connection beside it must not suffer.

By IPv6 all tricks of a server; on the path those that the IP header has a part in, and one of each kind of the others."""

from __future__ import annotations

import contextlib
import functools
import hashlib
import random
from typing import Any, Callable, Iterator

import pytest

from hostile_tcp import CONTENT, HALF, TRICKS, UPLOAD, hostile
from on_path import ATTACKS, on_path
from tandem_lab import Lab, system

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


@contextlib.contextmanager
def watched(lab: Lab, config: dict[str, Any]) -> Iterator[Any]:
    """The daemon, which must stay what it was: alive, in force, of the same size, without a module that failed."""
    with lab.daemon(MODULES, config) as daemon:
        pid, before = daemon.pid, system.resident_bytes(daemon.pid)
        yield daemon
        status = daemon.api("/v1/status")
        assert daemon.pid == pid and status["keeper"]["suspensions"] == 0
        for module in status["modules"]:
            assert module["faults"] == 0 and module["violations"] == {} and module["excluded"] == 0, module
        # The flight recorder's 8 MiB among it.
        assert system.resident_bytes(pid) < before + 16 * MIB


# -- a malicious server

def all_tricks(lab: Lab, v6: bool) -> dict[str, dict[str, Any]]:
    """Every trick at once, beside a download from an honest server, which must arrive whole."""
    with hostile(lab, v6=v6) as server:
        going = lab.start_download("attacked", sha256=True, v6=v6)
        started = {trick: server.start(trick, PATIENCE) for trick in TRICKS}
        told = {trick: server.outcome(process) for trick, process in started.items()}
        beside = going.wait()
    assert beside.error is None and beside.sha256 == SUM
    return told


@pytest.fixture(scope="module")
def without(lab: Lab) -> Callable[[bool], dict[str, dict[str, Any]]]:
    return functools.cache(lambda v6: all_tricks(lab, v6))


@pytest.fixture(scope="module", params=[(EAGER, False), (EVERYTHING, False), (EAGER, True)], ids=["all-modules", "everything-queued", "all-modules-v6"])
def told(request, lab: Lab, without) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Any]]]:
    """Without Tandem and with it."""
    config, v6 = request.param
    before = without(v6)
    with watched(lab, config) as daemon:
        told = all_tricks(lab, v6)
        counters = daemon.api("/v1/status")["datapath"]
        assert counters["queued"] > 1000
        assert counters["unacceptable"] > 10, "they were seen, and nothing was made of them"
    return before, told


def expected(trick: str) -> tuple[bytes, str]:
    """What kernel TCP makes of it."""
    if TRICKS[trick].upload:
        return (b"", "TimeoutError") if trick == "window-of-zero" else (hashlib.sha256(UPLOAD).hexdigest().encode(), "")
    ends = {"reset": "ConnectionResetError", "stops": "TimeoutError", "data-after-fin": ""}
    return (CONTENT[:HALF], ends[trick]) if trick in ends else (CONTENT, "")


@pytest.mark.parametrize("trick", TRICKS)
def test_a_server_gets_no_more_than_without(told, trick) -> None:
    without, with_tandem = told
    content, error = expected(trick)
    allowed = [{"bytes": len(content), "digest": hashlib.sha256(content).hexdigest(), "error": error}]
    if trick == "data-after-fin":  # all of them together fill the access point's queue; where it drops the FIN, what follows is in order
        allowed.append({"bytes": len(CONTENT), "digest": hashlib.sha256(CONTENT).hexdigest(), "error": ""})
    assert without[trick] in allowed
    assert with_tandem[trick] in allowed and (len(allowed) > 1 or with_tandem[trick] == without[trick])


# -- on the path

HARMFUL = {"reset": "ConnectionResetError", "fin": "cut short", "future-timestamps": "stands still", "next-numbers-other-bytes": "other bytes"}


# By IPv6: what ICMP and headers are for, and one each of resets, windows and timestamps.
V6 = ("icmp", "odd-ip-headers", "reset", "windows", "odd-echo")


def attacked(lab: Lab, attack: str, v6: bool) -> str:
    """What becomes of a download that is attacked; one beside it must arrive whole."""
    with on_path(lab, attack, v6=v6):
        going = lab.start_download("attacked", sha256=True, timeout=PATIENCE, v6=v6)
        going.wait_bytes(1)
        beside = lab.start_download("attacked", sha256=True, v6=v6)
        result, other = going.wait(), beside.wait()
    assert other.error is None and other.sha256 == SUM
    if result.error is None:
        return "whole" if result.sha256 == SUM else "other bytes"
    if "closed after" in result.error:
        return "cut short"
    return "stands still" if "not finished" in result.error else result.error.split(":")[0]


@pytest.mark.parametrize("attack, v6", [*((attack, False) for attack in ATTACKS), *((attack, True) for attack in V6)],
                         ids=[*ATTACKS, *(f"{attack}-v6" for attack in V6)])
def test_on_the_path_he_gets_no_more_than_without(lab, attack, v6) -> None:
    harm = HARMFUL.get(attack, "whole")
    # Forged bytes race those of the server: where they come second they do nothing.
    assert any(attacked(lab, attack, v6) == harm for _ in range(3))
    with watched(lab, EAGER) as daemon:
        assert any(attacked(lab, attack, v6) in (harm, "whole") for _ in range(3))
        assert daemon.api("/v1/status")["datapath"]["queued"] > 100, "the modules had a say"
