"""Others flush what is not theirs: the packet filter, and ip rules. What is Tandem's comes back, and is told."""

from __future__ import annotations

import contextlib
import time
from pathlib import Path

import pytest

from conftest import mangle_of_another
from test_offload import ANY_DELAY
from tandem_lab import Lab, system

LONG_ENOUGH = 20.0
PACKET_FILTER = {
    "nft": [["nft", "flush", "ruleset"]],
    "iptables": [["iptables", "-t", "mangle", "-F"], ["ip6tables", "-t", "mangle", "-F"]],
    # As a script that begins anew does it.
    "iptables-chains": [["iptables", "-t", "mangle", "-F"], ["iptables", "-t", "mangle", "-X"]],
}
FLUSHES = PACKET_FILTER | {
    # As systemd-networkd does with rules that it has not made.
    "rules": [["ip", "rule", "del", "priority", "8484"], ["ip", "-6", "rule", "del", "priority", "8484"]],
    "table": [["ip", "route", "flush", "table", "8484"]],
}


@pytest.fixture
def lab(make_lab, with_air) -> Lab:
    return make_lab("plain")


def restored(daemon) -> int:
    return daemon.api("/v1/status")["keeper"]["restored"]


def owned(daemon) -> bool:
    """Whether nobody else can take the packet filter's rules away: nftables' tables have an owner (vm.daemon), those of iptables have not."""
    return daemon.api("/v1/status")["backend"]["name"] == "nftables"


def by_cellular(daemon, download) -> None:
    """Waits until ACKs of a running download go by cellular: both the rules and the route are needed for it."""
    before = daemon.api("/v1/status")["datapath"]["rerouted"]
    assert system.wait_until(lambda: daemon.api("/v1/status")["datapath"]["rerouted"] > before + 20 or not download.running(), LONG_ENOUGH)
    assert download.running()


@pytest.mark.parametrize("what", FLUSHES)
def test_what_was_flushed_comes_back(lab, what):
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        download = lab.start_download("100M", timeout=60)
        by_cellular(daemon, download)
        for words in FLUSHES[what]:
            lab.client.run(words)
        if owned(daemon) and what in PACKET_FILTER:
            time.sleep(1)
            assert restored(daemon) == 0 and daemon.api("/v1/status")["rules"]["in_force"]
        elif what != "table":  # which is followed like every change of routes
            assert system.wait_until(lambda: restored(daemon) >= 1, LONG_ENOUGH), daemon.log.read_text()
            assert "took rules of Tandem's away" in daemon.log.read_text()
        by_cellular(daemon, download)
        for version in ("-4", "-6"):
            # A rule that goes while the other one is put back comes a second later.
            assert system.wait_until(lambda: "8484" in lab.client.run(["ip", version, "rule", "show", "priority", "8484"]).stdout, 5)
            assert "cell0" in lab.client.run(["ip", version, "route", "show", "table", "8484"]).stdout
        download.stop()


def test_who_flushes_again_and_again_is_not_fought(lab):
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        download = lab.start_download("100M", timeout=60)
        by_cellular(daemon, download)
        end = time.monotonic() + 6
        while time.monotonic() < end:
            lab.client.run(["nft", "flush", "ruleset"])
            time.sleep(0.1)
        if owned(daemon):
            assert restored(daemon) == 0
        else:
            assert 1 <= restored(daemon) <= 4, "after 0.2, 1, 3, 7 s"
        assert system.wait_until(lambda: daemon.api("/v1/status")["rules"]["in_force"], LONG_ENOUGH)
        by_cellular(daemon, download)
        download.stop()


def test_the_rules_of_others_are_no_cause(lab):
    with lab.daemon(["offload"], ANY_DELAY) as daemon:
        download = lab.start_download("100M", timeout=60)
        by_cellular(daemon, download)
        for words in ("add table inet other", "add chain inet other c", "delete table inet other"):
            lab.client.run(["nft", *words.split()])
            time.sleep(0.3)
        assert restored(daemon) == 0
        download.stop()


UNASKED = 30.0  # seconds between looks at rules whose changes nobody tells


@contextlib.contextmanager
def legacy_daemon(lab):
    """The daemon with the legacy iptables: while it starts, a table that iptables-nft needs is somebody else's."""
    if lab.client.run(["iptables-legacy-save", "-t", "mangle"], check=False).returncode != 0:
        pytest.skip("no legacy iptables here")
    with mangle_of_another(lab), lab.daemon(["offload"], ANY_DELAY | {"daemon": {"backend": "iptables"}}) as daemon:
        assert daemon.api("/v1/status")["backend"]["name"] == "iptables-legacy"
        yield daemon


def looks(daemon) -> int:
    """How often the keeper has slept up to now."""
    status = Path(f"/proc/{daemon.api('/v1/status')['keeper']['pid']}/status").read_text()
    return int(status.split("voluntary_ctxt_switches:")[1].split()[0])


def test_the_legacy_iptables_is_looked_at_while_there_is_traffic(lab):
    """It tells nobody what is done with it."""
    with legacy_daemon(lab) as daemon:
        download = lab.start_download("100G", seconds=UNASKED + 25)
        by_cellular(daemon, download)
        for words in (["iptables-legacy", "-t", "mangle", "-F"], ["ip6tables-legacy", "-t", "mangle", "-F"]):
            lab.client.run(words)
        assert system.wait_until(lambda: restored(daemon) == 1, UNASKED + 5), daemon.log.read_text()
        assert "took rules of Tandem's away" in daemon.log.read_text()
        by_cellular(daemon, download)
        download.stop()
        # Without traffic there is nothing to look at.
        assert system.wait_until(lambda: daemon.api("/v1/status")["keeper"]["state"] == "idle", LONG_ENOUGH)
        time.sleep(1)
        before = looks(daemon)
        time.sleep(UNASKED + 5)
        assert looks(daemon) - before <= 2
