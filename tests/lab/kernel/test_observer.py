"""Copies of packets: which ones, how many, and how long they are said to be."""

from __future__ import annotations

import pytest

from conftest import SCALE, SERVER4, SERVER6, World

MEGABYTE = int(1_000_000 * SCALE)


@pytest.mark.parametrize("host", [SERVER4, SERVER6])
def test_samples_one_in_n(world: World, host: str) -> None:
    world.offload(False)  # one segment is one packet: about 70,000
    want = world.serve(100 * MEGABYTE)
    probe = world.probe(traffic="none", observe="ingress_data", one_in=64)
    got = world.download(host)
    seen = probe.stop()
    assert got.digest == want
    kinds = seen["observed"]
    expected = 100 * MEGABYTE / 1448 / 64
    assert 0.8 * expected < kinds["ingress_data"] < 1.25 * expected
    assert kinds["egress_syn"] == kinds["ingress_syn"] == 1  # the handshake, always and both ways
    assert kinds["egress_closing"] >= 1
    assert kinds["egress_pure_ack"] == kinds["unparsed"] == 0
    assert seen["longest"] == 1500


def test_super_packets_tell_their_length(world: World) -> None:
    world.offload(True)
    want = world.serve(50 * MEGABYTE)
    probe = world.probe(traffic="none", observe="ingress_data,egress_pure_ack")
    got = world.download()
    seen = probe.stop()
    assert got.digest == want
    assert seen["longest"] > 20_000
    assert seen["observed"]["egress_pure_ack"] > 20
    assert seen["received"] == 0  # nothing was queued for it
