"""The queue under a real TCP transfer: every byte arrives, whatever the verdicts."""

from __future__ import annotations

import subprocess

import pytest

from conftest import CLIENT4, CLIENT6, PROBE, SCALE, SERVER4, SERVER6, World, sh

ALL = "egress_pure_ack,egress_data,egress_closing,ingress_data,ingress_ack"
MEGABYTE = int(1_000_000 * SCALE)


def test_accepts_everything(world: World) -> None:
    """All five kinds of traffic queued: the digest is right, the kinds are told apart, runs share verdicts."""
    want = world.serve(200 * MEGABYTE)
    probe = world.probe(traffic=ALL)
    assert probe.first == "ready"
    got = world.download()
    seen = probe.stop()
    assert got.digest == want
    kinds = seen["queued"]
    assert kinds["ingress_data"] > 1000 and kinds["egress_pure_ack"] > 50 and kinds["egress_closing"] >= 1
    assert kinds["egress_syn"] == kinds["ingress_syn"] == kinds["unparsed"] == 0
    assert kinds["gso"] > 100
    assert seen["received"] == seen["accepted"]
    assert seen["verdict_messages"] < seen["received"]
    assert seen["verdict_errors"] == seen["late_verdicts"] == 0


def test_queues_only_what_is_asked_for(world: World) -> None:
    """Pure ACKs only: no data segment and no FIN is queued, not even a super-packet."""
    want = world.serve(100 * MEGABYTE)
    probe = world.probe(traffic="egress_pure_ack")
    got = world.download()
    seen = probe.stop()
    assert got.digest == want
    kinds = seen["queued"]
    assert kinds.pop("egress_pure_ack") > 50
    kinds.pop("checksum_not_ready")
    assert set(kinds.values()) == {0}


@pytest.mark.parametrize("kind", ["egress_data", "egress_closing", "ingress_ack"])
def test_each_kind_alone(world: World, kind: str) -> None:
    """An upload through iperf3: its data, its FIN, and the ACKs that come back."""
    world.spawn(world.s, ["iperf3", "-s", "-1", "-p", "7200"], stdout=subprocess.DEVNULL)
    probe = world.probe(traffic=kind)
    sh(f"ip netns exec {world.c} timeout 20 iperf3 -c {SERVER4} -p 7200 -n 20M --connect-timeout 3000")
    kinds = probe.stop()["queued"]
    name = {"ingress_ack": "ingress_bare"}.get(kind, kind)
    assert kinds[name] > 0
    others = {"egress_pure_ack", "egress_data", "egress_closing", "ingress_data", "ingress_bare", "egress_syn", "ingress_syn"}
    assert all(kinds[other] == 0 for other in others - {name})


@pytest.mark.parametrize("offload", [True, False])
@pytest.mark.parametrize("gso", ["yes", "no"])
@pytest.mark.parametrize("host", [SERVER4, SERVER6])
def test_edits_with_valid_checksums(world: World, offload: bool, gso: str, host: str) -> None:
    """Every packet of both directions replaced, in every mix of offloads and on both IP versions."""
    world.offload(offload)
    want = world.serve(50 * MEGABYTE)
    probe = world.probe(mode="edit", traffic=ALL, gso=gso)
    got = world.download(host)
    seen = probe.stop()
    assert got.digest == want
    assert seen["replaced"] > 0.9 * seen["received"]
    assert (seen["queued"]["v6"] > 0) == (host == SERVER6)
    assert seen["verdict_errors"] == 0
    # A checksum that is wrong at the far end would be counted there.
    assert "TcpInCsumErrors 0" in " ".join(sh(f"ip netns exec {world.s} nstat -asz TcpInCsumErrors").split())


def test_a_wrong_checksum_is_noticed(world: World) -> None:
    """The planted fault: edits with broken checksums must not get through, or the test above proves nothing."""
    world.offload(False)
    world.serve(MEGABYTE)
    probe = world.probe(mode="edit", traffic="ingress_data", break_checksum=1)
    got = world.download(timeout=3)
    probe.stop()
    assert got.digest == ""


@pytest.mark.parametrize("host,source", [(SERVER4, CLIENT4), (SERVER6, CLIENT6)])
def test_reroutes_acks_and_keeps_the_source(world: World, host: str, source: str) -> None:
    """ACKs leave by the cell interface with the Wi-Fi address, seen by tcpdump at the gateway."""
    want = world.serve(50 * MEGABYTE)
    probe = world.probe(mode="reroute")
    dump = world.spawn(world.g, ["timeout", "20", "tcpdump", "-nn", "-l", "-c", "30", "-i", "c0", "src", "host", source],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert dump.stderr is not None
    while "listening" not in dump.stderr.readline():
        pass
    sent_before = world.packets(world.c, "wlan0", "tx")
    got = world.download(host)
    seen = probe.stop()
    lines = dump.communicate(timeout=25)[0].splitlines()
    assert got.digest == want
    assert seen["marked"] > 30
    assert len(lines) == 30 and all(f" {source}." in line and "Flags [.]" in line for line in lines)
    # Left on Wi-Fi: handshake, FIN, address resolution and what the neighbour discovery of both versions says.
    assert world.packets(world.c, "wlan0", "tx") - sent_before < 40
    assert seen["keeper"]["gateway_v4"] == "10.71.2.1" and seen["keeper"]["gateway_v6"] == "fd71:2::1"


def test_reroutes_past_a_gateway_that_checks_sources(world: World) -> None:
    """With strict reverse-path filtering the gateway may drop the ACKs, but its ARP must still be answered."""
    sh(f"ip netns exec {world.g} sysctl -qw net.ipv4.conf.c0.rp_filter=1 net.ipv4.conf.all.rp_filter=1")
    want = world.serve(5 * MEGABYTE)
    probe = world.probe(mode="accept")
    sh(f"ip -n {world.c} neigh flush dev cell0")
    dump = world.spawn(world.c, ["timeout", "5", "tcpdump", "-nn", "-l", "-c", "1", "-i", "cell0", "arp"],
                       stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert dump.stderr is not None
    while "listening" not in dump.stderr.readline():
        pass
    sh(f"ip netns exec {world.c} ping -c1 -W1 -m {0x10000000} -I {CLIENT4} {SERVER4}", check=False)
    request = dump.communicate(timeout=10)[0]
    assert "who-has 10.71.2.1 tell 10.71.2.2" in request
    assert world.download().digest == want
    probe.stop()
    assert sh(f"ip netns exec {world.c} sysctl -n net.ipv4.conf.cell0.arp_announce").strip() == "0"


def test_injects_by_a_link(world: World) -> None:
    """Every ACK injected anew on a raw socket of the cell link, none queued twice."""
    want = world.serve(20 * MEGABYTE)
    probe = world.probe(mode="inject")
    got = world.download()
    seen = probe.stop()
    assert got.digest == want
    assert seen["injected"] > 30 and seen["inject_failures"] == 0
    assert seen["injected"] == seen["dropped"] == seen["received"]


def test_thinning_by_dropping(world: World) -> None:
    want = world.serve(50 * MEGABYTE)
    probe = world.probe(mode="thin")
    got = world.download()
    seen = probe.stop()
    assert got.digest == want and seen["dropped"] > 20


def test_a_throwing_sink_passes_everything(world: World) -> None:
    want = world.serve(20 * MEGABYTE)
    probe = world.probe(mode="throw", traffic=ALL)
    got = world.download()
    seen = probe.stop()
    assert got.digest == want
    assert seen["sink_faults"] == seen["received"] == seen["accepted"] > 0


def test_cut_packets_pass(world: World) -> None:
    """A copy range below the packet: nothing is shown to the sink, everything passes."""
    want = world.serve(20 * MEGABYTE)
    probe = world.probe(mode="edit", traffic="ingress_data", copy_range=128)
    got = world.download()
    seen = probe.stop()
    assert got.digest == want
    assert seen["truncated"] == seen["received"] > 0 and seen["replaced"] == 0


def test_full_queue_passes(world: World) -> None:
    """A sink far too slow behind a queue of eight packets: the rest goes by, the transfer ends in time."""
    want = world.serve(100 * MEGABYTE)
    probe = world.probe(mode="slow", delay_us=2000, traffic="ingress_data,egress_pure_ack", max_length=8)
    got = world.download(timeout=60)
    seen = probe.stop()
    assert got.digest == want
    assert seen["received"] > 0
    assert seen["queue_drops"] == seen["user_drops"] == 0  # let pass rather than dropped


def test_exemptions(world: World) -> None:
    want = world.serve(10 * MEGABYTE)
    for exempt in ({"exempt_port": 7100}, {"exempt_remote": "10.71.9.0/24"}):
        probe = world.probe(traffic=ALL, **exempt)
        assert world.download().digest == want
        assert probe.stop()["received"] == 0


def test_by_address(world: World) -> None:
    """Rules by the Wi-Fi address rather than the interface."""
    want = world.serve(10 * MEGABYTE)
    probe = world.probe(traffic=ALL, address=CLIENT4)
    assert world.download().digest == want
    assert probe.stop()["received"] > 0
    probe = world.probe(traffic=ALL, address="10.71.1.77")
    assert world.download().digest == want
    assert probe.stop()["received"] == 0


def test_release_by_connmark(world: World) -> None:
    """The first packet of a flow releases it: no other one is queued."""
    want = world.serve(100 * MEGABYTE)
    probe = world.probe(mode="release", connmark="yes")
    got = world.download()
    seen = probe.stop()
    assert got.digest == want
    assert 1 <= seen["received"] <= 10


def test_no_traffic_no_rules(world: World) -> None:
    probe = world.probe(traffic="none", cell="")
    assert probe.first == "ready"
    assert world.rules() == ""
    probe.stop()


def test_others_keep_their_rules(world: World) -> None:
    sh(f"ip netns exec {world.c} iptables -t mangle -A OUTPUT -p udp -j MARK --set-mark 7")
    sh(f"ip netns exec {world.c} ip rule add fwmark 7 lookup 77 priority 8483")
    probe = world.probe(traffic=ALL)
    probe.stop()
    assert "--set-xmark 0x7" in sh(f"ip netns exec {world.c} iptables-save -t mangle")
    assert "lookup 77" in sh(f"ip -n {world.c} rule")
    assert world.rules() == ""


def test_second_instance_is_refused(world: World) -> None:
    first = world.probe()
    second = world.probe()
    assert second.first.startswith(f"failed: another tandemd is running (process {first.pid})")
    assert world.rules() != ""
    first.stop()


@pytest.mark.parametrize("host", [SERVER4, SERVER6])
def test_nft_text(world: World, host: str) -> None:
    """Where the kernel has no nft queue, its text is loaded with counters in place of the queue: it tells pure ACKs from
    the rest as the iptables rules do, and nft can list it."""
    text = sh(f"ip netns exec {world.c} {PROBE} mode=render connmark=yes exempt_remote=192.0.2.0/24")
    assert text.count("queue flags bypass to 84") == 1
    want = world.serve(50 * MEGABYTE)
    probe = world.probe(backend="iptables")
    subprocess.run(["ip", "netns", "exec", world.c, "nft", "-f", "-"], text=True, check=True,
                   input=text.replace("queue flags bypass to 84", "counter"))
    assert world.download(host).digest == want
    seen = probe.stop()
    listed = sh(f"ip netns exec {world.c} nft list table inet tandem")
    assert int(listed.split("counter packets ")[1].split()[0]) == seen["queued"]["egress_pure_ack"] > 0
