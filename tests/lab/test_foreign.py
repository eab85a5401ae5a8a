"""Servers with another TCP than Linux's: whole files, by that stack and no other, gone when the `with` ends."""

from __future__ import annotations

import pytest

from tandem_lab import BadInput, Lab, LabError, foreign

STACKS = [("gvisor", "reno"), ("gvisor", "cubic"), ("lwip", "")]


@pytest.fixture
def stack_of():
    """The name, or a skip with what is missing."""
    def check(name: str) -> str:
        if why := foreign.missing(name):
            pytest.skip(why)
        return name
    return check


@pytest.mark.parametrize("name, congestion", STACKS)
def test_a_foreign_stack_serves_whole_files(name: str, congestion: str, stack_of, with_air: None, make_lab) -> None:
    lab: Lab = make_lab("plain", overrides={"wifi.loss": 0.003}, seed=5)
    with lab.foreign_server(stack_of(name), congestion=congestion) as server:
        before = lab.tcp_counters("srv1")
        result = lab.download(lab.random_file["name"], server=server, sha256=True, timeout=60)
        assert result.sha256 == lab.random_file["sha256"]
        # Linux's own TCP beside it has sent nothing.
        assert lab.tcp_counters("srv1")["OutSegs"] == before["OutSegs"]
        assert lab.download("100k", server=server).bytes == 100 << 10, "and one after the other"
    with pytest.raises(LabError):
        lab.download("1k", server=server, timeout=2)


def test_a_stack_that_is_not_there_is_named(with_air: None, make_lab) -> None:
    lab: Lab = make_lab("plain")
    with pytest.raises(BadInput, match="no stack windows; allowed: gvisor, lwip"), lab.foreign_server("windows"):
        pass
    with pytest.raises(BadInput, match="bbr: gvisor has reno, cubic"), lab.foreign_server("gvisor", congestion="bbr"):
        pass
