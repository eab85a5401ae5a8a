"""Several Wi-Fi links at once: roles that come and go, copies of each link's flows, and what modules request of the links."""

from __future__ import annotations

import json
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any, Iterator

import pytest
from conftest import need_built
from test_feeder_daemon import Radio
from test_feeder_monitor import AP, DATA_DOWN, frame

from tandem_lab import system

MORE = ("wlan1", "wlan2", "wlan3")
AP2 = "02:00:00:00:0a:02"


def wire(lab, number: int) -> None:
    """One more station, wired to the server: 10.88.N.2 here, 10.88.N.1 there."""
    there = lab.server().namespace
    client = lab.client
    client.run(["ip", "link", "add", f"wlan{number}", "type", "veth", "peer", "name", f"sta{number}", "netns", there])
    client.run(["ip", "addr", "add", f"10.88.{number}.2/24", "dev", f"wlan{number}"])
    client.run(["ip", "link", "set", f"wlan{number}", "up"])
    lab.server().run(["ip", "addr", "add", f"10.88.{number}.1/24", "dev", f"sta{number}"])
    lab.server().run(["ip", "link", "set", f"sta{number}", "up"])
    # A bare wire takes ten megabytes in as many milliseconds: no round trips, and more than a packet socket holds.
    lab.server().run(["tc", "qdisc", "add", "dev", f"sta{number}", "root", "tbf", "rate", "80mbit", "burst", "32k", "latency", "50ms"])


def unwire(lab, number: int) -> None:
    lab.client.run(["ip", "link", "del", f"wlan{number}"], check=False)


@pytest.fixture(scope="module")
def lab(veth_lab) -> Iterator[Any]:
    need_built()
    for number in (1, 2, 3):
        wire(veth_lab, number)
    yield veth_lab
    for number in (1, 2, 3):
        unwire(veth_lab, number)


@pytest.fixture(scope="module")
def modules(tmp_path_factory) -> Path:
    """A directory with the probe and one module of Tandem's own."""
    built = system.tandem_binary("tandemd").resolve().parents[1]
    probe = built / "tests" / "request_probe" / "request_probe.so"
    if not probe.exists():
        pytest.skip(f"{probe}: not built (cmake --build build --target request_probe)")
    directory = tmp_path_factory.mktemp("modules")
    directory.chmod(0o755)
    for file in (probe, built / "lib" / "tandem" / "offload.so"):
        shutil.copy(file, directory)
    return directory


def settings(modules: Path | None = None, **tables: Any) -> dict[str, Any]:
    """The daemon's configuration. Every packet is copied: over a wire a short download is some dozen packets of many segments each."""
    base: dict[str, Any] = {"links": {"more_wifi": list(MORE), "radio": "none", "modem": "none"}, "daemon": {"observe_sample": 1}}
    if modules:
        base["daemon"]["module_dir"] = str(modules)
    for name, table in tables.items():
        base[name] = {**base.get(name, {}), **table}
    return base


def links(daemon) -> dict[str, Any]:
    return daemon.api("/v1/status")["links"]


def fetch(lab, number: int, size: str = "1M") -> None:
    """A download by one of the stations."""
    lab.client.run(["curl", "-sS", "-o", "/dev/null", "-m", "30", "--interface", f"wlan{number}", f"http://10.88.{number}.1/{size}"])


def flows(daemon, link: str) -> list[dict[str, Any]]:
    return [flow for flow in daemon.api("/v1/flows") if flow["link"] == link]


def switch(daemon, module: str, on: bool) -> None:
    daemon.api(f"/v1/modules/{module}", "PUT", {"enabled": on})


def turn(daemon, knob: str, value: Any) -> None:
    daemon.api(f"/v1/modules/request_probe/knobs/{knob}", "PUT", {"value": value})


def steer_rules(lab) -> str:
    return lab.client.run(["nft", "list", "table", "inet", "tandem_steer"], check=False).stdout


def no_marks_here(daemon) -> None:
    """Skips when this kernel cannot mark."""
    state = daemon.api("/v1/status")["steering"]
    if state["ce_why"] and not state["ce_backend"]:
        pytest.skip(f"no CE marks here: {state['ce_why']}")


def endpoints(lab) -> dict[str, str]:
    """Address of each endpoint of the kernel's path manager, with all that is known of it."""
    lines = lab.client.run(["ip", "mptcp", "endpoint", "show"], check=False).stdout.splitlines()
    return {line.split()[0]: line for line in lines if line.strip()}


def limits(lab) -> str:
    return lab.client.run(["ip", "mptcp", "limits", "show"]).stdout


def test_roles_come_and_go(lab):
    with lab.daemon([], settings(links={"more_wifi": [*MORE, "wlan4"]})) as daemon:
        assert set(links(daemon)) == {"wifi", "cell", "wifi2", "wifi3", "wifi4", "wifi5"}
        for name, device in (("wifi2", "wlan1"), ("wifi3", "wlan2"), ("wifi4", "wlan3")):
            one = links(daemon)[name]
            assert one["interface"] == device and one["present"] and one["up"]
            assert one["addresses"][0] == f"10.88.{device[-1]}.2"
        assert not links(daemon)["wifi5"]["present"]
        try:
            wire(lab, 4)
            assert system.wait_until(lambda: links(daemon)["wifi5"]["present"] and links(daemon)["wifi5"]["up"], 5)
            lab.client.run(["ip", "link", "set", "wlan4", "down"])
            assert system.wait_until(lambda: not links(daemon)["wifi5"]["up"], 5)
        finally:
            unwire(lab, 4)
        assert system.wait_until(lambda: not links(daemon)["wifi5"]["present"], 5)
        assert links(daemon)["wifi"]["up"] and links(daemon)["wifi2"]["up"]
        # The command line shows them all.
        shown = lab.client.run([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "status"]).stdout
        assert "wifi4" in shown and "wlan3" in shown


def test_a_default_route_that_the_kernel_drops_without_a_word_counts_no_more(lab):
    """With an interface's last address all its routes go, and no message tells of them: as after "dhclient -r"."""
    try:
        wire(lab, 4)
        lab.client.run(["ip", "route", "add", "default", "via", "10.88.4.1", "dev", "wlan4", "metric", "9000"])
        with lab.daemon([], settings(links={"more_wifi": [*MORE, "wlan4"]})) as daemon:
            assert links(daemon)["wifi5"]["route"]
            lab.client.run(["ip", "-4", "addr", "flush", "dev", "wlan4"])
            assert "wlan4" not in lab.client.run(["ip", "route"]).stdout
            lab.client.run(["ip", "addr", "add", "10.88.4.3/24", "dev", "wlan4"])
            assert system.wait_until(lambda: links(daemon)["wifi5"]["addresses"][:1] == ["10.88.4.3"], 5)
            assert system.wait_until(lambda: not links(daemon)["wifi5"]["route"], 5)
    finally:
        unwire(lab, 4)


def test_copies_of_each_link_while_a_module_compares_them(lab, modules):
    with lab.daemon([], settings(modules)) as daemon:
        fetch(lab, 1)
        assert not flows(daemon, "wifi2") and "observed" not in links(daemon)["wifi2"]
        switch(daemon, "request_probe", True)
        assert system.wait_until(lambda: "observed" in links(daemon)["wifi2"], 5)
        for number, link in ((1, "wifi2"), (2, "wifi3"), (3, "wifi4")):
            fetch(lab, number, "10M")
            # The ACK numbers are those of copies: nearly all is accounted for, whatever the sampling was.
            assert system.wait_until(lambda: sum(flow["delivered_bytes"] for flow in flows(daemon, link)) > 9_000_000, 5), flows(daemon, link)
            (flow,) = flows(daemon, link)
            assert flow["rtt_ms"] > 0
            seen = flow["modules"]["request_probe"]
            assert seen["arriving"] > 0 and seen["leaving"] > 0
            assert seen["queued"] == 0 and seen["elsewhere"] == 0
        lab.download("10M")
        assert system.wait_until(lambda: flows(daemon, "wifi"), 5)
        seen = flows(daemon, "wifi")[0]["modules"]["request_probe"]
        assert seen["leaving"] > 0 and seen["queued"] == 0
        assert daemon.api("/v1/status")["datapath"]["queued"] == 0
        switch(daemon, "request_probe", False)
        assert system.wait_until(lambda: "observed" not in links(daemon)["wifi2"], 5)


def test_other_links_are_left_alone_by_who_does_not_compare(lab, modules):
    with lab.daemon(["request_probe", "offload"], settings(modules)) as daemon:
        assert system.wait_until(lambda: "observed" in links(daemon)["wifi2"], 5)
        lab.download("10M")
        queued = daemon.api("/v1/status")["datapath"]["queued"]
        assert queued > 0
        fetch(lab, 1, "10M")
        assert system.wait_until(lambda: flows(daemon, "wifi2"), 5)
        assert set(flows(daemon, "wifi2")[0]["modules"]) == {"request_probe"}
        assert set(flows(daemon, "wifi")[0]["modules"]) == {"request_probe", "offload"}
        status = daemon.api("/v1/status")
        assert status["datapath"]["not_wifi"] == 0


def test_an_interface_that_is_made_anew_is_observed_again(lab, modules):
    with lab.daemon(["request_probe"], settings(modules)) as daemon:
        assert system.wait_until(lambda: "observed" in links(daemon)["wifi4"], 5)
        unwire(lab, 3)
        assert system.wait_until(lambda: "observed" not in links(daemon)["wifi4"], 5)
        wire(lab, 3)
        assert system.wait_until(lambda: "observed" in links(daemon)["wifi4"], 5)
        fetch(lab, 3)
        assert system.wait_until(lambda: flows(daemon, "wifi4"), 5)


def test_marks_are_requested_grow_and_go_with_the_module(lab, modules):
    before = steer_rules(lab)
    with lab.daemon(["request_probe"], settings(modules)) as daemon:
        turn(daemon, "ce_rate", 0.04)
        fetch(lab, 1)
        requested = lambda: links(daemon)["wifi2"].get("steering", {})  # noqa: E731
        assert system.wait_until(lambda: requested().get("ce_rate_requested", {}).get("value") == 0.04, 5)
        assert requested()["ce_rate_requested"]["by"] == "request_probe"
        no_marks_here(daemon)
        assert system.wait_until(lambda: requested().get("ce_rate") == pytest.approx(0.04, abs=1e-5), 5), requested()
        assert "wlan1" in steer_rules(lab) and "wlan2" not in steer_rules(lab)
        # From nothing in steps: four plans at least.
        assert daemon.api("/v1/status")["steering"]["ce_changes"] >= 4
        assert "tandem_ce_mark_ratio{link=\"wifi2\"}" in daemon.api("/metrics")
        switch(daemon, "request_probe", False)
        assert system.wait_until(lambda: "wlan1" not in steer_rules(lab), 5)
        assert "ce_rate" not in requested()

        switch(daemon, "request_probe", True)
        fetch(lab, 1)
        assert system.wait_until(lambda: "wlan1" in steer_rules(lab), 5)
        daemon.kill()
        assert system.wait_until(lambda: steer_rules(lab) == before, 5)


def test_marks_rest_when_no_flow_is_left(lab, modules):
    with lab.daemon(["request_probe"], settings(modules, daemon={"flow_idle": "1s"})) as daemon:
        turn(daemon, "ce_rate", 0.02)
        fetch(lab, 1)
        assert system.wait_until(lambda: "wlan1" in steer_rules(lab) or no_marks_here(daemon), 5)
        assert system.wait_until(lambda: "wlan1" not in steer_rules(lab), 20)
        fetch(lab, 1)
        assert system.wait_until(lambda: "wlan1" in steer_rules(lab), 5)


@pytest.fixture
def with_mptcp(lab) -> None:
    done = lab.client.run(["ip", "mptcp", "limits", "show"], check=False)
    if done.returncode != 0 or lab.client.run(["sysctl", "-n", "net.mptcp.enabled"], check=False).stdout.strip() != "1":
        pytest.skip("this kernel has no MPTCP, or it is off")


def test_mptcp_is_set_up_and_taken_back(lab, modules, with_mptcp):
    before = endpoints(lab), limits(lab)
    with lab.daemon(["request_probe"], settings(modules, mptcp={"setup": True})) as daemon:
        assert system.wait_until(lambda: {"10.88.1.2", "10.88.2.2", "10.88.3.2"} <= set(endpoints(lab)), 5), endpoints(lab)
        assert "backup" not in endpoints(lab)["10.88.1.2"]
        assert limits(lab) != before[1]
        shown = {one["address"]: one for one in daemon.api("/v1/links")["steering"]["endpoints"]}
        assert shown["10.88.1.2"]["own"] and not shown["10.88.1.2"]["backup"]

        turn(daemon, "backup", "yes")
        fetch(lab, 1)
        assert system.wait_until(lambda: "backup" in endpoints(lab)["10.88.1.2"], 5), endpoints(lab)
        assert "backup" not in endpoints(lab)["10.88.2.2"]
        switch(daemon, "request_probe", False)
        assert system.wait_until(lambda: "backup" not in endpoints(lab)["10.88.1.2"], 5), endpoints(lab)

        switch(daemon, "request_probe", True)
        turn(daemon, "backup", "no")
        turn(daemon, "endpoint", "no")
        fetch(lab, 1)
        assert system.wait_until(lambda: "10.88.1.2" not in endpoints(lab), 5), endpoints(lab)
        turn(daemon, "endpoint", "yes")
        fetch(lab, 1)
        assert system.wait_until(lambda: "10.88.1.2" in endpoints(lab), 5), endpoints(lab)
    assert (endpoints(lab), limits(lab)) == before


def test_mptcp_of_others_is_not_touched(lab, modules, with_mptcp):
    lab.client.run(["ip", "mptcp", "endpoint", "add", "10.88.1.2", "dev", "wlan1", "subflow"])
    try:
        before = endpoints(lab), limits(lab)
        with lab.daemon(["request_probe"], settings(modules)) as daemon:
            turn(daemon, "backup", "yes")
            turn(daemon, "endpoint", "no")
            fetch(lab, 1)
            assert system.wait_until(lambda: daemon.api("/v1/status")["steering"]["plans"] > 0, 5)
            time.sleep(0.5)
            assert (endpoints(lab), limits(lab)) == before
            assert daemon.api("/v1/status")["steering"]["refused"], "it says so"
        with lab.daemon(["request_probe"], settings(modules, mptcp={"foreign": True})) as daemon:
            turn(daemon, "backup", "yes")
            fetch(lab, 1)
            assert system.wait_until(lambda: "backup" in endpoints(lab)["10.88.1.2"], 5), endpoints(lab)
        assert (endpoints(lab), limits(lab)) == before
    finally:
        lab.client.run(["ip", "mptcp", "endpoint", "flush"], check=False)


SERVER = """
import socket, sys
listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)  # IPPROTO_MPTCP
listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
listener.bind(("10.88.99.1", 7000))
listener.listen()
print("listening", flush=True)
peer, _ = listener.accept()
try:
    while True:
        peer.sendall(bytes(65536))
except OSError:
    pass
"""
CLIENT = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_STREAM, 262)
s.connect(("10.88.99.1", 7000))
while s.recv(1 << 18):
    pass
"""


def test_subflows_of_a_connection_share_its_token(lab, modules, with_mptcp):
    server, client = lab.server(), lab.client
    server.run(["ip", "addr", "add", "10.88.99.1/32", "dev", "lo"])
    processes = []
    try:
        for number in (1, 2):
            client.run(["ip", "route", "add", "10.88.99.1", "via", f"10.88.{number}.1", "dev", f"wlan{number}", "metric", str(number)])
        with lab.daemon(["request_probe"], settings(modules, mptcp={"setup": True})) as daemon:
            assert system.wait_until(lambda: {"10.88.1.2", "10.88.2.2"} <= set(endpoints(lab)), 5), endpoints(lab)
            processes.append(server.popen(["/usr/bin/python3", "-c", SERVER], stdout=subprocess.PIPE, text=True))
            assert processes[0].stdout.readline() == "listening\n"
            processes.append(client.popen(["/usr/bin/python3", "-c", CLIENT]))

            def tokens() -> dict[str, str]:
                return {flow["link"]: flow["mptcp"]["token"] for flow in daemon.api("/v1/flows")
                        if flow["remote"] == "10.88.99.1:7000" and "mptcp" in flow}

            assert system.wait_until(lambda: {"wifi2", "wifi3"} <= set(tokens()), 10), daemon.api("/v1/flows")
            assert tokens()["wifi2"] == tokens()["wifi3"] != ""
            joined = {flow["link"]: flow["mptcp"]["joined"] for flow in daemon.api("/v1/flows") if "mptcp" in flow}
            assert not joined["wifi2"] and joined["wifi3"]
            shown = client.run([str(system.tandem_binary("tandem")), "--socket", str(daemon.socket), "flows"]).stdout
            assert f"{tokens()['wifi3']} joined" in shown

            turn(daemon, "backup", "yes")
            backup = lambda: [flow["mptcp"]["backup"] for flow in flows(daemon, "wifi2") if "mptcp" in flow]  # noqa: E731
            assert system.wait_until(lambda: backup() == [True], 5), daemon.api("/v1/flows")
            switch(daemon, "request_probe", False)
            assert system.wait_until(lambda: "backup" not in endpoints(lab)["10.88.1.2"], 5)
    finally:
        for process in processes:
            process.kill()
            process.wait()
        for number in (1, 2):
            client.run(["ip", "route", "del", "10.88.99.1", "dev", f"wlan{number}"], check=False)
        server.run(["ip", "addr", "del", "10.88.99.1/32", "dev", "lo"], check=False)


def test_each_link_has_a_radio_of_its_own(lab, modules, tmp_path):
    radio = Radio(tmp_path / "radio.sock")
    addresses = {device: lab.client.run(["cat", f"/sys/class/net/{device}/address"]).stdout.strip() for device in ("wlan0", "wlan1")}
    try:
        with lab.daemon(["request_probe"], settings(modules, links={"more_wifi": ["wlan1"], "radio": f"lab:{tmp_path / 'radio.sock'}",
                                                                     "modem": "none"})) as daemon:
            assert system.wait_until(lambda: len(radio._peers) >= 2, 10)
            until = time.monotonic() + 10
            number = 0
            found: dict[str, Any] = {}
            while time.monotonic() < until and len(found) < 2:
                for _ in range(20):
                    number += 1
                    radio.send(frame(DATA_DOWN, addresses["wlan0"], AP, number=number % 4096))
                    radio.send(frame(DATA_DOWN, addresses["wlan1"], AP2, number=number % 4096))
                time.sleep(0.05)
                found = {name: one["radio"] for name, one in links(daemon).items() if "packet_time_us" in one.get("radio", {})}
            assert set(found) == {"wifi", "wifi2"}, json.dumps(links(daemon))
            assert found["wifi2"]["frequency_mhz"] == found["wifi"]["frequency_mhz"] > 2400
            known = daemon.api("/v1/links")
            assert [one["ap"] for one in known["wifi2"]["aps"] if one["associated"]] == [AP2]
            assert [one["ap"] for one in known["wifi"]["aps"] if one["associated"]] == [AP]
    finally:
        radio.close()


def test_nothing_stays_behind(lab, modules):
    # Connections whose peer went away in an earlier test close for up to a minute, and what they need is left to them.
    assert system.wait_until(lambda: not lab.client.run(["ss", "-HMna"]).stdout, 90.0, 0.5)
    # An endpoint that such a connection kept goes at the next start, so there may be fewer afterwards.
    rules, known = steer_rules(lab), endpoints(lab)
    with lab.daemon(["request_probe"], settings(modules, mptcp={"setup": True})) as daemon:
        turn(daemon, "ce_rate", 0.05)
        turn(daemon, "backup", "yes")
        fetch(lab, 1)
        system.wait_until(lambda: "wlan1" in steer_rules(lab), 3)
        assert daemon.stop() == 0
    assert steer_rules(lab) == rules
    assert endpoints(lab).items() <= known.items()
