"""Beside a VPN: a download under way when a tunnel takes the default route, with every module on and every cause to act, and what then
leaves by Wi-Fi and by cellular.

Nothing is excepted but the tunnel's own carrier and what the kernel says of an interface that has just come up (MLD reports of its
link-local address; they never leave the link): neighbours are permanent in the lab, so even ARP would be Tandem's doing.
"""

from __future__ import annotations

import random
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Iterator

import pytest
from conftest import need_built

from tandem_lab import Endpoint, Lab, system, topology
from vpn import FAR, PORT, Vpn

MODULES = ("offload", "freeze", "mirror", "ecn")
LONG_ENOUGH = 20.0
# A path of any delay is accepted, so that ACKs do go by cellular; bytes are fetched a second time.
EAGER = {"modules": {"offload": {"added_delay_free": "2s", "goodput_loss_limit": 1.0}}, "fetch": {"ports": [80]}}
CARRIER = f"not (udp and port {PORT}) and not ip6 dst ff02::16"


@pytest.fixture(scope="module")
def modules_needed(with_air: None) -> None:
    need_built(*MODULES)
    if not Path("/dev/net/tun").exists():
        pytest.skip("/dev/net/tun is missing")


@pytest.fixture
def lab(make_lab, modules_needed) -> Lab:
    return make_lab("plain", overrides={"wifi.loss_down": 0.005})


@pytest.fixture(scope="module")
def shared(modules_needed: None, prefix: str) -> Iterator[Lab]:
    """For tests that count nothing that leaves: what one of them stopped may be answered in the next."""
    with Lab("plain", prefix=prefix[:-1] + "s-", overrides={"wifi.loss_down": 0.005}) as made:
        yield made


@contextmanager
def captured(lab: Lab) -> Iterator[dict[str, Path]]:
    """What leaves the client by either link while the `with` lasts."""
    with lab.capture("client", "wlan0", "outbound") as wifi, lab.capture("client", "cell0", "outbound") as cell:
        yield {"wlan0": wifi, "cell0": cell}


def packets(file: Path, since: float, which: str = CARRIER) -> list[str]:
    """tcpdump's lines of what left after `since` (time.time()) and is not the carrier's."""
    lines = system.call(["tcpdump", "-r", str(file), "-n", "-tt", which]).splitlines()
    return [line for line in lines if float(line.split()[0]) > since]


def state(daemon) -> dict:
    return daemon.api("/v1/status")


def cell_bytes(daemon) -> int:
    return state(daemon)["datapath"]["cell_bytes"]


def hands_off(daemon) -> str:
    return state(daemon).get("hands_off", "")


def by_cellular(daemon, download) -> None:
    """Waits until decisions put ACKs of a running download on the cellular link."""
    before = cell_bytes(daemon)
    assert system.wait_until(lambda: cell_bytes(daemon) > before + 2000 or not download.running(), LONG_ENOUGH) and download.running()


def the_next_goes_by_cellular(lab: Lab, daemon) -> None:
    """Tandem acts on a new download."""
    again = lab.start_download("100M", timeout=60)
    by_cellular(daemon, again)
    again.stop()


def untroubled(daemon) -> None:
    """No module has asked for what it may not."""
    for entry in daemon.api("/v1/modules"):
        assert entry["violations"] == {} and entry["excluded"] == 0 and entry["faults"] == 0, entry


def trouble(lab: Lab) -> None:
    """What modules act on: two blackouts in four seconds."""
    for _ in range(2):
        lab.set("wifi.blackout", "drop")
        time.sleep(1.0)
        lab.set("wifi.blackout", "none")
        time.sleep(1.0)


# Not every pair: a tunnel is known by its routes, whatever its filter lets pass.
@pytest.mark.parametrize("style, switch", [("wg-quick", True), ("wg-quick", False), ("halves", True), ("metric", False), ("exit-node", True)],
                         ids=["wg-quick-kill-switch", "wg-quick-tunnel-only", "halves-kill-switch", "metric-tunnel-only", "exit-node-kill-switch"])
def test_nothing_leaves_past_a_tunnel(lab, style, switch):
    with lab.daemon(MODULES, EAGER) as daemon, Vpn.tailscale(lab) if style == "exit-node" else Vpn(lab) as vpn:
        vpn.start()
        downloads = [lab.start_download("100M", timeout=60), lab.start_download("100M", v6=True, timeout=60)]
        by_cellular(daemon, downloads[0])
        with captured(lab) as files:
            time.sleep(0.5)
            vpn.route(style)
            if switch:
                since = vpn.kill_switch()
            else:
                # A tunnel alone stops nothing: it takes as long as the news does.
                assert system.wait_until(lambda: hands_off(daemon) != "", LONG_ENOUGH)
                since = time.time() + 0.3
            time.sleep(1.0)
            trouble(lab)
            through = lab.download("1M", sha256=True)
            status = state(daemon)
        left = {device: packets(file, since) for device, file in files.items()}
        before = {device: packets(file, 0) for device, file in files.items()}
        assert sum(len(lines) for lines in before.values()) > 20, "the capture saw nothing of what left before"
        assert {device: (len(lines), lines[:5]) for device, lines in left.items() if lines} == {}
        assert through.error is None, "what goes into the tunnel is left alone"

        assert status["hands_off"].startswith(f"the default route leads into {vpn.device} (tun)")
        assert status["links"]["cell"]["denied"] == status["hands_off"] and not status["links"]["cell"]["route"]
        assert status["datapath"]["hands_off"] == 1 and not status["fetch"]["running"]
        checks = {check["name"]: check for check in daemon.api("/v1/doctor")["checks"]}
        assert checks["tunnel"]["health"] == "warn" and vpn.device in checks["tunnel"]["found"]
        for download in downloads:
            download.stop()

        vpn.lift()
        vpn.stop()
        assert system.wait_until(lambda: hands_off(daemon) == "", LONG_ENOUGH)
        the_next_goes_by_cellular(lab, daemon)
        untroubled(daemon)


def reasons(daemon, server: str) -> list[str]:
    """Why flows with that server are left alone, of those that live."""
    return [flow.get("excluded", "") for flow in daemon.api("/v1/flows") if not flow["closed"] and flow["remote"].startswith((server, f"[{server}]"))]


@pytest.mark.parametrize("v6", [False, True], ids=["v4", "v6"])
def test_no_flow_leaves_past_a_route_into_a_tunnel(lab, v6):
    """A split tunnel: a route for its server's address of one version only. A flow that is older goes into the tunnel with its next packet, and nothing of it leaves by
    cellular or, in clear, by Wi-Fi. Others are acted for as before, and it is, too, when the route is gone."""
    with lab.daemon(MODULES, EAGER) as daemon, Vpn(lab) as vpn:
        server = lab.server().ipv6 if v6 else lab.server().ipv4
        why = f"its route leads into {vpn.device} (tun)"
        vpn.start()
        download = lab.start_download("100M", v6=v6, timeout=90)
        by_cellular(daemon, download)
        with captured(lab) as files:
            time.sleep(0.5)
            began = time.time()
            vpn.route("split", ("-6",) if v6 else ("-4",))
            since = time.time() + 0.3
            assert system.wait_until(lambda: reasons(daemon, server) == [why], LONG_ENOUGH), daemon.api("/v1/flows")
            time.sleep(1.0)
            trouble(lab)
            status = state(daemon)
        # The access point may be asked whether it is there: others are acted for.
        left = {device: packets(file, since, f"host {server} and {CARRIER}") for device, file in files.items()}
        assert sum(float(line.split()[0]) < began for line in packets(files["cell0"], 0)) > 20, "the capture saw nothing of what left before"
        assert {device: (len(lines), lines[:5]) for device, lines in left.items() if lines} == {}
        download.wait_bytes(download.progress()[1] + 500_000)  # it goes on through the tunnel

        assert status["hands_off"] == "" and status["links"]["cell"]["route"] and status["tunnels"]["flows"] == 1
        assert {"into": f"{vpn.device} (tun)", "to": f"{server}/{128 if v6 else 32}"} in status["tunnels"]["routes"]
        checks = {check["name"]: check for check in daemon.api("/v1/doctor")["checks"]}
        assert checks["tunnel"]["health"] == "ok" and f"routes lead into {vpn.device} (tun): " in checks["tunnel"]["found"]
        beside = lab.start_download("100M", v6=not v6, timeout=60)
        by_cellular(daemon, beside)
        beside.stop()

        vpn.unroute()
        assert system.wait_until(lambda: reasons(daemon, server) == [""], LONG_ENOUGH)
        by_cellular(daemon, download)
        download.stop()
        untroubled(daemon)


@pytest.mark.parametrize("strategy, style", [("range", "wg-quick"), ("range", "split"), ("replay", "wg-quick")])
def test_what_is_fetched_a_second_time_ends_at_once(make_lab, modules_needed, strategy, style):
    """Connections of Tandem's own by cellular: not even a FIN, which the kernel would repeat for minutes."""
    # A mirror connection must be nearer than the server by Wi-Fi, or nothing is asked of it.
    lab = make_lab("plain", overrides={"wifi.profile": "wifi-pipe", "wifi.loss_down": 0.01, "wifi.delay": "100ms", "wan.delay": "1ms"})
    lab.add_file("long", random.Random(9).randbytes(20_000_000))
    config = {**EAGER, "modules": {**EAGER["modules"], "mirror": {"strategy": strategy}}}
    with lab.daemon(["mirror"], config) as daemon, Vpn(lab) as vpn:
        vpn.start()
        with captured(lab) as files:
            download = lab.start_download("long", timeout=60)
            assert system.wait_until(lambda: state(daemon)["fetch"]["brought"] > 0, LONG_ENOUGH), state(daemon)["fetch"]
            vpn.route(style)
            if style == "split":  # others may have theirs
                assert system.wait_until(lambda: reasons(daemon, lab.server().ipv4) not in ([""], []), LONG_ENOUGH)
            else:
                assert system.wait_until(lambda: hands_off(daemon) != "", LONG_ENOUGH)
            since = time.time() + 0.3
            time.sleep(3.0)
            assert state(daemon)["fetch"]["running"] == (style == "split")
        left = packets(files["cell0"], since)
        assert packets(files["cell0"], 0) and left == [], (len(left), left[:5])
        download.stop()


def test_tailscale_without_an_exit_node_changes_nothing(lab):
    """Its network alone is in its table: what goes there is left alone, all else has its ACKs by cellular as before."""
    with lab.daemon(MODULES, EAGER) as daemon, Vpn.tailscale(lab) as vpn:
        vpn.start()
        download = lab.start_download("100M", timeout=60)
        by_cellular(daemon, download)
        vpn.route("tailnet")
        into = f"{vpn.device} (tun)"
        assert system.wait_until(lambda: {"into": into, "to": "100.64.0.0/10"} in state(daemon)["tunnels"]["routes"], LONG_ENOUGH)
        by_cellular(daemon, download)
        rules = lab.client.run(["ip", "rule"]).stdout
        beyond = lab.download("1M", server=Endpoint("beyond", lab.server().namespace, "100.64.7.1", ""), sha256=True)
        assert beyond.error is None
        assert all(flow["remote"] != "100.64.7.1:80" for flow in daemon.api("/v1/flows")), "it has the tunnel's address"
        trouble(lab)
        by_cellular(daemon, download)
        download.stop()
        whole = lab.download("random", sha256=True)
        assert whole.error is None and whole.sha256 == lab.random_file["sha256"]

        status = state(daemon)
        assert status["hands_off"] == "" and status["datapath"]["hands_off"] == 0 and status["tunnels"]["flows"] == 0
        checks = {check["name"]: check["health"] for check in daemon.api("/v1/doctor")["checks"]}
        concerned = {name: health for name, health in checks.items() if name == "tunnel" or name.startswith(("mark bits", "routing table"))}
        assert len(concerned) == 3 and set(concerned.values()) == {"ok"}
        untroubled(daemon)
        assert lab.client.run(["ip", "rule"]).stdout == rules


def test_endpoints_of_mptcp_go_for_as_long(shared):
    with shared.daemon(MODULES, {**EAGER, "mptcp": {"setup": True}}) as daemon, Vpn(shared) as vpn:
        def endpoints() -> int:
            return len(shared.client.run(["ip", "mptcp", "endpoint", "show"]).stdout.split("\n")) - 1

        if not Path("/proc/sys/net/mptcp/enabled").exists():
            pytest.skip("this kernel has no MPTCP")
        assert system.wait_until(lambda: endpoints() > 0, LONG_ENOUGH)
        vpn.start()
        vpn.route()
        assert system.wait_until(lambda: endpoints() == 0, LONG_ENOUGH) and hands_off(daemon) != ""
        vpn.stop()
        assert system.wait_until(lambda: endpoints() > 0, LONG_ENOUGH)


def test_a_tunnel_that_was_there_first(shared):
    with Vpn(shared) as vpn:
        vpn.start()
        vpn.route()
        with shared.daemon(MODULES, EAGER) as daemon:
            assert hands_off(daemon) != "" and cell_bytes(daemon) == 0
            assert shared.download("1M").error is None
            assert state(daemon)["datapath"]["queued"] == 0 and state(daemon)["flows"]["count"] == 0


def test_the_users_own_rule_about_the_cellular_interface_holds(lab):
    """No tunnel: a packet filter that lets nothing out by cellular. ACKs that were to go there leave by Wi-Fi."""
    with lab.daemon(MODULES, EAGER) as daemon:
        download = lab.start_download("random", sha256=True, timeout=60)
        by_cellular(daemon, download)
        try:
            with captured(lab) as files:
                time.sleep(0.5)
                lab.client.run(["nft", "add table inet own; add chain inet own out { type filter hook output priority filter; };"
                                "add rule inet own out oifname cell0 counter drop"])
                since = time.time()
                told = system.wait_until(lambda: "packet filter" in state(daemon)["links"]["cell"]["denied"], 3)
                result = download.wait()
            assert len(packets(files["cell0"], 0)) > 10 and packets(files["cell0"], since) == []
            assert told and state(daemon)["datapath"]["cell_filtered"] > 0
            assert result.error is None and result.sha256 == lab.random_file["sha256"]
            untroubled(daemon)
        finally:
            lab.client.run(["nft", "delete table inet own"], check=False)
        assert system.wait_until(lambda: state(daemon)["links"]["cell"]["denied"] == "", 60)
        the_next_goes_by_cellular(lab, daemon)


def test_other_interfaces_are_left_alone(shared):
    """A split tunnel: what leaves by it with the Wi-Fi link's address is not queued."""
    with shared.daemon(["offload"], EAGER) as daemon, Vpn(shared) as vpn:
        vpn.start()
        shared.client.run(["ip", "route", "replace", f"{FAR}/32", "dev", vpn.device, "src", shared.client.ipv4])
        before = state(daemon)["datapath"]["queued"]
        server = shared.server()
        result = shared.download("1M", server=Endpoint("beyond", server.namespace, FAR, ""), sha256=True)
        assert result.error is None and state(daemon)["datapath"]["queued"] == before
        assert hands_off(daemon) == "", "the default route is what it was"
        going = shared.start_download("100M", timeout=60)
        by_cellular(daemon, going)
        going.stop()


# "ip rule add priority 90 dscp 46 lookup 4242", which iproute2 knows since 6.14. <linux/fib_rules.h>: FRA_PRIORITY, FRA_TABLE, FRA_DSCP.
DSCP_RULE = """
import socket, struct
def attribute(kind, value):
    return struct.pack("=HH", 4 + len(value), kind) + value + bytes(-len(value) % 4)
body = struct.pack("=BBBBBBBBI", socket.AF_INET, 0, 0, 0, 0, 0, 0, 1, 0)
body += attribute(6, struct.pack("=I", 90)) + attribute(15, struct.pack("=I", 4242)) + attribute(25, bytes([46]))
routing = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, 0)
routing.send(struct.pack("=IHHII", 16 + len(body), 32, 0x605, 1, 0) + body)
error = struct.unpack("=i", routing.recv(4096)[16:20])[0]
raise SystemExit(-error)
"""


def test_a_rule_for_some_packets_says_nothing_of_the_others(shared):
    """Calls go past the VPN, by their DSCP: what the rule's table says is not where all else goes."""
    with shared.daemon(MODULES, EAGER) as daemon, Vpn(shared) as vpn:
        vpn.start()
        try:
            shared.client.run(["ip", "route", "add", "default", "via", topology.WIFI_GATEWAY[0], "dev", "wlan0", "table", "4242"])
            if shared.client.run([sys.executable, "-c", DSCP_RULE], check=False).returncode != 0:
                pytest.skip("this kernel has no rules by DSCP")
            vpn.route("metric", ["-4"])
            assert system.wait_until(lambda: hands_off(daemon).startswith(f"the default route leads into {vpn.device}"), 5)
        finally:
            shared.client.run(["ip", "rule", "del", "priority", "90"], check=False)
            shared.client.run(["ip", "route", "flush", "table", "4242"], check=False)


@pytest.mark.parametrize("how", ["addr flush dev cable0", "link set cable0 down", "link del cable0"], ids=["address", "down", "gone"])
def test_a_tunnel_that_takes_over_without_a_word(shared, how):
    """The kernel drops the routes of an interface that goes, or loses its last address, and tells none of them."""
    def run(*lines: str) -> None:
        for line in lines:
            shared.client.run(line.split())

    with shared.daemon(MODULES, EAGER) as daemon, Vpn(shared) as vpn:
        vpn.start()
        try:
            run("ip link add cable0 type veth peer name cable1", "sysctl -qw net.ipv6.conf.cable0.disable_ipv6=1 net.ipv6.conf.cable1.disable_ipv6=1",
                "ip link set cable0 up", "ip link set cable1 up", "ip addr add 10.77.0.2/32 dev cable0", "ip route add default dev cable0 metric 10")
            vpn.route("metric", ["-4"])
            assert system.wait_until(lambda: hands_off(daemon) == "", LONG_ENOUGH)
            time.sleep(0.5)
            assert hands_off(daemon) == "", "the cable's is the better one"
            run(f"ip {how}")
            assert system.wait_until(lambda: hands_off(daemon).startswith(f"the default route leads into {vpn.device}"), 5)
        finally:
            shared.client.run(["ip", "link", "del", "cable0"], check=False)
